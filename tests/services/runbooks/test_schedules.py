"""Runbooks that run by themselves: as whom, when, how often, and what is told where they do not. On both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import LargeBinary, select, update
from tests.services.reviews.desk import Desk
from tests.support.promises import PATIENT, until, within
from tests.support.shelf import NAME, shelve
from tests.support.world import World

from postern.api.schemas.runbooks.runbook_schedule_schemas import RunbookScheduleAnswer
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Principal, PrincipalKind, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.runbook import RunbookPattern, Schedule
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason, Session, SessionStatus
from postern.domain.targets.connection import Toggle
from postern.errors import Conflict, Denied, Invalid, Malformed, NotFound, TooMany, Unavailable
from postern.services.runbooks import schedules as module
from postern.services.runbooks.runs import Runs
from postern.services.runbooks.schedules import INTERRUPTED
from postern.services.server.audit_context import collect_change
from postern.store.ports.target_ports import SessionFilter
from postern.store.schema.runbook_tables import runbook_schedules
from postern.store.sql.runbooks.sql_runbook_schedules import BEGINS, SqlRunbookSchedules

UNLOCK = "update users set locked = false where name = {{ .user | required `whom?` | squote }};"
PIN = 'select {{ .pin | type "password" | pattern "^[0-9]{4}$" | squote }}'
FILES = {"users/unlock.runbook.sql": UNLOCK, "pin.runbook.sql": PIN}


@pytest.fixture
async def desk(world: World) -> Desk:
    return await stocked(world)


async def stocked(world: World) -> Desk:
    """Its shop asks nobody to agree, and lets nobody run scripts of their own."""
    desk = await Desk.make(world)
    desk.shop = replace(desk.shop, reviewers=(), force_approve_groups=(), access_mode_exec=Toggle.DISABLED)
    await world.overwrite(desk.shop)
    await shelve(world.stores, world.org_id, FILES, at=world.clock())
    return desk


async def plan(desk: Desk, owner: Principal | None = None, **fields: Any) -> Schedule:
    """Ann's, every hour."""
    given = {
        "name": "nightly",
        "connection": "shop",
        "file": "/users/unlock.runbook.sql",
        "cron": "0 * * * *",
        "parameters": {"user": Secret("o'neil")},
    }
    return await desk.services.runbook_schedules.create(owner or desk.ann, given | fields)


async def now(desk: Desk, name: str = "nightly") -> Schedule:
    return await desk.services.runbook_schedules.get(desk.root, name)


async def sessions(desk: Desk) -> list[Session]:
    """The oldest first."""
    found = await desk.services.sessions.find(desk.root, SessionFilter(), Page())
    return [await desk.session(one) for one in reversed(found.items)]


async def pass_by(desk: Desk, **delta: float) -> Schedule:
    """Let time pass, in which the agent stays online, and run what is due."""
    desk.world.clock.forward(**delta)
    await desk.world.stores.agents.mark_seen([desk.shop.agent_id], desk.world.clock())
    await desk.services.runbook_schedules.once()
    return await now(desk)


async def end(desk: Desk, session_id: UUID | None) -> None:
    """As a worker does that ran it."""
    assert session_id is not None
    assert await desk.services.sessions.claim(session_id, "w1") is not None
    await desk.services.sessions.close(
        session_id, reason=EndReason.CLIENT_CLOSED, exit_code=0, metrics={}, event_size=0
    )


async def test_a_schedule_runs_as_its_owner_at_its_times(desk: Desk) -> None:
    made = await plan(desk)
    assert (made.repository, made.file) == (NAME, "users/unlock.runbook.sql")
    assert made.next_at == datetime(2026, 1, 2, 4, tzinfo=UTC)
    assert (await pass_by(desk, minutes=50)).last_session_id is None
    ran = await pass_by(desk, minutes=10)
    (session,) = await sessions(desk)
    assert (ran.last_session_id, ran.last_error, ran.last_at) == (session.id, "", desk.world.clock())
    assert ran.next_at == datetime(2026, 1, 2, 5, tzinfo=UTC)
    assert session.script == "update users set locked = false where name = 'o''neil';"
    assert (session.user, session.status) == (desk.ann.email, SessionStatus.READY)
    assert session.labels["runbookSchedule"] == "nightly"
    assert session.labels["runbookFile"].endswith("users/unlock.runbook.sql")
    await desk.services.runbook_schedules.once()
    assert len(await sessions(desk)) == 1
    await end(desk, session.id)
    await pass_by(desk, hours=1)
    assert len(await sessions(desk)) == 2


