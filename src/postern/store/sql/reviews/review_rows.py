"""Conversion between the rows of reviews and the domain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, select

from postern.domain.reviews.review import (
    ApprovalRequirement,
    Binding,
    Choice,
    Person,
    Review,
    ReviewedCredential,
    ReviewKind,
    Vote,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TIME_RANGE, TimeWindow, configuration, time_window
from postern.store.prepared import Row
from postern.store.schema.review_tables import review_voices

_BINDING = ("principal_id", "connection_id", "place", "source", "means")
_PLAIN = (
    *("id", "org_id", "session_id", "connection", "reason", "input", "estimate", "access_duration"),
    *("created_at", "expires_at", "decided_at", "revoke_at", "withdrawal_reason"),
)


def review_values(review: Review) -> dict[str, Any]:
    """Return all columns of its row; votes have rows of their own."""
    values: dict[str, Any] = {name: getattr(review, name) for name in _PLAIN}
    values |= {name: getattr(review.binding, name) for name in _BINDING}
    estimate = None if review.estimate is None else dict(review.estimate)
    return values | {
        "kind": review.kind,
        "status": review.status,
        "owner": person_values(review.owner),
        "makers": [person_values(maker) for maker in review.makers],
        "credential_id": None if review.credential is None else review.credential.id,
        "credential_username": None if review.credential is None else review.credential.username,
        "demands": [_demand_values(demand) for demand in review.demands],
        "asked_by": requirements_digest(review.demands),
        "estimate": estimate,
        "time_window": window_values(review.time_window),
    }


def review_of(row: Row, voices: Iterable[Vote] = ()) -> Review:
    window = row["time_window"]
    return Review(
        **{name: row[name] for name in _PLAIN},
        kind=ReviewKind(row["kind"]),
        status=ReviewStatus(row["status"]),
        owner=_person_of(row["owner"]),
        binding=Binding(**{name: row[name] for name in _BINDING}),
        makers=tuple(_person_of(values) for values in row["makers"]),
        credential=_credential_of(row),
        demands=tuple(_demand_of(values) for values in row["demands"]),
        time_window=None if window is None else time_window(TIME_RANGE, window),
        voices=tuple(voices),
    )


def _credential_of(row: Row) -> ReviewedCredential | None:
    key = row["credential_id"]
    return None if key is None else ReviewedCredential(key, row["credential_username"])


def load(connection: Connection, which: Select[Any]) -> list[Review]:
    """Return reviews with their votes, in the order in which they are selected."""
    rows = connection.execute(which).mappings().all()
    if not rows:
        return []
    ids = {row["id"] for row in rows}
    query = select(*review_voices.c).where(review_voices.c.review_id.in_(ids))
    ordered = query.order_by(review_voices.c.at, review_voices.c.principal_id)
    voices: dict[UUID, list[Vote]] = {}
    for row in connection.execute(ordered).mappings():
        voices.setdefault(row["review_id"], []).append(voice_of(row))
    return [review_of(row, voices.get(row["id"], ())) for row in rows]


def voice_values(review_id: UUID, voice: Vote) -> dict[str, Any]:
    return {
        "review_id": review_id,
        "principal_id": voice.reviewer.principal_id,
        "reviewer": person_values(voice.reviewer),
        "choice": voice.choice,
        "groups": sorted(voice.groups),
        "at": voice.at,
        "forced": voice.forced,
        "own": voice.own,
        "comment": voice.comment,
    }


def voice_of(row: Row, prefix: str = "") -> Vote:
    return Vote(
        reviewer=_person_of(row[prefix + "reviewer"]),
        choice=Choice(row[prefix + "choice"]),
        groups=frozenset(row[prefix + "groups"]),
        at=row[prefix + "at"],
        forced=row[prefix + "forced"],
        own=row[prefix + "own"],
        comment=row[prefix + "comment"],
    )


def requirements_digest(demands: Sequence[ApprovalRequirement]) -> str:
    """Return a digest of the requirements."""
    written = json.dumps([_demand_values(demand.ordered) for demand in demands], sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()


def window_values(window: TimeWindow | None) -> dict[str, str] | None:
    return None if window is None else configuration(window)


def person_values(person: Person) -> dict[str, Any]:
    return {
        "principal_id": None if person.principal_id is None else str(person.principal_id),
        "subject": person.subject,
        "email": person.email,
        "name": person.name,
        "chat_id": person.chat_id,
    }


def _person_of(values: Mapping[str, Any]) -> Person:
    key = values["principal_id"]
    return Person(**{**values, "principal_id": None if key is None else UUID(key)})


def _demand_values(demand: ApprovalRequirement) -> dict[str, Any]:
    return {
        "rule": demand.rule,
        "groups": list(demand.groups),
        "min_approvals": demand.min_approvals,
        "all_groups": demand.all_groups,
        "force_groups": list(demand.force_groups),
    }


def _demand_of(values: Mapping[str, Any]) -> ApprovalRequirement:
    return ApprovalRequirement(
        **{**values, "groups": tuple(values["groups"]), "force_groups": tuple(values["force_groups"])}
    )
