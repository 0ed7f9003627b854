"""The last test of each connection's target."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "target_tests",
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("place", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("succeeded", sa.Boolean(), nullable=False),
        sa.Column("tested_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_target_tests_org_id"),
        sa.ForeignKeyConstraint(
            ["connection_id"], ["connections.id"], name="fk_target_tests_connection_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("connection_id", name="pk_target_tests"),
    )
