"""Syslog deliveries to real listeners."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import pytest
from tests.integrations.sinks.conftest import sink
from tests.support.promises import until
from tests.support.receivers import LOOPBACK, senders, syslog_receiver
from tests.support.world import START

from postern.domain.event import EventKind
from postern.domain.sink import Delivery, SinkKind
from postern.errors import Denied, Unavailable
from postern.integrations.sinks.senders import Senders

Make = Callable[..., Delivery]
# RFC 5424, section 6: HEADER SP STRUCTURED-DATA SP MSG.
_FORM = re.compile(
    rb"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)) "
    rb"([\x21-\x7e]{1,255}) ([\x21-\x7e]{1,48}) ([\x21-\x7e]{1,128}) ([\x21-\x7e]{1,32}) - ([\x20-\x7e]*)"
)


@pytest.mark.parametrize("scheme", ["syslog+tls", "syslog+tcp"])
async def test_events_arrive_in_order_with_octet_counts(delivery: Make, scheme: str) -> None:
    events = [
        delivery(kind, number=at) for at, kind in enumerate([EventKind.SESSION_KILL] + [EventKind.AUDIT_ENTRY] * 40)
    ]
    async with syslog_receiver(tls=scheme == "syslog+tls") as receiver:
        await senders().send(sink(SinkKind.SYSLOG, f"{scheme}://localhost:{receiver.port}"), events, START)
        await until(lambda: len(receiver.got) == len(events))
    found = [_FORM.fullmatch(one) for one in receiver.got]
    assert [one and one[7] for one in found] == [one.body.encode() for one in events]
    assert found[0] is not None
    assert (int(found[0][1]), found[0][3], found[0][4]) == (13 * 8 + 4, b"gateway.example.com", b"postern")
    assert found[0][6] == b"session.kill"


async def test_event_is_sent_as_a_datagram_and_oversized_ones_are_denied(delivery: Make) -> None:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.settimeout(60)
    hook = sink(SinkKind.SYSLOG, f"syslog+udp://127.0.0.1:{receiver.getsockname()[1]}")
    one = delivery()
    await senders().send(hook, [one], START)
    found = _FORM.fullmatch(receiver.recv(70_000))
    receiver.close()
    assert found is not None
    assert found[7] == one.body.encode()
    with pytest.raises(Denied, match="larger than a datagram"):
        await senders().send(hook, [delivery(text="x" * 70_000)], START)


async def test_attack_38_control_characters_of_a_name_are_escaped(delivery: Make) -> None:
    """The user is called `a\\r\\nb\\x1b[31m…` and forges a message of its own."""
    async with syslog_receiver(tls=False) as receiver:
        await senders().send(sink(SinkKind.SYSLOG, f"syslog+tcp://localhost:{receiver.port}"), [delivery()], START)
        await until(lambda: bool(receiver.got))
    (one,) = receiver.got
    assert all(0x20 <= byte <= 0x7E for byte in one)


async def test_invalid_host_name_is_sent_in_a_well_formed_message(delivery: Make) -> None:
    async with syslog_receiver(tls=False) as receiver:
        sender = Senders("höst name\n", LOOPBACK)
        await sender.send(sink(SinkKind.SYSLOG, f"syslog+tcp://localhost:{receiver.port}"), [delivery()], START)
        await until(lambda: bool(receiver.got))
    assert _FORM.fullmatch(receiver.got[0])


async def test_unencrypted_syslog_is_sent_only_to_allowed_networks(delivery: Make) -> None:
    async def resolver(_host: str, _port: int) -> list[str]:
        return ["93.184.215.14"]

    for scheme in ("syslog+tcp", "syslog+udp"):
        hook = sink(SinkKind.SYSLOG, f"{scheme}://siem.example.com:514")
        with pytest.raises(Unavailable, match="without TLS"):
            await Senders("gateway", resolver=resolver).send(hook, [delivery()], START)


async def test_unreachable_syslog_server_is_unavailable(delivery: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot be reached"):
        await senders().send(sink(SinkKind.SYSLOG, f"syslog+tcp://localhost:{port}"), [delivery()], START)
