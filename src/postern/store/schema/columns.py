"""What all tables share. Keys are UUIDs, times are UTC with time zone, lists and maps are JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.schema import SchemaItem

# Constraints have names that do not depend on the engine, so that migrations can address them.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Utc(TypeDecorator[datetime]):
    """A timestamp. SQLite has no time zones, so there UTC is stored."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a timestamp without a time zone must not be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def owner() -> Column[object]:
    return Column("org_id", Uuid, ForeignKey("orgs.id"), nullable=False)


def version() -> Column[int]:
    """Return a column that counts changes, so that a change of an older version is rejected."""
    return Column("version", Integer, nullable=False, server_default="1")


def managed_by() -> Column[str | None]:
    """Return a column with the name of what manages the row: a configuration in files, or an agent."""
    return Column("managed_by", String(128))


def resource_table(name: str, *more: SchemaItem) -> Table:
    """Return the table of a named resource: what all of them have, and `more`."""
    return Table(
        name,
        metadata,
        Column("id", Uuid, primary_key=True),
        owner(),
        Column("name", String(128), nullable=False),
        *more,
        Column("created_at", Utc, nullable=False),
        Column("updated_at", Utc),
        managed_by(),
        version(),
        UniqueConstraint("org_id", "name"),
    )
