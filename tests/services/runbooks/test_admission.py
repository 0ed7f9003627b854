"""What lets a session of a runbook in: its own access mode and the runbook rules, each time that it is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.services.reviews.desk import Desk
from tests.support.shelf import shelve
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.runbook import RUNBOOK_LABELS, RunbookPattern, RunbookRef, RunbookRule
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection, Toggle
from postern.errors import Denied, Invalid, Malformed, NotFound
from postern.services.runbooks import runs
from postern.services.runbooks.runs import RunRequest
from postern.store.ports.common_ports import Topic
from postern.store.ports.target_ports import SessionFilter

REPOSITORY = "git.example.com/team/runbooks"
RUNBOOK = RunbookRef(REPOSITORY, "/users/unlock.runbook.sql", "c0ffee")
ONLY_RUNBOOKS = {"access_mode_exec": Toggle.DISABLED}
ONLY_SCRIPTS = {"access_mode_runbooks": Toggle.DISABLED}


@pytest.fixture
async def desk(world: World) -> Desk:
    """Its shop asks nobody to agree."""
    desk = await Desk.make(world)
    await change(desk, reviewers=(), force_approve_groups=())
    return desk


async def change(desk: Desk, **fields: Any) -> None:
    desk.shop = replace(desk.shop, **fields)
    await desk.world.overwrite(desk.shop)
    await desk.world.signals.publish(Topic.POLICY_CHANGED, connection_id=str(desk.shop.id))


async def rule(desk: Desk, prefix: str, connection: Connection | None = None, *groups: str) -> RunbookRule:
    """From now on runbooks whose path begins so may be run, and no others."""
    at = desk.world.clock()
    made = RunbookRule(
        uuid4(),
        desk.world.org_id,
        f"rule {uuid4()}",
        runbooks=(RunbookPattern(REPOSITORY, prefix),),
        connection_ids=frozenset({connection.id} if connection else ()),
        groups=frozenset(groups),
        created_at=at,
        updated_at=at,
    )
    await desk.world.stores.runbook_rules.add(made)
    await rules_changed(desk)
    return made


async def rules_changed(desk: Desk) -> None:
    await desk.world.signals.publish(Topic.POLICY_CHANGED, org_id=str(desk.world.org_id))


async def claimed(desk: Desk, session: Session) -> Permit:
    found = await desk.services.sessions.claim(session.id, "w1")
    assert found is not None
    return found[1]


async def refused(desk: Desk, session: Session) -> str:
    """What a session that its worker did not run says."""
    assert await desk.services.sessions.claim(session.id, "w1") is None
    done = await desk.session(session)
    assert done.status is SessionStatus.DONE
    return str(done.metadata["end_detail"])


async def test_a_session_keeps_its_runbook_and_says_so_in_labels(desk: Desk) -> None:
    plain = await desk.submit("select 1")
    session = await desk.submit("select 2", runbook=RUNBOOK, labels={"runbookParameters": "{}"})
    kept = await desk.session(session)
    assert kept.runbook == RUNBOOK
    assert kept.labels == {
        "runbookRepository": REPOSITORY,
        "runbookFile": "/users/unlock.runbook.sql",
        "runbookCommit": "c0ffee",
        "runbookParameters": "{}",
    }
    assert (await desk.session(plain)).runbook is None
    listed = await desk.services.sessions.find(desk.ann, SessionFilter(), Page())
    assert {one.id: one.runbook for one in listed.items} == {plain.id: None, session.id: RUNBOOK}
    permit = await claimed(desk, session)
    assert permit.runbook == RUNBOOK
    assert await desk.services.access.still_allowed(permit) is None
    assert (await desk.services.access.renew(permit)).runbook == RUNBOOK
    assert (await claimed(desk, plain)).runbook is None


@pytest.mark.parametrize("label", RUNBOOK_LABELS)
async def test_a_script_cannot_pretend_to_be_a_runbook(desk: Desk, label: str) -> None:
    with pytest.raises(Invalid, match=label):
        await desk.submit("select 1", labels={"mine": "1", label: "/users/unlock.runbook.sql"})
    assert await desk.services.sessions.waiting() == []


async def test_what_a_runbook_is_cannot_be_said_by_labels(desk: Desk) -> None:
    session = await desk.submit("select 1", runbook=RUNBOOK, labels={"runbookFile": "another", "mine": "1"})
    kept = await desk.session(session)
    assert (kept.labels["runbookFile"], kept.labels["mine"]) == (RUNBOOK.file, "1")


async def test_each_access_mode_opens_its_own_way_only(desk: Desk) -> None:
    await change(desk, **ONLY_RUNBOOKS)
    await claimed(desk, await desk.submit(runbook=RUNBOOK))
    with pytest.raises(Denied, match="mode exec is disabled"):
        await desk.submit()
    await change(desk, access_mode_exec=Toggle.ENABLED, **ONLY_SCRIPTS)
    await claimed(desk, await desk.submit())
    with pytest.raises(Denied, match="mode runbooks is disabled"):
        await desk.submit(runbook=RUNBOOK)


@pytest.mark.parametrize(("runbook", "now"), [(RUNBOOK, ONLY_SCRIPTS), (None, ONLY_RUNBOOKS)])
async def test_a_mode_that_is_switched_off_is_asked_at_the_claim_and_while_it_runs(
    desk: Desk, runbook: RunbookRef | None, now: dict[str, Any]
) -> None:
    other = None if runbook else RUNBOOK
    waits, runs = await desk.submit(runbook=runbook), await desk.submit(runbook=runbook)
    goes_on = await claimed(desk, await desk.submit(runbook=other))
    permit = await claimed(desk, runs)
    await change(desk, **now)
    assert "is disabled" in await refused(desk, waits)
    assert "is disabled" in str(await desk.services.access.still_allowed(permit))
    assert await desk.services.access.still_allowed(goes_on) is None


@pytest.mark.parametrize(("runbook", "now"), [(RUNBOOK, ONLY_SCRIPTS), (None, ONLY_RUNBOOKS)])
async def test_a_review_does_not_bring_back_a_mode(desk: Desk, runbook: RunbookRef | None, now: dict[str, Any]) -> None:
    await change(desk, reviewers=("dba",))
    other = None if runbook else RUNBOOK
    early, late = await desk.submit(runbook=runbook), await desk.submit(runbook=runbook)
    fine = await desk.submit(runbook=other)
    for session in (early, late, fine):
        await desk.approve(await desk.review_of(session))
    await desk.services.sessions.execute(desk.ann, early.id)
    await change(desk, **now)
    assert "is disabled" in await refused(desk, early)
    with pytest.raises(Denied, match="is disabled"):
        await desk.services.sessions.execute(desk.ann, late.id)
    await desk.services.sessions.execute(desk.ann, fine.id)
    assert (await claimed(desk, fine)).runbook == other


async def test_what_was_reviewed_runs_as_its_runbook(desk: Desk) -> None:
    await change(desk, reviewers=("dba",), **ONLY_RUNBOOKS)
    session = await desk.submit("select 7", runbook=RUNBOOK)
    assert session.status is SessionStatus.OPEN
    review = await desk.review_of(session)
    await desk.approve(review)
    await desk.services.sessions.execute(desk.ann, session.id)
    found = await desk.services.sessions.claim(session.id, "w1")
    assert found is not None
    running, permit, _ = found
    assert (running.script, running.runbook, permit.runbook) == ("select 7", RUNBOOK, RUNBOOK)
    assert await desk.services.access.still_allowed(permit) is None
    assert (await desk.review_of(session)).status is ReviewStatus.PROCESSING


async def test_who_adds_arguments_needs_the_right_to_run_scripts_too(desk: Desk) -> None:
    extended = replace(RUNBOOK, extended=True)
    both = await claimed(desk, await desk.submit(runbook=extended))
    waits = await desk.submit(runbook=extended)
    await change(desk, **ONLY_RUNBOOKS)
    with pytest.raises(Denied, match="take no client_args"):
        await desk.submit(runbook=extended)
    assert "take no client_args" in await refused(desk, waits)
    assert "take no client_args" in str(await desk.services.access.still_allowed(both))
    await change(desk, access_mode_exec=Toggle.ENABLED, **ONLY_SCRIPTS)
    with pytest.raises(Denied, match="mode runbooks is disabled"):
        await desk.submit(runbook=extended)


async def test_a_rule_is_asked_when_it_is_submitted(desk: Desk) -> None:
    await rule(desk, "/users/", desk.shop, "dev")
    await claimed(desk, await desk.submit(runbook=RUNBOOK))
    with pytest.raises(Denied, match=r"no runbook rule allows you to run '/x\.runbook\.sql'"):
        await desk.submit(runbook=replace(RUNBOOK, file="/x.runbook.sql"))
    with pytest.raises(Denied, match="no runbook rule"):
        await desk.submit(runbook=replace(RUNBOOK, repository="git.example.com/other/runbooks"))
    with pytest.raises(Denied, match="no runbook rule"):
        await desk.services.sessions.submit(desk.zoe, "shop", "select 1", source="::1", runbook=RUNBOOK)
    await claimed(desk, await desk.submit("select 1"))  # rules of runbooks are not about scripts
    await desk.services.sessions.submit(desk.root, "shop", "select 1", source="::1", runbook=RUNBOOK)


async def test_a_rule_that_goes_is_asked_at_the_claim_and_while_it_runs(desk: Desk) -> None:
    made = await rule(desk, "/users/")
    waits, permit = await desk.submit(runbook=RUNBOOK), await claimed(desk, await desk.submit(runbook=RUNBOOK))
    await rule(desk, "/others/")
    await desk.world.stores.runbook_rules.remove(made)
    await rules_changed(desk)
    assert "no runbook rule allows you to run" in await refused(desk, waits)
    assert "no runbook rule allows you to run" in str(await desk.services.access.still_allowed(permit))
    with pytest.raises(Denied, match="no runbook rule allows you to run"):
        await desk.services.access.renew(permit)


async def test_a_rule_that_goes_is_asked_after_the_review(desk: Desk) -> None:
    await change(desk, reviewers=("dba",))
    made = await rule(desk, "/users/")
    early, late = await desk.submit(runbook=RUNBOOK), await desk.submit(runbook=RUNBOOK)
    for session in (early, late):
        await desk.approve(await desk.review_of(session))
    await desk.services.sessions.execute(desk.ann, early.id)
    await rule(desk, "/others/")
    await desk.world.stores.runbook_rules.remove(made)
    await rules_changed(desk)
    assert "no runbook rule allows you to run" in await refused(desk, early)
    with pytest.raises(Denied, match="no runbook rule allows you to run"):
        await desk.services.sessions.execute(desk.ann, late.id)


async def test_before_it_is_read_nothing_is_told_of_what_is_hidden(desk: Desk) -> None:
    access = desk.services.access

    async def asks(who: Principal, connection: str, runbook: RunbookRef = RUNBOOK) -> Connection:
        return await access.require_runbook(who, connection, runbook)

    await change(desk, reviewers=("dba",))
    assert (await asks(desk.ann, "shop")).id == desk.shop.id  # others have to agree, later
    with pytest.raises(NotFound, match="no connection 'other'"):
        await asks(desk.ann, "other")
    with pytest.raises(Denied, match="auditors"):
        await asks(desk.otto, "shop")
    await rule(desk, "/others/")
    with pytest.raises(Denied, match="no runbook rule"):
        await asks(desk.ann, "shop")


ECHO = {"echo.runbook.sql": "select {{ .text | squote }}"}
SPOKEN = RunRequest("shop", "echo.runbook.sql", parameters={"text": Secret("\\' or 1=1 -- ")})


async def test_attack_what_was_quoted_for_one_target_is_not_read_by_another(desk: Desk) -> None:
    """A backslash is a letter to the one and an escape to the other; who changes a connection looks at no queue."""
    await shelve(desk.world.stores, desk.world.org_id, ECHO, at=desk.world.clock())
    runs, connections = desk.services.runbook_runs, desk.services.connections
    running = await claimed(desk, await runs.submit(desk.ann, SPOKEN, source="192.0.2.1"))
    waiting = await runs.submit(desk.ann, SPOKEN, source="192.0.2.1")
    script = await desk.submit("select 1")
    await connections.update(desk.root, "shop", {"secret": {"envvar:HOST": Secret("ZGIy"), "envvar:USER": None}})
    said = await refused(desk, waiting)
    assert said == "connection 'shop' has a different target than when 'echo.runbook.sql' was rendered; run it again"
    await desk.services.access.renew(running)
    await claimed(desk, script)
    await claimed(desk, await runs.submit(desk.ann, SPOKEN, source="192.0.2.1"))


async def test_attack_a_connection_that_changes_while_a_runbook_is_filled_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shelve(desk.world.stores, desk.world.org_id, ECHO, at=desk.world.clock())
    runs, submit = desk.services.runbook_runs, desk.services.sessions.submit

    async def later(*args: Any, **named: Any) -> Session:
        await desk.services.connections.update(
            desk.root, "shop", {"secret": {"envvar:HOST": Secret("ZGIy"), "envvar:USER": None}}
        )
        return await submit(*args, **named)

    monkeypatch.setattr(desk.services.sessions, "submit", later)
    with pytest.raises(Denied, match=r"has a different target than when 'echo\.runbook\.sql' was rendered"):
        await runs.submit(desk.ann, SPOKEN, source="192.0.2.1")
    assert await desk.services.sessions.waiting() == []


async def test_attack_a_rendering_has_only_so_much_processor_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await shelve(desk.world.stores, desk.world.org_id, ECHO, at=desk.world.clock())
    monkeypatch.setattr(runs, "SECONDS", -1.0)
    with pytest.raises(Malformed, match="processor time"):
        await desk.services.runbook_runs.submit(desk.ann, SPOKEN, source="192.0.2.1")


async def test_a_permit_to_run_a_runbook_costs_no_statement_more(desk: Desk) -> None:
    await rule(desk, "/users/")
    await desk.submit(runbook=RUNBOOK)
    async with desk.counted() as plain:
        await desk.submit()
    async with desk.counted() as with_rules:
        await desk.submit(runbook=RUNBOOK, invocation=Invocation())
    assert len(with_rules) == len(plain)
