"""No sequence of events brings a session into a state, or changes a field, that domain/sessions/session.py forbids.

Hypothesis chooses the events, the real store applies them, and every row is compared after each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import and_, case, select
from tests.support.examples import examples
from tests.support.reviews import REVIEWERS, decided, new_review
from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import ReviewKind
from postern.domain.sessions.session import CHANGES, TRANSITIONS, EndReason, Session, SessionEvent, SessionStatus, Verb
from postern.domain.targets.command import Invocation
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.ports.notification_ports import ENDED, OPENED, UNCOUNTED, UNREAD
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.session_tables import sessions

T = TypeVar("T")
Row = dict[str, Any]


@dataclass
class Stage:
    """A store on an event loop of its own, since the machine's rules are no coroutines."""

    url: str
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @contextmanager
    def opened(self) -> Iterator[World]:
        database = Database(self.url, pool_size=2)
        try:
            yield self.run(World.make(database))
        finally:
            self.run(database.close())
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)


# What others note on the row: the reports and the ledger.
FOLLOWED_UP = {"pending", "opened_entry", "closed_entry"}


class Lives(RuleBasedStateMachine):
    """`rows` is what every session must look like now, by the table alone."""

    ids = Bundle("ids")
    stage: Stage
    world: World
    boss: Principal

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[UUID, Row] = {}
        self.ends: dict[UUID, int] = {}
        self.reviews: dict[UUID, UUID] = {}  # of sessions that waited for one
        self.moment = START

    @rule(
        target=ids,
        event=st.sampled_from([SessionEvent.OPENED, SessionEvent.ASKED, SessionEvent.SUBMITTED]),
        is_command=st.booleans(),
    )
    def begin(self, event: SessionEvent, is_command: bool) -> UUID:
        status = TRANSITIONS[None, event]
        review = new_review(self.world, kind=ReviewKind.JIT) if event is SessionEvent.ASKED else None
        session = Session(
            id=uuid4(),
            org_id=self.world.org_id,
            connection_id=uuid4(),
            connection="shop",
            connection_subtype="postgres",
            connection_tags={},
            type="database",
            verb=Verb.EXEC if status is SessionStatus.READY else Verb.CONNECT,
            status=status,
            user="ann@example.com",
            user_id="ann",
            user_name="Ann",
            start_date=self._now(),
            worker="w0" if event is SessionEvent.OPENED else None,
            review_id=None if review is None else review.id,
        )
        given = Invocation(("-n",), parameters={"a": "1", "b": 2, "c": None, "d": True, "e": 0.5})
        invocation = given if is_command and event is not SessionEvent.OPENED else Invocation()
        stores = self.world.stores
        if review is None:
            self._run(stores.sessions.add(session, principal_id=uuid4(), source="::1", invocation=invocation))
        else:
            review = replace(review, session_id=session.id)
            self._run(stores.reviews.add(review, session, source="::1", invocation=invocation))
            self.reviews[session.id] = review.id
        self.rows[session.id] = self._row(session.id)
        assert self.rows[session.id]["status"] == status
        return session.id

    @rule(key=ids)
    def approve(self, key: UUID) -> None:
        if key not in self.reviews:
            return
        before = self._run(self.world.stores.reviews.get(self.reviews[key]))
        assert before is not None
        waits = self.rows[key]["status"] == SessionStatus.OPEN and self.rows[key]["worker"] is None
        try:
            self._run(decided(self.world, before, self.boss))
        except Conflict:
            assert not waits
        else:
            self._expect(key, SessionEvent.APPROVED, waits, {})

    @rule(key=ids, worker=st.sampled_from(["w1", "w2"]), is_named=st.booleans())
    def claim(self, key: UUID, worker: str, is_named: bool) -> None:
        at, credential = self._now(), uuid4()
        told: Row = {"metadata": {"client": "psql"}, "credential_id": credential} if is_named else {}
        happened = self._run(self.world.stores.sessions.claim(key, worker, at, **told)) is not None
        as_it_was = {name: self.rows[key][name] for name in ("metadata", "credential_id")}
        self._expect(key, SessionEvent.CLAIMED, happened, as_it_was | told | {"worker": worker, "start_date": at})

    @rule(key=ids, reason=st.sampled_from(EndReason), code=st.sampled_from([None, 0, 3]), size=st.integers(0, 2**40))
    def end(self, key: UUID, reason: EndReason, code: int | None, size: int) -> None:
        ended = SessionEnd(self._now(), reason, code, {"refused": size % 3}, size)
        happened = self._run(self.world.stores.sessions.end(key, ended))
        self._expect(key, SessionEvent.ENDED, happened, _values(ended))

    @rule(key=ids, reason=st.sampled_from(EndReason))
    def end_at_the_same_time(self, key: UUID, reason: EndReason) -> None:
        """A worker, its supervisor and the API may all end it: one of them does."""
        ended = SessionEnd(self._now(), reason, 1)
        store = self.world.stores.sessions

        async def together() -> list[bool]:
            return list(await asyncio.gather(*(store.end(key, ended) for _ in range(3))))

        outcomes = self._run(together())
        assert sum(outcomes) <= 1
        self._expect(key, SessionEvent.ENDED, any(outcomes), _values(ended))

    @rule(key=ids)
    def withdraw(self, key: UUID) -> None:
        ended = SessionEnd(self._now(), EndReason.KILLED, detail="killed by ann")
        happened = self._run(self.world.stores.sessions.end_if_ready(key, ended))
        if self.rows[key]["status"] == SessionStatus.OPEN and self.rows[key]["worker"] is not None:
            assert not happened  # somebody has it
        else:
            self._expect(key, SessionEvent.WITHDRAWN, happened, _values(ended))

    @rule()
    def end_what_is_not_there(self) -> None:
        ended = SessionEnd(self._now(), EndReason.KILLED)
        store = self.world.stores.sessions
        assert not self._run(store.end(uuid4(), ended))
        assert not self._run(store.end_if_ready(uuid4(), ended))
        assert self._run(store.claim(uuid4(), "w1", self._now())) is None

    @invariant()
    def every_row_is_as_the_table_says(self) -> None:
        for key, expected in self.rows.items():
            row = self._row(key)
            assert row == expected
            assert (row["end_date"] is None) == (row["status"] != SessionStatus.DONE)
            assert self.ends.get(key, 0) == (row["status"] == SessionStatus.DONE)

    def _expect(self, key: UUID, event: SessionEvent, happened: bool, values: Row) -> None:
        """Exactly what the table allows has happened, and only the fields that it names have changed."""
        to = TRANSITIONS.get((SessionStatus(self.rows[key]["status"]), event))
        assert happened == (to is not None)
        if to is None:
            return
        assert {"status", *values} == CHANGES[event]
        self.rows[key] |= {"status": to, **values}
        if to is SessionStatus.DONE:
            self.ends[key] = self.ends.get(key, 0) + 1

    def _now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment

    def _row(self, key: UUID) -> Row:
        async def read() -> Row:
            async with self.world.database.statement() as connection:
                row = await connection.execute(select(*sessions.c).where(sessions.c.id == key))
                return {name: value for name, value in row.mappings().one().items() if name not in FOLLOWED_UP}

        return self._run(read())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.stage.run(work)


