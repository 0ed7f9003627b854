"""Clients that wait at login for a review: notified at once, admitted automatically, without blocking other clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.promises import until
from tests.support.waiting import Line, Place, now, somebody

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review_status import ReviewStatus
from postern.errors import Denied, PosternError, ProtocolViolation, TooMany, Unauthenticated, Unavailable
from postern.gateway.clients import pending_logins
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.rules import review_poller
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.terminal import terminal_frames as frames
from postern.relay.relay_handshake import StreamHandshake
from postern.store.ports.common_ports import Topic

SIZES = [1, 2, 7, 100_000]  # bytes that come at once
STARTUP = m.startup({"user": "me", "database": "shop"})
AUTH_OK = m.authentication(m.AUTH_OK)


class Client:
    """One that logs in, or was turned away, by the task `login`."""

    def __init__(self) -> None:
        self.stream = StreamHandshake()
        self.line = Line(self.stream)
        self.login: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def send(self, data: bytes, size: int = 100_000) -> None:
        for at in range(0, len(data), size):
            self.stream.data_received(data[at : at + size])

    async def ended(self) -> bytes:
        """What it was told since."""
        await asyncio.wait_for(asyncio.shield(self.login), 60)
        return self.line.take()


def enter(place: Place, who: Principal, size: int = 100_000) -> Client:
    client = Client()
    client.login = asyncio.ensure_future(place.database(client.stream, who))
    client.send(STARTUP, size)
    return client


async def enter_held(place: Place, who: Principal, size: int = 100_000) -> Client:
    client = enter(place, who, size)
    before = len(client.line.written)
    await until(lambda: len(client.line.written) > before)
    return client


def tags(data: bytes) -> bytes:
    found = b""
    while data:
        found += data[:1]
        data = data[1 + int.from_bytes(data[1:5], "big") :]
    return found


async def test_client_with_missing_issue_fields_is_denied_without_a_review() -> None:
    place = Place()
    place.issue_lacks = "the issue of this session needs Summary (summary)"
    client = enter(place, somebody())
    assert place.issue_lacks.encode() in await client.ended()
    assert not place.table.kept
    assert not place.opened


@pytest.mark.parametrize("size", SIZES)
async def test_waiting_client_is_notified_at_once_and_admitted_once_approved(size: int) -> None:
    place = Place()
    client = await enter_held(place, somebody(), size)
    told = client.line.take()
    # AuthenticationOk comes first: before it libpq takes no notice.
    assert told.startswith(AUTH_OK)
    assert tags(told) == b"RN"
    review = place.table.only
    for part in (
        "1 member of the group 'dba' must approve",
        str(review.id),
        f"postern reviews approve {review.id}",
        "UTC",
        f"https://gateway/{review.id}",
    ):
        assert part.encode() in told
    assert not place.opened
    await place.table.becomes(ReviewStatus.APPROVED)
    assert tags(await client.ended()) == b"SKZ"  # no second AuthenticationOk
    assert len(place.opened) == 1
    assert place.sessions == [{"client_address": "10.0.0.1", "client_tls": "no", "database": "shop"}]
    assert place.held.held == 0


async def test_client_that_needs_no_review_is_admitted_at_once() -> None:
    place = Place()
    place.table.needed = False
    client = enter(place, somebody())
    assert tags(await client.ended()) == b"RSKZ"
    assert not place.table.kept


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ReviewStatus.REJECTED, "rejected by chief@example.com: not today"),
        (ReviewStatus.EXPIRED, "the access that it gave has expired"),
        (ReviewStatus.WITHDRAWN, "withdrawn"),
        (ReviewStatus.REVOKED, "revoked by chief@example.com: not today"),
    ],
)
async def test_denied_client_receives_the_reason(status: ReviewStatus, words: str) -> None:
    place = Place()
    client = await enter_held(place, somebody())
    client.line.take()
    await place.table.becomes(status, "not today")
    said = await client.ended()
    assert tags(said) == b"E"
    assert words.encode() in said
    assert not place.opened
    assert place.held.held == 0


async def test_approval_with_a_lost_signal_is_found_by_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_poller, "EVERY", 0.01)
    place = Place()
    client = await enter_held(place, somebody())
    await place.table.becomes(ReviewStatus.APPROVED, told=False)
    await client.ended()
    assert place.opened


async def test_approval_is_found_when_signals_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_poller, "EVERY", 3600.0)
    place = Place()
    client = await enter_held(place, somebody())
    await until(lambda: place.table.looks == 1)
    await place.table.becomes(ReviewStatus.APPROVED, told=False)
    await place.signals.publish(Topic.RESUMED)
    await client.ended()
    assert place.opened


async def test_unavailable_store_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_poller, "EVERY", 0.01)
    place = Place()
    place.table.away = True
    client = await enter_held(place, somebody())
    await until(lambda: len(place.table.rounds) > 2)
    await place.table.becomes(ReviewStatus.APPROVED, told=False)
    place.table.away = False
    await client.ended()
    assert place.opened


async def test_polling_round_is_one_query_however_many_clients_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_poller, "EVERY", 0.02)
    place = Place()
    clients = [await enter_held(place, somebody(f"user{number}")) for number in range(20)]
    await until(lambda: place.table.rounds.count(20) > 3)
    assert place.table.looks == 20  # each once, since it may have been decided since it was read
    decided = next(iter(place.table.kept.values()))
    place.table.kept[decided.id] = replace(decided, status=ReviewStatus.APPROVED, revoke_at=now() + timedelta(hours=1))
    await clients[0].ended()
    assert place.table.looks == 21
    await place.held.stop(60)
    await until(lambda: place.held._looks._task is None)
    assert not place.held._looks._events


async def test_polling_rounds_of_workers_have_jitter() -> None:
    """Workers that lost their signals at the same time do not poll at the same time."""
    found = {round(review_poller.pause(), 6) for _ in range(100)}
    assert len(found) > 50
    assert review_poller.EVERY / 2 < min(found) < max(found) < review_poller.EVERY * 2


async def test_waiting_clients_are_checked_again_in_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_logins, "_AT_ONCE", 3)
    monkeypatch.setattr(review_poller, "EVERY", 3600.0)
    place = Place()
    for number in range(20):
        await enter_held(place, somebody(f"user{number}"))
    await until(lambda: place.table.looks == 20)
    asked = place.table.admissions
    place.table.most_at_once = 0
    await place.signals.publish(Topic.RESUMED)
    await until(lambda: place.table.admissions == asked + 20)
    await until(lambda: place.table.rounds == [20])
    assert place.table.most_at_once == 3
    await place.held.stop(60)


async def test_client_is_asked_to_reconnect_after_approval_if_waiting_is_disabled() -> None:
    place = Place(longest=0)
    said = await enter(place, somebody()).ended()
    assert tags(said) == b"E"
    assert f"connect again once review {place.table.only.id} is approved".encode() in said


async def test_client_that_waited_the_maximum_time_is_asked_to_reconnect_after_approval() -> None:
    place, who = Place(longest=0.05), somebody()
    client = await enter_held(place, who)
    assert b"connect again once review" in await client.ended()
    assert place.table.only.status is ReviewStatus.PENDING
    again = await enter_held(place, who)
    assert str(place.table.only.id).encode() in again.line.take()
    await place.table.becomes(ReviewStatus.APPROVED)
    await again.ended()
    assert len(place.opened) == 1


async def test_review_expires_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_poller, "EVERY", 0.01)
    place = Place()
    client = await enter_held(place, somebody())
    review = place.table.only
    place.table.kept[review.id] = replace(review, expires_at=now() - timedelta(seconds=1))
    assert b"it was not decided in time" in await client.ended()
    assert place.table.only.status is ReviewStatus.EXPIRED


@pytest.mark.parametrize("goes", ["eof", "lost", "terminate"])
async def test_disconnected_client_frees_its_slot_and_resumes_its_review(goes: str) -> None:
    place, who = Place(), somebody()
    client = await enter_held(place, who)
    if goes == "eof":
        assert client.stream.eof_received() is False
    elif goes == "lost":
        client.stream.connection_lost(None)
    else:
        client.send(m.TERMINATE_MESSAGE)
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(client.login, 60)
    assert place.held.held == 0
    assert not place.held._watches
    review = place.table.only
    assert review.status is ReviewStatus.PENDING
    again = await enter_held(place, who)
    assert place.table.only is review
    await place.table.becomes(ReviewStatus.APPROVED)
    await again.ended()
    assert len(place.opened) == 1


async def test_attack_waiting_client_that_sends_endless_data_is_disconnected() -> None:
    place = Place()
    client = await enter_held(place, somebody())
    client.send(m.query(b"x" * 100_000), 10_000)
    await client.ended()
    assert isinstance(place.turned_away[0], ProtocolViolation)
    assert client.line.paused


async def test_burst_of_clients_of_one_user_waits_for_one_review() -> None:
    place, who = Place(), somebody()
    clients = [await enter_held(place, who) for _ in range(10)]
    assert place.held.held == 10
    assert len(place.table.kept) == 1
    await until(lambda: place.table.looks == 1)
    await place.table.becomes(ReviewStatus.APPROVED)
    for client in clients:
        await client.ended()
    assert len(place.opened) == 10
    assert place.table.looks == 2


async def test_attack_approval_of_one_user_admits_no_other_user() -> None:
    place, ann, eve = Place(), somebody(), somebody("eve")
    first = await enter_held(place, ann)
    await place.table.becomes(ReviewStatus.APPROVED)
    await first.ended()
    other = await enter_held(place, eve)
    assert len(place.table.kept) == 2
    await place.table.becomes(ReviewStatus.REJECTED)
    await other.ended()
    assert [permit.principal for permit in place.opened] == [ann]


async def test_attack_user_logged_out_during_the_wait_is_not_admitted() -> None:
    place, ann = Place(), somebody()
    client = await enter_held(place, ann)
    place.ended = Unauthenticated("this login has ended; log in again")
    await place.table.becomes(ReviewStatus.APPROVED)
    assert b"this login has ended" in await client.ended()
    assert not place.opened
    # What was given stays theirs, once they are logged in by the same again.
    place.ended = None
    await enter(place, ann).ended()
    assert len(place.opened) == 1


async def test_stopping_gateway_tells_waiting_clients_to_reconnect() -> None:
    place = Place()
    client = await enter_held(place, somebody())
    await place.held.stop(60)
    assert b"the gateway is stopping; connect again to continue waiting" in await client.ended()
    assert isinstance(place.turned_away[0], Unavailable)
    late = enter(place, somebody())
    assert b"the gateway is stopping" in await late.ended()
    assert place.table.only.status is ReviewStatus.PENDING


async def test_attack_waiting_logins_per_user_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_logins, "MOST_OF_ONE", 2)
    place, ann = Place(), somebody()
    for _ in range(2):
        await enter_held(place, ann)
    await enter(place, ann).ended()
    assert isinstance(place.turned_away[0], TooMany)
    await enter_held(place, somebody("bob"))
    assert place.held.held == 3
    monkeypatch.setattr(pending_logins, "MOST", 3)
    await enter(place, somebody("carl")).ended()
    assert isinstance(place.turned_away[1], TooMany)
    await place.held.stop(60)


async def test_attack_few_users_cannot_occupy_all_waiting_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_logins, "MOST", 60)
    monkeypatch.setattr(pending_logins, "MOST_OF_ONE", 10)
    monkeypatch.setattr(pending_logins, "FEW", 2)
    place = Place()
    for name in (f"user{number}" for number in range(10)):
        who, turned_away = somebody(name), len(place.turned_away)
        while len(place.turned_away) == turned_away:
            before, client = place.held.held, enter(place, who)
            await until(lambda before=before, client=client: place.held.held > before or client.login.done())  # type: ignore[misc]
    assert place.held.held == 3 * 10 + 7 * 2
    for name in (f"other{number}" for number in range(8)):
        who = somebody(name)
        for _ in range(2):
            await enter_held(place, who)
    assert place.held.held == 60
    await place.held.stop(60)


async def test_client_of_the_wrong_subtype_is_rejected_without_a_review() -> None:
    place = Place(subtype="mysql")
    assert b"is of subtype 'mysql'" in await enter(place, somebody()).ended()
    assert not place.table.kept


async def test_dropped_review_rule_admits_waiting_clients_and_lost_access_ends_them() -> None:
    place, ann, bob = Place(), somebody(), somebody("bob")
    first, second = await enter_held(place, ann), await enter_held(place, bob)
    place.table.refusal = Denied("this user is inactive; ask an administrator")
    await place.signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(ann.id))
    assert b"this user is inactive" in await first.ended()
    place.table.refusal, place.table.needed = None, False
    for other in (str(ann.id), str(place.connection.org_id)):
        await place.signals.publish(Topic.POLICY_CHANGED, connection_id=other)
    await place.signals.publish(Topic.CREDENTIAL_REVOKED, credential_id=str(ann.id))
    assert not place.opened
    await place.signals.publish(Topic.POLICY_CHANGED, org_id=str(place.connection.org_id))
    await second.ended()
    assert [permit.principal for permit in place.opened] == [bob]


async def test_changed_connection_needs_a_new_review_of_a_waiting_client() -> None:
    """The connection has another target now: an earlier approval admits no client."""
    place = Place()
    client = await enter_held(place, somebody())
    first = place.table.only
    place.table.kept[first.id] = replace(first, binding=replace(first.binding, source="10.9.9.9"))
    await place.signals.publish(Topic.POLICY_CHANGED, connection_id=str(place.connection.id))
    await until(lambda: len(place.table.kept) == 2)
    second = next(one for one in place.table.kept.values() if one.id != first.id)
    await until(lambda: str(second.id).encode() in client.line.written)
    assert tags(client.line.take()) == b"RNN"
    del place.table.kept[first.id]
    await place.table.becomes(ReviewStatus.APPROVED)
    await client.ended()
    assert len(place.opened) == 1


@pytest.mark.ci
async def test_waiting_clients_do_not_count_as_clients_at_login() -> None:
    """The login deadline does not end them, and they take no login slot."""
    place, who = Place(), somebody()
    logins = HandshakeRunner(timeout=1, most=1, most_per_address=1)

    def serve(stream: StreamHandshake) -> Awaitable[Awaitable[None] | None]:
        return place.database(stream, who)

    async def reject(stream: StreamHandshake, error: PosternError) -> None:
        stream.close()

    clients = []
    for number in range(1, 4):
        client = Client()
        logins.start(client.stream, serve, reject)
        client.send(STARTUP)
        await until(lambda number=number: place.held.held == number)  # type: ignore[misc]
        clients.append(client)
    await asyncio.sleep(1.5)
    assert place.held.held == 3
    await place.table.becomes(ReviewStatus.APPROVED)
    await until(lambda: len(place.opened) == 3)
    assert all(tags(client.line.take()).endswith(b"Z") for client in clients)
    await until(lambda: logins.succeeded == 3)
    late = Client()
    logins.start(late.stream, lambda stream: asyncio.sleep(3600, None), reject)
    turned_away = Client()
    logins.start(turned_away.stream, serve, reject)
    await until(turned_away.line.is_closing)  # the count is right: one is at login
    await logins.stop(1)


def run(place: Place, *, at_terminal: bool) -> Client:
    client = Client()
    client.login = asyncio.ensure_future(place.command(client.stream, somebody(), at_terminal=at_terminal))
    return client


def words_of(data: bytes) -> tuple[str, list[int]]:
    found = frames.TerminalFrameReader().feed(data)
    text = b"".join(payload for kind, payload in found if kind == frames.STDERR).decode()
    return text, [kind for kind, _ in found]


@pytest.mark.parametrize("at_terminal", [True, False])
@pytest.mark.parametrize("size", SIZES)
async def test_waiting_command_keeps_its_typed_input(size: int, at_terminal: bool) -> None:
    place = Place(subtype="bash")
    client = run(place, at_terminal=at_terminal)
    await until(lambda: bool(client.line.written))
    text, kinds = words_of(client.line.take())
    assert kinds == [frames.STDERR, frames.WAITS]
    assert "1 member of the group 'dba' must approve" in text
    assert text.endswith("\r\n" if at_terminal else "\n")
    typed = frames.START_FRAME + frames.frame(frames.STDIN, b"ls\n") + frames.resize(80, 24) + frames.signal("USR1")
    client.send(typed, size)
    await asyncio.sleep(0)
    await place.table.becomes(ReviewStatus.APPROVED)
    assert await client.ended() == frames.waits(False)
    assert len(place.opened) == 1
    assert client.stream.unread() == typed


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("at_terminal", "sent"),
    [
        (True, frames.frame(frames.STDIN, b"\x03")),
        (True, frames.frame(frames.STDIN, b"abc\x04")),
        (False, frames.signal("INT")),
        (False, frames.frame(frames.STDIN, b"\x03 is data here") + frames.signal("TERM")),
    ],
)
async def test_interrupted_command_stops_waiting_and_keeps_its_review(
    size: int, at_terminal: bool, sent: bytes
) -> None:
    place = Place(subtype="bash")
    client = run(place, at_terminal=at_terminal)
    await until(lambda: bool(client.line.written))
    client.line.take()
    client.send(frames.START_FRAME + sent, size)
    text, kinds = words_of(await client.ended())
    assert kinds == [frames.STDERR, frames.EXIT]
    assert "Stopped waiting" in text
    assert not place.opened
    assert place.held.held == 0
    assert place.table.only.status is ReviewStatus.PENDING


async def test_rejected_command_shows_the_reason() -> None:
    place = Place(subtype="bash")
    client = run(place, at_terminal=True)
    await until(lambda: bool(client.line.written))
    client.line.take()
    await place.table.becomes(ReviewStatus.REJECTED, "use the replica")
    text, kinds = words_of(await client.ended())
    assert kinds == [frames.STDERR, frames.EXIT]
    assert "use the replica" in text


async def test_attack_command_of_a_user_logged_out_during_the_wait_is_not_started() -> None:
    place = Place(subtype="bash")
    client = run(place, at_terminal=True)
    await until(lambda: bool(client.line.written))
    client.line.take()
    place.ended = Unauthenticated("this login has ended; log in again")
    await place.table.becomes(ReviewStatus.APPROVED)
    text, kinds = words_of(await client.ended())
    assert kinds == [frames.STDERR, frames.EXIT]
    assert "this login has ended" in text
    assert not place.opened
