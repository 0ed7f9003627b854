"""From what administrators set to what Jira has: the settings, a template, and the issue that comes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.receivers import LOOPBACK, issued
from tests.support.trackers.jira import DESK, REQUEST_TYPE, TOKEN, USER, JiraServer
from tests.support.trackers.serving import serving
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.issues.issue import CmdbField, FieldMapping, MappingType, Prompt, PromptType, TrackerKind
from postern.domain.issues.issue_fields import checked_prompts, new_issue
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, SessionStatus, Verb
from postern.errors import Invalid, Unavailable
from postern.integrations.trackers.trackers import tracker_of
from postern.services.bundle import Services
from postern.services.issues.tracker_settings import TrackerFields
from postern.store.database import Database

TEMPLATE: dict[str, Any] = {
    "name": "changes",
    "project_key": DESK,
    "request_type_id": REQUEST_TYPE,
    "mappings": (
        FieldMapping("Who", MappingType.PRESET, "session.user_email"),
        FieldMapping("Why", MappingType.PRESET, "session.script"),
        FieldMapping("Day", MappingType.PRESET, "session.start_date"),
        FieldMapping("Cost", MappingType.CUSTOM, "12.5"),
    ),
    "prompts": (
        Prompt("Risk", "Risk", PromptType.SELECT, required=True),
        Prompt("Until", "Until when", PromptType.DATETIME),
    ),
    "cmdb": (CmdbField("Machine", "Server", required=True),),
}
SESSION = Session(
    id=UUID(int=1),
    org_id=uuid4(),
    connection_id=uuid4(),
    connection="shop",
    connection_subtype="postgres",
    connection_tags={},
    type="database",
    verb=Verb.EXEC,
    status=SessionStatus.READY,
    user="ann@example.com",
    user_id="ann",
    user_name="Ann",
    start_date=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    script="select '[~bob]'",
)


@pytest.fixture
async def site() -> AsyncIterator[JiraServer]:
    async with serving(JiraServer()) as server:
        yield server


@pytest.fixture
async def world(sqlite_database: Database) -> World:
    world = await World.make(sqlite_database)
    world.trackers = lambda settings: tracker_of(settings, LOOPBACK)
    return world


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def set_up(services: Services, admin: Principal, site: JiraServer, token: str = TOKEN) -> None:
    given = TrackerFields(TrackerKind.JIRA_CLOUD, site.url, USER, Secret(token), issued().authority)
    await services.tracker.create(admin, given)


async def test_a_template_fills_in_the_form_of_a_service_desk(world: World, admin: Principal, site: JiraServer) -> None:
    services = world.services()
    await set_up(services, admin, site)
    assert DESK in await services.tracker.test(admin, DESK)
    found = await services.tracker.objects(admin, "Server", "web", Page(limit=1))
    assert ([one.name for one in found.items], found.has_next_page) == (["web-1"], True)
    template = await services.issue_templates.create(admin, TEMPLATE)
    settings = await services.tracker.of(world.org_id)
    assert settings is not None
    tracker = tracker_of(settings, LOOPBACK)
    prompts = checked_prompts(template, {"Risk": "high", "Until": "2026-01-31T09:30", "Machine": "web-1"})
    made = await tracker.create(new_issue(template, SESSION, prompts, "https://gateway.example.com/s/1"))
    await tracker.close()
    fields = site.issues[made.key].fields
    assert fields["summary"] == "shop: exec by ann@example.com"
    assert fields["description"].count(f"postern-session-{SESSION.id}") == 1
    assert fields["description"].endswith(f"postern-session-{SESSION.id}")
    assert fields["customfield_10001"] == "ann@example.com"
    assert fields["customfield_10002"] == r"select '\[~bob\]'"
    assert fields["customfield_10003"] == {"value": "high"}
    assert fields["customfield_10004"] == "2026-01-31T09:30:00.000+0000"
    assert fields["customfield_10007"] == 12.5
    assert fields["customfield_10008"] == "2026-01-02"
    assert [one["objectId"] for one in fields["customfield_10006"]] == ["88"]


async def test_what_jira_has_against_us_is_said_and_nothing_more(
    world: World, admin: Principal, site: JiraServer
) -> None:
    services = world.services()
    await set_up(services, admin, site, "wrong-token")
    with pytest.raises(Invalid) as refused:
        await services.tracker.test(admin, "")
    assert "wrong-token" not in refused.value.message
    given = TrackerFields(TrackerKind.JIRA_CLOUD, "https://tracker.invalid", USER, Secret(TOKEN))
    await services.tracker.replace(admin, given)
    with pytest.raises(Unavailable):
        await services.tracker.test(admin, "")


async def test_credentials_that_cannot_be_are_refused_when_they_are_given(
    world: World, admin: Principal, site: JiraServer
) -> None:
    services = world.services()
    good = TrackerFields(TrackerKind.JIRA_CLOUD, site.url, USER, Secret(TOKEN))
    for wrong in (replace(good, token=Secret("two words")), replace(good, user=""), replace(good, authority="no PEM")):
        with pytest.raises(Invalid):
            await services.tracker.create(admin, wrong)
    assert await services.tracker.of(world.org_id) is None