def _values(ended: SessionEnd) -> Row:
    metrics = dict(ended.metrics or {})
    return {
        "end_date": ended.at,
        "end_reason": ended.reason,
        "end_detail": ended.detail,
        "exit_code": ended.exit_code,
        "metrics": metrics | {"event_size": ended.event_size},
        "event_size": ended.event_size,
        "refused": metrics.get("refused", 0),
        "masked": 0,
    }


@pytest.mark.ci
def test_sequence_of_events_changes_sessions_only_as_the_state_table_allows(database_url: str) -> None:
    stage = Stage(database_url)
    with stage.opened() as world:

        class Own(Lives):
            pass

        Own.stage, Own.world, Own.boss = stage, world, stage.run(world.add_user("boss", REVIEWERS))
        run_state_machine_as_test(Own, settings=settings(max_examples=examples(15), stateful_step_count=12))

        async def pending() -> dict[str, set[int]]:
            waits = and_(sessions.c.status == SessionStatus.OPEN, sessions.c.worker.is_(None))
            shown = select(case((waits, "waits"), else_=sessions.c.status).label("state"), sessions.c.pending)
            async with world.database.statement() as connection:
                found: dict[str, set[int]] = {}
                for row in await connection.execute(shown):
                    found.setdefault(row.state, set()).add(row.pending)
                return found

        # None is forgotten by what follows, and of those that wait to be run nothing is to be told.
        expected = {
            SessionStatus.DONE: {OPENED | ENDED | UNCOUNTED | UNREAD},
            SessionStatus.OPEN: {OPENED},
            SessionStatus.READY: {0},
            "waits": {0},
        }
        found = stage.run(pending())
        assert found[SessionStatus.DONE]
        assert found == {status: expected[status] for status in found}
