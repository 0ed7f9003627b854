"""The issue of a session that is about to begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.issues import CountingTracker, session_of
from tests.support.promises import within
from tests.support.world import World

from postern.domain.issues.issue import (
    FieldMapping,
    Issue,
    IssueState,
    IssueTemplate,
    MappingType,
    Prompt,
    SessionIssue,
    TrackerKind,
    TrackerSettings,
    Uncertain,
    WhenDown,
)
from postern.domain.lists import Page
from postern.domain.sessions.session import EndReason
from postern.domain.targets.connection import Connection
from postern.errors import Denied, Invalid, NotFound, PosternError, Unavailable
from postern.services.issues.issue_delivery import IssueDelivery
from postern.services.issues.session_issues import Issues
from postern.store.database import Database
from postern.store.ports.common_ports import Topic
from postern.store.ports.target_ports import SessionEnd

SETTINGS = TrackerSettings(TrackerKind.JIRA_CLOUD, "https://tracker.example.com")
GO_ON = replace(SETTINGS, when_down=WhenDown.GO_ON)
GIVEN = {"summary": "Restore monday", "customfield_1": "high"}


@dataclass
class Office:
    world: World
    tracker: CountingTracker
    connection: Connection
    settings: TrackerSettings | None = field(default_factory=lambda: SETTINGS)

    def issues(self, *, longest: float = 60.0) -> Issues:
        async def settings(_org_id: UUID) -> TrackerSettings | None:
            return self.settings

        async def link(session_id: UUID) -> str:
            return f"https://gateway.example.com/{session_id}"

        stores = self.world.stores
        return Issues(
            stores.session_issues,
            stores.issue_templates,
            settings,
            link,
            self.world.signals,
            self.world.clock,
            longest=longest,
        )

    def noted(self) -> asyncio.Event:
        """Set once an issue is wanted."""
        told = asyncio.Event()
        self.world.signals.subscribe(Topic.ISSUE_CHANGED, lambda _: told.set())
        return told

    async def all(self) -> list[SessionIssue]:
        return list((await self.world.stores.session_issues.find(self.world.org_id, None, Page(100))).items)

    async def deliver(self, process: IssueDelivery) -> None:
        """As long as something is due, with time passing."""
        for _ in range(4):
            await process.once()
            await process.wait_until_idle()
            self.world.clock.forward(minutes=2)


@pytest.fixture
async def office(database: Database) -> Office:
    world = await World.make(database)
    template = IssueTemplate(
        uuid4(),
        world.org_id,
        "changes",
        "OPS",
        "10",
        mappings=(FieldMapping("customfield_2", MappingType.PRESET, "session.connection"),),
        prompts=(
            Prompt("summary", "Summary", required=True),
            Prompt("customfield_1", "Risk", required=True),
            Prompt("customfield_3", "More"),
        ),
        created_at=world.clock(),
        updated_at=world.clock(),
    )
    connection = await world.add_connection()
    await world.stores.issue_templates.add(replace(template, connection_ids=(connection.id,)))
    found = await world.stores.connections.get(world.org_id, "shop")
    assert found is not None
    return Office(world, CountingTracker(world.clock), found)


@pytest.fixture
async def process(office: Office) -> AsyncIterator[IssueDelivery]:
    """One that delivers as soon as it is told."""

    async def settings(_org_id: UUID) -> TrackerSettings | None:
        return office.settings

    stores = office.world.stores
    made = IssueDelivery(
        store=stores.session_issues,
        leases=stores.leases,
        settings=settings,
        trackers=office.tracker,
        signals=office.world.signals,
        now=office.world.clock,
    )

    async def forever() -> None:
        while True:
            await made.woken.wait()
            made.woken.clear()
            await made.once()

    running = asyncio.create_task(forever())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await made.stop()


class Untouchable:
    """A store that nothing asks."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked")


