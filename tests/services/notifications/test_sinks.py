"""From what happened to what receivers get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.ended import begin, end, had
from tests.support.promises import until
from tests.support.receivers import HttpReceiver, http_receiver, issued, senders
from tests.support.sinks import sink_fields
from tests.support.world import World

from postern.domain.event import EventKind
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason
from postern.domain.sink import Delivery, DeliveryState, Sink, SinkKind, SinkStatus
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Denied, Invalid, NotFound, TooMany
from postern.services.bundle import Services
from postern.services.notifications import event_delivery
from postern.services.notifications.event_delivery import KEPT_TRYING, LONGEST_DELAY, EventDelivery, delay
from postern.store.sql.notifications.sql_sinks import SqlSinks

SESSIONS = tuple(one for one in EventKind if one.startswith("session."))
PAGE = Page(100)


@dataclass
class Office:
    world: World
    services: Services
    event_delivery: EventDelivery
    admin: Principal
    auditor: Principal
    ann: Principal
    shop: Connection
    receiver: HttpReceiver

    def fields(self, **changes: Any) -> dict[str, Any]:
        given = sink_fields("siem", SinkKind.WEBHOOK, self.receiver.url, SESSIONS, authority=issued().authority)
        return {**given, **changes}

    async def make(self, **changes: Any) -> Sink:
        return await self.services.sinks.create(self.admin, self.fields(**changes))

    async def round(self) -> None:
        await self.services.postprocessing.once()
        await self.event_delivery.once()
        await self.event_delivery.wait_until_idle()

    async def states(self, name: str = "siem") -> list[tuple[DeliveryState, int]]:
        """Oldest first, with how often they were tried."""
        found = await self.services.sinks.deliveries(self.auditor, name, None, PAGE)
        return [(one.state, one.attempts) for one in reversed(found.items)]

    def told(self) -> list[str]:
        return [one["type"] for one in self.receiver.events]


@pytest.fixture
async def office(world: World) -> AsyncIterator[Office]:
    admin, auditor, ann = [await world.add_user(name, name) for name in ("admin", "auditor", "ann")]
    async with http_receiver() as receiver:
        sender = senders()
        event_delivery = EventDelivery(world.stores.deliveries, world.stores.leases, sender, world.clock)
        shop = await world.add_connection("shop")
        yield Office(world, world.services(), event_delivery, admin, auditor, ann, shop, receiver)
        await sender.close()


async def test_a_session_is_told_from_its_beginning_to_its_end(office: Office) -> None:
    await had(office.world, office.ann, office.shop)  # before there was a sink
    office.world.clock.forward(seconds=3)
    await office.make()
    key = await begin(office.world, office.ann, office.shop)
    await office.round()
    assert office.told() == ["session.open"]
    await end(office.world, key, {"EMAIL": 2}, reason=EndReason.KILLED, refused=1)
    await office.round()
    await office.round()
    assert office.told() == ["session.open", "session.close", "session.kill"]
    last = office.receiver.events[-1]
    assert last["data"]["session_id"] == str(key)
    assert (last["data"]["user"], last["data"]["connection"]) == ("ann@example.com", "shop")
    assert (last["data"]["end_reason"], last["data"]["metrics"]["refused"]) == ("killed", 1)
    assert await office.states() == [(DeliveryState.DELIVERED, 1)] * 3
    shown = await office.services.sinks.get(office.auditor, "siem")
    assert shown.delivered_at == office.world.clock()


async def test_audit_entries_are_told_without_secrets(office: Office) -> None:
    office.world.clock.forward(seconds=1)
    await office.make(events=(EventKind.AUDIT_ENTRY,))
    body = {"name": "x", "password": "hunter2", "script": "drop table x"}
    for name in ("ann@example.com", "a\r\nb\x1b[31m"):
        await office.services.audit.record(
            None,
            claimed=name,
            action="login",
            resource_type="users",
            resource=name,
            method="POST",
            path="/api/localauth/login",
            status=401,
            source="::1",
            request_id="r",
            body=body,
        )
        office.world.clock.forward(seconds=1)
    await office.round()
    await office.round()
    first, second = office.receiver.events
    assert (first["data"]["actor_email"], first["data"]["outcome"]) == ("ann@example.com", "failure")
    raw = b"".join(content for _, content in office.receiver.got)
    assert b"hunter2" not in raw
    assert b"drop table" not in raw
    assert second["data"]["actor_email"] == "a\r\nb\x1b[31m"
    assert b"\x1b" not in raw
    assert b"\n" not in raw


async def test_scripts_are_told_only_where_a_sink_is_for_them(office: Office) -> None:
    await office.make(events=(EventKind.SESSION_CLOSE,))
    await office.make(events=(EventKind.SESSION_CLOSE,), name="with", with_script=True)
    session = await office.services.sessions.submit(office.ann, "shop", "select 'x'" + "y" * 20_000, source="::1")
    assert await office.services.postprocessing.once() == 0  # it only waits to be run
    assert await office.services.sessions.claim(session.id, "w") is not None
    await end(office.world, session.id)
    await office.round()
    scripts = sorted(str(one["data"].get("script", ""))[:10] for one in office.receiver.events)
    assert scripts == ["", "select 'x'"]
    assert all(len(str(one)) < 12_000 for one in office.receiver.events)


async def test_order_is_kept_over_failures(office: Office) -> None:
    await office.make(events=(EventKind.SESSION_CLOSE,))
    keys = [str(await had(office.world, office.ann, office.shop)) for _ in range(3)]
    office.receiver.statuses = [503, 401]
    for _ in range(5):
        await office.round()
        office.world.clock.forward(seconds=LONGEST_DELAY)
    got = [one["data"]["session_id"] for one in office.receiver.events]
    assert sorted(got[2:]) == sorted(keys)
    assert got[0] == got[1] == got[2]
    assert await office.states() == [
        (DeliveryState.DELIVERED, 3),
        (DeliveryState.DELIVERED, 1),
        (DeliveryState.DELIVERED, 1),
    ]


async def test_a_failure_is_seen_and_waits_before_the_next_try(office: Office) -> None:
    await office.make()
    await had(office.world, office.ann, office.shop)
    office.receiver.status = 500
    await office.round()
    for _ in range(3):  # too soon
        await office.round()
    assert len(office.receiver.got) == 1
    shown = await office.services.sinks.get(office.auditor, "siem")
    assert (shown.trouble.failures, shown.trouble.since) == (1, office.world.clock())
    assert "answered 500" in shown.trouble.error
    office.receiver.status = 204
    await office.services.sinks.update(office.admin, "siem", sink_fields(paused=False))  # and at once again
    await office.round()
    assert await office.states() == [(DeliveryState.DELIVERED, 2), (DeliveryState.DELIVERED, 1)]
    assert (await office.services.sinks.get(office.auditor, "siem")).trouble.failures == 0


async def test_an_event_that_nobody_wants_is_given_up_and_the_next_one_goes_out(office: Office) -> None:
    await office.make(events=(EventKind.SESSION_CLOSE,))
    for _ in range(2):
        await had(office.world, office.ann, office.shop)
    office.receiver.statuses = [400] * 5
    for _ in range(7):
        await office.round()
        office.world.clock.forward(seconds=LONGEST_DELAY)
    assert await office.states() == [(DeliveryState.GIVEN_UP, 5), (DeliveryState.DELIVERED, 1)]


async def test_what_was_given_up_is_sent_again_with_the_same_id(office: Office) -> None:
    await office.make(events=(EventKind.SESSION_CLOSE,))
    for _ in range(2):
        await had(office.world, office.ann, office.shop)
    office.receiver.statuses = [400] * 5
    for _ in range(7):
        await office.round()
        office.world.clock.forward(seconds=LONGEST_DELAY)
    again = office.services.sinks.redeliver
    found = (await office.services.sinks.deliveries(office.admin, "siem", DeliveryState.GIVEN_UP, PAGE)).items
    assert await again(office.admin, "siem", None) == 1
    with pytest.raises(NotFound):
        await again(office.admin, "siem", found[0].number)  # it waits already
    for number in (0, -1, 1 << 63, 1 << 70, 999_999):
        with pytest.raises(NotFound):
            await again(office.admin, "siem", number)
    for other in (office.auditor, office.ann):
        with pytest.raises(Denied):
            await again(other, "siem", None)
    await office.round()
    assert await office.states() == [(DeliveryState.DELIVERED, 1)] * 2
    assert office.receiver.events[-1]["id"] == str(found[0].event_id)
    await office.make(name="other", events=(EventKind.SESSION_CLOSE,))
    with pytest.raises(NotFound):  # of another sink
        await again(office.admin, "other", found[0].number)
    assert await again(office.admin, "siem", found[0].number) == 1  # whatever became of it
    await office.round()
    assert len(office.receiver.events) == 5 + 3


async def test_a_dead_receiver_is_tried_for_days_and_then_given_up(office: Office) -> None:
    await office.make(events=(EventKind.SESSION_CLOSE,))
    await had(office.world, office.ann, office.shop)
    office.receiver.status = 500
    await office.round()
    office.world.clock.now += KEPT_TRYING - timedelta(hours=1)
    await office.round()
    assert await office.states() == [(DeliveryState.WAITING, 2)]
    office.world.clock.forward(hours=2)
    await office.round()
    assert await office.states() == [(DeliveryState.GIVEN_UP, 3)]


async def test_a_receiver_that_is_gone_is_left_alone(office: Office) -> None:
    await office.make()
    await had(office.world, office.ann, office.shop)
    office.receiver.status = 410
    await office.round()
    await had(office.world, office.ann, office.shop)
    await office.round()
    assert len(office.receiver.got) == 1
    assert (await office.services.sinks.get(office.auditor, "siem")).status is SinkStatus.GONE
    assert {state for state, _ in await office.states()} == {DeliveryState.GIVEN_UP}


async def test_a_slow_receiver_holds_up_nobody(office: Office) -> None:
    async with http_receiver(delay=300) as slow:
        await office.make(name="slow", address=slow.url)
        await office.make()
        for _ in range(3):
            await had(office.world, office.ann, office.shop)
        await office.services.postprocessing.once()
        async with asyncio.timeout(60):
            await office.event_delivery.once()
            await until(lambda: len(office.receiver.got) >= 6)
        for task in office.event_delivery._running.values():
            task.cancel()
    assert len(slow.got) == 1


class Died(BaseException):
    """What `kill -9` is to a coroutine."""


async def test_what_was_sent_by_a_process_that_died_is_sent_again(office: Office) -> None:
    """At least once, with the same identifier."""
    await office.make(events=(EventKind.SESSION_CLOSE,))
    await had(office.world, office.ann, office.shop)
    await office.services.postprocessing.once()
    store = office.world.stores.deliveries

    class Dies:
        async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
            await sender.send(sink, deliveries, now)
            raise Died

        async def close(self) -> None: ...

    sender = senders()
    dying = EventDelivery(store, office.world.stores.leases, Dies(), office.world.clock)
    await dying.once()
    await dying.wait_until_idle()
    await office.round()
    assert len(office.receiver.got) == 1  # the lease of the dead one
    office.world.clock.forward(seconds=31)
    await office.round()
    assert len(office.receiver.got) == 2
    assert len({headers["webhook-id"] for headers, _ in office.receiver.got}) == 1
    await sender.close()


async def test_nothing_is_told_twice_when_two_follow_up(office: Office) -> None:
    """Both read before either wrote: one that lost its lease and goes on."""
    await office.make(events=(EventKind.SESSION_CLOSE,))
    key = await had(office.world, office.ann, office.shop)
    first, second = office.services.postprocessing, office.world.services().postprocessing
    await asyncio.gather(first.once(), second.once())
    pending = await office.world.stores.postprocessing.pending(7, 10)
    assert pending == []
    await office.round()
    assert [one["data"]["session_id"] for one in office.receiver.events] == [str(key)]


async def test_paused_sinks_keep_their_events(office: Office) -> None:
    await office.make(events=(EventKind.SESSION_CLOSE,), paused=True)
    await had(office.world, office.ann, office.shop)
    await office.round()
    assert office.receiver.got == []
    with pytest.raises(Conflict):
        await office.services.sinks.test(office.admin, "siem")
    await office.services.sinks.update(office.admin, "siem", sink_fields(paused=False))
    await office.round()
    assert office.told() == ["session.close"]


async def test_a_test_says_how_it_went(office: Office) -> None:
    await office.make(events=(EventKind.AUDIT_ENTRY,))
    number = await office.services.sinks.test(office.admin, "siem")
    await office.round()
    found = await office.services.sinks.deliveries(office.auditor, "siem", DeliveryState.DELIVERED, PAGE)
    assert [one.number for one in found.items] == [number]
    assert office.told() == ["sink.test"]


async def test_a_crowd_of_events_is_bounded_and_old_ones_are_forgotten(office: Office) -> None:
    sink = await office.make(events=(EventKind.SESSION_CLOSE,), paused=True)
    for _ in range(5):
        await had(office.world, office.ann, office.shop)
    await office.services.postprocessing.once()
    store = office.world.stores.deliveries
    await store.trim_queues(3, office.world.clock())
    assert [state for state, _ in await office.states()] == [DeliveryState.GIVEN_UP] * 2 + [DeliveryState.WAITING] * 3
    waiting = await store.waiting(sink.id, 10)
    await store.mark_delivered(sink.id, [one.number for one in waiting], office.world.clock())
    later = office.world.clock() + timedelta(seconds=1)
    await store.prune(later, office.world.clock())
    assert await office.states() == [(DeliveryState.GIVEN_UP, 0)] * 2
    await store.prune(later, later)
    assert await office.states() == []


async def test_what_is_lost_is_told_and_does_not_pile_up(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """Of what was given up, too, as many are kept."""
    sink = await office.make(events=(EventKind.SESSION_CLOSE,), paused=True)
    for _ in range(7):
        await had(office.world, office.ann, office.shop)
    await office.services.postprocessing.once()
    store = office.world.stores.deliveries
    assert await store.trim_queues(5, office.world.clock()) == {sink.id: 2}
    assert await store.trim_queues(3, office.world.clock()) == {sink.id: 2}
    assert await store.trim_queues(3, office.world.clock()) == {}
    assert [state for state, _ in await office.states()] == [DeliveryState.GIVEN_UP] * 3 + [DeliveryState.WAITING] * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_delivery, "MOST_WAITING", 2)
        await office.event_delivery.once()
    assert f"events given up: sink={sink.id} count=1 reason=more than 2 were waiting" in caplog.text
    office.receiver.statuses = [400] * 5
    await office.services.sinks.update(office.admin, "siem", sink_fields(paused=False))
    for _ in range(5):
        await office.round()
        office.world.clock.forward(seconds=LONGEST_DELAY)
    assert "error=localhost answered 400" in caplog.text


async def test_a_sink_that_was_changed_meanwhile_gets_no_more_as_it_was(office: Office) -> None:
    """Paused, or led elsewhere, while many of its events are being sent."""
    await office.make(events=(EventKind.SESSION_CLOSE,))
    for _ in range(4):
        await had(office.world, office.ann, office.shop)
    await office.services.postprocessing.once()
    sender, sent = senders(), 0

    class Changes:
        async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
            nonlocal sent
            sent += 1
            await sender.send(sink, deliveries, now)
            office.world.clock.forward(seconds=1)
            given = sink_fields(paused=True) if sent == 1 else sink_fields(address="https://localhost:1/")
            await office.services.sinks.update(office.admin, "siem", given)

        async def close(self) -> None:
            await sender.close()

    changing = EventDelivery(office.world.stores.deliveries, office.world.stores.leases, Changes(), office.world.clock)
    await changing.once()
    await changing.wait_until_idle()
    assert len(office.receiver.got) == 1
    await office.services.sinks.update(office.admin, "siem", sink_fields(paused=False))
    await changing.once()
    await changing.wait_until_idle()
    assert len(office.receiver.got) == 2
    await changing.stop()


async def test_another_organisations_events_stay_there(office: Office) -> None:
    await office.make()
    other = replace(office.admin, org_id=uuid4())
    with pytest.raises(NotFound):
        await office.services.sinks.get(other, "siem")
    for one in await office.world.stores.sinks.outlines():
        assert one.org_id == office.world.org_id


async def test_secrets_are_shown_once_and_rotated(office: Office) -> None:
    sink = await office.make()
    secret = sink.new_secret
    assert secret is not None
    new = await office.services.sinks.rotate(office.admin, "siem")
    kept = (await office.services.sinks.get(office.admin, str(sink.id))).secrets
    assert [one.value for one in kept] == [new, secret]
    assert (kept[0].until, kept[1].until) == (None, office.world.clock() + timedelta(hours=24))
    await office.make(name="collector", kind=SinkKind.OTLP)
    with pytest.raises(Invalid):
        await office.services.sinks.rotate(office.admin, "collector")


@pytest.mark.parametrize(
    "changes", [{"address": "https://evil.example/"}, {"address": "https://localhost/tenant"}, {"authority": ""}]
)
async def test_attack_headers_do_not_go_elsewhere_unless_they_are_given_again(
    office: Office, changes: dict[str, Any]
) -> None:
    """An administrator who cannot read them sends them to an address of their own."""
    made = await office.make(headers={"X-Key": Secret("hunter2")})
    with pytest.raises(Invalid, match="X-Key") as raised:
        await office.services.sinks.update(office.admin, "siem", sink_fields(**changes))
    assert raised.value.field == "headers"
    assert await office.services.sinks.get(office.admin, "siem") == replace(made, new_secret=None)
    same = sink_fields(address=made.address, authority=made.authority, with_script=True)
    kept = await office.services.sinks.update(office.admin, "siem", same)
    assert kept.headers == made.headers
    for given in ({"X-Key": Secret("hunter3")}, {}):
        moved = await office.services.sinks.update(office.admin, "siem", sink_fields(headers=given, **changes))
        assert moved.headers == given


async def test_attack_a_webhook_that_leads_elsewhere_signs_by_another_secret(office: Office) -> None:
    """What is signed for one receiver is not sent to another, who could pass it on."""
    made = await office.make()
    paused = await office.services.sinks.update(office.admin, "siem", sink_fields(address=made.address, paused=True))
    assert paused.new_secret is None
    moved = await office.services.sinks.update(office.admin, "siem", sink_fields(address="https://evil.example/"))
    second = moved.new_secret
    assert second is not None
    assert second != made.new_secret
    assert [(one.value, one.until) for one in moved.secrets] == [(second, None)]
    assert (await office.services.sinks.get(office.admin, "siem")).secrets == moved.secrets


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"address": "http://siem.example.com/"}, "address"),
        ({"address": "https://169.254.169.254/latest"}, "address"),
        ({"address": "https://2852039166/"}, "address"),
        ({"address": "https://user:password@siem.example.com/"}, "address"),
        ({"address": "https://siem.example.com/\r\nX: y"}, "address"),
        ({"kind": SinkKind.SYSLOG, "address": "https://siem.example.com/"}, "address"),
        ({"kind": SinkKind.SYSLOG, "address": "syslog+tls://siem.example.com"}, "address"),
        ({"kind": SinkKind.SYSLOG, "address": "syslog+tls://169.254.169.254:514"}, "address"),
        ({"events": ()}, "events"),
        ({"events": (EventKind.SINK_TEST,)}, "events"),
        ({"authority": "no certificate"}, "authority"),
        ({"name": "a\nb"}, "name"),
    ],
)
async def test_what_cannot_be_a_sink(office: Office, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as raised:
        await office.make(**changes)
    assert raised.value.field == field


@pytest.mark.parametrize("name", ["Host", "webhook-signature", "X\r\nY", "Content-Length"])
async def test_headers_that_are_not_taken(office: Office, name: str) -> None:
    with pytest.raises(Invalid):
        await office.make(headers={name: Secret("x")})
    with pytest.raises(Invalid):
        await office.make(headers={"X": Secret("x\r\ny: z")})


async def test_who_may_do_what(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    await office.make()
    with pytest.raises(Conflict):
        await office.make()
    with pytest.raises(Denied):
        await office.services.sinks.create(office.auditor, office.fields(name="x"))
    with pytest.raises(Denied):
        await office.services.sinks.find(office.ann, PAGE)
    monkeypatch.setattr(SqlSinks, "most", 1)
    with pytest.raises(TooMany):
        await office.make(name="another")
    await office.services.sinks.remove(office.admin, "siem")
    with pytest.raises(NotFound):
        await office.services.sinks.get(office.auditor, "siem")


def test_tries_wait_longer_each_time() -> None:
    assert 2.5 <= delay(1) <= 5
    assert all(delay(1000) <= LONGEST_DELAY for _ in range(10))
