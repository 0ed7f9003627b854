"""What sessions cost in resident memory, above what the process has anyway."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.processes import resident_bytes
from bench.stage import Route
from bench.stream import Stream

_SESSIONS = 200
_WARM_UP = 30
_STALL = 4.0


def of_sessions(routes: Sequence[Route]) -> dict[str, tuple[float, float]]:
    """By route: bytes of each of 200 idle sessions, and the most bytes that are added while a client has asked for
    1 GB and does not read it.

    Nothing is closed before all is measured: what an earlier session gave back would hide what the next one takes.
    """
    with ExitStack() as held:
        idle = {route.name: _idle(route, held) for route in routes}
        return {route.name: (idle[route.name], _stalled(route, held)) for route in routes}


def _idle(route: Route, held: ExitStack) -> float:
    assert route.pid is not None
    for _ in range(_WARM_UP):  # what all sessions share is there from now on
        held.callback(Stream(route.url).abort)
    time.sleep(0.5)
    before = resident_bytes(route.pid)
    for _ in range(_SESSIONS):
        held.callback(Stream(route.url).abort)
    time.sleep(0.5)
    return (resident_bytes(route.pid) - before) / _SESSIONS


def _stalled(route: Route, held: ExitStack) -> float:
    assert route.pid is not None
    stream = Stream(route.url)
    held.callback(stream.abort)
    before = most = resident_bytes(route.pid)
    stream.ask("select repeat('x', 1000) from generate_series(1, 1000000)")
    end = time.monotonic() + _STALL
    while time.monotonic() < end:
        most = max(most, resident_bytes(route.pid))
        time.sleep(0.02)
    return most - before
