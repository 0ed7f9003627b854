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
    _ledger()


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


def _ledger() -> None:
    for what, since in (("opened", "start_date"), ("closed", "end_date")):
        entry = f"{what}_entry"
        op.add_column("sessions", sa.Column(entry, sa.BigInteger()))
        open_ = sa.text(f"{entry} IS NULL")
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
