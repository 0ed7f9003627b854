"""Links of the Oracle protocol without a network, and scripts of what both sides say.

The gateway puts messages into packets of its own, as they come. So scripts compare the messages, and not the packets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from tests.support.protocols.playbook import CHUNKS, OrderCheck, PlaybookError

from postern.interception.events import ClientOutput, Completed, Event, Operation, Phase
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.oracledb.wire.oracle_notes import NOTE
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Link, Record, Send


def oracle_links(*interceptors: Interceptor, **options: Any) -> Callable[[], Link]:
    """Makes links with these interceptors; options are those of the wire."""
    options = {"layout": TtcLayout(), **options}

    def make() -> Link:
        view = SessionView(UUID(int=1), "ada@example.com", frozenset({"staff"}), "db", "database", "oracledb", {})
        return Link(OracleWire(**options), Pipeline(list(interceptors), view), lambda: 0)

    return make


def runs(exchange: int, text: str, *values: bytes | None, continues: int = 0) -> Operation:
    return Operation(exchange, text, Phase.RUN, values, continues=continues)


def messages(packets: bytes) -> list[bytes]:
    """What packets carry: data joined up to the next other packet, which stands for itself."""
    found: list[bytes] = []
    joins = False
    while packets:
        size = int.from_bytes(packets[:4], "big")
        packet, packets = packets[:size], packets[size:]
        is_data = packet[4] == 6 and packet[8:10] == b"\0\0"
        if is_data and joins:
            found[-1] += packet[10:]
        else:
            found.append(packet[10:] if is_data else packet)
        joins = is_data
    return found


@dataclass(frozen=True)
class Step:
    """One side sends `data`; what must come of it: bytes to either side, recorded events, and the end of the link."""

    side: Side
    data: bytes
    to_target: bytes = b""
    to_client: bytes = b""
    events: tuple[Event, ...] = ()
    closes: bool = False


def client(data: bytes, **expected: Any) -> Step:
    return Step(Side.CLIENT, data, **expected)


def target(data: bytes, **expected: Any) -> Step:
    return Step(Side.TARGET, data, **expected)


def oracle_content(packets: bytes) -> bytes:
    """What packets carry, in one."""
    return b"".join(messages(packets))


def packets_of(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[:size])
        data = data[size:]
    return found


class OracleOrderCheck(OrderCheck):
    """Holds effects to the rules of the record. The recording has notes of its own, and of messages only those that
    show something: these were recorded before they are sent, and nothing else is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self._recorded: list[bytes] = []

    def check(self, effects: list[Effect]) -> None:
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Record):
                shown = [event.data for event in effect.events if isinstance(event, ClientOutput)]
                self._recorded += [packet for packet in packets_of(b"".join(shown)) if packet[4] != NOTE]
            elif isinstance(effect, Send) and effect.side is Side.CLIENT:
                self._find_recorded(effect.data)
                continue
            others.append(effect)
        if self._recorded:
            raise PlaybookError(f"recorded as shown, but not sent: {self._recorded!r}")
        for record in others:
            if isinstance(record, Record):
                record.events = [event for event in record.events if not isinstance(event, ClientOutput)]
        super().check(others)

    def _find_recorded(self, sent: bytes) -> None:
        stream, at = b"".join([_carried(packet) for packet in packets_of(sent)]), 0
        for packet in self._recorded:
            content = _carried(packet)
            at = stream.find(content, at) + len(content)
            if at < len(content):
                raise PlaybookError(f"recorded was {packet!r}, but sent {sent!r}")
        self._recorded = []


def _carried(packet: bytes) -> bytes:
    return packet[10:] if packet[4] == 6 and packet[8:10] == b"\0\0" else packet


def _outcome(step: Step, effects: Sequence[Effect]) -> Step:
    sent = {side: b"".join([e.data for e in effects if isinstance(e, Send) and e.side is side]) for side in Side}
    events = [event for effect in effects if isinstance(effect, Record) for event in effect.events]
    kept = [_timeless(event) for event in events if not isinstance(event, ClientOutput)]
    closes = any(isinstance(effect, Close) for effect in effects)
    return replace(step, to_target=sent[Side.TARGET], to_client=sent[Side.CLIENT], events=tuple(kept), closes=closes)


def _timeless(event: Event) -> Event:
    return (
        Completed(event.exchange, event.tag, event.rows, event.error_code, event.error)
        if isinstance(event, Completed)
        else event
    )


def check_script(make: Callable[[], Link], *steps: Step, chunks: Sequence[int] = CHUNKS) -> None:
    """Plays the script with its input cut in every way, and compares each step. Records must precede what is sent."""
    for chunk in chunks:
        link, order = make(), OracleOrderCheck()
        for number, step in enumerate(steps):
            size = chunk or len(step.data)
            effects: list[Effect] = []
            for start in range(0, len(step.data), size):
                effects += link.receive(step.side, step.data[start : start + size])
            found = _outcome(step, effects)
            order.check(effects)
            where = f"step {number}, in pieces of {chunk}"
            assert messages(found.to_target) == messages(step.to_target), where
            if not step.closes:
                assert messages(found.to_client) == messages(step.to_client), where
            assert found.events == step.events, where
            assert found.closes == step.closes, where
