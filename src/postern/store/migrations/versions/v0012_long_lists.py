"""Indexes in the order of lists that grow with use, so that a page behind a cursor is read from one place."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_REPLACED = (
    ("audit_log", ("org_id", "at")),
    ("holds", ("org_id", "at")),
    ("credentials", ("connection_id", "user_id")),
)
_ADDED = (
    ("audit_log", ("org_id", "at", "id")),
    ("holds", ("org_id", "at", "id")),
    ("credentials", ("connection_id", "created_at", "id")),
    ("credentials", ("connection_id", "user_id", "created_at", "id")),
    ("deliveries", ("sink_id", "number")),
    ("purges", ("org_id", "begun_at", "session_id")),
    ("reviews", ("org_id", "principal_id", "created_at", "id")),
)


def upgrade() -> None:
    for table, columns in _ADDED:
        op.create_index(_name(table, columns), table, list(columns))
    for table, columns in _REPLACED:
        op.drop_index(_name(table, columns), table)


def _name(table: str, columns: tuple[str, ...]) -> str:
    return f"ix_{table}_{'_'.join(columns)}"