async def test_without_a_template_nothing_is_asked_of_anybody(office: Office) -> None:
    none: Any = Untouchable()
    issues = Issues(none, none, none, none, office.world.signals, office.world.clock)
    bare, session = replace(office.connection, issue_template_id=None), session_of(office.world, uuid4())
    assert await issues.open(bare, session, {}) is None
    await issues.check(bare, {})
    async with issues.attach_issue(bare, session, {}) as opened:
        assert opened is session
    with pytest.raises(KeyError):
        async with issues.attach_issue(bare, session, {}):
            raise KeyError
    with pytest.raises(Invalid, match="tracker_fields: sessions of connection 'shop' open no issue"):
        await issues.open(bare, session, GIVEN)


@pytest.mark.parametrize("settings", [None, replace(SETTINGS, enabled=False)])
async def test_without_a_tracker_there_is_no_issue(office: Office, settings: TrackerSettings | None) -> None:
    office.settings = settings
    assert await office.issues().open(office.connection, session_of(office.world, uuid4()), {}) is None
    assert await office.all() == []


@pytest.mark.parametrize("settings", [SETTINGS, GO_ON])
async def test_all_that_is_missing_is_listed(office: Office, settings: TrackerSettings) -> None:
    office.settings = settings
    with pytest.raises(Invalid) as told:
        await office.issues().open(office.connection, session_of(office.world, uuid4()), {"customfield_3": "x"})
    assert told.value.field == "tracker_fields"
    assert "needs Summary (summary), Risk (customfield_1)" in told.value.message
    assert "--issue-field NAME=VALUE of postern connect shop" in told.value.message
    with pytest.raises(Invalid, match="Risk"):
        await office.issues().check(office.connection, {"summary": "x"})
    assert await office.all() == []


async def test_a_template_that_is_not_there_lets_nobody_in(office: Office) -> None:
    astray = replace(office.connection, issue_template_id=str(uuid4()))
    with pytest.raises(Denied, match=r"template of connection '.*' does not exist"):
        await office.issues().open(astray, session_of(office.world, uuid4()), GIVEN)
    assert await office.all() == []


async def test_a_session_waits_for_its_issue(office: Office, process: IssueDelivery) -> None:
    session = session_of(office.world, uuid4())
    async with office.issues().attach_issue(office.connection, session, GIVEN) as opened:
        (issue, new, _), *_ = office.tracker.made
        assert opened.integrations_metadata == {"tracker_issue_key": issue.key, "tracker_issue_url": issue.url}
    assert (new.summary, new.fields["customfield_1"], new.fields["customfield_2"]) == ("Restore monday", "high", "shop")
    assert new.text.endswith(f"\n\npostern-session-{session.id}")
    (kept,) = await office.all()
    assert (kept.session_id, kept.state, kept.transition) == (session.id, IssueState.MADE, "done")


async def test_a_session_that_goes_on_waits_for_nobody(office: Office) -> None:
    """Its issue is noted before it can run."""
    office.settings = GO_ON
    session = session_of(office.world, uuid4())
    async with office.issues().attach_issue(office.connection, session, GIVEN) as opened:
        (kept,) = await office.all()
        assert (kept.session_id, kept.state, kept.next_at) == (session.id, IssueState.WANTED, office.world.clock())
    assert opened is session
    assert office.world.signals.of(Topic.ISSUE_CHANGED) == [{"session_id": str(session.id)}]


