"""Measures a worker's own code for each point query: no sockets, no target, no other process.

    python -m bench.own_code

A link gets the bytes that pgbench -S and PostgreSQL would send, as one read each. The time is the process's own (user
and system), the least of several rounds, with everything in the processor's caches: in a gateway beside other programs
the same code takes two to four times as long. To compare two builds, alternate them.
"""

from __future__ import annotations

import asyncio
import gc
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from uuid import uuid4

import click

from bench import machine
from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.interception.events import Event
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.postgres.dialect.postgres_encodings import ClientEncodings
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Side
from postern.recording.group_commit import GroupCommit
from postern.recording.record_format import Header
from postern.recording.recorder import Recorder
from postern.recording.segments import Segments
from postern.relay.driver import Driver, Recording, clock_since
from postern.relay.link import Link

QUERIES, REPEATS, ROUNDS = 1_000, 20, 9
_NEVER = 1e9  # seconds between syncs of the recording, which a worker makes in another thread

_STATEMENT = b"SELECT abalance FROM pgbench_accounts WHERE aid = "
_COLUMNS = m.message(b"T", b"\0\1abalance\0", struct.pack("!IhIhih", 16385, 3, 23, 4, -1, 0))
_ROWS = _COLUMNS + m.message(b"D", b"\0\1\0\0\0\4-123") + m.message(b"C", b"SELECT 1\0") + m.ready_for_query(b"I")
RULES = (
    Rule(RuleType.DENY_WORDS_LIST, words=("drop table", "truncate")),
    Rule(RuleType.PATTERN_MATCH, pattern_regex=r"(?i)delete\s+from\s+\w+\s*;?\s*$"),
)


class _Nowhere:
    """A transport and a recording that keep nothing."""

    def write(self, data: bytes) -> None: ...

    def record(self, events: list[Event], micros: int) -> None: ...


class _ToDisk:
    def __init__(self, recorder: Recorder) -> None:
        self.record = recorder.record_all


def _simple(number: int) -> bytes:
    return m.query(_STATEMENT + str(number).encode() + b";")


def _prepared(number: int) -> bytes:
    value = str(number).encode()
    bound = m.message(b"B", b"\0P_0\0\0\0\0\1", struct.pack("!i", len(value)), value, b"\0\1\0\0")
    return bound + m.describe_portal(b"") + m.message(b"E", b"\0\0\0\0\0") + m.SYNC_MESSAGE


@contextmanager
def _recorder(session: SessionView, *, recorded: bool) -> Iterator[Recording]:
    if not recorded:
        yield _Nowhere()
        return
    header = Header(session.id, uuid4(), "postgres", "c", "u", datetime.now(UTC))
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        commits = GroupCommit(_NEVER)
        segments = Segments(commits, Path(home), "w", header, most=1 << 40, longest=1 << 60)
        try:
            yield cast("Recording", _ToDisk(Recorder(segments, 1 << 40)))
        finally:
            commits.close()


def _driver(session: SessionView, recording: Recording, *, guarded: bool) -> Driver:
    interceptors: list[Interceptor] = []
    if guarded:
        parser = PostgresParser()
        rails = (Guardrail(uuid4(), uuid4(), "bench", input=RULES),)
        interceptors = [ClientEncodings(parser), GuardrailInterceptor(rails, parser)]
    clock = clock_since(time.monotonic())
    link = Link(PostgresWire(), Pipeline(interceptors, session), clock)
    driver = Driver(link, recording, clock=clock, cancel_target=asyncio.get_running_loop().create_future)
    for side in Side:
        driver.attach(side, cast("asyncio.Transport", _Nowhere()))
    return driver


def _least(driver: Driver, queries: Sequence[bytes], answer: bytes) -> float:
    """Return the microseconds of one query in the fastest round."""
    from_client, from_target = driver.from_client, driver.from_target
    rounds: list[float] = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        for _ in range(REPEATS):
            for query in queries:
                from_client(query)
                from_target(answer)
        rounds.append((time.process_time_ns() - started) / (REPEATS * len(queries)) / 1_000)
    return min(rounds)


def _measure(*, prepared: bool, recorded: bool, guarded: bool) -> float:
    session = SessionView(uuid4(), "u", frozenset(), "c", "database", "postgres", {})
    numbers = [10_000 + 37 * number for number in range(QUERIES)]
    with _recorder(session, recorded=recorded) as recording:
        driver = _driver(session, recording, guarded=guarded)
        if not prepared:
            return _least(driver, [_simple(number) for number in numbers], _ROWS)
        driver.from_client(m.parse(b"P_0", _STATEMENT + b"$1;") + m.SYNC_MESSAGE)
        driver.from_target(m.message(b"1") + m.ready_for_query(b"I"))
        return _least(driver, [_prepared(number) for number in numbers], m.message(b"2") + _ROWS)


async def _table() -> list[str]:
    lines = ["| µs for each point query | simple | prepared |", "|---|---:|---:|"]
    for recorded, guarded in ((False, False), (True, False), (True, True)):
        label = ("recorded" if recorded else "passed on only") + (", guardrail of two text rules" if guarded else "")
        cells = [_measure(prepared=prepared, recorded=recorded, guarded=guarded) for prepared in (False, True)]
        lines.append(f"| {label} | {cells[0]:.1f} | {cells[1]:.1f} |")
    return lines


@click.command(help=__doc__)
def main() -> None:
    gc.disable()
    how = "compiled by mypyc" if machine.is_compiled() else "plain Python"
    click.echo(f"hot path {how}\n")
    click.echo("\n".join(asyncio.run(_table())))


if __name__ == "__main__":
    main()
