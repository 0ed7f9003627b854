"""The address of a terminal without a WebSocket, and the relay's own limits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from fastapi import WebSocket
from tests.api.conftest import Api, message

from postern.api.terminals import terminal_relay
from postern.api.terminals.terminal_closing import TerminalClosing
from postern.api.terminals.terminal_limiter import TerminalLimiter
from postern.api.terminals.terminal_relay import TerminalRelay
from postern.errors import (
    Denied,
    Misconfigured,
    NotFound,
    ProtocolViolation,
    StepUpRequired,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from postern.protocols.terminal import terminal_frames as m
from postern.transport.tunnel_messages import Refused

COMMAND = {"type": "custom", "subtype": "", "command": ["bash"]}


async def test_request_without_a_websocket_says_whether_the_terminal_could_be_opened(api: Api) -> None:
    await api.make_connection("shell", **COMMAND)
    path = "/connections/shell/terminal"
    assert "are disabled on connection 'shell'" in message(await api.as_ann.get(path), 403)
    await api.as_admin.patch("/connections/shell", json={"access_mode_web_terminal": "enabled"})
    answer = await api.as_ann.get(path)
    assert "is a WebSocket" in message(answer, 426)
    assert answer.headers["Upgrade"] == "websocket"
    await api.as_admin.patch("/connections/shell", json={"access_fresh_factor": "enabled"})
    assert (await api.as_ann.get(path)).status_code == 426
    api.world.clock.forward(seconds=600)
    answer = await api.as_ann.get(path)
    assert "POST /api/login/step-up" in message(answer, 403)
    assert answer.headers["Postern-Error"] == "step-up-required"
    await api.as_admin.patch("/connections/shell", json={"access_mode_connect": "disabled"})
    assert "access mode connect" in message(await api.as_ann.get(path), 403)
    assert message(await api.as_ann.get("/connections/nothing/terminal"), 404)


async def test_switches_are_disabled_by_default_and_by_a_replacement_that_omits_them(api: Api) -> None:
    names = ("access_mode_web_terminal", "access_fresh_factor")
    made = await api.make_connection("shell", **COMMAND)
    assert [made[name] for name in names] == ["disabled", "disabled"]
    await api.as_admin.patch("/connections/shell", json=dict.fromkeys(names, "enabled"))
    body = api.connection_body("shell", **COMMAND)
    replaced = (await api.as_admin.put("/connections/shell", json=body)).json()
    assert [replaced[name] for name in names] == ["disabled", "disabled"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Denied("x"), 4403),
        (StepUpRequired("x"), 4428),
        (NotFound("x"), 4404),
        (Unauthenticated("x"), 4401),
        (TooMany("x"), 4429),
        (Unavailable("x"), 4503),
        (ProtocolViolation("x"), 4400),
        (Misconfigured("x"), 4500),
        (Refused("Denied", "x", {}), 4403),
        (Refused("StepUpRequired", "x", {}), 4428),
        (Refused("Unavailable", "x", {}), 4503),
        (Refused("Mapping", "x", {}), 4500),
        (Refused("no such class", "x", {}), 4500),
    ],
)
def test_close_code_follows_the_error(error: Any, code: int) -> None:
    assert TerminalClosing.of(error).code == code


def test_limiter_counts_terminals_of_a_user_and_of_the_process() -> None:
    limiter, ann, bob, eve = TerminalLimiter(most=3, most_per_user=2), uuid4(), uuid4(), uuid4()
    with limiter.slot(ann), limiter.slot(ann):
        with pytest.raises(TooMany, match="you already have 2"), limiter.slot(ann):
            pass
        with limiter.slot(bob):
            with pytest.raises(TooMany, match="too many terminals"), limiter.slot(eve):
                pass
            assert limiter.open == 3
    assert limiter.open == 0


class Page:
    """A WebSocket that takes everything, and sends what a test puts into it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.state = SimpleNamespace(lost=asyncio.Event())

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)

    async def receive(self) -> dict[str, Any]:
        return await self.incoming.get()

    def send(self, *frames: bytes) -> None:
        self.incoming.put_nowait({"type": "websocket.receive", "bytes": b"".join(frames)})


