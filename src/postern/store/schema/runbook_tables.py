"""Tables of repositories with runbooks, their snapshots, rules and schedules."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)

from postern.store.schema.columns import Utc, managed_by, metadata, owner, resource_table, version

# The identifier is made of the address, so two organisations may have the same one.
runbook_repositories = Table(
    "runbook_repositories",
    metadata,
    Column("org_id", Uuid, ForeignKey("orgs.id"), primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("git_url", String(2048), nullable=False),
    Column("name", String(512), nullable=False),
    Column("git_user", String(255), nullable=False),
    Column("ssh_user", String(255), nullable=False),
    Column("ssh_known_hosts", Text, nullable=False),
    Column("branch", String(255), nullable=False),
    Column("hook_ttl", Integer, nullable=False),
    Column("secrets", LargeBinary, nullable=False),  # sealed JSON
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    managed_by(),
    version(),
    UniqueConstraint("org_id", "name"),
)

runbook_snapshots = Table(
    "runbook_snapshots",
    metadata,
    Column("org_id", Uuid, primary_key=True),
    Column("repository_id", Uuid, primary_key=True),
    Column("content", LargeBinary),  # sealed, packed; NULL until it was read once
    Column("hooks", LargeBinary),  # sealed JSON: their texts by file names; empty where the commit has none
    Column("commit_id", String(64)),
    Column("fetched_at", Utc),
    Column("tried_at", Utc, nullable=False),
    Column("settings_at", Utc, nullable=False),
    Column("error", Text, nullable=False),
    ForeignKeyConstraint(
        ["org_id", "repository_id"], ["runbook_repositories.org_id", "runbook_repositories.id"], ondelete="CASCADE"
    ),
)

runbook_rules = resource_table(
    "runbook_rules",
    Column("description", Text, nullable=False),
    Column("runbooks", JSON, nullable=False),  # RunbookPatterns
    Column("everywhere", Boolean, nullable=False),  # else only on what it lists, also when nothing is left of that
)

runbook_rule_groups = Table(
    "runbook_rule_groups",
    metadata,
    Column("rule_id", Uuid, ForeignKey("runbook_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True),
)

runbook_rule_connections = Table(
    "runbook_rule_connections",
    metadata,
    Column("rule_id", Uuid, ForeignKey("runbook_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True, index=True),
)

runbook_schedules = resource_table(
    "runbook_schedules",
    Column(
        "owner_id", Uuid, nullable=False, index=True
    ),  # can be a deleted user: the schedule then shows why it does not run
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("repository", String(512), nullable=False),
    Column("file", String(1024), nullable=False),
    Column("cron", String(128), nullable=False),
    Column("zone", String(64), nullable=False),
    Column("given", LargeBinary, nullable=False),  # parameters and fields of issues: sealed JSON
    Column("enabled", Boolean, nullable=False),
    Column("next_at", Utc, index=True),
    Column("last_at", Utc),
    Column("last_session_id", Uuid),
    Column("last_error", Text, nullable=False, server_default=""),
)

# Their runs that are about to begin, and those that did not come about, until sinks are told (domain.ScheduleRun).
runbook_schedule_runs = Table(
    "runbook_schedule_runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("schedule_id", Uuid, nullable=False, index=True),
    Column("schedule", String(128), nullable=False),
    Column("owner_id", Uuid, nullable=False),
    Column("owner", String(320), nullable=False),
    Column("connection_id", Uuid, nullable=False),
    Column("connection", String(128), nullable=False),
    Column("repository", String(512), nullable=False),
    Column("file", String(1024), nullable=False),
    Column("due_at", Utc, nullable=False),
    Column("at", Utc, nullable=False),
    Column("error", Text, nullable=False),
)

# What became of session hooks.
session_hooks = Table(
    "session_hooks",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("repository", String(512), nullable=False),
    Column("commit_id", String(64), nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("exit_code", Integer),
    Column("reason", Text, nullable=False),
    Column("output", LargeBinary, nullable=False),  # sealed; empty where there is none, or the recording was purged
    Index(None, "session_id", "started_at", "id"),
)
