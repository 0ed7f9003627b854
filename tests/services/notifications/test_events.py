"""What events say, and that each is told once, in order, whatever dies in between."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import jsonschema_rs
import pytest
from tests.support.ended import begin, end
from tests.support.reviews import REVIEWERS, asked, decided
from tests.support.sinks import sink_fields
from tests.support.world import START, World

from postern.api.schemas.server.event_schemas import DIALECT, event_schemas
from postern.domain.event import CHOSEN, EVENTS, OF_REVIEWS, EventKind
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import (
    ApprovalRequirement,
    Choice,
    Review,
    ReviewEvent,
    ReviewKind,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.violation import Violation
from postern.domain.sessions.session import EndReason
from postern.domain.sink import NewDelivery, SinkKind
from postern.domain.targets.connection import Connection
from postern.errors import Unavailable
from postern.services.bundle import Services
from postern.services.notifications.payloads import DATA
from postern.services.notifications.session_postprocessing import BATCH
from postern.store.ports.review_ports import ReviewChange

ADDRESS = "https://siem.example.com/postern"
REVIEWS = tuple(kind for kind in EventKind if kind.startswith("review."))


@dataclass
class Desk:
    """Three people, a connection, and sinks whose deliveries are looked at as they wait."""

    world: World
    services: Services
    admin: Principal
    ann: Principal
    bob: Principal
    shop: Connection

    async def sink(self, name: str = "siem", **fields: Any) -> UUID:
        given = sink_fields(name, SinkKind.WEBHOOK, ADDRESS, CHOSEN) | fields
        sink = await self.services.sinks.create(self.admin, given)
        self.world.clock.forward(seconds=1)
        return sink.id

    async def told(self, sink_id: UUID) -> list[dict[str, Any]]:
        """All that there is to tell by now, in the order in which it goes out; each is as its schema says."""
        while await self.services.postprocessing.once():
            pass
        waiting = await self.world.stores.deliveries.waiting(sink_id, 10_000)
        events = [json.loads(one.body) for one in waiting]
        for event, delivery in zip(events, waiting, strict=True):
            assert (event["id"], event["type"]) == (str(delivery.event_id), delivery.event)
            VALIDATORS[event["type"]].validate(event)
        return events

    async def asked(self, **fields: Any) -> Review:
        return await asked(self.world, self.ann, created_at=self.world.clock(), **fields)


def closed(schema: Any) -> Any:
    """The same, and nothing else may be said: what is published lets fields be added."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(one) for name, one in schema.items()}
    return found | ({"additionalProperties": False} if "required" in schema else {})


VALIDATORS = {
    kind: jsonschema_rs.Draft202012Validator(closed(schema), validate_formats=True)
    for kind, schema in event_schemas().items()
}


@pytest.fixture
async def desk(world: World) -> Desk:
    admin = await world.add_user("admin", "admin")
    ann = await world.add_user("ann")
    bob = await world.add_user("bob", REVIEWERS)
    return Desk(world, world.services(), admin, ann, bob, await world.add_connection("shop"))


def violation(desk: Desk, session_id: UUID, number: int = 1, **fields: Any) -> Violation:
    given = Violation(
        id=uuid4(),
        org_id=desk.world.org_id,
        session_id=session_id,
        connection_id=desk.shop.id,
        connection="shop",
        user="ann@example.com",
        user_id="ann",
        number=number,
        left_out=0,
        rule="no drops / 1",
        action="deny",
        message="refused by guardrail",
        statement="drop table orders",
        at=desk.world.clock(),
    )
    return replace(given, **fields)


def test_every_event_is_declared_described_and_has_a_schema() -> None:
    assert set(DATA) == set(EVENTS) == set(EventKind) == set(event_schemas())
    assert set(OF_REVIEWS.values()) == set(REVIEWS)
    assert set(OF_REVIEWS) >= set(ReviewEvent)
    for kind, schema in event_schemas().items():
        jsonschema_rs.meta.validate(schema)
        assert (schema["$schema"], schema["properties"]["type"]) == (DIALECT, {"const": kind})


def test_a_schema_refuses_what_is_no_such_event() -> None:
    event = {"id": str(uuid4()), "type": "sink.test", "timestamp": START.isoformat(), "data": {"sink": "x"}}
    for broken in (event, event | {"data": {"sink": "x", "message": 1}}, event | {"type": "audit.entry"}):
        assert not VALIDATORS["sink.test"].is_valid(broken)
    assert VALIDATORS["sink.test"].is_valid(event | {"data": {"sink": "x", "message": "y"}})


