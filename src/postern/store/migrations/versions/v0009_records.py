"""The ledger seals the audit log and reviews, and knows how far it has come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "ledger_heads",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_ledger_heads_org_id_orgs"),
        sa.PrimaryKeyConstraint("org_id", name="pk_ledger_heads"),
    )
    op.create_table(
        "ledger_records",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("subject", sa.Uuid(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_ledger_records_org_id_orgs"),
        sa.PrimaryKeyConstraint("org_id", "number", name="pk_ledger_records"),
    )
    op.create_index("ix_ledger_records_subject", "ledger_records", ["subject"])
    op.create_table(
        "record_queue",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("subject", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid()),
        sa.Column("at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_record_queue_org_id_orgs"),
        sa.PrimaryKeyConstraint("number", name="pk_record_queue"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_record_queue_subject", "record_queue", ["subject"])
    _fill()


def _fill() -> None:
    """The ledger seals what is there as it is when the gateway first starts."""
    op.execute(
        "insert into ledger_heads (org_id, number, hash, at, records) select org_id, number, hash, at, 0 from ledger "
        "where number = (select max(number) from ledger as own where own.org_id = ledger.org_id)"
    )
    op.execute(
        "insert into record_queue (org_id, kind, subject, session_id, at) "
        "select org_id, 'audit', id, null, at from audit_log order by at, id"
    )
    op.execute(
        "insert into record_queue (org_id, kind, subject, session_id, at) "
        "select org_id, 'review', id, session_id, created_at from reviews order by created_at, id"
    )
