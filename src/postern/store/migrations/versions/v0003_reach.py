"""Agents that dial in, relay workers, resources, errands, and what commands are run with."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    _agents()
    _resources()
    _errands()
    op.create_table(
        "session_starts",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_session_starts"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_session_starts_session_id_sessions", ondelete="CASCADE"
        ),
    )


def _agents() -> None:
    op.add_column("agents", sa.Column("digest", sa.LargeBinary(32)))
    op.add_column("agents", sa.Column("facts", sa.JSON(), nullable=False, server_default="{}"))
    op.create_index("uq_agents_digest", "agents", ["digest"], unique=True)
    op.execute("UPDATE agents SET mode = 'gateway' WHERE mode = 'embedded'")
    op.create_table(
        "relay_workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("last_seen", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relay_workers"),
    )
    op.create_index("ix_relay_workers_last_seen", "relay_workers", ["last_seen"])


def _resources() -> None:
    made = op.create_table(
        "resources",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_resources"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_resources_org_id_orgs"),
        sa.UniqueConstraint("org_id", "name", name="uq_resources_org_id_name"),
    )
    # Until now a resource was but a word in its connections.
    there = sa.table("connections", sa.column("org_id", sa.Uuid()), sa.column("resource_name", sa.String()))
    named = op.get_bind().execute(sa.select(there.c.org_id, there.c.resource_name).distinct()).all()
    rows = [{"id": uuid4(), "org_id": org, "name": name, "created_at": datetime.now(UTC)} for org, name in named]
    if rows:
        op.bulk_insert(made, rows)


def _errands() -> None:
    op.create_table(
        "errands",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("worker", sa.String(64)),
        sa.Column("answer", sa.Text()),
        sa.Column("done_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_errands"),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_errands_org_id_orgs"),
    )
    op.create_index("ix_errands_created_at", "errands", ["created_at"])
