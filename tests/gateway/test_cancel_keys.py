"""Cancel requests: which link they cancel, and how many wrong keys an attacker can try."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from tests.gateway.test_live import permit_of

from postern.errors import ProtocolViolation
from postern.gateway import link_registry
from postern.gateway.link_registry import LinkRegistry, RegisteredLink
from postern.protocols.postgres.login.postgres_login import PostgresStartup
from postern.protocols.postgres.postgres_listener import _Client
from postern.protocols.postgres.wire import postgres_messages as m
from postern.relay.orders import encode_answer, read_answer
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target
from postern.services.admission import Access
from postern.store.ports.common_ports import Topic
from postern.store.signals import LocalSignals

PID = 4242


class Driver:
    """Counts how often it is told to cancel."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.client_bytes = self.target_bytes = 0

    def cancel(self) -> None:
        self.cancelled += 1


class Worker:
    """The links of one worker."""

    def __init__(self, signals: LocalSignals | None = None) -> None:
        self.signals = signals or LocalSignals()
        pipeline = cast("Any", lambda permit, view: None)
        self.links = LinkRegistry(cast("Access", None), self.signals, pipeline, idle_timeout=0)

    def add(self, key: bytes) -> tuple[RegisteredLink, Driver]:
        driver = Driver()
        view = cast("Any", SimpleNamespace(schema=None))
        link = RegisteredLink(uuid4(), permit_of(None), view, cast("Any", driver), time.monotonic(), 60, key)
        self.links.add(link, since=self.links.changes)
        return link, driver

    async def ask(self, key: bytes, address: str = "192.0.2.7") -> None:
        """As the gate does it."""
        if not self.links.cancel(key, address):
            await self.signals.publish(Topic.CANCEL, key=key.hex(), address=address)


def key_of(pid: int, secret: bytes) -> bytes:
    return pid.to_bytes(4, "big") + secret


@pytest.mark.parametrize("size", [4, 32])
async def test_cancel_key_secret_distinguishes_clients_with_the_same_process_id(size: int) -> None:
    """Two targets can assign the same process id."""
    worker = Worker()
    keys = [key_of(PID, bytes([number]) * size) for number in (1, 2)]
    (first, one), (_, two) = (worker.add(key) for key in keys)
    await worker.ask(keys[1])
    assert (one.cancelled, two.cancelled) == (0, 1)
    worker.links.remove(first)
    await worker.ask(keys[0])
    await worker.ask(keys[1])
    assert (one.cancelled, two.cancelled) == (0, 2)


async def test_cancel_key_is_found_at_another_worker() -> None:
    signals = LocalSignals()
    here, there = Worker(signals), Worker(signals)
    key = key_of(PID, b"abcd")
    _, driver = there.add(key)
    await here.ask(key)
    assert driver.cancelled == 1


async def test_attack_wrong_cancel_keys_per_address_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()
    key = key_of(PID, b"abcd")
    link, driver = worker.add(key)
    for number in range(link_registry.MAX_WRONG_KEYS_PER_ADDRESS + 5):
        await worker.ask(key_of(PID, number.to_bytes(4, "big")), "192.0.2.66")
    await worker.ask(key, "192.0.2.66")  # even the right one
    assert driver.cancelled == 0
    assert len([record for record in caplog.records if str(link.session_id) in record.getMessage()]) == 1
    await worker.ask(key, "192.0.2.7")
    assert driver.cancelled == 1


async def test_attack_wrong_cancel_keys_over_all_addresses_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_registry, "MAX_WRONG_KEYS", 300)
    worker = Worker()
    key = key_of(PID, b"abcd")
    _, driver = worker.add(key)
    for number in range(300):
        await worker.ask(key_of(PID, number.to_bytes(4, "big")), f"192.0.2.{number % 250}")
    await worker.ask(key, "198.51.100.1")
    assert driver.cancelled == 0


async def test_wrong_cancel_keys_for_another_process_do_not_count() -> None:
    worker = Worker()
    key = key_of(PID, b"abcd")
    _, driver = worker.add(key)
    for number in range(link_registry.MAX_WRONG_KEYS_PER_ADDRESS + 5):
        await worker.ask(key_of(PID + 1, number.to_bytes(4, "big")))
    await worker.ask(key)
    assert driver.cancelled == 1


class Written(StreamHandshake):
    """Keeps what is written to the client."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize(("protocol", "size"), [(m.PROTOCOL_3_0, 4), (m.PROTOCOL_3_2, 32)])
@pytest.mark.parametrize("process", [1, PID, (1 << 32) - 1, 0, 1 << 32])
def test_welcome_has_the_process_id_of_the_target_and_its_own_secret(process: int, protocol: int, size: int) -> None:
    """For a target without a usable process id, one is generated."""
    stream = Written()
    client = _Client(stream, PostgresStartup("ada", None, {}, protocol, False), 0)
    key = client.welcome(Target(stream, {}, process, b"the target's secret"))
    told = m.backend_key_data(int.from_bytes(key[:4], "big"), key[4:])
    assert told in stream.data
    assert len(key) == 4 + size
    assert b"the target's secret" not in stream.data
    pid = int.from_bytes(key[:4], "big")
    assert pid == process if 0 < process < 1 << 32 else 0 < pid < 1 << 31
    assert client.welcome(Target(stream, {}, process))[4:] != key[4:]


def test_agent_reports_process_id_and_cancel_key_of_its_target() -> None:
    told, heard = Target(StreamHandshake(), {"a": "b"}, PID, b"key!"), Target(StreamHandshake())
    read_answer(heard, encode_answer(told))
    assert (heard.process, heard.key) == (PID, b"key!")
    for bad in (-1, 1 << 64, "x", None):
        with pytest.raises(ProtocolViolation):
            read_answer(heard, {**encode_answer(told), "process": bad})
