"""Tables of organisations, users and programs, and their auth methods."""

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
    false,
)

from postern.store.schema.columns import Utc, managed_by, metadata, owner, resource_table, version

orgs = Table(
    "orgs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("admin_group", String(128), nullable=False, server_default="admin"),
    Column("auditor_group", String(128), nullable=False, server_default="auditor"),
    Column("created_at", Utc, nullable=False),
    Column("access_help", Text, nullable=False, server_default=""),
    Column("deleting_at", Utc),  # since when it is being deleted; it is no longer in use
    version(),
)

# Principals: users and programs (the column `kind`).
users = Table(
    "users",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("subject", String(255), nullable=False),
    Column("email", String(320), nullable=False),
    Column("name", String(255), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("status", String(32), nullable=False),
    Column("password_hash", String(255)),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    Column("issuer", String(512), nullable=False, server_default=""),
    Column("verified", Boolean, nullable=False, server_default=false()),
    Column("picture", Text, nullable=False, server_default=""),
    Column("external_id", String(255)),
    Column("user_name", String(255)),  # of a provisioning system
    Column("last_login_at", Utc),
    managed_by(),
    version(),
    UniqueConstraint("org_id", "email"),
    UniqueConstraint("org_id", "subject"),
)
Index("uq_users_org_id_user_name", users.c.org_id, users.c.user_name, unique=True)

groups = resource_table("groups", Column("external_id", String(255)))

# A membership is there once for each source that gives it.
user_groups = Table(
    "user_groups",
    metadata,
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True, index=True),
    Column("source", String(16), primary_key=True),
)

# What the clients of a user remember for them, such as the theme of the web application: one JSON object.
user_preferences = Table(
    "user_preferences",
    metadata,
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("content", Text, nullable=False),
    Column("updated_at", Utc, nullable=False),
    version(),
)

logins = Table(
    "logins",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("method", String(16), nullable=False),
    Column("client", String(16), nullable=False),
    Column("source", String(255), nullable=False),
    Column("user_agent", String(255), nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False),
    Column("ends_at", Utc, nullable=False, index=True),
    Column("provider_expires_at", Utc),
    Column("provider_refresh", LargeBinary),  # sealed
    Column("ended_at", Utc),
    Column("fresh_until", Utc),
    Column("federation_rule_id", Uuid, index=True),  # no reference: logins of a deleted rule stay on record
    Column("federation", JSON),  # which program it is, by the claims of its token
)

one_time_tokens = Table(
    "vouchers",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("purpose", String(32), nullable=False, index=True),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("source", String(64), index=True),  # the network of the client that requested it without a login
    Column("payload", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False, index=True),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("principal_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("name", String(255), nullable=False),
    Column("shown", String(32), nullable=False),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("allowed_networks", JSON, nullable=False),
    Column("created_by", String(320), nullable=False),
    Column("maker_id", Uuid),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("last_used_at", Utc),
    Column("revoked_at", Utc),
    Column("revoked_by", String(320)),
    Column("updated_at", Utc),
    managed_by(),
    version(),
    UniqueConstraint("org_id", "name"),
)

federation_rules = resource_table(
    "federation_rules",
    Column("account_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("issuer_url", String(2000), nullable=False),
    Column("audience", String(500), nullable=False),
    Column("claims", JSON, nullable=False),
    Column("algorithms", JSON, nullable=False),
    Column("jwks", JSON),
    Column("login_duration_seconds", Integer, nullable=False),
    Column("allow_admin", Boolean, nullable=False),
    Column("allow_reuse", Boolean, nullable=False),
    Column("description", Text, nullable=False),
)

machines = Table(
    "machines",
    metadata,
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("description", Text, nullable=False),
    Column("attributes", JSON, nullable=False),
)

second_factors = Table(
    "second_factors",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(255), nullable=False),
    Column("material", LargeBinary, nullable=False),  # sealed
    Column("counter", BigInteger, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("confirmed_at", Utc),
    Column("last_used_at", Utc),
)

token_keys = Table(
    "token_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("private", LargeBinary, nullable=False),  # sealed
    Column("created_at", Utc, nullable=False),
    Column("retired_at", Utc),
)
