"""Templates of issues, and what is to be done in a tracker for sessions."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Integer, LargeBinary, String, Table, Text, UniqueConstraint, Uuid

from postern.store.schema.base import Utc, metadata, owner

# Which connections have it: `connections.issue_template_id`, and nowhere else.
issue_templates = Table(
    "issue_templates",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("name", String(128), nullable=False),
    Column("description", Text, nullable=False),
    Column("project_key", String(255), nullable=False),
    Column("request_type_id", String(255), nullable=False),
    Column("transition", String(255), nullable=False),
    Column("mappings", JSON, nullable=False),
    Column("prompts", JSON, nullable=False),
    Column("cmdb", JSON, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    UniqueConstraint("org_id", "name"),
)

# Written before the session is, and kept as long as something is to be done: the row is what is not to be lost.
session_issues = Table(
    "session_issues",
    metadata,
    Column("session_id", Uuid, primary_key=True),
    owner(),
    Column("state", String(16), nullable=False),
    Column("new", LargeBinary, nullable=False),  # sealed JSON: a NewIssue
    Column("transition", String(255), nullable=False),
    Column("key", String(255)),
    Column("url", Text),
    Column("ended", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Utc, index=True),  # NULL: nothing is to be done
    Column("error", Text, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
)
