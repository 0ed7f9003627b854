"""Recordings: their segments in the blob store, and work that one process at a time does."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    _segments()
    _leases()
    _search()
    _reports()
    _sinks()
    _ledger()
    _retention()


def _segments() -> None:
    op.create_table(
        "segments",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("chain", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("stored_size", sa.BigInteger(), nullable=False),
        sa.Column("begins", sa.BigInteger(), nullable=False),
        sa.Column("ends", sa.BigInteger(), nullable=False),
        sa.Column("operations", sa.Integer(), nullable=False),
        sa.Column("is_last", sa.Boolean(), nullable=False),
        sa.Column("place", sa.String(1024), nullable=False),
        sa.Column("stored_at", _MOMENT, nullable=False),
        sa.Column("damage", sa.Text(), nullable=False),
        sa.Column("refused", sa.Integer(), nullable=False),
        sa.Column("data_key", sa.Uuid()),
        sa.PrimaryKeyConstraint("session_id", "number", name="pk_segments"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_segments_session_id_sessions", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_segments_org_id_orgs"),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(128), nullable=False),
        sa.Column("until", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def _search() -> None:
    _session_columns()
    op.create_table(
        "session_texts",
        sa.Column("place", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("pieces", sa.Text(), nullable=False),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("words", sa.Text().with_variant(postgresql.TSVECTOR(), "postgresql")),
        sa.Column("keys", sa.Text().with_variant(postgresql.ARRAY(sa.Text()), "postgresql"), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("segments", sa.JSON(), nullable=False),
        sa.Column("is_cut", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("place", name="pk_session_texts"),
        sa.UniqueConstraint("session_id", name="uq_session_texts_session_id"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_session_texts_session_id_sessions", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_session_texts_org_id_orgs"),
    )
    if op.get_bind().dialect.name == "sqlite":
        for statement in _FTS:
            op.execute(statement)
    else:
        # What is added is sorted in at once: a search must not walk through a list of what is not.
        op.execute("create index ix_session_texts_words on session_texts using gin (words, keys) with (fastupdate=off)")


_FTS = (
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
)
_LISTED = ("user_id", "user", "connection_id", "connection", "connection_subtype", "type", "verb")


def _session_columns() -> None:
    op.add_column("sessions", sa.Column("correlation_id", sa.String(255)))
    for name in ("refused", "masked"):
        op.add_column("sessions", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for name, path in (("refused", ("refused",)), ("masked", ("data_masking", "total_redact_count"))):
        keys = ".".join(path) if is_sqlite else ",".join(path)
        found = f"json_extract(metrics, '$.{keys}')" if is_sqlite else f"(metrics #>> '{{{keys}}}')::integer"
        op.execute(f"update sessions set {name} = {found} where {found} > 0")  # noqa: S608 - only constants
    op.drop_index("ix_sessions_org_id_start_date", "sessions")
    op.drop_index("ix_sessions_org_id_user_id_start_date", "sessions")
    op.create_index("ix_sessions_org_id_start_date_id", "sessions", ["org_id", "start_date", "id"])
    for name in _LISTED:
        op.create_index(f"ix_sessions_org_id_{name}_start_date_id", "sessions", ["org_id", name, "start_date", "id"])
    for name in ("end_reason", "correlation_id"):
        some = sa.text(f"{name} IS NOT NULL")
        columns = ["org_id", name, "start_date", "id"]
        op.create_index(f"ix_sessions_{name}", "sessions", columns, sqlite_where=some, postgresql_where=some)
    op.drop_index("ix_sessions_status_worker", "sessions")
    few = sa.text("status <> 'done'")
    columns = ["status", "org_id", "start_date", "id"]
    op.create_index("ix_sessions_not_done", "sessions", columns, sqlite_where=few, postgresql_where=few)
    for name in ("refused", "masked"):
        some = sa.text(f"{name} > 0")
        op.create_index(
            f"ix_sessions_{name}",
            "sessions",
            ["org_id", "start_date", "id"],
            sqlite_where=some,
            postgresql_where=some,
        )


def _reports() -> None:
    op.add_column("sessions", sa.Column("pending", sa.Integer(), nullable=False, server_default="1"))
    # Those that have ended are counted and read as soon as the gateway runs, and nobody is told of them any more.
    op.execute("update sessions set pending = case status when 'done' then 12 else 0 end where status <> 'open'")
    op.create_index(
        "ix_sessions_pending",
        "sessions",
        ["pending", "end_date", "id"],
        sqlite_where=sa.literal_column("pending <> 0"),
        postgresql_where=sa.literal_column("pending <> 0"),
    )
    numbers = (
        *("sessions", "failed", "killed", "operations", "refused", "masked"),
        *("transformed_bytes", "recorded_bytes", "milliseconds"),
    )
    key = ("org_id", "level", "slot", "connection_id", "principal_id", "verb", "info_type")
    op.create_table(
        "session_counts",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("slot", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("verb", sa.String(16), nullable=False),
        sa.Column("info_type", sa.String(128), nullable=False),
        sa.Column("connection", sa.String(128), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("subtype", sa.String(64), nullable=False),
        sa.Column("user", sa.String(320), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in numbers),
        sa.PrimaryKeyConstraint(*key, name="pk_session_counts"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_session_counts_org_id_orgs"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "session_maskings",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("info_type", sa.String(128), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("masked", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "info_type", name="pk_session_maskings"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_session_maskings_session_id_sessions", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_session_maskings_org_id_orgs"),
    )
    op.create_index("ix_session_maskings_org_id_slot", "session_maskings", ["org_id", "slot"])


def _sinks() -> None:
    op.create_table(
        "untold_entries",
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", name="pk_untold_entries"),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["audit_log.id"], name="fk_untold_entries_entry_id_audit_log", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "sinks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("with_script", sa.Boolean(), nullable=False),
        sa.Column("authority", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("failing_since", _MOMENT),
        sa.Column("error", sa.Text(), nullable=False, server_default=""),
        sa.Column("next_at", _MOMENT),
        sa.Column("delivered_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_sinks"),
        sa.UniqueConstraint("org_id", "name", name="uq_sinks_org_id_name"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_sinks_org_id_orgs"),
    )
    op.create_table(
        "deliveries",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, autoincrement=True),
        sa.Column("sink_id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("attempted_at", _MOMENT),
        sa.PrimaryKeyConstraint("number", name="pk_deliveries"),
        sa.UniqueConstraint("sink_id", "event_id", name="uq_deliveries_sink_id_event_id"),
        sa.ForeignKeyConstraint(["sink_id"], ["sinks.id"], name="fk_deliveries_sink_id_sinks", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_deliveries_org_id_orgs"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deliveries_sink_id_state_number", "deliveries", ["sink_id", "state", "number"])
    op.create_index("ix_deliveries_state_attempted_at", "deliveries", ["state", "attempted_at"])


def _ledger() -> None:
    untold = {"opened": "opened_entry IS NULL", "closed": "closed_entry IS NULL AND end_date IS NOT NULL"}
    for what, since in (("opened", "start_date"), ("closed", "end_date")):
        op.add_column("sessions", sa.Column(f"{what}_entry", sa.BigInteger()))
        open_ = sa.text(untold[what])
        name = f"ix_sessions_not_{what}"
        op.create_index(name, "sessions", [since, "id"], sqlite_where=open_, postgresql_where=open_)
    op.create_index("ix_sessions_org_id_id", "sessions", ["org_id", "id"])
    op.create_table(
        "ledger",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("session_id", sa.Uuid()),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("org_id", "number", name="pk_ledger"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_ledger_org_id"),
    )
    op.create_index("ix_ledger_org_id_at", "ledger", ["org_id", "at"])
    op.create_table(
        "ledger_keys",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("public", sa.LargeBinary(32), nullable=False),
        sa.Column("private", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("retired_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_keys"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_ledger_keys_org_id"),
    )
    _checkpoints()


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("signature", sa.LargeBinary(64), nullable=False),
        sa.Column("introduces", sa.LargeBinary(32)),
        sa.PrimaryKeyConstraint("org_id", "number", name="pk_checkpoints"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_checkpoints_org_id"),
    )
    op.create_table(
        "checkpoint_anchors",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("anchor", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", _MOMENT, nullable=False),
        sa.Column("done_at", _MOMENT),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("org_id", "number", "anchor", name="pk_checkpoint_anchors"),
        sa.ForeignKeyConstraint(
            ["org_id", "number"],
            ["checkpoints.org_id", "checkpoints.number"],
            name="fk_checkpoint_anchors_org_id_number",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_checkpoint_anchors_done_at_next_at", "checkpoint_anchors", ["done_at", "next_at"])


def _retention() -> None:
    op.add_column("sessions", sa.Column("holds", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("sessions", sa.Column("recording_purged_at", _MOMENT))
    some, keeping = sa.text("holds > 0"), sa.text("kind in ('held', 'released', 'purged')")
    columns = ["org_id", "start_date", "id"]
    op.create_index("ix_sessions_holds", "sessions", columns, sqlite_where=some, postgresql_where=some)
    op.create_index("ix_ledger_keeping", "ledger", ["session_id"], sqlite_where=keeping, postgresql_where=keeping)
    op.create_table(
        "retentions",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("connection", sa.String(128), nullable=False),
        sa.Column("is_own", sa.Boolean(), nullable=False),
        *(
            sa.Column(name, sa.Integer())
            for name in ("recording_days", "session_days", "recording_days_before", "session_days_before")
        ),
        sa.Column("effective_at", _MOMENT),
        sa.PrimaryKeyConstraint("org_id", "connection_id", name="pk_retentions"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_retentions_org_id_orgs"),
    )
    op.create_table(
        "holds",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.Uuid(), nullable=False),
        sa.Column("by_email", sa.String(320), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "name", name="pk_holds"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_holds_session_id_sessions"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_holds_org_id_orgs"),
    )
    op.create_index("ix_holds_org_id_at", "holds", ["org_id", "at"])
    _purges()


def _purges() -> None:
    op.create_table(
        "purges",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("what", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("entry", sa.BigInteger(), nullable=False),
        sa.Column("begun_at", _MOMENT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", _MOMENT, nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_purges"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_purges_org_id_orgs"),
    )
    op.create_index("ix_purges_next_at", "purges", ["next_at"])
    op.create_table(
        "purge_rounds",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("quiet_until", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_purge_rounds"),
    )
