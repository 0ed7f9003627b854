"""Recordings: their segments in the blob store, and work that one process at a time does."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    _segments()
    _leases()
    _reports()
    _sinks()


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


def _reports() -> None:
    op.add_column("sessions", sa.Column("pending", sa.Integer(), nullable=False, server_default="1"))
    # Those that have ended are counted as soon as the gateway runs, and nobody is told of them any more.
    op.execute("update sessions set pending = 4 where status = 'done'")
    op.create_index(
        "ix_sessions_pending",
        "sessions",
        ["pending"],
        sqlite_where=sa.literal_column("pending > 0"),
        postgresql_where=sa.literal_column("pending > 0"),
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
