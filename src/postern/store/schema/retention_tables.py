"""Tables of retention, holds, and purges that have begun."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    Uuid,
    literal_column,
)

from postern.store.schema.columns import Utc, metadata, owner
from postern.store.schema.recording_tables import ledger
from postern.store.schema.session_tables import sessions

# The connection is not a foreign key: deleting a connection must not shorten the retention of its sessions. The
# organisation's own row has a nil identifier.
retentions = Table(
    "retentions",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("connection_id", Uuid, primary_key=True),
    Column("connection", String(128), nullable=False),
    Column("is_own", Boolean, nullable=False),  # else it goes by the organisation's
    Column("recording_days", Integer),
    Column("session_days", Integer),
    Column("recording_days_before", Integer),
    Column("session_days_before", Integer),
    Column("effective_at", Utc),
)

# The row of a session with a legal hold cannot be deleted: no cascade.
holds = Table(
    "holds",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id"), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("id", Uuid, nullable=False),
    owner(),
    Column("reason", Text, nullable=False),
    Column("by", Uuid, nullable=False),
    Column("by_email", String(320), nullable=False),
    Column("at", Utc, nullable=False),
    Index(None, "org_id", "at", "id"),
)

# Purges that have begun; a row is deleted when nothing is left to do.
purges = Table(
    "purges",
    metadata,
    Column("session_id", Uuid, primary_key=True),
    owner(),
    Column("what", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("entry", BigInteger, nullable=False),
    Column("begun_at", Utc, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Utc, nullable=False),
    Column("error", Text, nullable=False),
    Index(None, "next_at"),
    Index(None, "org_id", "begun_at", "session_id"),
)

# Time of the last round of purging, and the clock that it was read from; one row.
purge_rounds = Table(
    "purge_rounds",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("at", Utc, nullable=False),
    Column("quiet_until", Utc, nullable=False),
)

# In these words a query asks for it (https://sqlite.org/partialindex.html, section 3): with a type it would be asked as
# `... = 1`, and the index left aside.
KEEPING: ColumnElement[Any] = literal_column("kind in ('held', 'released', 'purged')")
Index("ix_ledger_keeping", ledger.c.session_id, sqlite_where=KEEPING, postgresql_where=KEEPING)
Index(
    "ix_sessions_holds",
    *(sessions.c.org_id, sessions.c.start_date, sessions.c.id),
    sqlite_where=sessions.c.holds > 0,
    postgresql_where=sessions.c.holds > 0,
)
