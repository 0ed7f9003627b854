"""Tables of stored segments, the ledger over all sessions, and leases."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    Uuid,
    and_,
)

from postern.store.schema.columns import Utc, metadata, owner
from postern.store.schema.session_tables import sessions

# What of recordings is in the blob store (domain.segment.Segment).
segments = Table(
    "segments",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    owner(),
    Column("digest", LargeBinary(32), nullable=False),
    Column("chain", LargeBinary(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("stored_size", BigInteger, nullable=False),
    Column("begins", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Column("operations", Integer, nullable=False),
    Column("is_last", Boolean, nullable=False),
    Column("place", String(1024), nullable=False),
    Column("stored_at", Utc, nullable=False),
    Column("damage", Text, nullable=False),
    Column("refused", Integer, nullable=False),
    Column("data_key", Uuid),
)

# What the ledger has still to be told of.
for _what in ("opened", "closed"):
    _untold: ColumnElement[bool] = sessions.c[f"{_what}_entry"].is_(None)
    _since = sessions.c.start_date
    if _what == "closed":
        _since = sessions.c.end_date
        _untold = and_(_untold, _since.is_not(None))
    Index(f"ix_sessions_not_{_what}", _since, sessions.c.id, sqlite_where=_untold, postgresql_where=_untold)

# What happened to sessions, in one row for each organisation (domain.ledger). Nothing refers to a session by a foreign
# key: an entry outlives what it is about.
ledger = Table(
    "ledger",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Utc, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("session_id", Uuid),
    Column("content", LargeBinary, nullable=False),
    Column("hash", LargeBinary(32), nullable=False),
    Index(None, "org_id", "at"),
)

# The newest entry of each ledger. The row outlives deleted entries, so that the gap is detected. `records` is the
# number of the newest sealed record.
ledger_heads = Table(
    "ledger_heads",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("hash", LargeBinary(32), nullable=False),
    Column("at", Utc, nullable=False),
    Column("records", BigInteger, nullable=False),
)

# What the ledger has sealed of the audit log and of reviews (domain.ledger). Nothing refers to a subject by a foreign
# key: a record outlives it.
ledger_records = Table(
    "ledger_records",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("subject", Uuid, nullable=False, index=True),
    Column("content", LargeBinary, nullable=False),
)

# What the ledger has still to seal. Each row is written by the transaction that it is about.
record_queue = Table(
    "record_queue",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    owner(),
    Column("kind", String(16), nullable=False),
    Column("subject", Uuid, nullable=False, index=True),
    Column("session_id", Uuid),
    Column("at", Utc, nullable=False),
    sqlite_autoincrement=True,
)

ledger_keys = Table(
    "ledger_keys",
    metadata,
    Column("id", String(64), primary_key=True),  # the fingerprint
    owner(),
    Column("public", LargeBinary(32), nullable=False),
    Column("private", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False),
    Column("retired_at", Utc),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary(32), nullable=False),
    Column("at", Utc, nullable=False),
    Column("key", String(64), nullable=False),
    Column("signature", LargeBinary(64), nullable=False),
    Column("introduces", LargeBinary(32)),
)

# Whether checkpoints have reached the anchors that were set up when they were made.
checkpoint_anchors = Table(
    "checkpoint_anchors",
    metadata,
    Column("org_id", Uuid, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("anchor", String(16), primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Utc, nullable=False),
    Column("done_at", Utc),
    Column("error", Text, nullable=False),
    ForeignKeyConstraint(["org_id", "number"], ["checkpoints.org_id", "checkpoints.number"], ondelete="CASCADE"),
    Index(None, "done_at", "next_at"),
)

# The last verification of a session by itself (domain.ledger.SessionVerification).
session_verifications = Table(
    "session_verifications",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    Column("at", Utc, nullable=False),
    Column("by", Uuid, nullable=False),
    Column("by_email", String(320), nullable=False),
    Column("checkpoint", BigInteger, nullable=False),
    Column("segments", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("findings", Integer, nullable=False),
)

# Work that one process at a time does, whichever machine it is on.
leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(128), nullable=False),
    Column("until", Utc, nullable=False),
)
