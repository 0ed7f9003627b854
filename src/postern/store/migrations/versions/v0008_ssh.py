"""SSH: the public keys of users, whose certificates count, the keys of targets, and what its clients may ask for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_SWITCHES = (
    ("access_forward_local", "disabled"),
    ("access_forward_remote", "disabled"),
    ("access_forward_agent", "disabled"),
    ("access_file_transfer", "enabled"),
)


def upgrade() -> None:
    for name, default in _SWITCHES:
        op.add_column("connections", sa.Column(name, sa.String(16), nullable=False, server_default=default))
    _stay_commands()
    _keys()
    _authorities()
    _host_keys()


def _stay_commands() -> None:
    """Neither SSH nor MySQL itself was spoken with anybody: what had a command ran that, and does so from now on as
    what it is."""
    op.execute(
        sa.text(
            "update connections set type = 'custom', subtype = '' "
            "where subtype in ('ssh', 'mysql') and cast(command as text) not in ('[]', 'null')"
        )
    )


def _keys() -> None:
    op.create_table(
        "ssh_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("algorithm", sa.String(64), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("last_used_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_ssh_keys_org_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_ssh_keys_user_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_ssh_keys"),
        sa.UniqueConstraint("org_id", "fingerprint", name="uq_ssh_keys_org_id_fingerprint"),
        sa.UniqueConstraint("user_id", "name", name="uq_ssh_keys_user_id_name"),
    )
    op.create_index("ix_ssh_keys_fingerprint", "ssh_keys", ["fingerprint"])


def _authorities() -> None:
    op.create_table(
        "ssh_authorities",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("algorithm", sa.String(64), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_ssh_authorities_org_id"),
        sa.PrimaryKeyConstraint("id", name="pk_ssh_authorities"),
        sa.UniqueConstraint("fingerprint", name="uq_ssh_authorities_fingerprint"),
        sa.UniqueConstraint("org_id", "name", name="uq_ssh_authorities_org_id_name"),
    )


def _host_keys() -> None:
    op.create_table(
        "host_keys",
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("place", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("algorithm", sa.String(64), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("pinned_at", _MOMENT, nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_host_keys_org_id"),
        sa.ForeignKeyConstraint(
            ["connection_id"], ["connections.id"], name="fk_host_keys_connection_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("connection_id", "place", name="pk_host_keys"),
    )