async def test_a_missed_signal_is_made_up_for(office: Office) -> None:
    """The issue is looked at again and again."""
    noted, session = office.noted(), session_of(office.world, uuid4())
    opening = asyncio.create_task(office.issues().open(office.connection, session, GIVEN))
    made = Issue("OPS-1", "https://tracker.example.com/OPS-1")
    async with asyncio.timeout(within(10)):
        await noted.wait()
        await office.world.stores.session_issues.mark_created(session.id, made, office.world.clock())
        assert await opening == made


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        *((kind, False) for kind in (Unavailable, Uncertain, Denied, NotFound, Invalid)),
        (Uncertain, True),
    ],
)
async def test_a_session_is_refused_with_the_trackers_words(
    office: Office, process: IssueDelivery, kind: type[PosternError], made: bool
) -> None:
    """And what the tracker may have made of it all the same is found, and closed."""

    async def fails(question: str) -> None:
        if question == "create":
            raise kind("the tracker said no")

    office.tracker.before, office.tracker.after = (None, fails) if made else (fails, None)
    with pytest.raises(Unavailable, match=r"connection 'shop' .* could not be created: the tracker said no; try again"):
        await office.issues().open(office.connection, session_of(office.world, uuid4()), GIVEN)
    office.tracker.before = office.tracker.after = None
    await office.deliver(process)
    if made:
        assert office.tracker.status == {"OPS-1": "done"}
        assert [one.state for one in await office.all()] == [IssueState.CLOSED]
    else:
        assert await office.all() == []
        assert office.tracker.asked.count("create") == 1


async def test_a_tracker_that_is_not_asked_in_time_is_not_asked_later(office: Office) -> None:
    with pytest.raises(Unavailable, match=r"did not answer within 0\.05 seconds"):
        await office.issues(longest=0.05).open(office.connection, session_of(office.world, uuid4()), GIVEN)
    assert await office.all() == []


async def test_an_answer_that_comes_too_late_closes_the_issue(office: Office, process: IssueDelivery) -> None:
    go_on = asyncio.Event()

    async def wait(question: str) -> None:
        if question == "create":
            await go_on.wait()

    office.tracker.before = wait
    with pytest.raises(Unavailable, match="did not answer within 1 second"):
        await office.issues(longest=1.0).open(office.connection, session_of(office.world, uuid4()), GIVEN)
    assert [one.state for one in await office.all()] == [IssueState.WITHDRAWN]
    go_on.set()
    await process.wait_until_idle()
    await office.deliver(process)
    assert [one.state for one in await office.all()] == [IssueState.CLOSED]
    assert office.tracker.status == {"OPS-1": "done"}


@pytest.mark.parametrize("settings", [SETTINGS, GO_ON])
async def test_what_brings_no_session_about_leaves_no_issue(
    office: Office, process: IssueDelivery, settings: TrackerSettings
) -> None:
    office.settings = settings
    with pytest.raises(KeyError):
        async with office.issues().attach_issue(office.connection, session_of(office.world, uuid4()), GIVEN):
            raise KeyError
    await office.deliver(process)
    assert set(office.tracker.status.values()) <= {"done"}
    assert {one.state for one in await office.all()} <= {IssueState.CLOSED}


async def test_a_client_that_goes_while_it_waits_leaves_no_issue(office: Office) -> None:
    noted = office.noted()
    opening = asyncio.create_task(office.issues().open(office.connection, session_of(office.world, uuid4()), GIVEN))
    async with asyncio.timeout(within(10)):
        await noted.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert await office.all() == []


async def test_from_a_script_that_is_submitted_to_its_end(office: Office, process: IssueDelivery) -> None:
    """The session says which issue it has from its first moment on, and the issue is closed with it."""
    await office.world.add_user("ann")
    session = session_of(office.world, uuid4())
    async with office.issues().attach_issue(office.connection, session, GIVEN) as opened:
        await office.world.stores.sessions.add(opened, principal_id=UUID(int=1), source="192.0.2.1")
    kept = await office.world.stores.sessions.get(office.world.org_id, session.id)
    assert kept is not None
    told: Mapping[str, Any] = kept.integrations_metadata
    assert told == opened.integrations_metadata
    assert told["tracker_issue_key"] == "OPS-1"
    await office.world.stores.sessions.end(session.id, SessionEnd(office.world.clock(), EndReason.COMPLETED))
    await office.deliver(process)
    assert office.tracker.status == {"OPS-1": "done"}
