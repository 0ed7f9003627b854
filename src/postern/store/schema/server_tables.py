"""Tables of keys, settings, the audit log, and queued events."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)

from postern.store.schema.columns import Utc, metadata, owner, resource_table

# The keys that values are sealed with, themselves sealed by a master key that is not in the store.
data_keys = Table(
    "data_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("org_id", Uuid, ForeignKey("orgs.id")),  # none: values that belong to no organisation
    Column("wrapped", LargeBinary, nullable=False),
    Column("master", String(255), nullable=False),  # which master key wrapped it
    Column("created_at", Utc, nullable=False),
    Column("retired_at", Utc),  # seals no more; opens what it sealed
)

# Facts about the installation: the version that opened the store last, and when it was backed up.
installation = Table(
    "installation",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    Column("updated_at", Utc, nullable=False),
)

org_settings = Table(
    "org_settings",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),  # one sealed JSON object
    Column("updated_at", Utc, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("principal_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", LargeBinary(32), primary_key=True),
    Column("fingerprint", LargeBinary(32), nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False, index=True),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("at", Utc, nullable=False),
    Column("actor_id", Uuid),
    Column("actor_email", String(320), nullable=False),
    Column("action", String(32), nullable=False),
    Column("resource_type", String(64), nullable=False),
    Column("resource", String(255), nullable=False),
    Column("method", String(16), nullable=False),
    Column("path", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("source", String(255), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("body", JSON, nullable=False),  # the request as given, secrets redacted
    Column("actor_subject", String(255), nullable=False, server_default=""),
    Column("outcome", String(16), nullable=False, server_default="success"),
    Column("before", JSON),  # the resource, secrets redacted
    Column("after", JSON),
    Index(None, "org_id", "at", "id"),
)

# Audit entries that sinks were not told of yet; written together with the entry.
untold_entries = Table(
    "untold_entries",
    metadata,
    Column("entry_id", Uuid, ForeignKey("audit_log.id", ondelete="CASCADE"), primary_key=True),
)

sinks = resource_table(
    "sinks",
    Column("kind", String(16), nullable=False),
    Column("address", Text, nullable=False),
    Column("events", JSON, nullable=False),
    Column("status", String(16), nullable=False),
    Column("with_script", Boolean, nullable=False),
    Column("authority", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False),  # sealed: one JSON object with the signing secrets and the headers
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("failing_since", Utc),
    Column("error", Text, nullable=False, server_default=""),
    Column("next_at", Utc),
    Column("delivered_at", Utc),
    Column("options", JSON, nullable=False, server_default="{}"),
    Column("scope", JSON, nullable=False, server_default="{}"),
)

# Events on their way to sinks; each sink's go out in the order of their numbers.
deliveries = Table(
    "deliveries",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("sink_id", Uuid, ForeignKey("sinks.id", ondelete="CASCADE"), nullable=False),
    owner(),
    Column("event_id", Uuid, nullable=False),
    Column("event", String(32), nullable=False),
    Column("at", Utc, nullable=False),
    Column("body", Text, nullable=False),  # JSON
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("attempted_at", Utc),
    UniqueConstraint("sink_id", "event_id"),
    Index(None, "sink_id", "state", "number"),
    Index(None, "sink_id", "number"),
    Index(None, "state", "attempted_at"),
    sqlite_autoincrement=True,
)

# Where a chat was told of a review, so that the message there is brought up to date.
chat_messages = Table(
    "chat_messages",
    metadata,
    Column("sink_id", Uuid, ForeignKey("sinks.id", ondelete="CASCADE"), primary_key=True),
    Column("review_id", Uuid, ForeignKey("reviews.id", ondelete="CASCADE"), primary_key=True, index=True),
    Column("channel", String(255), nullable=False),
    Column("reference", String(255), nullable=False),
    Column("at", Utc, nullable=False),
)

# Users of chat accounts.
chat_links = Table(
    "chat_links",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("realm", String(64), nullable=False),
    Column("chat_id", String(128), nullable=False),
    Column("principal_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("created_at", Utc, nullable=False),
    UniqueConstraint("org_id", "realm", "chat_id"),
)

# What rules refused, warned of and held, and sinks were not told of yet (domain.violation).
violations = Table(
    "violations",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("session_id", Uuid, nullable=False),
    Column("connection_id", Uuid, nullable=False),
    Column("connection", String(128), nullable=False),
    Column("user", String(320), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("number", Integer, nullable=False),
    Column("left_out", Integer, nullable=False),
    Column("rule", Text, nullable=False),
    Column("action", String(16), nullable=False),
    Column("message", Text, nullable=False),
    Column("statement", Text),
    Column("at", Utc, nullable=False),
    Index(None, "at", "session_id", "number"),
)
