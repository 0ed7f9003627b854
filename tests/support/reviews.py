"""Reviews made and decided straight in the store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import (
    WAITS,
    ApprovalRequirement,
    Binding,
    Choice,
    Person,
    Review,
    ReviewKind,
    person_of,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.review_weighing import Ruling, Seat, Weighed, weigh
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.sessions.session import Session, SessionStatus, Verb
from postern.errors import Conflict
from postern.store.ports.review_ports import Moved

REVIEWERS = "dba"
ASKS = (ApprovalRequirement("", (REVIEWERS,), all_groups=True),)


def new_review(world: World, owner: Principal | None = None, **fields: Any) -> Review:
    """Of a stranger, unless told, and for a place of its own; nothing is in the store yet."""
    kind = fields.get("kind", ReviewKind.JIT)
    at = fields.get("created_at", START)
    person = Person(uuid4(), "stranger", f"{uuid4()}@example.com") if owner is None else person_of(owner)
    assert person.principal_id is not None
    values: dict[str, Any] = {
        "id": uuid4(),
        "org_id": world.org_id,
        "kind": kind,
        "status": ReviewStatus.PENDING,
        "owner": person,
        "binding": Binding(person.principal_id, UUID(int=7), uuid4(), "192.0.2.1", "credential:1"),
        "connection": "shop",
        "demands": ASKS,
        "created_at": at,
        "expires_at": at + WAITS[kind],
        "access_duration": 1_800 if kind is ReviewKind.JIT else 0,
    }
    return Review(**(values | fields))


def session_of(review: Review, **fields: Any) -> tuple[Review, Session]:
    """The review with a session that waits for it, or, for a statement, one that runs."""
    is_statement = review.kind is ReviewKind.STATEMENT
    values: dict[str, Any] = {
        "id": uuid4(),
        "org_id": review.org_id,
        "connection_id": review.binding.connection_id,
        "connection": review.connection,
        "connection_subtype": "postgres",
        "connection_tags": {},
        "type": "database",
        "verb": Verb.EXEC if review.kind is ReviewKind.ONETIME else Verb.CONNECT,
        "status": SessionStatus.OPEN,
        "user": review.owner.email,
        "user_id": review.owner.subject,
        "user_name": review.owner.name,
        "start_date": review.created_at,
        "script": "select 1" if review.kind is ReviewKind.ONETIME else None,
        "worker": "w0" if is_statement else None,
        "review_id": None if is_statement else review.id,
    }
    session = Session(**(values | fields))
    return replace(review, session_id=session.id), session


async def _place(world: World, review: Review) -> None:
    """The connection that it is about."""
    key = review.binding.connection_id
    if await world.stores.connections.get(review.org_id, str(key)) is None:
        with suppress(Conflict):  # another one at the same moment has added it
            await world.add_connection(f"asks-{key}", id=key, reviewers=review.groups)


async def asked(world: World, owner: Principal | None = None, **fields: Any) -> Review:
    """In the store, with its session."""
    review, session = session_of(new_review(world, owner, **fields))
    await _place(world, review)
    if review.kind is ReviewKind.STATEMENT:
        principal_id = review.binding.principal_id
        await world.stores.sessions.add(session, principal_id=principal_id, source="192.0.2.1")
        return await world.stores.reviews.add(review, None, source="192.0.2.1")
    return await world.stores.reviews.add(review, session, source="192.0.2.1")


async def decided(
    world: World,
    review: Review,
    reviewer: Principal,
    choice: Choice = Choice.APPROVED,
    *,
    at: datetime | None = None,
    force: bool = False,
    comment: str = "",
    window: TimeWindow | None = None,
    own_allowed: bool = False,
) -> Moved:
    """By the domain's own rules. Raises what they raise."""
    ruling = Ruling(choice, at or review.created_at, force, comment, window)

    def rule(locked: Review, seats: Mapping[UUID, Seat]) -> Weighed:
        return weigh(locked, person_of(reviewer), ruling, seats, own_allowed=own_allowed)

    return await world.stores.reviews.decide(review.id, reviewer.id, rule, ruling.at)


async def session_now(world: World, review: Review) -> Session:
    """The one that waits for it, or whose statement it is."""
    assert review.session_id is not None
    found = await world.stores.sessions.get(world.org_id, review.session_id)
    assert found is not None
    return found


async def kept(world: World, review: Review) -> Review:
    """As it is in the store."""
    found = await world.stores.reviews.get(review.id)
    assert found is not None
    return found


def others_than(binding: Binding) -> list[Binding]:
    """Each differs in one thing."""
    return [
        replace(binding, principal_id=uuid4()),
        replace(binding, connection_id=uuid4()),
        replace(binding, place=uuid4()),
        replace(binding, source="192.0.2.99"),
        replace(binding, means="key:2"),
    ]
