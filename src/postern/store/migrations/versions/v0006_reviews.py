"""Reviews, the rules that ask for them, and what they are bound to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import SchemaItem

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)

# What sinks are for, by today's names; a refusal has an event of its own now.
_EVENTS = {
    "session.opened": ["session.open"],
    "session.ended": ["session.close"],
    "session.killed": ["session.kill"],
    "session.refused": ["guardrail.violation"],
    "question.asked": ["review.created"],
    "question.closed": ["review.approved", "review.rejected", "review.expired", "review.withdrawn"],
}


def upgrade() -> None:
    op.add_column("connections", sa.Column("place", sa.Uuid(), nullable=True))
    op.execute("UPDATE connections SET place = id")
    with op.batch_alter_table("connections") as batch:
        batch.alter_column("place", existing_type=sa.Uuid(), nullable=False)
    op.add_column("credentials", sa.Column("maker_id", sa.Uuid(), nullable=True))
    op.add_column("api_keys", sa.Column("maker_id", sa.Uuid(), nullable=True))
    op.add_column("sessions", sa.Column("review_id", sa.Uuid(), nullable=True))
    some: sa.ColumnElement[bool] = sa.literal_column("review_id IS NOT NULL")
    columns = ["org_id", "review_id", "start_date", "id"]
    op.create_index("ix_sessions_review_id", "sessions", columns, sqlite_where=some, postgresql_where=some)
    _reviews()
    _about_reviews()
    _rules()
    _chats()
    _violations()
    _rename_events()


def _reviews() -> None:
    op.create_table(
        "reviews",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("place", sa.Uuid(), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("means", sa.String(128), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=True),
        sa.Column("connection", sa.String(128), nullable=False),
        sa.Column("owner", sa.JSON(), nullable=False),
        sa.Column("makers", sa.JSON(), nullable=False),
        sa.Column("demands", sa.JSON(), nullable=False),
        sa.Column("asked_by", sa.String(64), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("estimate", sa.JSON(), nullable=True),
        sa.Column("access_duration", sa.Integer(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("decided_at", _MOMENT, nullable=True),
        sa.Column("ended_at", _MOMENT, nullable=True),
        sa.Column("revoke_at", _MOMENT, nullable=True),
        sa.Column("time_window", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_reviews_org_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_reviews_session_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_reviews"),
    )
    op.create_index("ix_reviews_session_id", "reviews", ["session_id"], unique=False)
    op.create_index("ix_reviews_org_id_created_at_id", "reviews", ["org_id", "created_at", "id"], unique=False)
    op.create_index(
        "ix_reviews_principal_id_connection_id_created_at",
        "reviews",
        ["principal_id", "connection_id", "created_at"],
        unique=False,
    )
    op.create_index("ix_reviews_ended_at", "reviews", ["ended_at"], unique=False)
    some: sa.ColumnElement[bool] = sa.literal_column("ended_at is null")
    op.create_index("ix_reviews_open", "reviews", ["org_id", "status"], sqlite_where=some, postgresql_where=some)


def _about_reviews() -> None:
    op.create_table(
        "review_groups",
        sa.Column("review_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name="fk_review_groups_review_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("review_id", "name", name="pk_review_groups"),
    )
    op.create_table(
        "review_voices",
        sa.Column("review_id", sa.Uuid(), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("reviewer", sa.JSON(), nullable=False),
        sa.Column("choice", sa.String(16), nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("forced", sa.Boolean(), nullable=False),
        sa.Column("own", sa.Boolean(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name="fk_review_voices_review_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("review_id", "principal_id", "choice", name="pk_review_voices"),
    )
    op.create_table(
        "review_news",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("review_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name="fk_review_news_review_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_review_news"),
    )
    op.create_index("ix_review_news_review_id", "review_news", ["review_id"], unique=False)
    op.create_index("ix_review_news_at", "review_news", ["at"], unique=False)


def _chats() -> None:
    for name in ("options", "scope"):
        op.add_column("sinks", sa.Column(name, sa.JSON(), nullable=False, server_default="{}"))
    op.create_table(
        "chat_messages",
        sa.Column("sink_id", sa.Uuid(), nullable=False),
        sa.Column("review_id", sa.Uuid(), nullable=False),
        sa.Column("channel", sa.String(255), nullable=False),
        sa.Column("reference", sa.String(255), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["sink_id"], ["sinks.id"], name="fk_chat_messages_sink_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name="fk_chat_messages_review_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sink_id", "review_id", name="pk_chat_messages"),
    )
    op.create_index("ix_chat_messages_review_id", "chat_messages", ["review_id"], unique=False)
    op.create_table(
        "chat_links",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("realm", sa.String(64), nullable=False),
        sa.Column("chat_id", sa.String(128), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_chat_links_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["users.id"], name="fk_chat_links_principal_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_chat_links"),
        sa.UniqueConstraint("org_id", "realm", "chat_id", name="uq_chat_links_org_id_realm_chat_id"),
    )
    op.create_index("ix_chat_links_principal_id", "chat_links", ["principal_id"], unique=False)


def _rules() -> None:
    op.create_table(
        "review_rules",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("access_type", sa.String(16), nullable=False),
        sa.Column("connection_tags", sa.JSON(), nullable=False),
        sa.Column("all_groups", sa.Boolean(), nullable=False),
        sa.Column("min_approvals", sa.Integer(), nullable=False),
        sa.Column("max_duration", sa.Integer(), nullable=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_review_rules_org_id"),
        sa.PrimaryKeyConstraint("id", name="pk_review_rules"),
        sa.UniqueConstraint("org_id", "name", name="uq_review_rules_org_id_name"),
    )
    for table, column in (("review_rule_groups", "name"), ("review_rule_connections", "connection_id")):
        is_groups = column == "name"
        parts: list[SchemaItem] = [
            sa.Column("rule_id", sa.Uuid(), nullable=False),
            *([sa.Column("part", sa.String(16), nullable=False)] if is_groups else []),
            sa.Column(column, sa.String(128) if is_groups else sa.Uuid(), nullable=False),
            sa.ForeignKeyConstraint(["rule_id"], ["review_rules.id"], name=f"fk_{table}_rule_id", ondelete="CASCADE"),
        ]
        if not is_groups:
            parts.append(
                sa.ForeignKeyConstraint(
                    ["connection_id"], ["connections.id"], name=f"fk_{table}_connection_id", ondelete="CASCADE"
                )
            )
        key = ["rule_id", *(["part"] if is_groups else []), column]
        op.create_table(table, *parts, sa.PrimaryKeyConstraint(*key, name=f"pk_{table}"))
    op.create_index("ix_review_rule_connections_connection_id", "review_rule_connections", ["connection_id"])


def _violations() -> None:
    op.create_table(
        "violations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("org_id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("connection", sa.String(128), nullable=False),
        sa.Column("user", sa.String(320), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("left_out", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=True),
        sa.Column("at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name="fk_violations_org_id"),
        sa.PrimaryKeyConstraint("id", name="pk_violations"),
    )
    op.create_index("ix_violations_at_session_id_number", "violations", ["at", "session_id", "number"], unique=False)


def _rename_events() -> None:
    """Of sinks, and of what waits for them. What has become something else is not told in its old shape: the session
    and the audit log say it."""
    connection = op.get_bind()
    sinks = sa.table("sinks", sa.column("id", sa.Uuid()), sa.column("events", sa.JSON()))
    for key, events in connection.execute(sa.select(sinks.c.id, sinks.c.events)).all():
        named = list(dict.fromkeys(new for old in events for new in _EVENTS.get(old, [old])))
        connection.execute(sa.update(sinks).where(sinks.c.id == key).values(events=named))
    deliveries = sa.table("deliveries", sa.column("event", sa.String()), sa.column("body", sa.Text()))
    for old in ("session.opened", "session.ended", "session.killed"):
        (new,) = _EVENTS[old]
        body = sa.func.replace(deliveries.c.body, f'"type":"{old}"', f'"type":"{new}"')
        connection.execute(sa.update(deliveries).where(deliveries.c.event == old).values(event=new, body=body))
    gone = ("session.refused", "question.asked", "question.closed")
    connection.execute(sa.delete(deliveries).where(deliveries.c.event.in_(gone)))
