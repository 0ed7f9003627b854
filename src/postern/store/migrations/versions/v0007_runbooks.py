"""Runbooks from git, and issues in a tracker."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("sessions", sa.Column("runbook", sa.JSON(), nullable=True))
    _repositories()
    _rules()
    _schedules()
    _hooks()
    _issues()


def _repositories() -> None:
    op.create_table(
        "runbook_repositories",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("git_url", sa.String(2048), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("git_user", sa.String(255), nullable=False),
        sa.Column("ssh_user", sa.String(255), nullable=False),
        sa.Column("ssh_known_hosts", sa.Text(), nullable=False),
        sa.Column("branch", sa.String(255), nullable=False),
        sa.Column("hook_ttl", sa.Integer(), nullable=False),
        sa.Column("secrets", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_runbook_repositories_org_id"),
        sa.PrimaryKeyConstraint("org_id", "id", name="pk_runbook_repositories"),
        sa.UniqueConstraint("org_id", "name", name="uq_runbook_repositories_org_id_name"),
    )
    op.create_table(
        "runbook_snapshots",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("repository_id", sa.Uuid(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        sa.Column("hooks", sa.LargeBinary(), nullable=True),
        sa.Column("commit_id", sa.String(64), nullable=True),
        sa.Column("fetched_at", _MOMENT, nullable=True),
        sa.Column("tried_at", _MOMENT, nullable=False),
        sa.Column("settings_at", _MOMENT, nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["org_id", "repository_id"],
            ["runbook_repositories.org_id", "runbook_repositories.id"],
            name="fk_runbook_snapshots_org_id_repository_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("org_id", "repository_id", name="pk_runbook_snapshots"),
    )


def _rules() -> None:
    op.create_table(
        "runbook_rules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("runbooks", sa.JSON(), nullable=False),
        sa.Column("everywhere", sa.Boolean(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_runbook_rules_org_id"),
        sa.PrimaryKeyConstraint("id", name="pk_runbook_rules"),
        sa.UniqueConstraint("org_id", "name", name="uq_runbook_rules_org_id_name"),
    )
    op.create_table(
        "runbook_rule_groups",
        sa.Column("rule_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["runbook_rules.id"], name="fk_runbook_rule_groups_rule_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("rule_id", "name", name="pk_runbook_rule_groups"),
    )
    op.create_table(
        "runbook_rule_connections",
        sa.Column("rule_id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["runbook_rules.id"], name="fk_runbook_rule_connections_rule_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["connection_id"],
            ["connections.id"],
            name="fk_runbook_rule_connections_connection_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rule_id", "connection_id", name="pk_runbook_rule_connections"),
    )
    op.create_index("ix_runbook_rule_connections_connection_id", "runbook_rule_connections", ["connection_id"])


def _schedules() -> None:
    op.create_table(
        "runbook_schedules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("repository", sa.String(512), nullable=False),
        sa.Column("file", sa.String(1024), nullable=False),
        sa.Column("cron", sa.String(128), nullable=False),
        sa.Column("zone", sa.String(64), nullable=False),
        sa.Column("parameters", sa.LargeBinary(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_at", _MOMENT, nullable=True),
        sa.Column("last_at", _MOMENT, nullable=True),
        sa.Column("last_session_id", sa.Uuid(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_runbook_schedules_org_id"),
        sa.ForeignKeyConstraint(
            ["connection_id"], ["connections.id"], name="fk_runbook_schedules_connection_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runbook_schedules"),
        sa.UniqueConstraint("org_id", "name", name="uq_runbook_schedules_org_id_name"),
    )
    for column in ("owner_id", "connection_id", "next_at"):
        op.create_index(f"ix_runbook_schedules_{column}", "runbook_schedules", [column])


def _hooks() -> None:
    op.create_table(
        "session_hooks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("repository", sa.String(512), nullable=False),
        sa.Column("commit_id", sa.String(64), nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("output", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_session_hooks_org_id"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_session_hooks_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_session_hooks"),
    )
    columns = ["session_id", "started_at", "id"]
    op.create_index("ix_session_hooks_session_id_started_at_id", "session_hooks", columns)


def _issues() -> None:
    op.create_table(
        "issue_templates",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("project_key", sa.String(255), nullable=False),
        sa.Column("request_type_id", sa.String(255), nullable=False),
        sa.Column("transition", sa.String(255), nullable=False),
        sa.Column("mappings", sa.JSON(), nullable=False),
        sa.Column("prompts", sa.JSON(), nullable=False),
        sa.Column("cmdb", sa.JSON(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_issue_templates_org_id"),
        sa.PrimaryKeyConstraint("id", name="pk_issue_templates"),
        sa.UniqueConstraint("org_id", "name", name="uq_issue_templates_org_id_name"),
    )
    op.create_table(
        "session_issues",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("new", sa.LargeBinary(), nullable=False),
        sa.Column("transition", sa.String(255), nullable=False),
        sa.Column("key", sa.String(255), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.Column("told", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", _MOMENT, nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_session_issues_org_id"),
        sa.PrimaryKeyConstraint("session_id", name="pk_session_issues"),
    )
    op.create_index("ix_session_issues_org_id", "session_issues", ["org_id", "created_at", "session_id"])
    for name, columns, condition in (
        ("due", ["org_id", "next_at"], "next_at IS NOT NULL"),
        ("running", ["session_id"], "NOT (ended AND told)"),
    ):
        where = sa.text(condition)
        op.create_index(
            f"ix_session_issues_{name}", "session_issues", columns, sqlite_where=where, postgresql_where=where
        )
    # What stood there until now was checked by nobody, and there was no template that it could have named.
    op.execute(sa.text("update connections set issue_template_id = null where issue_template_id is not null"))
    op.create_index("ix_connections_issue_template_id", "connections", ["issue_template_id"])
