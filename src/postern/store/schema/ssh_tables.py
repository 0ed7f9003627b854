"""Tables of SSH keys of users and targets. The keys are public; their owners are not."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table, Text, UniqueConstraint, Uuid

from postern.store.schema.columns import Utc, metadata, owner, resource_table

ssh_keys = Table(
    "ssh_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("algorithm", String(64), nullable=False),
    Column("public_key", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False, index=True),
    Column("created_at", Utc, nullable=False),
    Column("last_used_at", Utc),
    UniqueConstraint("org_id", "fingerprint"),
    UniqueConstraint("user_id", "name"),
)

# One vouches for one organisation, so that a certificate is never of two.
ssh_authorities = resource_table(
    "ssh_authorities",
    Column("algorithm", String(64), nullable=False),
    Column("public_key", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False, unique=True),
)

# What was met first where a connection leads; elsewhere it says nothing.
host_keys = Table(
    "host_keys",
    metadata,
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
    Column("place", Uuid, primary_key=True),
    owner(),
    Column("algorithm", String(64), nullable=False),
    Column("public_key", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("pinned_at", Utc, nullable=False),
    Column("session_id", Uuid),
)
