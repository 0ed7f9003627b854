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
