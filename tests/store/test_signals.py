"""Signals between processes, over a real Unix socket."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.support.promises import until

from postern.errors import Misconfigured
from postern.store import signals
from postern.store.ports.common_ports import Topic
from postern.store.signals import LocalSignals, SignalHub, SocketSignals


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[SignalHub]:
    hub = SignalHub(tmp_path / "run" / "signals.sock")
    await hub.start()
    yield hub
    await hub.stop()


async def client(hub: SignalHub) -> tuple[SocketSignals, list[Mapping[str, str]]]:
    one = SocketSignals(hub._path)
    heard: list[Mapping[str, str]] = []
    one.subscribe("session.kill", heard.append)
    await one.start()
    await until(lambda: one._writer is not None)
    return one, heard


async def test_every_subscriber_receives_each_signal_once(hub: SignalHub) -> None:
    clients = [await client(hub) for _ in range(3)]
    await clients[0][0].publish("session.kill", session_id="1", reason="killed")
    await clients[1][0].publish("session.kill", session_id="2", reason="killed")
    await until(lambda: all(len(heard) == 2 for _, heard in clients))
    await asyncio.sleep(0.05)
    for one, heard in clients:
        assert sorted(message["session_id"] for message in heard) == ["1", "2"]
        await one.stop()


async def test_signal_socket_is_accessible_to_the_owner_only(hub: SignalHub) -> None:
    assert stat.S_IMODE(hub._path.stat().st_mode) == 0o600
    assert stat.S_IMODE(hub._path.parent.stat().st_mode) == 0o700


async def test_client_reconnects_to_a_restarted_hub_and_reports_the_gap(hub: SignalHub) -> None:
    (one, _), (other, heard) = await client(hub), await client(hub)
    gaps: list[str] = []
    one.subscribe(Topic.RESUMED, lambda _: gaps.append("one"))
    other.subscribe(Topic.RESUMED, lambda _: gaps.append("other"))
    await hub.stop()
    await until(lambda: one._writer is None and other._writer is None)
    await one.publish("session.kill", session_id="in the gap")
    assert len(one._unsent) == 1
    await hub.start()
    await until(lambda: sorted(gaps) == ["one", "other"])
    assert not one._unsent
    await one.publish("session.kill", session_id="after")
    await until(lambda: {"session_id": "after"} in heard)
    await one.stop()
    await other.stop()


async def test_local_handlers_receive_signals_without_a_hub(tmp_path: Path) -> None:
    one = SocketSignals(tmp_path / "none.sock")
    heard: list[Mapping[str, str]] = []
    one.subscribe("policy.changed", heard.append)
    await one.start()
    for number in range(signals.MAX_UNSENT + 5):
        await one.publish("policy.changed", connection_id=str(number))
    assert len(heard) == signals.MAX_UNSENT + 5
    assert len(one._unsent) == signals.MAX_UNSENT
    await one.stop()


async def test_subscriber_that_does_not_read_is_disconnected(hub: SignalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "MAX_UNREAD", 64 * 1024)
    (one, _), (other, heard) = await client(hub), await client(hub)
    reader, writer = await asyncio.open_unix_connection(hub._path, limit=1024)
    await until(lambda: len(hub.clients) == 3)
    for number in range(2_000):
        await one.publish("session.kill", session_id=str(number), padding="x" * 1_000)
        await asyncio.sleep(0)
    await until(lambda: len(heard) == 2_000)
    assert len(hub.clients) == 2
    writer.close()
    del reader
    await one.stop()
    await other.stop()


async def test_malformed_and_oversized_signals_affect_only_their_sender(hub: SignalHub) -> None:
    one, heard = await client(hub)
    reader, writer = await asyncio.open_unix_connection(hub._path)
    writer.write(b'not json\n{"topic": 1, "payload": {}}\n{"topic": "session.kill", "payload": []}\n')
    writer.write(b'{"topic": "session.kill", "payload": {"session_id": "ok"}}\n')
    await until(lambda: heard == [{"session_id": "ok"}])
    writer.write(b"x" * (signals.MAX_MESSAGE + 10))
    assert await reader.read() == b""
    with pytest.raises(ValueError, match="at most"):
        await one.publish("session.kill", reason="x" * signals.MAX_MESSAGE)
    await one.stop()


async def test_unhurried_signals_are_sent_with_the_next_one_or_soon(
    hub: SignalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, _), (other, heard) = await client(hub), await client(hub)
    other.subscribe(Topic.SESSION_STARTED, heard.append)
    monkeypatch.setattr(signals, "DELAY", 60.0)
    await one.publish(Topic.SESSION_STARTED, session_id="first")
    await asyncio.sleep(0.05)
    assert heard == []
    await one.publish("session.kill", session_id="second")
    await until(lambda: len(heard) == 2)
    assert [message["session_id"] for message in heard] == ["first", "second"]
    monkeypatch.setattr(signals, "DELAY", 0.01)
    await one.publish(Topic.SESSION_STARTED, session_id="third")
    await until(lambda: len(heard) == 3)
    await one.stop()
    await other.stop()


async def test_signal_in_pieces_is_forwarded_whole(hub: SignalHub) -> None:
    one, heard = await client(hub)
    _, writer = await asyncio.open_unix_connection(hub._path)
    for piece in (b'{"topic": "session.kill", "pay', b'load": {"session_id": "1"}}\n{"topic": "session.kill",'):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.02)
    writer.write(b' "payload": {"session_id": "2"}}\n')
    await until(lambda: len(heard) == 2)
    assert [message["session_id"] for message in heard] == ["1", "2"]
    writer.close()
    await one.stop()


async def test_handler_that_raises_does_not_stop_other_handlers() -> None:
    local = LocalSignals()
    heard: list[Mapping[str, str]] = []

    def broken(_payload: Mapping[str, str]) -> None:
        raise RuntimeError("broken")

    local.subscribe("cancel", broken)
    local.subscribe("cancel", heard.append)
    await local.publish("cancel", key="1", address="::1")
    assert heard == [{"key": "1", "address": "::1"}]


async def test_overlong_socket_path_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="too long"):
        await SignalHub(tmp_path / ("x" * 120) / "signals.sock").start()
