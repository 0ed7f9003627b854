"""Trials of guardrails: on given text, and on past sessions. A trial changes nothing and denies nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import uuid4

from postern.domain.durations import duration_text
from postern.domain.identity.principal import Principal
from postern.domain.lists import Count, Page
from postern.domain.rules.guardrail import Guardrail, check_rules
from postern.domain.rules.guardrail_presets import PRESETS, Preset
from postern.domain.rules.trial import Answered, Hit, LostPart, RecordedStatement, Simulation, Step, Trial
from postern.domain.sessions.session import Session
from postern.domain.targets.dialect import DIALECTS
from postern.errors import Denied, Invalid, NotFound, PosternError, TooMany
from postern.services.rules.guardrails import Guardrails
from postern.store.ports.common_ports import Clock
from postern.store.ports.target_ports import Recordings, SessionFilter, SessionStore

MAX_TEXT = 1 << 20  # characters that are tried
MAX_SESSIONS = 10_000
MAX_STATEMENTS = 1_000_000
MAX_CONNECTIONS = 100
MAX_PERIOD = timedelta(days=366)
LONGEST = 600.0  # seconds
MOST_AT_ONCE = 2  # simulations in one process
MAX_ANSWERS = 20_000_000  # texts
_PIECE = 5_000  # steps that are judged at a time …
_MOMENT = 0.2  # … or for so many seconds
_MOST_LOST = 10  # reasons of one session
_PAGE = 100  # sessions


class TrialJudge(Protocol):
    """Evaluates guardrails. Calls may take long, and run in a thread. Raises Invalid for what cannot be evaluated."""

    def try_input(self, rail: Guardrail, text: str, dialect: str) -> Trial: ...

    def try_output(self, rail: Guardrail, text: str) -> Trial: ...

    def over(self, rail: Guardrail, dialect: str) -> Callable[[], SessionJudge]:
        """Return a factory of judges, one for each session, with shared preparation."""


class SessionJudge(Protocol):
    """Receives all steps of one session in order, and returns the rule that would decide on each."""

    def judge_statement(self, step: RecordedStatement) -> Hit | None: ...

    def judge_answer(self, step: Answered) -> Hit | None: ...


@dataclass(frozen=True, slots=True)
class Period:
    """Sessions that began in it, at most `most`; on these connections (names or identifiers), or on all."""

    start: datetime | None = None
    end: datetime | None = None
    connections: tuple[str, ...] = ()
    most: int = 1_000


class GuardrailTrials:
    """Trials for administrators and auditors, who see every session anyway."""

    def __init__(
        self,
        guardrails: Guardrails,
        sessions: SessionStore,
        recordings: Recordings,
        judge: TrialJudge | None,
        compiles: Callable[[str], str | None],
        now: Clock,
    ) -> None:
        self._guardrails = guardrails
        self._sessions = sessions
        self._recordings = recordings
        self._judge = judge
        self._compiles = compiles
        self._now = now
        self._running = 0

    def presets(self) -> tuple[Preset, ...]:
        return PRESETS

    async def rail(self, principal: Principal, name_or_id: str | None, draft: Mapping[str, Any] | None) -> Guardrail:
        """Return the saved one, or the draft, or the saved one with the draft's rules. Raises Denied, NotFound,
        Invalid."""
        _require_reader(principal)
        saved = None if name_or_id is None else await self._guardrails.get(principal, name_or_id)
        if draft is None:
            if saved is None:
                raise Invalid("guardrail: give the id of a guardrail, or a draft", field="guardrail")
            return saved
        base = saved or Guardrail(uuid4(), principal.org_id, draft["name"])
        rail = replace(base, input=draft["input"], output=draft["output"])
        check_rules(rail.input, "input", self._compiles)
        check_rules(rail.output, "output", self._compiles)
        return rail

    async def test(
        self, principal: Principal, rail: Guardrail, text: str, *, dialect: str, is_output: bool = False
    ) -> Trial:
        """Return the result for this text. Raises Denied, Invalid."""
        _require_reader(principal)
        if len(text) > MAX_TEXT:
            raise Invalid(f"text: at most {MAX_TEXT} characters", field="text")
        if dialect and dialect not in set(DIALECTS.values()):
            dialects = ", ".join(sorted(set(DIALECTS.values())))
            raise Invalid(f"dialect: {dialect!r} is not one of {dialects}", field="dialect")
        judge = self._able()
        if is_output:
            return await asyncio.to_thread(judge.try_output, rail, text)
        return await asyncio.to_thread(judge.try_input, rail, text, dialect)

    def _able(self) -> TrialJudge:
        if self._judge is None:
            raise Invalid("this process cannot try guardrails; ask the operator of the gateway")
        return self._judge

    async def simulate(self, principal: Principal, rail: Guardrail, period: Period) -> AsyncGenerator[Simulation]:
        """Yield the same object as it grows, at least once for each page of sessions; the last time it `is_done`.

        Raises Denied, Invalid, TooMany before the first.
        """
        _require_reader(principal)
        period = self._validate_period(rail, period)
        with self._place():
            simulation = Simulation(caveats=_caveats(rail))
            run = _Run(self._able(), rail, self._recordings, simulation)
            yield simulation
            deadline = asyncio.get_running_loop().time() + LONGEST
            async for session in self._find_sessions(principal, period):
                if simulation.sessions_read + sum(simulation.skipped.values()) >= period.most:
                    simulation.stopped = f"{period.most} sessions were read"
                elif asyncio.get_running_loop().time() >= deadline:
                    simulation.stopped = f"{duration_text(LONGEST)} have passed"
                if simulation.stopped:
                    break
                async for _ in run.read(session):
                    yield simulation
                    if asyncio.get_running_loop().time() >= deadline:
                        break
            simulation.is_done = True
            yield simulation

    def _validate_period(self, rail: Guardrail, period: Period) -> Period:
        if not rail.input and not rail.output:
            raise Invalid("input: this guardrail has no rules", field="input")
        end = period.end or self._now()
        start = period.start or end - timedelta(days=7)
        if not timedelta() < end - start <= MAX_PERIOD:
            raise Invalid(f"start_date: must be before end_date, by at most {MAX_PERIOD.days} days", field="start_date")
        if not 1 <= period.most <= MAX_SESSIONS:
            raise Invalid(f"max_sessions: must be 1 to {MAX_SESSIONS}", field="max_sessions")
        if len(period.connections) > MAX_CONNECTIONS:
            raise Invalid(f"connections: at most {MAX_CONNECTIONS}", field="connections")
        connections = period.connections or tuple(str(connection_id) for connection_id in rail.connection_ids)
        return replace(period, start=start, end=end, connections=connections)

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._running >= MOST_AT_ONCE:
            raise TooMany(f"{MOST_AT_ONCE} simulations are already running; try again when one of them has ended")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    async def _find_sessions(self, principal: Principal, period: Period) -> AsyncIterator[Session]:
        """Yield sessions, newest first, on each connection in turn."""
        connections: Sequence[str | None] = period.connections or (None,)
        for connection in connections:
            conditions = SessionFilter(connection=connection, start=period.start, end=period.end)
            page = Page(limit=_PAGE, count=Count.NONE)
            while True:
                stretch = await self._sessions.find(principal.org_id, conditions, page)
                for session in stretch.items:
                    yield session
                if stretch.next is None:
                    break
                page = replace(page, after=stretch.next)


class _Run:
    """A running simulation."""

    def __init__(self, judge: TrialJudge, rail: Guardrail, recordings: Recordings, simulation: Simulation) -> None:
        self._judge = judge
        self._rail = rail
        self._recordings = recordings
        self._found = simulation
        self._judges: dict[str, Callable[[], SessionJudge]] = {}

    async def read(self, session: Session) -> AsyncIterator[None]:
        """Read a session in pieces, and yield between two of them, when the reading can stop."""
        try:
            reading = await asyncio.to_thread(self._open, session)
        except NotFound:
            self._found.skip("it has no recording")
            return
        except PosternError as error:
            self._found.skip(error.message)
            return
        self._found.sessions_read += 1
        try:
            while not self._found.stopped and not reading.is_done:
                await asyncio.to_thread(self._piece, reading)
                yield
        except PosternError as error:
            reading.lost.add(error.message)
        for reason in reading.lost:
            self._found.skip(f"a part of it: {reason}")
        if reading.hits:
            self._found.session_hit(session, reading.hits)

    def _open(self, session: Session) -> _Reading:
        dialect = DIALECTS.get(self._recordings.protocol(session), "")
        judge = self._judges.get(dialect)
        if judge is None:
            judge = self._judges[dialect] = self._judge.over(self._rail, dialect)
        return _Reading(session, self._recordings.steps(session, answers=bool(self._rail.output)), judge())

    def _piece(self, reading: _Reading) -> None:
        """Read a piece, in a thread, for _MOMENT at most."""
        end = time.monotonic() + _MOMENT
        for count, step in enumerate(reading.steps, 1):
            reading.take(step, self._found)
            if count >= _PIECE or time.monotonic() > end:
                break
        else:
            reading.is_done = True
        simulation = self._found
        if simulation.statements_read >= MAX_STATEMENTS:
            simulation.stopped = f"{MAX_STATEMENTS} statements were read"
        elif simulation.answers_read >= MAX_ANSWERS:
            simulation.stopped = f"{MAX_ANSWERS} texts of answers were read"


@dataclass(slots=True)
class _Reading:
    """The progress in one session. `lost`: why parts of it could not be evaluated."""

    session: Session
    steps: Iterator[Step]
    judge: SessionJudge
    last: RecordedStatement | None = None
    hits: int = 0
    lost: set[str] = field(default_factory=set)
    is_done: bool = False

    def take(self, step: Step, simulation: Simulation) -> None:
        if isinstance(step, LostPart):
            if len(self.lost) < _MOST_LOST:
                self.lost.add(step.reason)
        elif isinstance(step, RecordedStatement):
            self.last = step
            simulation.statements_read += not step.prepared
            simulation.values_read += len(step.values)
            self._note(self.judge.judge_statement(step), step.at, simulation, "input")
        else:
            simulation.answers_read += len(step.texts)
            self._note(self.judge.judge_answer(step), step.at, simulation, "output")

    def _note(self, hit: Hit | None, at: float, simulation: Simulation, direction: str) -> None:
        if hit is not None:
            self.hits += 1
            simulation.hit(self.session, at, self.last, hit, direction)


def _caveats(rail: Guardrail) -> list[str]:
    caveats = []
    if rail.judges_statements:
        caveats.append(
            "the views and functions of the targets at that time are not known here: statements that use them can "
            "count as unknown, although the session knew them"
        )
    if rail.output:
        caveats.append(
            "answers are evaluated as recorded: values that masking replaced and output that a rule withheld "
            "cannot match, and output beyond the recording's limit is not recorded"
        )
    if rail.counts_rows:
        caveats.append("rows are counted by statement; rows that were not sent to the client are not counted")
    return caveats


def _require_reader(principal: Principal) -> None:
    if not principal.sees_all:
        raise Denied("only administrators and auditors can try guardrails")
