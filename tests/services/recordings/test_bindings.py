"""The ledger binds a session only when its facts are final.

Every way to begin and to end a session, and every feature that writes to its row afterwards, is checked by the online
verification and by that of an export."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update
from tests.services.recordings.test_exports import exported, proven
from tests.support.recorded import Records
from tests.support.reviews import asked, decided

from postern.domain.issues.issue import Issue, IssueState, SessionIssue
from postern.domain.reviews.review import Choice, Review, ReviewEvent, ReviewKind
from postern.domain.sessions.session import EndReason, SessionStatus
from postern.services.bundle import Services
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.session_tables import sessions


@dataclass
class Story:
    """One session, step by step. The ledger is written after every step."""

    records: Records
    services: Services
    session: UUID = field(default_factory=uuid4)
    review: Review | None = None

    async def open(self) -> None:
        self.session = await self.records.open()

    async def submit(self) -> None:
        self.session = await self.records.open(status=SessionStatus.READY, script="select 1")

    async def ask_access(self) -> None:
        await self._ask(ReviewKind.JIT)

    async def ask_script(self) -> None:
        await self._ask(ReviewKind.ONETIME)

    async def _ask(self, kind: ReviewKind) -> None:
        world = self.records.world
        review = await asked(world, self.records.user, kind=kind, created_at=world.clock())
        assert review.session_id is not None
        self.review, self.session = review, review.session_id

    async def approve(self) -> None:
        await self._decide(Choice.APPROVED)

    async def reject(self) -> None:
        await self._decide(Choice.REJECTED)

    async def _decide(self, choice: Choice) -> None:
        assert self.review is not None
        reviewer = await self.records.world.add_user(f"dba{uuid4().hex[:8]}", "dba")
        await decided(self.records.world, self.review, reviewer, choice, at=self.records.world.clock())

    async def start(self) -> None:
        await self._move(ReviewEvent.STARTED)

    async def withdraw(self) -> None:
        await self._move(ReviewEvent.WITHDRAWN)

    async def expire(self) -> None:
        self.records.world.clock.forward(days=3)
        await self._move(ReviewEvent.EXPIRED)

    async def _move(self, event: ReviewEvent) -> None:
        assert self.review is not None
        store, now = self.records.world.stores.reviews, self.records.world.clock()
        assert await store.move(self.review.id, event, now) is not None

    async def claim(self) -> None:
        self.records.world.clock.forward(minutes=7)
        claim = self.records.world.stores.sessions.claim
        credential = uuid4() if self.review and self.review.kind is ReviewKind.JIT else None
        metadata = {"application": "psql"}
        found = await claim(self.session, "w1", self.records.world.clock(), metadata=metadata, credential_id=credential)
        assert found is not None

    async def record(self) -> None:
        await self.records.store(self.session, 2)

    async def end(self) -> None:
        await self.records.end(self.session)

    async def fail(self) -> None:
        """The target is away, or the gateway no longer admits the owner."""
        ended = SessionEnd(self.records.world.clock(), EndReason.FAILED, exit_code=1, detail="the target is away")
        assert await self.records.world.stores.sessions.end(self.session, ended)

    async def kill(self) -> None:
        ended = SessionEnd(self.records.world.clock(), EndReason.KILLED, detail="killed by ann@example.com")
        assert await self.records.world.stores.sessions.end_if_ready(self.session, ended)

    async def crash(self) -> None:
        """A worker that restarts closes what its earlier life left open."""
        ended = SessionEnd(
            self.records.world.clock(), EndReason.GATEWAY_CRASHED, metrics={"operations": 3}, event_size=9
        )
        assert await self.records.world.stores.sessions.end(self.session, ended)

    async def hold(self) -> None:
        await self.services.holds.set(self.records.user, self.session, "case-7", "asked by legal")

    async def release(self) -> None:
        await self.services.holds.release(self.records.user, self.session, "case-7")

    async def link_issue(self) -> None:
        now = self.records.world.clock()
        issues = self.records.world.stores.session_issues
        org_id = self.records.world.org_id
        await issues.add(SessionIssue(self.session, org_id, IssueState.WANTED, None, "", next_at=now, created_at=now))
        await issues.mark_created(self.session, Issue("OPS-7", "https://tracker.example.com/OPS-7"), now)

    async def postprocessing(self) -> None:
        await self.services.postprocessing.once()

    async def index_texts(self) -> None:
        await self.services.session_texts.catch_up()

    async def label(self) -> None:
        changed = update(sessions).where(sessions.c.id == self.session)
        async with self.records.world.database.statement() as connection:
            await connection.execute(changed.values(labels={"team": "data"}, metadata={"note": "later"}))

    async def rename(self) -> None:
        """The account and the connection get other names; the session keeps what they were."""
        await self.records.sql("update users set email = 'new@example.com' where id = :id", id=self._user_key())
        await self.records.sql("update connections set resource_name = 'renamed'")

    def _user_key(self) -> object:
        key = self.records.user.id
        return key.hex if self.records.world.database.is_sqlite else key

    async def finish(self) -> None:
        """The review of a script ends with it."""
        await self.records.world.stores.reviews.finish(self.session, self.records.world.clock())

    async def revoke(self) -> None:
        await self._move(ReviewEvent.REVOKED)


Step = Callable[[Story], Awaitable[None]]
S = Story
RUN: tuple[Step, ...] = (S.record, S.end)
ACCESS: tuple[Step, ...] = (S.ask_access, S.approve)
SCRIPT: tuple[Step, ...] = (S.ask_script, S.approve)

BEGINNINGS: dict[str, tuple[Step, ...]] = {
    "connect": (S.open, *RUN),
    "connect that fails at the target": (S.open, S.fail),
    "connect of a worker that crashed": (S.open, S.record, S.crash),
    "connect after a review": (*ACCESS, S.claim, *RUN),
    "connect after a review, target unavailable": (*ACCESS, S.claim, S.fail),
    "connect whose review is rejected": (S.ask_access, S.reject),
    "connect whose review is withdrawn": (S.ask_access, S.withdraw),
    "connect whose review expires": (S.ask_access, S.expire),
    "connect that is killed while it waits": (S.ask_access, S.kill),
    "connect whose client gave up after the approval": (*ACCESS, S.kill),
    "exec": (S.submit, S.claim, *RUN),
    "exec that is denied when it is claimed": (S.submit, S.claim, S.fail),
    "exec that is killed before it runs": (S.submit, S.kill),
    "exec after a review": (*SCRIPT, S.start, S.claim, *RUN, S.finish),
    "exec after a review, denied when it is claimed": (*SCRIPT, S.start, S.claim, S.fail, S.finish),
    "exec that is not run after its approval": (*SCRIPT, S.expire),
    "exec that is killed after its approval": (*SCRIPT, S.kill),
    "exec whose review is rejected": (S.ask_script, S.reject),
    "exec whose review is revoked": (*SCRIPT, S.revoke),
}

AFTERWARDS: dict[str, tuple[Step, ...]] = {
    "nothing": (),
    "hold": (S.hold,),
    "hold and release": (S.hold, S.release),
    "issue": (S.link_issue,),
    "follow-up": (S.postprocessing,),
    "texts": (S.index_texts,),
    "labels and metadata": (S.label,),
    "renamed user and connection": (S.rename,),
}


async def play(records: Records, steps: tuple[Step, ...]) -> Story:
    story = Story(records, records.services())
    for step in steps:
        await step(story)
        await story.services.ledger.write()
        records.world.clock.forward(seconds=1)
    return story


async def is_proven(story: Story, tmp_path: Path) -> None:
    """Online and as an export, whole and of the day on which it ran."""
    records, services = story.records, story.services
    await services.checkpoints.make(records.user)
    online = await services.verifier.verify(records.world.org_id)
    assert online.is_good, online.findings
    whole = await proven(records, services, await exported(records, services, tmp_path))
    assert whole.is_good, whole.findings
    assert online.sessions_proven == whole.sessions_proven == 1
    session = await records.world.stores.sessions.get(records.world.org_id, story.session)
    assert session is not None
    near = timedelta(seconds=1)
    since, until = session.start_date - near, session.start_date + near
    part = await proven(records, services, await exported(records, services, tmp_path, since, until))
    assert part.is_good, part.findings
    assert part.sessions_proven == 1


@pytest.mark.parametrize("name", BEGINNINGS)
async def test_session_is_proven_however_it_begins_and_ends(records: Records, tmp_path: Path, name: str) -> None:
    await is_proven(await play(records, BEGINNINGS[name]), tmp_path)


@pytest.mark.parametrize("name", AFTERWARDS)
async def test_session_stays_proven_after_any_later_write_to_its_row(
    records: Records, tmp_path: Path, name: str
) -> None:
    early = AFTERWARDS[name]
    await is_proven(await play(records, (*ACCESS, S.claim, *RUN, *early)), tmp_path)


@pytest.mark.parametrize("name", ["hold", "hold and release", "issue", "labels and metadata", "texts", "follow-up"])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_session_stays_proven_after_any_write_while_it_waits_or_runs(
    records: Records, tmp_path: Path, name: str, at: int
) -> None:
    whole = (*ACCESS, S.claim, *RUN)
    await is_proven(await play(records, (*whole[:at], *AFTERWARDS[name], *whole[at:])), tmp_path)


@pytest.mark.parametrize("steps", [ACCESS, SCRIPT, (S.ask_access,), (S.submit,)])
async def test_waiting_session_is_not_a_finding(records: Records, steps: tuple[Step, ...]) -> None:
    story = await play(records, (S.open, *RUN, *steps))
    await story.services.checkpoints.make(records.user)
    report = await story.services.verifier.verify(records.world.org_id)
    assert report.is_good, report.findings
    assert report.sessions_proven == 1