async def test_a_review_is_told_as_it_was_at_each_moment(desk: Desk) -> None:
    sink = await desk.sink(events=REVIEWS)
    two = (ApprovalRequirement("prod", (REVIEWERS,), min_approvals=2, force_groups=("leads",)),)
    carl = await desk.world.add_user("carl", REVIEWERS)
    review = await desk.asked(demands=two, reason="ticket 7")
    later = desk.world.clock() + timedelta(seconds=30)
    agreed = later + timedelta(seconds=5)
    await decided(desk.world, review, desk.bob, at=later, comment="fine")
    await decided(desk.world, review, carl, at=agreed)
    await decided(desk.world, review, carl, Choice.REVOKED, at=agreed + timedelta(seconds=4), comment="enough")
    events = await desk.told(sink)
    assert [one["type"] for one in events] == ["review.created", "review.voiced", "review.approved", "review.revoked"]
    created, voiced, approved, revoked = (one["data"] for one in events)
    assert (created["status"], created["voices"], created["decided_at"], created["revoke_at"]) == (
        *("PENDING", []),
        *(None, None),
    )
    assert (created["type"], created["reason"], created["owner"]["email"]) == ("jit", "ticket 7", "ann@example.com")
    assert (created["demands"][0]["min_approvals"], created["access_duration"]) == (2, 1_800)
    assert [one["reviewed_by"]["email"] for one in voiced["voices"]] == ["bob@example.com"]
    assert (voiced["status"], voiced["voices"][0]["comment"]) == ("PENDING", "fine")
    assert (approved["status"], events[2]["timestamp"]) == ("APPROVED", agreed.isoformat())
    assert revoked["status"] == "REVOKED"
    said = [(one["reviewed_by"]["name"], one["status"], one["comment"]) for one in revoked["voices"]]
    assert said == [("Bob", "APPROVED", "fine"), ("Carl", "APPROVED", ""), ("Carl", "REVOKED", "enough")]


@pytest.mark.parametrize(
    ("kind", "steps", "types"),
    [
        (ReviewKind.JIT, [ReviewEvent.WITHDRAWN], ["review.created", "review.withdrawn"]),
        (ReviewKind.STATEMENT, [ReviewEvent.EXPIRED], ["review.created", "review.expired"]),
        (
            ReviewKind.ONETIME,
            [Choice.APPROVED, ReviewEvent.STARTED, ReviewEvent.FINISHED],
            ["review.created", "review.approved", "review.started", "review.executed"],
        ),
        (ReviewKind.ONETIME, [Choice.REJECTED], ["review.created", "review.rejected"]),
    ],
)
async def test_each_thing_that_happens_to_a_review_is_an_event(
    desk: Desk, kind: ReviewKind, steps: list[Choice | ReviewEvent], types: list[str]
) -> None:
    sink = await desk.sink(events=REVIEWS)
    review = await desk.asked(kind=kind, input="update orders set paid = true" if kind is ReviewKind.STATEMENT else "")
    for step in steps:
        desk.world.clock.forward(seconds=1)
        if isinstance(step, Choice):
            await decided(desk.world, review, desk.bob, step, at=desk.world.clock())
        else:
            at = review.expires_at + timedelta(seconds=1) if step is ReviewEvent.EXPIRED else desk.world.clock()
            assert await desk.world.stores.reviews.move(review.id, step, at) is not None
    events = await desk.told(sink)
    assert [one["type"] for one in events] == types
    assert len({one["id"] for one in events}) == len(types)
    assert all("input" not in one["data"] and one["data"]["type"] == kind for one in events)
    assert await desk.told(sink) == events  # and never again


async def test_statements_are_told_only_where_a_sink_is_for_them(desk: Desk) -> None:
    plain, whole = await desk.sink(), await desk.sink("whole", with_script=True)
    session = await begin(desk.world, desk.ann, desk.shop)
    await desk.world.stores.violations.add([violation(desk, session), violation(desk, session, 2, statement=None)])
    review = await desk.asked(kind=ReviewKind.STATEMENT, input="delete from orders")
    await desk.world.stores.reviews.store_estimate(review.id, {"said": ["DELETE public.orders: 4,711 rows"]})
    shown, full = await desk.told(plain), await desk.told(whole)
    assert [one["id"] for one in shown] == [one["id"] for one in full]
    assert "drop table" not in json.dumps(shown)
    assert "delete from" not in json.dumps(shown)
    assert "public.orders" not in json.dumps(shown)
    by_type = {one["type"]: one["data"] for one in full}
    assert by_type["review.created"]["input"] == "delete from orders"
    assert by_type["review.created"]["estimate"] == {"said": ["DELETE public.orders: 4,711 rows"]}
    statements = [one["data"]["statement"] for one in full if one["type"] == "guardrail.violation"]
    assert statements == ["drop table orders", None]


