"""The whole schema, until the first release: every table of `store.schema`, and the organisation that is always there.

Until then a change of the schema is a change of the tables alone. From the first release on this file is frozen as the
statements it ran then, and each change gets a migration of its own behind it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from postern.store.schema.columns import metadata
from postern.store.schema.identity_tables import groups, orgs
from postern.store.schema.session_tables import FULL_TEXT

revision = "1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    bind = op.get_bind()
    for table in metadata.sorted_tables:
        bind.execute(CreateTable(table))
        for index in sorted(table.indexes, key=_order):
            bind.execute(CreateIndex(index))
    for statement in FULL_TEXT[bind.dialect.name]:
        op.execute(statement)
    # Made here, so that no two processes can make two.
    org_id, now = uuid4(), datetime.now(UTC)
    bind.execute(sa.insert(orgs).values(id=org_id, name="default", created_at=now))
    for name in ("admin", "auditor"):
        bind.execute(sa.insert(groups).values(id=uuid4(), org_id=org_id, name=name, created_at=now))


def _order(index: sa.Index) -> tuple[bool, str]:
    """SQLite takes the newest of several usable indexes, so indexes with few rows come last."""
    return index.dialect_options["sqlite"]["where"] is not None, str(index.name)
