"""Links of the Oracle protocol without a network, and scripts of what both sides say.

The gateway puts messages into packets of its own, as they come. So scripts compare the messages, and not the packets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from tests.support.protocols.playbook import CHUNKS, OrderCheck

from postern.interception.events import ClientOutput, Completed, Event, Operation, Phase
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
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
        link, order = make(), OrderCheck()
        for number, step in enumerate(steps):
            size = chunk or len(step.data)
            effects: list[Effect] = []
            for start in range(0, len(step.data), size):
                effects += link.receive(step.side, step.data[start : start + size])
            order.check(effects)
            found = _outcome(step, effects)
            where = f"step {number}, in pieces of {chunk}"
            assert messages(found.to_target) == messages(step.to_target), where
            if not step.closes:
                assert messages(found.to_client) == messages(step.to_client), where
            assert found.events == step.events, where
            assert found.closes == step.closes, where
