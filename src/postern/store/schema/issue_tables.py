"""Tables of issue templates, and of the issues of sessions."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    Uuid,
    literal_column,
)

from postern.store.schema.columns import Utc, metadata, owner, resource_table

# Which connections have it: `connections.issue_template_id`, and nowhere else.
issue_templates = resource_table(
    "issue_templates",
    Column("description", Text, nullable=False),
    Column("project_key", String(255), nullable=False),
    Column("request_type_id", String(255), nullable=False),
    Column("transition", String(255), nullable=False),
    Column("mappings", JSON, nullable=False),
    Column("prompts", JSON, nullable=False),
    Column("cmdb", JSON, nullable=False),
)

# Written before the session is, and kept as long as something is to be done: the row is what is not to be lost.
session_issues = Table(
    "session_issues",
    metadata,
    Column("session_id", Uuid, primary_key=True),
    owner(),
    Column("state", String(16), nullable=False),
    Column("new", LargeBinary, nullable=False),  # sealed JSON: a NewIssue; empty once it is made
    Column("transition", String(255), nullable=False),
    Column("key", String(255)),
    Column("url", Text),
    Column("ended", Boolean, nullable=False),
    Column("told", Boolean, nullable=False),  # the session says so
    Column("attempts", Integer, nullable=False),
    Column("next_at", Utc),  # NULL: nothing is to be done
    Column("error", Text, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    Index("ix_session_issues_org_id", "org_id", "created_at", "session_id"),
)
# Of all that there ever were, few are to be looked at.
Index(
    "ix_session_issues_due",
    *(session_issues.c.org_id, session_issues.c.next_at),
    sqlite_where=session_issues.c.next_at.is_not(None),
    postgresql_where=session_issues.c.next_at.is_not(None),
)
Index(
    "ix_session_issues_running",
    session_issues.c.session_id,
    sqlite_where=literal_column("NOT (ended AND told)"),
    postgresql_where=literal_column("NOT (ended AND told)"),
)