class Far(asyncio.Transport):
    """The stream."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.paused = self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def stays() -> None: ...


def relayed(standing: Any = stays) -> tuple[TerminalRelay, Page, Far]:
    page, far = Page(), Far()
    relay = TerminalRelay(cast("WebSocket", page), standing)
    relay.connection_made(far)
    return relay, page, far


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_output_stops_at_the_window_and_pauses_the_stream() -> None:
    relay, page, far = relayed()
    running = asyncio.create_task(relay.run())
    await settle()
    chunk = m.frame(m.STDOUT, b"x" * m.MAX_PAYLOAD)
    for _ in range(8):
        relay.data_received(chunk)
    await settle()
    assert len(b"".join(page.sent)) == 4 * len(chunk)  # the window
    assert far.paused
    page.send(m.credit(10))
    await settle()
    assert len(b"".join(page.sent)) == 5 * len(chunk)
    page.send(m.credit(m.BROWSER_WINDOW))
    await settle()
    assert len(b"".join(page.sent)) == 8 * len(chunk)
    assert not far.paused
    page.state.lost.set()
    assert await running is None
    assert far.closed


async def test_rest_of_the_output_is_sent_without_credit_once_the_stream_has_ended() -> None:
    relay, page, _ = relayed()
    running = asyncio.create_task(relay.run())
    for _ in range(6):
        relay.data_received(m.frame(m.STDOUT, b"x" * m.MAX_PAYLOAD))
    relay.data_received(m.exit_frame(0))
    relay.connection_lost(None)
    closing = await running
    assert closing == TerminalClosing(1000, "the program has ended")
    assert b"".join(page.sent).endswith(m.exit_frame(0))


async def test_page_that_returns_no_credit_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_relay, "_STALL", 0.05)
    relay, _, _ = relayed()
    running = asyncio.create_task(relay.run())
    for _ in range(6):
        relay.data_received(m.frame(m.STDOUT, b"x" * m.MAX_PAYLOAD))
    closing = await running
    assert closing is not None
    assert closing.code == 4408


async def test_quiet_terminal_is_not_disconnected_for_lack_of_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_relay, "_STALL", 0.05)
    relay, _, _ = relayed()
    running = asyncio.create_task(relay.run())
    for _ in range(4):
        relay.data_received(m.frame(m.STDOUT, b"x" * m.MAX_PAYLOAD))
    await asyncio.sleep(0.2)
    assert not running.done()
    running.cancel()


async def test_input_waits_while_the_stream_is_full() -> None:
    relay, page, far = relayed()
    running = asyncio.create_task(relay.run())
    relay.pause_writing()
    page.send(m.frame(m.STDIN, b"first"))
    page.send(m.frame(m.STDIN, b"second"))
    await settle()
    assert far.written == m.START_FRAME + m.frame(m.STDIN, b"first")
    relay.resume_writing()
    await settle()
    assert far.written.endswith(m.frame(m.STDIN, b"second"))
    relay.pause_writing()
    page.send(m.frame(m.STDIN, b"third"))
    await settle()
    page.state.lost.set()  # which no message reports while none is taken
    assert await running is None


async def test_terminal_ends_where_its_login_cannot_be_checked_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_relay, "_CHECK_EVERY", 0.01)
    asked = 0

    async def unavailable() -> None:
        nonlocal asked
        asked += 1
        if asked != 3:
            raise Unavailable("the store does not answer")

    relay, _, _ = relayed(unavailable)
    closing = await asyncio.wait_for(relay.run(), 20)
    assert closing == TerminalClosing(4503, "the store does not answer")
    assert asked == 3 + 4  # one answer in between begins the count again


async def test_program_that_ended_with_its_login_says_so() -> None:
    async def ended() -> None:
        raise Unauthenticated("this login has ended; log in again")

    relay, _, _ = relayed(ended)
    running = asyncio.create_task(relay.run())
    relay.data_received(m.exit_frame(m.ENDED))
    assert await running == TerminalClosing(4401, "this login has ended; log in again")


async def test_lost_stream_without_an_exit_is_an_error() -> None:
    relay, _, _ = relayed()
    running = asyncio.create_task(relay.run())
    await settle()
    relay.connection_lost(ConnectionResetError("gone"))
    with pytest.raises(Unavailable, match="relay worker was lost"):
        await running


async def test_broken_frames_of_a_worker_end_the_terminal() -> None:
    relay, _, _ = relayed()
    running = asyncio.create_task(relay.run())
    await settle()
    relay.data_received(b"\x11\xff\xff\xff\xff")
    with pytest.raises(Unavailable):
        await running
