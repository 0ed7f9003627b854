"""Links of MongoDB's protocol without a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tests.support.protocols import mongodb_test_messages as mg
from tests.support.protocols.playbook import CHUNKS, Playbook

from postern.interception.events import Event, Operation, Phase
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire
from postern.protocols.wire_base import Side
from postern.relay.link import Effect, Link, Record, Send


def links(*interceptors: Interceptor, **options: Any) -> Callable[[], Link]:
    """Makes links with these interceptors; options are those of the wire."""

    def make() -> Link:
        view = SessionView(UUID(int=1), "ada@example.com", frozenset({"staff"}), "db", "database", "mongodb", {})
        return Link(MongodbWire(**options), Pipeline(list(interceptors), view), lambda: 0)

    return make


def playbook(*interceptors: Interceptor, chunks: tuple[int, ...] = CHUNKS, **options: Any) -> Playbook:
    return Playbook(links(*interceptors, **options), show=mg.show, chunks=chunks)


def runs(exchange: int, text: str, *, truncated: bool = False) -> Operation:
    return Operation(exchange, text, Phase.RUN, (), truncated)


def sent(effects: list[Effect], side: Side) -> bytes:
    return b"".join([effect.data for effect in effects if isinstance(effect, Send) and effect.side is side])


def recorded(effects: list[Effect]) -> list[Event]:
    return [event for effect in effects if isinstance(effect, Record) for event in effect.events]
