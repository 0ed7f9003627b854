"""The session engine, without its target and its store."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

from tests.support.links import Asks
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.permit import Permit
from postern.gateway.engine import Engine, Parts
from postern.gateway.link_registry import LinkRegistry
from postern.gateway.opened_session import OpenedSession
from postern.gateway.rules.held_requests import HeldRequests
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.relay.link import HoldEffect
from postern.relay.relay_target import Dialer, Start, Target
from postern.services.sessions import Sessions


class Held:
    """Records the permits with which a review would be opened."""

    def __init__(self) -> None:
        self.permits: list[Permit] = []

    def on_park(self, _session: UUID, permit: Permit, _start: Start, _driver: object, park: HoldEffect) -> None:
        self.permits.append(permit)


async def test_attack_changed_reviewers_apply_to_a_running_session() -> None:
    held = Held()
    parts = Parts(
        pipeline=lambda permit, view: Pipeline([Asks()], view),
        recording=cast("Any", None),
        wire=lambda permit, start, parameters: PostgresWire(),
    )
    engine = Engine(
        "w1",
        cast("Sessions", None),
        cast("Dialer", None),
        cast("LinkRegistry", None),
        parts,
        max_duration=60,
        held_requests=cast("HeldRequests", held),
    )
    at_first, now = cast("Permit", object()), cast("Permit", object())
    view = SessionView(uuid4(), "ann@example.com", frozenset(), "shop", "database", "postgres", {})
    recording = SimpleNamespace(record=lambda events, micros: None)
    opened = OpenedSession(
        view.id, at_first, Start("db"), view, cast("Any", recording), time.monotonic(), cast("Any", None)
    )
    live = engine._live(opened, Target(cast("Any", None), schema=cast("Any", object())), b"")
    live.permit = now  # as LiveLinks renews it when the connection's reviewers change
    live.driver.from_client(pg.query("review this"))
    assert held.permits == [now]
