"""What becomes of each run of a schedule, whatever dies meanwhile: it is one session or one event. On both engines."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest
from tests.services.reviews.desk import Desk
from tests.services.runbooks.test_schedules import end, now, pass_by, plan, sessions, stocked
from tests.support.sinks import sink_fields
from tests.support.world import World

from postern.api.schemas.server.event_schemas import event_schemas
from postern.domain.event import EventKind
from postern.domain.issues.issue import IssueTemplate, Prompt, TrackerKind, WhenDown
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session
from postern.domain.sink import SinkKind
from postern.errors import Invalid, Unavailable
from postern.services.issues.tracker_settings import TrackerFields
from postern.services.runbooks.runs import Runs
from postern.services.runbooks.schedules import INTERRUPTED
from postern.store.sql.runbooks.sql_runbook_schedules import SqlRunbookSchedules

ADDRESS = "https://siem.example.com/postern"
SCHEMA = jsonschema_rs.Draft202012Validator(event_schemas()["schedule.failed"], validate_formats=True)


@pytest.fixture
async def desk(world: World) -> Desk:
    desk = await stocked(world)
    await listening(desk)
    return desk


async def listening(desk: Desk) -> None:
    """A sink is, from now on."""
    given = sink_fields("siem", SinkKind.WEBHOOK, ADDRESS, (EventKind.SCHEDULE_FAILED,))
    await desk.services.sinks.create(desk.root, given)
    desk.world.clock.forward(seconds=1)


async def events(desk: Desk) -> list[dict[str, Any]]:
    """All that wait for the sink, once everything is told."""
    while await desk.services.postprocessing.once():
        pass
    sink = await desk.world.stores.sinks.get(desk.world.org_id, "siem")
    assert sink is not None
    found = [json.loads(one.body) for one in await desk.world.stores.deliveries.waiting(sink.id, 1_000)]
    for one in found:
        SCHEMA.validate(one)
    return found


async def reasons(desk: Desk) -> list[str]:
    return [one["data"]["reason"] for one in await events(desk)]


def counted(desk: Desk) -> Counter[str]:
    found: Counter[str] = Counter()
    desk.services.runbook_schedules.counted = lambda outcome: found.update([outcome])
    return found


async def test_a_run_that_does_not_come_about_is_an_event_and_one_that_does_is_none(desk: Desk) -> None:
    outcomes, made = counted(desk), await plan(desk)
    ran = await pass_by(desk, hours=1)
    assert (ran.last_error, await events(desk)) == ("", [])
    due_at = ran.next_at
    skipped = await pass_by(desk, hours=1)
    (event,) = await events(desk)
    assert (event["type"], event["timestamp"]) == ("schedule.failed", desk.world.clock().isoformat())
    assert event["data"] == {
        "schedule": "nightly",
        "schedule_id": str(made.id),
        "repository": made.repository,
        "runbook": "/users/unlock.runbook.sql",
        "connection": "shop",
        "connection_id": str(desk.shop.id),
        "owner": desk.ann.email,
        "owner_id": str(desk.ann.id),
        "due_at": due_at.isoformat() if due_at else "",
        "reason": skipped.last_error,
    }
    assert await events(desk) == [event]
    assert outcomes == {"begun": 1, "failed": 1}


async def test_an_owner_without_the_right_is_told_of_each_time(desk: Desk) -> None:
    await plan(desk)
    desk.shop = replace(desk.shop, reviewers=(), access_mode_runbooks=desk.shop.access_mode_exec)
    await desk.world.overwrite(desk.shop)
    for times in (1, 2):
        await pass_by(desk, hours=1)
        told = await reasons(desk)
        assert len(told) == times
        assert all("access mode runbooks is disabled" in one for one in told)


async def test_what_was_missed_is_told_once(desk: Desk) -> None:
    await plan(desk, cron="*/5 * * * *")
    await pass_by(desk, hours=30)
    assert [one[:7] for one in await reasons(desk)] == ["missed:"]
    assert await desk.world.stores.postprocessing.failed_runs(10) == []


async def test_a_schedule_without_a_next_time_says_so(desk: Desk) -> None:
    """Time zones are taken away, by an update of those of the machine."""
    made = await plan(desk)
    await desk.world.stores.runbook_schedules.update(replace(made, zone="Mars/Olympus"))
    over = await pass_by(desk, hours=1)
    assert (over.next_at, over.last_session_id, over.enabled) == (None, None, True)
    assert "'Mars/Olympus' is not an IANA time zone" in over.last_error
    assert await reasons(desk) == [over.last_error]
    assert await sessions(desk) == []


async def test_a_time_that_clocks_skip_runs_once_behind_it(desk: Desk) -> None:
    desk.world.clock.now = datetime(2026, 3, 28, 23, 0, tzinfo=UTC)
    await plan(desk, cron="30 2 * * *", zone="Europe/Berlin")
    assert (await pass_by(desk, minutes=119)).last_at is None
    ran = await pass_by(desk, minutes=1)  # at three by the clock of its zone, behind two
    assert (ran.last_error, len(await sessions(desk))) == ("", 1)
    assert ran.next_at == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


async def test_a_kill_before_there_is_a_session_is_told_once_whoever_finds_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = counted(desk)
    await plan(desk)
    await killed(desk, monkeypatch, Runs, "submit")
    assert await reasons(desk) == []
    desk.world.clock.forward(minutes=3)
    others = [desk.world.services().runbook_schedules for _ in range(3)]
    await asyncio.gather(*(one.once() for one in (*others, desk.services.runbook_schedules)))
    assert await reasons(desk) == [INTERRUPTED]
    assert outcomes.total() <= 1
    assert ((await now(desk)).last_error, await sessions(desk)) == (INTERRUPTED, [])


async def test_a_kill_behind_the_session_loses_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, is noted as the last one, and the next does not run beside it."""
    await plan(desk, cron="* * * * *")
    await killed(desk, monkeypatch, SqlRunbookSchedules, "settle", minutes=1)
    (session,) = await sessions(desk)
    beside = await pass_by(desk, minutes=1)
    assert f"the previous run, session {session.id}, has not ended" in beside.last_error
    await pass_by(desk, minutes=2)
    assert (await now(desk)).last_error.startswith("skipped")
    assert len(await sessions(desk)) == 1
    assert all(one.startswith("skipped") for one in await reasons(desk))
    await end(desk, session.id)
    assert (await pass_by(desk, minutes=1)).last_error == ""
    assert len(await sessions(desk)) == 2


