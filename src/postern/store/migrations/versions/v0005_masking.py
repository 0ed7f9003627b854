"""Masking rules with the connections that each is for, statements that wait for somebody, and what the refused read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "masking_rules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
        sa.Column("custom_types", sa.JSON(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("threshold", sa.Float(), nullable=False),
        sa.Column("strategy", sa.String(16), nullable=False),
        sa.Column("strictness", sa.String(16), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_masking_rules_org_id"),
        sa.PrimaryKeyConstraint("id", name="pk_masking_rules"),
        sa.UniqueConstraint("org_id", "name", name="uq_masking_rules_org_id_name"),
    )
    op.create_table(
        "connection_masking_rules",
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("masking_rule_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["connection_id"],
            ["connections.id"],
            name="fk_connection_masking_rules_connection_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["masking_rule_id"],
            ["masking_rules.id"],
            name="fk_connection_masking_rules_masking_rule_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("connection_id", "masking_rule_id", name="pk_connection_masking_rules"),
    )
    op.create_index(
        "ix_connection_masking_rules_masking_rule_id", "connection_masking_rules", ["masking_rule_id"], unique=False
    )
    op.add_column("orgs", sa.Column("access_help", sa.Text(), nullable=False, server_default=""))
