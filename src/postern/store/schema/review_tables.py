"""Tables of reviews, votes, and review rules."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    Uuid,
    literal_column,
)

from postern.store.schema.columns import Utc, metadata, owner, resource_table

reviews = Table(
    "reviews",
    metadata,
    Column("id", Uuid, primary_key=True),
    owner(),
    Column("kind", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    # The binding of what is given.
    Column("principal_id", Uuid, nullable=False),
    Column("connection_id", Uuid, nullable=False),
    Column("place", Uuid, nullable=False),
    Column("source", String(255), nullable=False),
    Column("means", String(128), nullable=False),
    # The credential of the client, by its id and its name at that time: the review outlives it.
    Column("credential_id", Uuid),
    Column("credential_username", String(64)),
    # The session that waits for it, or whose statement it is.
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), index=True),
    Column("connection", String(128), nullable=False),
    Column("owner", JSON, nullable=False),  # a Person
    Column("makers", JSON, nullable=False),
    Column("demands", JSON, nullable=False),
    Column("asked_by", String(64), nullable=False),  # a digest of the demands, to find the like
    Column("reason", Text, nullable=False),
    Column("input", Text, nullable=False),
    Column("estimate", JSON),
    Column("access_duration", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False),
    Column("decided_at", Utc),
    Column("ended_at", Utc),  # since when it is final
    Column("revoke_at", Utc),
    Column("withdrawal_reason", Text, nullable=False),  # empty unless the gateway withdrew it
    Column("time_window", JSON),
    Index(None, "org_id", "created_at", "id"),
    Index(None, "org_id", "principal_id", "created_at", "id"),
    Index(None, "principal_id", "connection_id", "created_at"),
    Index(None, "ended_at"),
    Index(
        "ix_reviews_open",
        "org_id",
        "status",
        sqlite_where=literal_column("ended_at is null"),
        postgresql_where=literal_column("ended_at is null"),
    ),
)

# Names, not ids, of groups, as in access rules. A row for each group that may review or force.
review_groups = Table(
    "review_groups",
    metadata,
    Column("review_id", Uuid, ForeignKey("reviews.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True),
)

# One person counts once: one row for each reviewer, and one more where they take back what they approved.
review_voices = Table(
    "review_voices",
    metadata,
    Column("review_id", Uuid, ForeignKey("reviews.id", ondelete="CASCADE"), primary_key=True),
    Column("principal_id", Uuid, primary_key=True),
    Column("reviewer", JSON, nullable=False),  # a Person
    Column("choice", String(16), primary_key=True),
    Column("groups", JSON, nullable=False),
    Column("at", Utc, nullable=False),
    Column("forced", Boolean, nullable=False),
    Column("own", Boolean, nullable=False),
    Column("comment", Text, nullable=False),
)

# What is yet to be told; written by the transaction that did it, deleted by the one that tells it.
review_news = Table(
    "review_news",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("review_id", Uuid, ForeignKey("reviews.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("at", Utc, nullable=False, index=True),
)

review_rules = resource_table(
    "review_rules",
    Column("description", Text, nullable=False),
    Column("access_type", String(16), nullable=False),
    Column("connection_tags", JSON, nullable=False),
    Column("all_groups", Boolean, nullable=False),
    Column("min_approvals", Integer, nullable=False),
    Column("max_duration", Integer),
)

# `part`: reviewers, force, required or skip.
review_rule_groups = Table(
    "review_rule_groups",
    metadata,
    Column("rule_id", Uuid, ForeignKey("review_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("part", String(16), primary_key=True),
    Column("name", String(128), primary_key=True),
)

review_rule_connections = Table(
    "review_rule_connections",
    metadata,
    Column("rule_id", Uuid, ForeignKey("review_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("connection_id", Uuid, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True, index=True),
)