async def test_a_run_that_is_yet_to_begin_is_not_overtaken(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await plan(desk, cron="* * * * *")
    await killed(desk, monkeypatch, Runs, "submit", minutes=1)
    assert "has not started yet" in (await pass_by(desk, minutes=1)).last_error
    assert (await pass_by(desk, minutes=2)).last_error == ""  # by now it is known to be lost
    assert len(await sessions(desk)) == 1
    assert sorted(one[:7] for one in await reasons(desk)) == ["skipped", "the gat"]


async def test_a_run_that_was_given_up_for_lost_and_comes_about_is_noted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plan(desk)
    submit = Runs.submit

    async def slow(runs: Runs, *given: Any, **more: Any) -> Session:
        desk.world.clock.forward(minutes=3)
        await desk.world.services().runbook_schedules.once()
        return await submit(runs, *given, **more)

    monkeypatch.setattr(Runs, "submit", slow)
    ran = await pass_by(desk, hours=1)
    (session,) = await sessions(desk)
    assert (ran.last_session_id, ran.last_error) == (session.id, "")


async def test_what_fails_behind_the_session_is_a_run_all_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await plan(desk)
    submit = Runs.submit

    async def torn(runs: Runs, *given: Any, **more: Any) -> Session:
        await submit(runs, *given, **more)
        raise Unavailable("nobody heard of it")

    monkeypatch.setattr(Runs, "submit", torn)
    ran = await pass_by(desk, hours=1)
    (session,) = await sessions(desk)
    assert (ran.last_session_id, ran.last_error, await events(desk)) == (session.id, "", [])


async def test_a_kill_between_the_events_and_their_mark_tells_nothing_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plan(desk)
    await pass_by(desk, hours=3)

    async def away(*_given: object) -> None:
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(desk.world.stores.postprocessing, "queue_schedule_events", away)
        with pytest.raises(Unavailable):
            await desk.services.postprocessing.once()
    assert len(await events(desk)) == 1
    assert len(await events(desk)) == 1


async def killed(desk: Desk, monkeypatch: pytest.MonkeyPatch, what: type, method: str, **after: float) -> None:
    """The process that begins a run dies there."""
    begun = asyncio.Event()

    async def hanging(*_given: Any, **_more: Any) -> Any:
        begun.set()
        return await asyncio.Future()

    with monkeypatch.context() as patch:
        patch.setattr(what, method, hanging)
        desk.world.clock.forward(**after or {"hours": 1})
        round_ = asyncio.create_task(desk.world.services().runbook_schedules.once())
        await begun.wait()
        round_.cancel()
        await asyncio.gather(round_, return_exceptions=True)


async def asks(desk: Desk) -> None:
    """From now on sessions at the shop open an issue, which needs a summary."""
    url = "https://api.github.com"
    settings = TrackerFields(kind=TrackerKind.GITHUB, url=url, token=Secret("t"), when_down=WhenDown.GO_ON)
    await desk.services.tracker.create(desk.root, settings)
    at = desk.world.clock()
    prompts = (Prompt("summary", "Summary", required=True), Prompt("more", "More"))
    template = IssueTemplate(uuid4(), desk.world.org_id, "changes", "acme/ops", "10", prompts=prompts)
    await desk.world.stores.issue_templates.add(
        replace(template, connection_ids=(desk.shop.id,), created_at=at, updated_at=at)
    )


async def test_what_its_issue_needs_is_said_when_it_is_made(desk: Desk) -> None:
    fields = {"summary": Secret("planted")}
    with pytest.raises(Invalid, match="tracker_fields: sessions of connection 'shop' open no issue"):
        await plan(desk, tracker_fields=fields)
    await asks(desk)
    with pytest.raises(Invalid, match=r"Summary \(summary\)"):
        await plan(desk)
    with pytest.raises(Invalid, match="has no prompts for other") as refused:
        await plan(desk, tracker_fields={**fields, "other": Secret("planted")})
    assert "planted" not in refused.value.message
    made = await plan(desk, tracker_fields=fields)
    assert (await now(desk)).tracker_fields == made.tracker_fields == fields
    update = desk.services.runbook_schedules.update
    with pytest.raises(Invalid, match="Summary"):
        await update(desk.ann, "nightly", {"tracker_fields": {}})
    await update(desk.ann, "nightly", {"cron": "0 * * * *"})
    assert (await now(desk)).tracker_fields == fields
    ran = await pass_by(desk, hours=1)
    issues = await desk.world.stores.session_issues.due(desk.world.org_id, desk.world.clock(), 10)
    assert [(one.session_id, one.new and one.new.summary) for one in issues] == [(ran.last_session_id, "planted")]


async def test_what_its_issue_needs_by_then_is_told_when_it_runs(desk: Desk) -> None:
    await plan(desk)
    await asks(desk)
    assert "needs Summary" in (await pass_by(desk, hours=1)).last_error
    assert ["needs Summary" in one for one in await reasons(desk)] == [True]
    await desk.services.runbook_schedules.update(
        desk.ann, "nightly", {"tracker_fields": {"summary": Secret("planted")}}
    )
    assert (await pass_by(desk, hours=1)).last_error == ""