async def test_of_those_who_come_at_once_one_runs_it(desk: Desk) -> None:
    await plan(desk)
    others = [desk.world.services().runbook_schedules for _ in range(4)]
    desk.world.clock.forward(hours=1)
    await asyncio.gather(*(one.once() for one in others))
    assert len(await sessions(desk)) == 1


async def test_what_was_missed_runs_once_if_it_is_not_too_late(desk: Desk) -> None:
    await plan(desk, cron="*/5 * * * *")
    ran = await pass_by(desk, minutes=58)  # due at 03:05, and nobody was there until 04:02
    assert (ran.last_error, ran.next_at) == ("", datetime(2026, 1, 2, 4, 5, tzinfo=UTC))
    assert len(await sessions(desk)) == 1
    await end(desk, ran.last_session_id)
    late = await pass_by(desk, hours=9)
    assert late.last_error == "missed: it was due at 2026-01-02 04:05 UTC, when no gateway was running"
    assert late.last_session_id == ran.last_session_id
    assert len(await sessions(desk)) == 1
    assert (await pass_by(desk, minutes=5)).last_error == ""
    assert len(await sessions(desk)) == 2


async def test_a_run_waits_for_the_one_before_and_is_left_out(desk: Desk) -> None:
    await plan(desk)
    first = await pass_by(desk, hours=1)
    skipped = await pass_by(desk, hours=1)
    assert skipped.last_error == f"skipped: the previous run, session {first.last_session_id}, has not ended"
    assert skipped.last_session_id == first.last_session_id
    assert len(await sessions(desk)) == 1
    await end(desk, first.last_session_id)
    assert (await pass_by(desk, hours=1)).last_error == ""
    assert len(await sessions(desk)) == 2


async def leave(desk: Desk) -> None:
    account = await desk.world.stores.principals.get(desk.world.org_id, desk.ann.id)
    assert account is not None
    inactive = replace(account, principal=replace(desk.ann, status=PrincipalStatus.INACTIVE))
    await desk.world.stores.principals.update(inactive, desk.world.clock())


async def are_deleted(desk: Desk) -> None:
    await desk.world.stores.principals.remove(desk.ann.id)


async def rule_denies(desk: Desk) -> None:
    others = {
        "name": "others",
        "description": "",
        "runbooks": (RunbookPattern(NAME, "other/"),),
        "connections": (),
        "groups": (),
    }
    await desk.services.runbook_rules.create(desk.root, others)


async def mode_is_off(desk: Desk) -> None:
    desk.shop = replace(desk.shop, access_mode_runbooks=Toggle.DISABLED)
    await desk.world.overwrite(desk.shop)


async def repository_is_gone(desk: Desk) -> None:
    (found,) = await desk.world.stores.runbook_repositories.all(desk.world.org_id)
    await desk.world.stores.runbook_repositories.remove(found)


async def newest(desk: Desk, files: dict[str, str]) -> None:
    """Returns once these are the files that run."""
    desk.world.clock.forward(seconds=2)
    commit = await shelve(desk.world.stores, desk.world.org_id, files, at=desk.world.clock())

    async def run() -> bool:
        return (await desk.services.runbook_library.shelves(desk.world.org_id))[0].outline.commit == commit

    await until(run, within(10))


async def file_is_gone(desk: Desk) -> None:
    await newest(desk, {"other.runbook.sql": ""})


async def asks_for_more(desk: Desk) -> None:
    files = {"users/unlock.runbook.sql": UNLOCK + "{{ .more | required `more?` }}"}
    await newest(desk, files)


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (leave, "inactive"),
        (are_deleted, "its owner was deleted"),
        (rule_denies, "no runbook rule allows you to run"),
        (mode_is_off, "access mode runbooks is disabled"),
        (repository_is_gone, "no repository"),
        (file_is_gone, "there is no runbook"),
        (asks_for_more, "more"),
    ],
)
async def test_what_is_against_a_run_is_told_and_the_schedule_goes_on(desk: Desk, happens: Any, says: str) -> None:
    await plan(desk)
    await plan(desk, desk.root, name="other", parameters={"pin": Secret("4711")}, file="pin.runbook.sql")
    await happens(desk)
    refused = await pass_by(desk, hours=1)
    assert says in refused.last_error
    assert (refused.last_session_id, refused.enabled) == (None, True)
    assert refused.next_at == datetime(2026, 1, 2, 5, tzinfo=UTC)
    assert desk.ann.email not in [session.user for session in await sessions(desk)]
    assert (await now(desk, "other")).last_at == desk.world.clock()


