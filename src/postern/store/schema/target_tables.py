"""Tables of connections, their rules, and agents."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    literal_column,
    true,
)

from postern.store.schema.columns import Utc, metadata, owner, resource_table

agents = resource_table(
    "agents",
    Column("mode", String(32), nullable=False),
    Column("last_seen", Utc),
    Column("digest", LargeBinary(32)),  # of its secret; none for the gateway's own
    Column("facts", JSON, nullable=False),
)
Index("uq_agents_digest", agents.c.digest, unique=True)

# The relay workers that live now; agents hold a tunnel to each.
relay_workers = Table(
    "relay_workers",
    metadata,
    Column("id", Uuid, primary_key=True),  # of one life of the process
    Column("name", String(64), nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("last_seen", Utc, nullable=False, index=True),
)

# What connections belong to; made when a connection names it first.
resources = Table(
    "resources",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("name", String(128), nullable=False),
    Column("created_at", Utc, nullable=False),
    UniqueConstraint("org_id", "name"),
)

# Questions about a target that the API asks and a relay worker answers: tests of connections, and their schemas.
target_tasks = Table(
    "errands",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("principal_id", Uuid, nullable=False),
    Column("connection_id", Uuid, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("source", String(255), nullable=False),
    Column("created_at", Utc, nullable=False, index=True),
    Column("worker", String(64)),
    Column("answer", Text),  # JSON, once it is done
    Column("done_at", Utc),
)

connections = resource_table(
    "connections",
    Column("type", String(32), nullable=False),
    Column("subtype", String(64), nullable=False),
    Column("agent_id", Uuid, ForeignKey("agents.id"), nullable=False),
    Column("access_mode_connect", String(16), nullable=False),
    Column("access_mode_exec", String(16), nullable=False),
    Column("access_mode_runbooks", String(16), nullable=False),
    Column("access_schema", String(16), nullable=False),
    Column("access_forward_local", String(16), nullable=False, server_default="disabled"),
    Column("access_forward_remote", String(16), nullable=False, server_default="disabled"),
    Column("access_forward_agent", String(16), nullable=False, server_default="disabled"),
    Column("access_file_transfer", String(16), nullable=False, server_default="enabled"),
    Column("access_mode_web_terminal", String(16), nullable=False, server_default="disabled"),
    Column("access_fresh_factor", String(16), nullable=False, server_default="disabled"),
    Column("access_max_duration", Integer),
    Column("command", JSON, nullable=False),
    Column("connection_tags", JSON, nullable=False),
    Column("description", Text, nullable=False, server_default=""),
    Column("force_approve_groups", JSON, nullable=False),
    Column("issue_template_id", String(255), index=True),
    Column("redact_enabled", Boolean, nullable=False),
    Column("redact_types", JSON, nullable=False),
    Column("resource_name", String(128), nullable=False),
    Column("reviewers", JSON, nullable=False),
    Column("secret", LargeBinary, nullable=False),  # one sealed JSON object (store/encryption.py)
    Column("tags", JSON, nullable=False),
    Column("place", Uuid, nullable=False),  # another one once it leads elsewhere
)

# How the last test of a connection went. `place` is where the connection led: elsewhere the test says nothing.
target_tests = Table(
    "target_tests",
    metadata,
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
    Column("place", Uuid, nullable=False),
    owner(),
    Column("reason", Text, nullable=False),  # empty where the test succeeded
    Column("succeeded", Boolean, nullable=False),
    Column("tested_at", Utc, nullable=False),
)

guardrails = resource_table(
    "guardrails",
    Column("description", Text, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("input", JSON, nullable=False),
    Column("output", JSON, nullable=False),
)

# The one association behind `connection.guardrail_rules` and `guardrail.connection_ids`.
connection_guardrails = Table(
    "connection_guardrails",
    metadata,
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
    Column("guardrail_id", Uuid, ForeignKey("guardrails.id", ondelete="CASCADE"), primary_key=True, index=True),
)

masking_rules = resource_table(
    "masking_rules",
    Column("description", Text, nullable=False),
    Column("groups", JSON, nullable=False),
    Column("custom_types", JSON, nullable=False),
    Column("columns", JSON, nullable=False),
    Column("threshold", Float, nullable=False),
    Column("strategy", String(16), nullable=False),
    Column("strictness", String(16), nullable=False),
)

connection_masking_rules = Table(
    "connection_masking_rules",
    metadata,
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
    Column("masking_rule_id", Uuid, ForeignKey("masking_rules.id", ondelete="CASCADE"), primary_key=True, index=True),
)

# Names, not ids, of groups: a rule follows when its group is renamed, and loses one that is deleted.
access_rules = resource_table(
    "access_rules",
    Column("description", Text, nullable=False),
    Column("connection_tags", JSON, nullable=False),
)

access_rule_groups = Table(
    "access_rule_groups",
    metadata,
    Column("rule_id", Uuid, ForeignKey("access_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True),
)

access_rule_connections = Table(
    "access_rule_connections",
    metadata,
    Column("rule_id", Uuid, ForeignKey("access_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True, index=True),
)

network_rules = resource_table(
    "network_rules",
    Column("description", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("allowed_networks", JSON, nullable=False),
    Column("connection_tags", JSON, nullable=False),
)

network_rule_groups = Table(
    "network_rule_groups",
    metadata,
    Column("rule_id", Uuid, ForeignKey("network_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True),
)

network_rule_connections = Table(
    "network_rule_connections",
    metadata,
    Column("rule_id", Uuid, ForeignKey("network_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True, index=True),
)

_of_browser: ColumnElement[bool] = literal_column("login_id is not null")
credentials = Table(
    "credentials",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("user_id", Uuid, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), nullable=False),
    Column("username", String(63), nullable=False, unique=True),
    Column("iterations", Integer, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("stored_key", LargeBinary, nullable=False),
    Column("server_key", LargeBinary, nullable=False),
    Column("login_key", LargeBinary),  # what the login of its protocol needs of the password before that is sent
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc),
    Column("revoked_at", Utc),
    Column("maker_id", Uuid),  # principal that issued it, if not its user
    Column("login_id", Uuid),  # login of the browser that it ends with; logins are deleted earlier than credentials
    Index(None, "connection_id", "created_at", "id"),
    Index(None, "connection_id", "user_id", "created_at", "id"),
    Index(None, "user_id", "created_at", "id"),
    Index(None, "login_id", sqlite_where=_of_browser, postgresql_where=_of_browser),
)
