"""What sessions cost in resident memory, above what the process has anyway."""

from __future__ import annotations

import time

from bench.processes import resident_bytes
from bench.stage import Route
from bench.stream import Stream

_SESSIONS = 200
_WARM_UP = 30
_STALL = 4.0


def of_an_idle_session(route: Route) -> float:
    """Bytes for each, over 200 at once. Those that came before have paid for what all share."""
    assert route.pid is not None
    for stream in [Stream(route.url) for _ in range(_WARM_UP)]:
        stream.close()
    time.sleep(0.5)
    before = resident_bytes(route.pid)
    streams = [Stream(route.url) for _ in range(_SESSIONS)]
    time.sleep(0.5)
    after = resident_bytes(route.pid)
    for stream in streams:
        stream.close()
    time.sleep(1)
    return (after - before) / _SESSIONS


def of_a_stalled_client(route: Route) -> float:
    """The most bytes that are added while a client has asked for 1 GB and does not read."""
    assert route.pid is not None
    stream = Stream(route.url)
    before = most = resident_bytes(route.pid)
    stream.ask("select repeat('x', 1000) from generate_series(1, 1000000)")
    end = time.monotonic() + _STALL
    while time.monotonic() < end:
        most = max(most, resident_bytes(route.pid))
        time.sleep(0.02)
    stream.abort()
    time.sleep(0.5)
    return most - before
