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
    _questions()


def _questions() -> None:
    op.create_table(
        "questions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("connection", sa.String(length=128), nullable=False),
        sa.Column("asker", sa.String(length=255), nullable=False),
        sa.Column("asker_email", sa.String(length=320), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("reviewers", sa.JSON(), nullable=False),
        sa.Column("asked_at", _MOMENT, nullable=False),
        sa.Column("until", _MOMENT, nullable=False),
        sa.Column("decision", sa.String(length=16), nullable=True),
        sa.Column("decided_by", sa.String(length=320), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("pending", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_questions_org_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_questions_session_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_questions"),
    )
    op.create_index("ix_questions_org_id_until", "questions", ["org_id", "until"], unique=False)
    op.create_index("ix_questions_session_id", "questions", ["session_id"], unique=False)
    for name, column, some in (
        ("ix_questions_pending", "asked_at", "pending <> 0"),
        ("ix_questions_open", "org_id", "decision is null"),
    ):
        where: sa.ColumnElement[bool] = sa.literal_column(some)
        op.create_index(name, "questions", [column], unique=False, sqlite_where=where, postgresql_where=where)
