"""Logins, vouchers, API keys, machine identities, second factors, groups with sources, access rules, settings, data
keys."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    _columns()
    _groups()
    _logins()
    _programs()
    _access()
    _server()


def _columns() -> None:
    op.add_column("orgs", sa.Column("admin_group", sa.String(128), nullable=False, server_default="admin"))
    op.add_column("orgs", sa.Column("auditor_group", sa.String(128), nullable=False, server_default="auditor"))
    op.add_column("users", sa.Column("issuer", sa.String(512), nullable=False, server_default=""))
    op.add_column("users", sa.Column("verified", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("users", sa.Column("picture", sa.Text(), nullable=False, server_default=""))
    op.add_column("users", sa.Column("external_id", sa.String(255)))
    op.add_column("users", sa.Column("user_name", sa.String(255)))
    op.create_index("uq_users_org_id_user_name", "users", ["org_id", "user_name"], unique=True)
    op.add_column("users", sa.Column("last_login_at", _MOMENT))
    op.execute("ALTER TABLE users DROP COLUMN token_generation")  # a token belongs to a login now, which can be ended
    op.add_column("audit_log", sa.Column("actor_subject", sa.String(255), nullable=False, server_default=""))
    op.add_column("audit_log", sa.Column("outcome", sa.String(16), nullable=False, server_default="success"))
    op.add_column("audit_log", sa.Column("before", sa.JSON()))
    op.add_column("audit_log", sa.Column("after", sa.JSON()))
    op.execute("UPDATE audit_log SET outcome = 'failure' WHERE status >= 400")


def _groups() -> None:
    """A membership has a source; what was there before was given by hand. Every group has a row of its own."""
    op.create_table(
        "groups",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("external_id", sa.String(255)),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_groups_org_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        sa.UniqueConstraint("org_id", "name", name=op.f("uq_groups_org_id_name")),
    )
    bind = op.get_bind()
    members = list(bind.execute(sa.text("SELECT user_id, name FROM user_groups")))
    used = bind.execute(sa.text("SELECT u.org_id, g.name FROM user_groups g JOIN users u ON u.id = g.user_id"))
    known = {(org, name) for org, name in used} | {
        (org, name) for (org,) in bind.execute(sa.text("SELECT id FROM orgs")) for name in ("admin", "auditor")
    }
    op.drop_table("user_groups")
    op.create_table(
        "user_groups",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_user_groups_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "name", "source", name=op.f("pk_user_groups")),
    )
    for user_id, name in members:
        bind.execute(sa.text("INSERT INTO user_groups VALUES (:u, :n, 'manual')"), {"u": user_id, "n": name})
    made = sa.table(
        *("groups", sa.column("id", sa.Uuid()), sa.column("org_id")),
        *(sa.column("name"), sa.column("created_at", _MOMENT)),
    )
    for org_id, name in sorted(known, key=str):
        row = {"id": uuid4(), "org_id": org_id, "name": name, "created_at": datetime.now(UTC)}
        bind.execute(sa.insert(made).values(row))


def _logins() -> None:
    op.create_table(
        "logins",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("method", sa.String(16), nullable=False),
        sa.Column("client", sa.String(16), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("user_agent", sa.String(255), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("ends_at", _MOMENT, nullable=False),
        sa.Column("provider_expires_at", _MOMENT),
        sa.Column("provider_refresh", sa.LargeBinary()),
        sa.Column("ended_at", _MOMENT),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_logins_org_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_logins_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_logins")),
    )
    op.create_index(op.f("ix_logins_user_id"), "logins", ["user_id"])
    op.create_index(op.f("ix_logins_ends_at"), "logins", ["ends_at"])
    op.create_table(
        "vouchers",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("purpose", sa.String(32), nullable=False),
        sa.Column("user_id", sa.Uuid()),
        sa.Column("source", sa.String(64)),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_vouchers_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_vouchers")),
    )
    op.create_index(op.f("ix_vouchers_user_id"), "vouchers", ["user_id"])
    op.create_index(op.f("ix_vouchers_purpose"), "vouchers", ["purpose"])
    op.create_index(op.f("ix_vouchers_source"), "vouchers", ["source"])
    op.create_index(op.f("ix_vouchers_expires_at"), "vouchers", ["expires_at"])
    op.create_table(
        "second_factors",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("material", sa.LargeBinary(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("confirmed_at", _MOMENT),
        sa.Column("last_used_at", _MOMENT),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_second_factors_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_second_factors")),
    )
    op.create_index(op.f("ix_second_factors_user_id"), "second_factors", ["user_id"])


def _programs() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("shown", sa.String(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("allowed_networks", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.String(320), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT),
        sa.Column("last_used_at", _MOMENT),
        sa.Column("revoked_at", _MOMENT),
        sa.Column("revoked_by", sa.String(320)),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_api_keys_org_id")),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["users.id"], name=op.f("fk_api_keys_principal_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
        sa.UniqueConstraint("org_id", "name", name=op.f("uq_api_keys_org_id_name")),
    )
    op.create_index(op.f("ix_api_keys_principal_id"), "api_keys", ["principal_id"])
    op.create_table(
        "machines",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("attributes", sa.JSON(), nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_machines_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_machines")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(32), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["users.id"], name=op.f("fk_idempotency_keys_principal_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("principal_id", "digest", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"])


def _access() -> None:
    op.create_table(
        "access_rules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("connection_tags", sa.JSON(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_access_rules_org_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_rules")),
        sa.UniqueConstraint("org_id", "name", name=op.f("uq_access_rules_org_id_name")),
    )
    op.create_table(
        "access_rule_groups",
        sa.Column("rule_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["access_rules.id"], name=op.f("fk_access_rule_groups_rule_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("rule_id", "name", name=op.f("pk_access_rule_groups")),
    )
    op.create_table(
        "access_rule_connections",
        sa.Column("rule_id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["access_rules.id"], name=op.f("fk_access_rule_connections_rule_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["connection_id"],
            ["connections.id"],
            name=op.f("fk_access_rule_connections_connection_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rule_id", "connection_id", name=op.f("pk_access_rule_connections")),
    )
    op.create_index(op.f("ix_access_rule_connections_connection_id"), "access_rule_connections", ["connection_id"])


def _server() -> None:
    op.drop_table("signing_keys")  # the tokens that its key signed name no login, and are not good any more
    op.create_table(
        "token_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("private", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("retired_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token_keys")),
    )
    op.create_table(
        "data_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid()),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("master", sa.String(255), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("retired_at", _MOMENT),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_data_keys_org_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_data_keys")),
    )
    op.create_table(
        "org_settings",
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_org_settings_org_id")),
        sa.PrimaryKeyConstraint("org_id", "name", name=op.f("pk_org_settings")),
    )