async def test_an_error_that_nobody_expected_ends_one_run_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await plan(desk)
    await plan(desk, name="other")
    submit = Runs.submit

    async def broken(runs: Runs, *given: Any, **more: Any) -> Session:
        if more["schedule"] == "nightly":
            raise RuntimeError("planted")
        return await submit(runs, *given, **more)

    monkeypatch.setattr(Runs, "submit", broken)
    assert "internal error of the gateway" in (await pass_by(desk, hours=1)).last_error
    assert [one.labels["runbookSchedule"] for one in await sessions(desk)] == ["other"]


async def test_a_gateway_that_stops_meanwhile_runs_nothing_twice(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await plan(desk)
    begun = asyncio.Event()

    async def hanging(*_given: Any, **_more: Any) -> Session:
        begun.set()
        return await asyncio.Future()

    with monkeypatch.context() as patch:
        patch.setattr(Runs, "submit", hanging)
        desk.world.clock.forward(hours=1)
        round_ = asyncio.create_task(desk.services.runbook_schedules.once())
        await begun.wait()
        round_.cancel()
        await asyncio.gather(round_, return_exceptions=True)
    assert (await pass_by(desk, minutes=1)).last_error == BEGINS
    assert (await pass_by(desk, minutes=2)).last_error == INTERRUPTED
    assert await sessions(desk) == []
    assert (await pass_by(desk, hours=1)).last_error == ""


async def test_what_is_saved_was_filled_in_once(desk: Desk) -> None:
    for fields, error, says in (
        ({"parameters": {}}, Malformed, "whom"),
        ({"parameters": {"user": Secret("a"), "usr": Secret("b")}}, Malformed, "usr"),
        ({"file": "pin.runbook.sql", "parameters": {"pin": Secret("planted")}}, Malformed, "pin"),
        ({"file": "none.runbook.sql"}, NotFound, "there is no runbook"),
        ({"repository": "git.example.com/none"}, NotFound, "git.example.com/none"),
        ({"connection": "shpo"}, NotFound, "there is no connection 'shpo'"),
        ({"cron": "61 * * * *"}, Invalid, "cron"),
        ({"zone": "Mars/Olympus"}, Invalid, "zone"),
        ({"name": "a/b"}, Invalid, "name"),
    ):
        with pytest.raises(error, match=says) as refused:
            await plan(desk, **fields)
        assert "planted" not in str(refused.value)
    with pytest.raises(Denied):
        await plan(desk, desk.otto)
    with pytest.raises(Denied, match="only users and service accounts"):
        await plan(desk, replace(desk.ann, kind=PrincipalKind.API_KEY))
    assert (await desk.services.runbook_schedules.find(desk.root, Page())).total == 0


async def test_its_owner_changes_it_and_an_administrator_switches_it_off(desk: Desk) -> None:
    service = desk.services.runbook_schedules
    made = await plan(desk, file="pin.runbook.sql", parameters={"pin": Secret("4711")})
    changed = await service.update(desk.ann, "nightly", {"cron": "30 2 * * *", "zone": "Europe/Berlin"})
    assert changed.next_at == datetime(2026, 1, 3, 1, 30, tzinfo=UTC)
    assert changed.parameters == made.parameters
    with pytest.raises(Malformed):
        await service.update(desk.ann, "nightly", {"parameters": {"pin": Secret("x")}})
    for stranger in (desk.rita, desk.zoe):
        for attempt in (
            service.get(stranger, "nightly"),
            service.update(stranger, "nightly", {"enabled": False}),
            service.remove(stranger, "nightly"),
            service.run(stranger, "nightly"),
        ):
            with pytest.raises(NotFound):
                await attempt
    for reader in (desk.root, desk.otto):
        assert (await service.find(reader, Page())).total == 1
        with pytest.raises(Denied, match="only its owner can run"):
            await service.run(reader, "nightly")
    assert (await service.find(desk.rita, Page())).total == 0
    with pytest.raises(Denied):
        await service.update(desk.otto, "nightly", {"enabled": False})
    with pytest.raises(Denied):
        await service.remove(desk.otto, "nightly")
    # It runs as Ann: an administrator's script in it would run as hers.
    for fields in ({"file": "users/unlock.runbook.sql"}, {"enabled": True}, {"enabled": False, "cron": "* * * * *"}):
        with pytest.raises(Denied, match="runs as its owner"):
            await service.update(desk.root, "nightly", fields)
    off = await service.update(desk.root, "nightly", {"enabled": False})
    assert (off.enabled, off.next_at, off.owner_id) == (False, None, desk.ann.id)
    assert (await pass_by(desk, days=2)).last_at is None
    on = await service.update(desk.ann, "nightly", {"enabled": True})
    assert on.next_at == datetime(2026, 1, 5, 1, 30, tzinfo=UTC)
    await service.remove(desk.root, "nightly")
    assert (await service.find(desk.root, Page())).total == 0


async def test_attack_a_change_does_not_undo_what_somebody_else_did_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule that an administrator switches off stays off, whoever was about to save it."""
    await plan(desk)
    service, fill = desk.services.runbook_schedules, desk.services.runbook_runs.fill

    async def meanwhile(*args: Any, **named: Any) -> Any:
        await service.update(desk.root, "nightly", {"enabled": False})
        return await fill(*args, **named)

    monkeypatch.setattr(desk.services.runbook_runs, "fill", meanwhile)
    with pytest.raises(Conflict, match="changed by another request"):
        await service.update(desk.ann, "nightly", {"parameters": {"user": Secret("bob")}})
    monkeypatch.undo()
    assert not (await now(desk)).enabled
    assert (await service.update(desk.ann, "nightly", {"enabled": True})).enabled


async def broken(desk: Desk, name: str = "broken", **fields: Any) -> Schedule:
    """Whatever became of an organisation's key."""
    made = await plan(desk, name=name, **fields)
    sealed = next(column for column in runbook_schedules.c if isinstance(column.type, LargeBinary))
    async with desk.world.database.statement() as connection:
        this = runbook_schedules.c.id == made.id
        await connection.execute(update(runbook_schedules).where(this).values({sealed: b"\x01" + b"?" * 64}))
    return made


async def test_attack_one_that_cannot_be_opened_holds_up_no_other(desk: Desk) -> None:
    await broken(desk)
    await plan(desk)
    ran = await pass_by(desk, hours=1)
    assert ran.last_session_id is not None
    other = await now(desk, "broken")
    assert (other.next_at, other.last_session_id) == (ran.next_at, None)
    assert "cannot be decrypted with the keys of this server" in other.last_error
    assert len(await sessions(desk)) == 1


async def test_attack_one_that_cannot_be_opened_can_be_seen_switched_off_and_deleted(desk: Desk) -> None:
    """And nothing else: what is saved over it, or run, would be without its parameters."""
    await broken(desk)
    await plan(desk)
    service = desk.services.runbook_schedules
    shown = {one.name: one for one in (await service.find(desk.ann, Page())).items}
    assert [bool(shown[name].problem) for name in ("broken", "nightly")] == [True, False]
    answer = RunbookScheduleAnswer.of(await service.get(desk.ann, "broken"))
    assert "cannot be decrypted with the keys" in answer.last_error
    for attempt in (
        service.run(desk.ann, "broken"),
        service.update(desk.ann, "broken", {"cron": "* * * * *"}),
        service.update(desk.ann, "broken", {"parameters": {"user": Secret("bob")}}),
    ):
        with pytest.raises(Conflict, match="delete this schedule and create it again"):
            await attempt
    assert await sessions(desk) == []
    before = await sealed_of(desk)
    assert not (await service.update(desk.root, "broken", {"enabled": False})).enabled
    assert await sealed_of(desk) == before  # whose key may come back
    await service.remove(desk.ann, "broken")
    assert (await service.find(desk.ann, Page())).total == 1


async def sealed_of(desk: Desk) -> bytes:
    async with desk.world.database.statement() as connection:
        wanted = select(runbook_schedules.c.given).where(runbook_schedules.c.name == "broken")
        return bytes((await connection.execute(wanted)).scalar_one())


async def test_attack_runs_of_one_organisation_that_take_long_hold_up_those_of_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tracker hangs, and so each of its runs waits."""
    world, go_on = desk.world, asyncio.Event()
    monkeypatch.setattr(module, "_BATCH_EACH", 6)
    other = Organisation(uuid4(), "other", world.clock())
    await world.stores.organisations.add(other)
    for number in range(7):
        await plan(desk, name=f"x-{number}")
    theirs = replace(await plan(desk), id=uuid4(), org_id=other.id)  # without an owner there: it is told so
    await world.stores.runbook_schedules.add(theirs)
    settled, submit, settle = asyncio.Event(), Runs.submit, SqlRunbookSchedules.settle

    async def hangs(runs: Runs, *given: Any, **more: Any) -> Session:
        await go_on.wait()
        return await submit(runs, *given, **more)

    async def seen(store: SqlRunbookSchedules, run_id: UUID, error: str) -> bool:
        done = await settle(store, run_id, error)
        settled.set()
        return done

    monkeypatch.setattr(Runs, "submit", hangs)
    monkeypatch.setattr(SqlRunbookSchedules, "settle", seen)
    world.clock.forward(hours=1)
    round_ = asyncio.create_task(desk.services.runbook_schedules.once())
    async with asyncio.timeout(PATIENT):
        await settled.wait()
    assert not round_.done()
    found = await world.stores.runbook_schedules.get(other.id, str(theirs.id))
    assert found is not None
    assert "its owner was deleted" in found.last_error
    go_on.set()
    assert await round_  # there is more of the first
    assert len(await sessions(desk)) == 6
    assert not await desk.services.runbook_schedules.once()
    assert len(await sessions(desk)) == 8


async def test_what_is_due_while_it_is_changed_is_planned_anew(desk: Desk) -> None:
    await plan(desk)
    desk.world.clock.forward(hours=1)
    (due,) = await desk.world.stores.runbook_schedules.due(desk.world.clock(), 10, 10)
    await desk.services.runbook_schedules.update(
        desk.ann, "nightly", {"file": "pin.runbook.sql", "parameters": {"pin": Secret("4711")}}
    )
    assert due.next_at is not None
    assert not await desk.world.stores.runbook_schedules.take(uuid4(), due.id, due.next_at, None, desk.world.clock())
    assert (await pass_by(desk, minutes=1)).last_at is None


async def test_it_runs_when_it_is_told_to(desk: Desk) -> None:
    service = desk.services.runbook_schedules
    await plan(desk, enabled=False)
    session = await service.run(desk.ann, "nightly")
    assert (session.user, session.labels["runbookSchedule"]) == (desk.ann.email, "nightly")
    assert ((await now(desk)).last_session_id, (await now(desk)).next_at) == (session.id, None)


async def test_a_run_that_needs_a_review_waits_for_it(desk: Desk) -> None:
    desk.shop = replace(desk.shop, reviewers=("dba",))
    await desk.world.overwrite(desk.shop)
    await plan(desk)
    ran = await pass_by(desk, hours=1)
    (session,) = await sessions(desk)
    assert (session.status, session.id) == (SessionStatus.OPEN, ran.last_session_id)
    review = await desk.review_of(session)
    assert review.binding.means == f"schedule:{ran.id}"
    assert "skipped" in (await pass_by(desk, hours=1)).last_error
    await desk.approve(review)
    assert (await desk.services.sessions.execute(desk.ann, session.id)).id == session.id
    assert await desk.services.sessions.claim(session.id, "w1") is not None


async def test_secret_values_are_told_to_nobody(desk: Desk) -> None:
    with collect_change() as trail:
        await plan(desk, file="pin.runbook.sql", parameters={"pin": Secret("4711")})
    assert "4711" not in repr(trail)
    assert "4711" not in repr(await now(desk))
    ran = await pass_by(desk, hours=1)
    (session,) = await sessions(desk)
    assert (session.id, "4711" in repr(session.labels)) == (ran.last_session_id, False)


async def test_an_organisation_has_so_many_at_most(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqlRunbookSchedules, "most", 1)
    await plan(desk)
    with pytest.raises(TooMany, match="can have at most 1 schedules"):
        await plan(desk, name="another")


async def test_many_that_are_due_at_once_all_run_and_a_round_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH", 2)
    for number in range(3):
        await plan(desk, name=f"x-{number}")
    desk.world.clock.forward(hours=1)
    assert await desk.services.runbook_schedules.once()
    assert not await desk.services.runbook_schedules.once()
    assert sorted(one.labels["runbookSchedule"] for one in await sessions(desk)) == ["x-0", "x-1", "x-2"]


async def test_a_store_that_does_not_answer_fails_the_round_and_loses_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plan(desk)

    async def away(*_given: object) -> bool:
        raise Unavailable("the store does not answer")

    desk.world.clock.forward(hours=1)
    with monkeypatch.context() as patch:
        patch.setattr(desk.world.stores.runbook_schedules, "take", away)
        with pytest.raises(Unavailable):
            await desk.services.runbook_schedules.once()
    assert (await pass_by(desk, minutes=1)).last_error == ""
    assert len(await sessions(desk)) == 1


async def test_clocks_that_go_back_run_nothing_twice(desk: Desk) -> None:
    """By the clock of its zone it is due twice that night."""
    desk.world.clock.now = datetime(2026, 10, 24, 23, 0, tzinfo=UTC)
    await plan(desk, cron="30 2 * * *", zone="Europe/Berlin")
    runs = []
    for _ in range(16):
        ran = await pass_by(desk, minutes=15)
        if ran.last_session_id and ran.last_session_id not in runs:
            runs.append(ran.last_session_id)
            await end(desk, ran.last_session_id)
    assert len(runs) == 1
    assert (await now(desk)).next_at == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