async def test_violations_are_told_in_their_order_and_before_the_end_of_their_session(desk: Desk) -> None:
    sink = await desk.sink(events=(EventKind.GUARDRAIL_VIOLATION, EventKind.SESSION_CLOSE))
    session = await begin(desk.world, desk.ann, desk.shop)
    many = [violation(desk, session, number) for number in range(1, BATCH + 3)]
    await desk.world.stores.violations.add(many)
    await desk.world.stores.violations.add(many[:3])  # again, by who did not hear that it was done
    await end(desk.world, session)
    events = await desk.told(sink)
    assert [one["data"].get("number") for one in events] == [*range(1, BATCH + 3), None]
    assert events[-1]["type"] == "session.close"


async def test_a_killed_session_says_so(desk: Desk) -> None:
    sink = await desk.sink(with_script=True)
    session = await begin(desk.world, desk.ann, desk.shop)
    await end(desk.world, session, {"EMAIL": 1}, reason=EndReason.KILLED, refused=2)
    events = await desk.told(sink)
    assert [one["type"] for one in events] == ["session.open", "session.close", "session.kill"]
    assert events[1]["data"] == events[2]["data"]


async def test_all_other_events_are_as_their_schemas_say(desk: Desk) -> None:
    sink = await desk.sink()
    await desk.services.audit.record(
        None,
        claimed="ann@example.com",
        action="login",
        resource_type="users",
        resource="ann",
        method="POST",
        path="/api/localauth/login",
        status=401,
        source="::1",
        request_id="r",
        body={"name": "x"},
    )
    await desk.services.sinks.test(desk.admin, "siem")
    assert {one["type"] for one in await desk.told(sink)} == {"audit.entry", "sink.test"}


async def test_what_was_before_a_sink_or_elsewhere_is_not_for_it(desk: Desk) -> None:
    await desk.asked()
    desk.world.clock.forward(seconds=1)
    sink = await desk.sink()
    few = await desk.sink("few", events=(EventKind.REVIEW_APPROVED,))
    review = await desk.asked(kind=ReviewKind.ONETIME)
    await decided(desk.world, review, desk.bob, at=desk.world.clock())
    assert [one["type"] for one in await desk.told(sink)] == ["review.created", "review.approved"]
    assert [one["type"] for one in await desk.told(few)] == ["review.approved"]


async def test_a_process_that_dies_between_what_happened_and_telling_loses_nothing(desk: Desk) -> None:
    sink = await desk.sink(events=(*REVIEWS, EventKind.GUARDRAIL_VIOLATION))
    session = await begin(desk.world, desk.ann, desk.shop)
    review = await desk.asked()
    await desk.world.stores.violations.add([violation(desk, session)])
    await decided(desk.world, review, desk.bob, at=desk.world.clock())
    postprocessing = desk.world.stores.postprocessing

    async def dies(*_: object) -> None:
        raise Unavailable("the store went away in the middle")

    for method in ("queue_review_events", "queue_violation_events"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(postprocessing, method, dies)
            with pytest.raises(Unavailable):
                await desk.services.postprocessing.once()
    # Another process begins with nothing but the store.
    desk.services = desk.world.services()
    desk.world.clock.forward(seconds=60)  # the lease of the dead one is over
    told = await desk.told(sink)
    assert [one["type"] for one in told] == ["review.created", "review.approved", "guardrail.violation"]
    # One that another process has told meanwhile is told under the same id: once at the sink.
    again = [NewDelivery(sink, desk.world.org_id, UUID(one["id"]), EventKind(one["type"]), START, "{}") for one in told]
    await postprocessing.queue_review_events([], again)
    assert await desk.told(sink) == told


async def test_telling_and_forgetting_are_one_transaction(desk: Desk) -> None:
    """A delivery that cannot be written leaves the news where it is."""
    sink = await desk.sink()
    await desk.asked()
    (news,) = await desk.world.stores.reviews.news(10)
    broken = NewDelivery(sink, desk.world.org_id, uuid4(), EventKind.REVIEW_CREATED, START, "x" * 10)
    object.__setattr__(broken, "body", None)  # which no column takes
    with pytest.raises(Exception, match=r"(?i)null"):
        await desk.world.stores.postprocessing.queue_review_events([news.id], [broken])
    assert await desk.world.stores.reviews.news(10) == [news]


async def test_who_counts_hears_of_each_thing_once(desk: Desk) -> None:
    heard: list[ReviewChange] = []
    desk.services.postprocessing.observer = heard.append
    review = await desk.asked()
    await decided(desk.world, review, desk.bob, at=desk.world.clock())
    for _ in range(3):
        await desk.services.postprocessing.once()
    assert [one.kind for one in heard] == ["created", "approved"]
    assert heard[1].review.status is ReviewStatus.APPROVED
