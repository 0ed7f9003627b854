"""Tables of sessions, their search index, and sums for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    Uuid,
    literal_column,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR

from postern.store.schema.columns import Utc, metadata, owner

# A session outlives the connection and the user it was about: it copies what the record needs.
sessions = Table(
    "sessions",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("principal_id", Uuid, nullable=False),
    Column("connection_id", Uuid, nullable=False),
    Column("connection", String(128), nullable=False),
    Column("connection_subtype", String(64), nullable=False),
    Column("connection_tags", JSON, nullable=False),
    Column("type", String(32), nullable=False),
    Column("verb", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("user", String(320), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("user_name", String(255), nullable=False),
    Column("start_date", Utc, nullable=False),
    Column("end_date", Utc),
    Column("end_reason", String(32)),
    Column("end_detail", Text),
    Column("exit_code", Integer),
    Column("script", Text),
    Column("script_size", BigInteger, nullable=False),
    Column("event_size", BigInteger, nullable=False),
    Column("integrations_metadata", JSON, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("source", String(255), nullable=False),
    Column("worker", String(64)),
    Column("credential_id", Uuid),
    Column("correlation_id", String(255)),
    Column("review_id", Uuid),  # under which it runs, or for which it waits
    Column("issue_key", String(255)),  # what its integrations_metadata say
    Column("runbook", JSON(none_as_null=True)),  # a RunbookRef, of one that runs a runbook
    Column("refused", Integer, nullable=False, server_default="0"),
    Column("masked", Integer, nullable=False, server_default="0"),
    # Pending work on it (ports/notification_ports.py): bits, and the ledger's entries.
    Column("pending", Integer, nullable=False, server_default="1"),
    Column("holds", Integer, nullable=False, server_default="0"),  # how many
    Column("recording_purged_at", Utc),
    Column("opened_entry", BigInteger),
    Column("closed_entry", BigInteger),
    Index(None, "org_id", "id"),
    Index(None, "org_id", "start_date", "id"),
)
# Every filter by itself is a piece of an index, in the order of the list (store/sql/sessions/sql_sessions.py). Each is
# paid for by every session as it opens and ends: those that do not have something are not in the index of it.
for _name in ("user_id", "user", "connection_id", "connection", "connection_subtype", "type", "verb"):
    Index(None, sessions.c.org_id, sessions.c[_name], sessions.c.start_date, sessions.c.id)
for _name in ("end_reason", "correlation_id", "review_id", "issue_key"):
    _is_there = sessions.c[_name].is_not(None)
    _place = (sessions.c.org_id, sessions.c[_name], sessions.c.start_date, sessions.c.id)
    Index(f"ix_sessions_{_name}", *_place, sqlite_where=_is_there, postgresql_where=_is_there)
# Of those that are not done there are few; the others are nearly all.
Index(
    "ix_sessions_not_done",
    *(sessions.c.status, sessions.c.org_id, sessions.c.start_date, sessions.c.id),
    sqlite_where=literal_column("status <> 'done'"),
    postgresql_where=literal_column("status <> 'done'"),
)
for _name in ("refused", "masked"):
    _some = sessions.c[_name] > 0
    Index(
        f"ix_sessions_{_name}",
        *(sessions.c.org_id, sessions.c.start_date, sessions.c.id),
        sqlite_where=_some,
        postgresql_where=_some,
    )
Index(
    "ix_sessions_pending",
    *(sessions.c.pending, sessions.c.end_date, sessions.c.id),
    sqlite_where=literal_column("pending <> 0"),
    postgresql_where=literal_column("pending <> 0"),
)

# What was asked in a session, to be searched. `place` puts them in the order in which they began. On SQLite `folded`
# and `keys` are indexed by the table `session_words` (FTS5), on PostgreSQL `words` and `keys` by one GIN index.
session_texts = Table(
    "session_texts",
    metadata,
    Column("place", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False, unique=True),
    owner(),
    Column("pieces", Text, nullable=False),  # JSON: [[milliseconds, text], ...]
    Column("folded", Text, nullable=False),  # the words of all pieces (domain/sessions/words.py)
    Column("words", Text().with_variant(TSVECTOR(), "postgresql")),
    Column("keys", Text().with_variant(ARRAY(Text), "postgresql"), nullable=False),
    Column("size", Integer, nullable=False),  # bytes of text
    Column("segments", JSON, nullable=False),  # numbers of those that were read
    Column("is_cut", Boolean, nullable=False),  # there was more than is kept
)

# Full-text search, of which SQLAlchemy knows nothing: what each engine needs besides the tables. SQLite keeps an index
# of its own in step by triggers. PostgreSQL sorts in at once what is added: a search must not walk through a list of
# what is not.
FULL_TEXT: Mapping[str, Sequence[str]] = {
    "sqlite": (
        """create virtual table session_words using fts5(
            folded, keys, content='session_texts', content_rowid='place', tokenize="unicode61 remove_diacritics 0",
            prefix='2 3')""",
        """create trigger session_texts_added after insert on session_texts begin
            insert into session_words (rowid, folded, keys) values (new.place, new.folded, new.keys);
        end""",
        """create trigger session_texts_removed after delete on session_texts begin
            insert into session_words (session_words, rowid, folded, keys)
            values ('delete', old.place, old.folded, old.keys);
        end""",
        """create trigger session_texts_changed after update of place, folded, keys on session_texts begin
            insert into session_words (session_words, rowid, folded, keys)
            values ('delete', old.place, old.folded, old.keys);
            insert into session_words (rowid, folded, keys) values (new.place, new.folded, new.keys);
        end""",
    ),
    "postgresql": (
        "create index ix_session_texts_words on session_texts using gin (words, keys) with (fastupdate=off)",
    ),
}


_NUMBERS = (
    *("sessions", "failed", "killed", "operations", "refused", "masked"),
    *("transformed_bytes", "recorded_bytes", "milliseconds"),
)

# What reports add up: of the sessions that began in one quarter of an hour (`slot`: since 1970), at each level: over
# all, by connection, by user, by both. A report reads the coarsest that will do. Rows without information type have all
# numbers, the others what was masked of that type.
session_counts = Table(
    "session_counts",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("level", Integer, primary_key=True, autoincrement=False),  # aggregation level (ports/notification_ports.py)
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("connection_id", Uuid, primary_key=True),
    Column("principal_id", Uuid, primary_key=True),
    Column("verb", String(16), primary_key=True),
    Column("info_type", String(128), primary_key=True),
    Column("connection", String(128), nullable=False),
    Column("type", String(32), nullable=False),
    Column("subtype", String(64), nullable=False),
    Column("user", String(320), nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in _NUMBERS),
    sqlite_with_rowid=False,
)

# What was masked in which session; those without have no row.
session_maskings = Table(
    "session_maskings",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("info_type", String(128), primary_key=True),
    owner(),
    Column("slot", BigInteger, nullable=False),
    Column("masked", BigInteger, nullable=False),
    Index(None, "org_id", "slot"),
)

# What a command that waits to be run is started with: arguments and environment. Deleted when it is done.
session_starts = Table(
    "session_starts",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("content", LargeBinary, nullable=False),  # one sealed JSON object
)
