"""The tables. Keys are UUIDs, times are UTC with time zone, lists and maps are JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
    false,
    literal_column,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR

# Constraints have names that do not depend on the engine, so that migrations can address them.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Utc(TypeDecorator[datetime]):
    """A moment. SQLite has no time zones, so there the UTC wall clock is kept."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without time zone must not be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _owner() -> Column[object]:
    return Column("org_id", Uuid, ForeignKey("orgs.id"), nullable=False)


orgs = Table(
    "orgs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("admin_group", String(128), nullable=False, server_default="admin"),
    Column("auditor_group", String(128), nullable=False, server_default="auditor"),
    Column("created_at", Utc, nullable=False),
)

# Everybody who can ask for something: people and programs (the column `kind`).
users = Table(
    "users",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("subject", String(255), nullable=False),
    Column("email", String(320), nullable=False),
    Column("name", String(255), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("status", String(32), nullable=False),
    Column("password_hash", String(255)),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    Column("issuer", String(512), nullable=False, server_default=""),
    Column("verified", Boolean, nullable=False, server_default=false()),
    Column("picture", Text, nullable=False, server_default=""),
    Column("external_id", String(255)),
    Column("user_name", String(255)),  # of a provisioning system
    Column("last_login_at", Utc),
    UniqueConstraint("org_id", "email"),
    UniqueConstraint("org_id", "subject"),
)
Index("uq_users_org_id_user_name", users.c.org_id, users.c.user_name, unique=True)

groups = Table(
    "groups",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("name", String(128), nullable=False),
    Column("external_id", String(255)),
    Column("created_at", Utc, nullable=False),
    UniqueConstraint("org_id", "name"),
)

# A membership is there once for each source that gives it.
user_groups = Table(
    "user_groups",
    metadata,
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("source", String(16), primary_key=True),
)

logins = Table(
    "logins",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("method", String(16), nullable=False),
    Column("client", String(16), nullable=False),
    Column("source", String(255), nullable=False),
    Column("user_agent", String(255), nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False),
    Column("ends_at", Utc, nullable=False, index=True),
    Column("provider_expires_at", Utc),
    Column("provider_refresh", LargeBinary),  # sealed
    Column("ended_at", Utc),
)

vouchers = Table(
    "vouchers",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("purpose", String(32), nullable=False, index=True),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("source", String(64), index=True),  # the network of a stranger who asked for it
    Column("payload", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False, index=True),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("principal_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("name", String(255), nullable=False),
    Column("shown", String(32), nullable=False),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("allowed_networks", JSON, nullable=False),
    Column("created_by", String(320), nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("last_used_at", Utc),
    Column("revoked_at", Utc),
    Column("revoked_by", String(320)),
    UniqueConstraint("org_id", "name"),
)

machines = Table(
    "machines",
    metadata,
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("description", Text, nullable=False),
    Column("attributes", JSON, nullable=False),
    Column("updated_at", Utc, nullable=False),
)

second_factors = Table(
    "second_factors",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(255), nullable=False),
    Column("material", LargeBinary, nullable=False),  # sealed
    Column("counter", BigInteger, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("confirmed_at", Utc),
    Column("last_used_at", Utc),
)

agents = Table(
    "agents",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("name", String(128), nullable=False),
    Column("mode", String(32), nullable=False),
    Column("last_seen", Utc),
    Column("created_at", Utc, nullable=False),
    Column("digest", LargeBinary(32)),  # of its secret; none for the gateway's own
    Column("facts", JSON, nullable=False),
    UniqueConstraint("org_id", "name"),
)
Index("uq_agents_digest", agents.c.digest, unique=True)

# The relay workers that live now; agents hold a tunnel to each.
relay_workers = Table(
    "relay_workers",
    metadata,
    Column("id", Uuid, primary_key=True),  # of one life of the process
    Column("name", String(64), nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("last_seen", Utc, nullable=False, index=True),
)

# What connections belong to; made when a connection names it first.
resources = Table(
    "resources",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("name", String(128), nullable=False),
    Column("created_at", Utc, nullable=False),
    UniqueConstraint("org_id", "name"),
)

# Questions about a target that the API asks and a relay worker answers: tests of connections, and their schemas.
errands = Table(
    "errands",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("principal_id", Uuid, nullable=False),
    Column("connection_id", Uuid, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("source", String(255), nullable=False),
    Column("created_at", Utc, nullable=False, index=True),
    Column("worker", String(64)),
    Column("answer", Text),  # JSON, once it is done
    Column("done_at", Utc),
)

connections = Table(
    "connections",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("name", String(128), nullable=False),
    Column("type", String(32), nullable=False),
    Column("subtype", String(64), nullable=False),
    Column("agent_id", Uuid, ForeignKey("agents.id"), nullable=False),
    Column("access_mode_connect", String(16), nullable=False),
    Column("access_mode_exec", String(16), nullable=False),
    Column("access_mode_runbooks", String(16), nullable=False),
    Column("access_schema", String(16), nullable=False),
    Column("access_max_duration", Integer),
    Column("command", JSON, nullable=False),
    Column("connection_tags", JSON, nullable=False),
    Column("force_approve_groups", JSON, nullable=False),
    Column("issue_template_id", String(255)),
    Column("redact_enabled", Boolean, nullable=False),
    Column("redact_types", JSON, nullable=False),
    Column("resource_name", String(128), nullable=False),
    Column("reviewers", JSON, nullable=False),
    Column("secret", LargeBinary, nullable=False),  # one sealed JSON object (store/encryption.py)
    Column("tags", JSON, nullable=False),
    Column("managed_by", String(128)),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    UniqueConstraint("org_id", "name"),
)

guardrails = Table(
    "guardrails",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False),
    Column("input", JSON, nullable=False),
    Column("output", JSON, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    UniqueConstraint("org_id", "name"),
)

# The one association behind `connection.guardrail_rules` and `guardrail.connection_ids`.
connection_guardrails = Table(
    "connection_guardrails",
    metadata,
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
    Column("guardrail_id", Uuid, ForeignKey("guardrails.id", ondelete="CASCADE"), primary_key=True, index=True),
)

# Names, not ids, of groups: a rule follows when its group is renamed, and loses one that is deleted.
access_rules = Table(
    "access_rules",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False),
    Column("connection_tags", JSON, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    UniqueConstraint("org_id", "name"),
)

access_rule_groups = Table(
    "access_rule_groups",
    metadata,
    Column("rule_id", Uuid, ForeignKey("access_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True),
)

access_rule_connections = Table(
    "access_rule_connections",
    metadata,
    Column("rule_id", Uuid, ForeignKey("access_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True, index=True),
)

credentials = Table(
    "credentials",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), nullable=False),
    Column("username", String(63), nullable=False, unique=True),
    Column("iterations", Integer, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("stored_key", LargeBinary, nullable=False),
    Column("server_key", LargeBinary, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("revoked_at", Utc),
    Index(None, "connection_id", "user_id"),
)

# A session outlives the connection and the user it was about: it copies what the record needs.
sessions = Table(
    "sessions",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
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
    Column("refused", Integer, nullable=False, server_default="0"),
    Column("masked", Integer, nullable=False, server_default="0"),
    # What is yet to be done about it, as bits (ports/telling.py).
    Column("pending", Integer, nullable=False, server_default="1"),
    Column("opened_entry", BigInteger),  # of the ledger
    Column("closed_entry", BigInteger),
    Index(None, "org_id", "id"),
    Index(None, "status", "worker"),
    Index(None, "org_id", "start_date", "id"),
)
# Every filter by itself is a piece of an index, in the order of the list (store/sql/session_list.py).
for _name in (
    *("user_id", "user", "connection_id", "connection", "connection_subtype", "type", "verb", "status"),
    *("end_reason", "correlation_id"),
):
    Index(None, sessions.c.org_id, sessions.c[_name], sessions.c.start_date, sessions.c.id)
for _name in ("refused", "masked"):
    _some = sessions.c[_name] > 0
    Index(
        f"ix_sessions_{_name}",
        *(sessions.c.org_id, sessions.c.start_date, sessions.c.id),
        sqlite_where=_some,
        postgresql_where=_some,
    )

# What was asked in a session, to be searched. `place` puts them in the order in which they began. On SQLite `folded`
# and `keys` are indexed by the table `session_words` (FTS5), on PostgreSQL `words` and `keys` by one GIN index.
session_texts = Table(
    "session_texts",
    metadata,
    Column("place", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False, unique=True),
    _owner(),
    Column("pieces", Text, nullable=False),  # JSON: [[milliseconds, text], ...]
    Column("folded", Text, nullable=False),  # the words of all pieces (domain/words.py)
    Column("words", Text().with_variant(TSVECTOR(), "postgresql")),
    Column("keys", Text().with_variant(ARRAY(Text), "postgresql"), nullable=False),
    Column("size", Integer, nullable=False),  # bytes of text
    Column("segments", JSON, nullable=False),  # numbers; 0 for a whole recording
    Column("is_cut", Boolean, nullable=False),  # there was more than is kept
)

# Sessions that have ended and whose texts are not searchable yet.
unread_sessions = Table(
    "unread_sessions",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
)
Index(
    "ix_sessions_pending",
    sessions.c.pending,
    sqlite_where=literal_column("pending > 0"),
    postgresql_where=literal_column("pending > 0"),
)

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
    Column("level", Integer, primary_key=True, autoincrement=False),  # what a row tells apart (ports/telling.py)
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
    _owner(),
    Column("slot", BigInteger, nullable=False),
    Column("masked", BigInteger, nullable=False),
    Index(None, "org_id", "slot"),
)

# What of recordings is in the blob store (domain.segment.Segment).
segments = Table(
    "segments",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    _owner(),
    Column("digest", LargeBinary(32), nullable=False),
    Column("chain", LargeBinary(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("stored_size", BigInteger, nullable=False),
    Column("begins", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Column("operations", Integer, nullable=False),
    Column("is_last", Boolean, nullable=False),
    Column("place", String(1024), nullable=False),
    Column("stored_at", Utc, nullable=False),
    Column("damage", Text, nullable=False),
    Column("refused", Integer, nullable=False),
)

# What the ledger has still to be told of.
for _what in ("opened", "closed"):
    _entry = sessions.c[f"{_what}_entry"]
    _since = sessions.c.start_date if _what == "opened" else sessions.c.end_date
    Index(
        f"ix_sessions_not_{_what}",
        _since,
        sessions.c.id,
        sqlite_where=_entry.is_(None),
        postgresql_where=_entry.is_(None),
    )

# What happened to sessions, in one row for each organisation (domain.ledger). Nothing refers to a session by a foreign
# key: an entry outlives what it is about.
ledger = Table(
    "ledger",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Utc, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("session_id", Uuid),
    Column("content", LargeBinary, nullable=False),
    Column("hash", LargeBinary(32), nullable=False),
    Index(None, "org_id", "at"),
)

ledger_keys = Table(
    "ledger_keys",
    metadata,
    Column("id", String(64), primary_key=True),  # the fingerprint
    _owner(),
    Column("public", LargeBinary(32), nullable=False),
    Column("private", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False),
    Column("retired_at", Utc),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary(32), nullable=False),
    Column("at", Utc, nullable=False),
    Column("key", String(64), nullable=False),
    Column("signature", LargeBinary(64), nullable=False),
    Column("introduces", LargeBinary(32)),
)

# Whether checkpoints have reached the anchors that were set up when they were made.
checkpoint_anchors = Table(
    "checkpoint_anchors",
    metadata,
    Column("org_id", Uuid, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("anchor", String(16), primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Utc, nullable=False),
    Column("done_at", Utc),
    Column("error", Text, nullable=False),
    ForeignKeyConstraint(["org_id", "number"], ["checkpoints.org_id", "checkpoints.number"], ondelete="CASCADE"),
    Index(None, "done_at", "next_at"),
)

# Work that one process at a time does, whichever machine it is on.
leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(128), nullable=False),
    Column("until", Utc, nullable=False),
)

# What a command that waits to be run is started with: arguments and environment. Deleted when it is done.
session_starts = Table(
    "session_starts",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("content", LargeBinary, nullable=False),  # one sealed JSON object
)

token_keys = Table(
    "token_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("private", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False),
    Column("retired_at", Utc),
)

# The keys that values are sealed with, themselves sealed by a master key that is not in the store.
data_keys = Table(
    "data_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("org_id", Uuid, ForeignKey("orgs.id")),  # none: values that belong to no organisation
    Column("wrapped", LargeBinary, nullable=False),
    Column("master", String(255), nullable=False),  # which master key wrapped it
    Column("created_at", Utc, nullable=False),
    Column("retired_at", Utc),  # seals no more; opens what it sealed
)

org_settings = Table(
    "org_settings",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),  # one sealed JSON object
    Column("updated_at", Utc, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("principal_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", LargeBinary(32), primary_key=True),
    Column("fingerprint", LargeBinary(32), nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False, index=True),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("at", Utc, nullable=False),
    Column("actor_id", Uuid),
    Column("actor_email", String(320), nullable=False),
    Column("action", String(32), nullable=False),
    Column("resource_type", String(64), nullable=False),
    Column("resource", String(255), nullable=False),
    Column("method", String(16), nullable=False),
    Column("path", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("source", String(255), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("body", JSON, nullable=False),  # the request as given, secrets redacted
    Column("actor_subject", String(255), nullable=False, server_default=""),
    Column("outcome", String(16), nullable=False, server_default="success"),
    Column("before", JSON),  # the resource, secrets redacted
    Column("after", JSON),
    Index(None, "org_id", "at"),
)

# Audit entries that sinks were not told of yet; written together with the entry.
untold_entries = Table(
    "untold_entries",
    metadata,
    Column("entry_id", Uuid, ForeignKey("audit_log.id", ondelete="CASCADE"), primary_key=True),
)

sinks = Table(
    "sinks",
    metadata,
    Column("id", Uuid, primary_key=True),
    _owner(),
    Column("name", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("address", Text, nullable=False),
    Column("events", JSON, nullable=False),
    Column("status", String(16), nullable=False),
    Column("with_script", Boolean, nullable=False),
    Column("authority", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False),  # sealed: one JSON object with the signing secrets and the headers
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("failing_since", Utc),
    Column("error", Text, nullable=False, server_default=""),
    Column("next_at", Utc),
    Column("delivered_at", Utc),
    UniqueConstraint("org_id", "name"),
)

# Events on their way to sinks; each sink's go out in the order of their numbers.
deliveries = Table(
    "deliveries",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("sink_id", Uuid, ForeignKey("sinks.id", ondelete="CASCADE"), nullable=False),
    _owner(),
    Column("event_id", Uuid, nullable=False),
    Column("event", String(32), nullable=False),
    Column("at", Utc, nullable=False),
    Column("body", Text, nullable=False),  # JSON
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("attempted_at", Utc),
    UniqueConstraint("sink_id", "event_id"),
    Index(None, "sink_id", "state", "number"),
    Index(None, "state", "attempted_at"),
    sqlite_autoincrement=True,
)
