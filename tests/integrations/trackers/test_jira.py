"""Jira, Cloud and Data Center, against a server that accepts what the vendor documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.receivers import LOOPBACK
from tests.support.trackers import jira as vendor
from tests.support.trackers.jira import DESK, REQUEST_TYPE, SOFTWARE, TASK, JiraServer
from tests.support.trackers.serving import Fault, serving
from tests.support.trackers.settings import MARKER, jira_settings, new_issue

from postern.domain.issues.issue import Issue, TrackerKind, TrackerSettings, Uncertain
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound, Unavailable
from postern.integrations.trackers.jira import FORM_AGE
from postern.integrations.trackers.jira_cloud import JiraCloud
from postern.integrations.trackers.jira_data_center import JiraDataCenter
from postern.integrations.trackers.trackers import AnyTracker, tracker_of
from postern.services.issues.tracker import Tracker

LINES = "customfield_10002"
OBJECT = "customfield_10006"


@pytest.fixture(params=[True, False], ids=["cloud", "data center"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[JiraServer]:
    async with serving(JiraServer(cloud=request.param)) as server:
        yield server


@pytest.fixture
async def tracker(site: JiraServer) -> AsyncIterator[AnyTracker]:
    made = tracker_of(jira_settings(site), LOOPBACK)
    yield made
    await made.close()


def test_jira_tracker_implements_the_interface(site: JiraServer) -> None:
    made: Tracker = tracker_of(jira_settings(site), LOOPBACK)
    assert made.lag > 0


def words(value: Any) -> str:
    """Of a document or of a text, one line a paragraph."""
    if isinstance(value, str):
        return value
    lines = []
    for block in value["content"]:
        lines.append("".join(node.get("text", "\n") for node in block["content"]))
    return "\n\n".join(lines)


async def test_check_reports_the_jira_user_and_the_project(tracker: AnyTracker) -> None:
    assert await tracker.check() == "Jira accepts the credentials of Robot"
    assert "can read the project All of DEV (DEV)" in await tracker.check(SOFTWARE)
    with pytest.raises(NotFound, match="No project could be found with key 'NOPE'"):
        await tracker.check("NOPE")


async def test_wrong_token_is_denied(site: JiraServer) -> None:
    tracker = tracker_of(jira_settings(site, token=Secret("wrong")), LOOPBACK)
    with pytest.raises(Denied, match="401: Client must be authenticated") as caught:
        await tracker.check()
    assert "wrong" not in str(caught.value)
    # To whom it does not know Jira says that there is no such thing.
    with pytest.raises(Denied, match="rejected the credentials"):
        await tracker.create(new_issue(SOFTWARE, TASK))
    await tracker.close()


async def test_data_center_accepts_a_user_name_and_password(site: JiraServer) -> None:
    if not site.cloud:
        tracker = tracker_of(jira_settings(site, user=vendor.USER), LOOPBACK)
        assert "Robot" in await tracker.check()
        await tracker.close()


async def test_issue_is_created_with_escaped_text(site: JiraServer, tracker: AnyTracker) -> None:
    new = new_issue(SOFTWARE, TASK, text="Session 1\nof ann\n\n{code}select [~bob]{code}")
    made = await tracker.create(new)
    assert made == Issue("DEV-1", f"{site.url}/browse/DEV-1")
    fields = site.issues["DEV-1"].fields
    assert fields["labels"] == [MARKER]
    assert fields["summary"] == new.summary
    shown = words(fields["description"])
    assert shown.endswith(MARKER)
    if site.cloud:
        assert shown == f"Session 1\nof ann\n\n{{code}}select [~bob]{{code}}\n\n{MARKER}"
    else:
        # Nobody is told of it, and nothing is a macro.
        assert r"\{code\}select \[~bob\]\{code\}" in shown


async def test_field_values_are_formatted_by_the_type_of_their_field(site: JiraServer, tracker: AnyTracker) -> None:
    owner = "5b10ac8d82e05b22cc7d4ef5" if site.cloud else "ann"
    given: dict[str, Any] = {
        "customfield_10001": "ann\nof sales",
        LINES: "because\n\nof that",
        "customfield_10003": {"value": "high"},
        "customfield_10004": {"moment": "2026-01-31T09:30"},
        "Parts": "db",
        "customfield_10007": "12.5",
        "customfield_10008": {"moment": "2026-01-31T09:30:00+01:00"},
        "customfield_10009": owner,
        "priority": "High",
        "labels": "from postern,audit",
    }
    await tracker.create(new_issue(SOFTWARE, TASK, given))
    fields = site.issues["DEV-1"].fields
    assert fields["customfield_10001"] == "ann of sales"
    assert words(fields[LINES]) == "because\n\nof that"
    assert fields["customfield_10003"] == {"value": "high"}
    assert fields["customfield_10004"] == "2026-01-31T09:30:00.000+0000"
    assert fields["customfield_10005"] == [{"value": "db"}]
    assert fields["customfield_10007"] == 12.5
    assert fields["customfield_10008"] == "2026-01-31"
    assert fields["customfield_10009"] == {"accountId" if site.cloud else "name": owner}
    assert fields["priority"] == {"name": "High"}
    assert fields["labels"] == ["from_postern", "audit", MARKER]


async def test_service_desk_request_is_created(site: JiraServer, tracker: AnyTracker) -> None:
    given: dict[str, Any] = {
        "customfield_10003": {"value": "low"},
        "customfield_10004": {"moment": "2026-01-31T09:30:00-05:00"},
        LINES: "{quote}",
    }
    objects = {OBJECT: ("Server", "web-1")}
    made = await tracker.create(new_issue(DESK, REQUEST_TYPE, given, objects, text="!http://evil/x.png!"))
    assert made == Issue("OPS-1", f"{site.url}/browse/OPS-1")
    kept = site.issues["OPS-1"]
    assert kept.request_type == REQUEST_TYPE
    # Texts of requests are in wiki markup everywhere; this form hides its labels.
    assert kept.fields["description"] == f"\\!http://evil/x.png\\!\n\n{MARKER}"
    assert kept.fields[LINES] == r"\{quote\}"
    assert kept.fields["customfield_10004"] == "2026-01-31T09:30:00.000-0500"
    cloud = {"id": f"{vendor.WORKSPACE}:88", "workspaceId": vendor.WORKSPACE, "objectId": "88"}
    assert kept.fields[OBJECT] == [cloud if site.cloud else {"key": "CMDB-88"}]
    assert "labels" not in kept.fields


async def test_form_without_a_description_has_the_marker_in_its_summary(site: JiraServer, tracker: AnyTracker) -> None:
    new = new_issue(DESK, vendor.BARE_TYPE, summary="s" * 300)
    made = await tracker.create(new)
    summary = site.issues[made.key].fields["summary"]
    assert summary.endswith(f" {MARKER}")
    assert len(summary) <= 255
    assert await tracker.find(new) == made


async def test_template_can_set_summary_and_description(site: JiraServer, tracker: AnyTracker) -> None:
    await tracker.create(new_issue(SOFTWARE, TASK, {"summary": "Access", "description": "To shop"}))
    fields = site.issues["DEV-1"].fields
    assert fields["summary"] == "Access"
    assert words(fields["description"]) == f"To shop\n\n{MARKER}"


@pytest.mark.parametrize("where", [(SOFTWARE, TASK), (DESK, REQUEST_TYPE)], ids=["issue", "request"])
async def test_text_that_already_has_the_marker_keeps_it_once(
    site: JiraServer, tracker: AnyTracker, where: tuple[str, str]
) -> None:
    made = await tracker.create(new_issue(*where, text=f"Session 1\n\n{MARKER}\n"))
    assert words(site.issues[made.key].fields["description"]) == f"Session 1\n\n{MARKER}"


async def test_overlong_text_is_cut_before_the_marker(site: JiraServer, tracker: AnyTracker) -> None:
    await tracker.create(new_issue(SOFTWARE, TASK, {LINES: "[" * 40_000}, text="{" * 40_000))
    shown = words(site.issues["DEV-1"].fields["description"])
    assert shown.endswith(f"… (cut)\n\n{MARKER}")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"customfield_10003": "purple"}, "customfield_10003: Option value 'purple' is not valid"),
        ({"customfield_77777": "x"}, "customfield_77777: Field 'customfield_77777' cannot be set"),
        ({"customfield_10004": "tomorrow"}, "customfield_10004: must be a time in ISO 8601"),
        ({"customfield_10007": "much"}, "customfield_10007: must be a number"),
        ({"customfield_10009": "nobody"}, "Specified user does not exist"),
    ],
)
@pytest.mark.parametrize("where", [(SOFTWARE, TASK), (DESK, REQUEST_TYPE)], ids=["issue", "request"])
async def test_invalid_field_is_rejected_with_jiras_reason(
    site: JiraServer, tracker: AnyTracker, where: tuple[str, str], fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await tracker.create(new_issue(*where, fields))
    assert said in str(caught.value)
    assert not site.issues


async def test_unknown_types_and_projects_are_rejected(site: JiraServer, tracker: AnyTracker) -> None:
    with pytest.raises(Invalid, match="project DEV has no type 404"):
        await tracker.create(new_issue(SOFTWARE, "404"))
    with pytest.raises(NotFound, match="The request type does not exist"):
        await tracker.create(new_issue(DESK, "404"))
    with pytest.raises(NotFound, match="No project could be found"):
        await tracker.create(new_issue("NOPE", "1"))
    # A key never leads to another path.
    with pytest.raises(NotFound):
        await tracker.create(new_issue("../myself", "1"))
    for where in (("..", TASK), ("", TASK), (SOFTWARE, ".."), (DESK, ".")):
        with pytest.raises(Invalid, match="is not a valid value"):
            await tracker.create(new_issue(*where))
    assert not site.issues


async def test_all_pages_of_a_form_are_read_and_cached(site: JiraServer) -> None:
    site.page = 4
    now = [0.0]
    made = tracker_of(jira_settings(site), LOOPBACK)
    tracker = (JiraCloud if site.cloud else JiraDataCenter)(made._calls, clock=lambda: now[0])

    def asked() -> int:
        return sum("createmeta" in call for call in site.calls)

    await tracker.create(new_issue(SOFTWARE, TASK, {"priority": "Low"}))
    first = asked()
    assert first == 4
    await tracker.create(new_issue(SOFTWARE, TASK))
    assert asked() == first
    # What is refused may be a form that changed.
    with pytest.raises(Invalid):
        await tracker.create(new_issue(SOFTWARE, TASK, {"customfield_10003": "purple"}))
    await tracker.create(new_issue(SOFTWARE, TASK))
    assert asked() == 2 * first
    now[0] += FORM_AGE
    await tracker.create(new_issue(SOFTWARE, TASK))
    assert asked() == 3 * first
    await made.close()


async def test_issue_is_found_by_its_exact_marker(site: JiraServer, tracker: AnyTracker) -> None:
    new = new_issue(SOFTWARE, TASK)
    assert await tracker.find(new) is None
    # One whose words the index takes for the same, in an earlier issue.
    await tracker.create(replace(new, marker="other", text=MARKER.replace("-", " ")))
    made = await tracker.create(new)
    await tracker.create(new)
    assert await tracker.find(new) == made
    assert await tracker.find(replace(new, project_key=DESK)) is None


async def test_search_continues_on_the_next_page(site: JiraServer, tracker: AnyTracker) -> None:
    site.page = 2
    new = new_issue(SOFTWARE, TASK)
    for _ in range(3):
        await tracker.create(replace(new, marker="other", text=MARKER.replace("-", " ")))
    made = await tracker.create(new)
    assert await tracker.find(new) == made


async def test_issue_is_found_once_it_is_indexed(site: JiraServer, tracker: AnyTracker) -> None:
    site.indexing = False
    new = new_issue(DESK, REQUEST_TYPE)
    made = await tracker.create(new)
    assert await tracker.find(new) is None
    site.issues[made.key].indexed = True
    assert await tracker.find(new) == made


async def test_creation_with_a_lost_answer_is_uncertain(site: JiraServer, tracker: AnyTracker) -> None:
    new = new_issue(SOFTWARE, TASK)
    for fault in (
        Fault("POST .*/issue", done=True),
        Fault("POST .*/issue", status=502, content={"errorMessages": []}, done=True),
        Fault("POST .*/issue", status=201, content=["?"], done=True),
        Fault("POST .*/issue", status=201, content={"key": "x y"}, done=True),
        Fault("POST .*/issue", raw=b"HTTP/1.1 201 X\r\nContent-Length: 900\r\n\r\n{", done=True),
    ):
        site.faults.append(fault)
        with pytest.raises(Uncertain):
            await tracker.create(new)
    assert len(site.issues) == 5
    assert (await tracker.find(new)) == Issue("DEV-1", f"{site.url}/browse/DEV-1")


async def test_creation_that_surely_failed_is_not_uncertain(site: JiraServer, tracker: AnyTracker) -> None:
    new = new_issue(SOFTWARE, TASK)
    for fault in (
        Fault("GET .*/project", status=503, headers={"Retry-After": "7"}),
        Fault("GET .*/createmeta"),
        Fault("POST .*/issue", status=429, headers={"Retry-After": "31"}),
        Fault("POST .*/issue", status=302, headers={"Location": "https://evil.example/"}),
    ):
        site.faults.append(fault)
        with pytest.raises(Unavailable) as caught:
            await tracker.create(new)
        assert not isinstance(caught.value, Uncertain)
        wanted = fault.headers.get("Retry-After")
        assert caught.value.retry_after == (int(wanted) if wanted else None)
    assert not site.issues


@pytest.mark.parametrize("status", [303, 408])
async def test_attack_creation_that_a_proxy_can_have_forwarded_is_uncertain(
    site: JiraServer, tracker: AnyTracker, status: int
) -> None:
    site.faults.append(Fault("POST .*/issue", status=status, done=True))
    with pytest.raises(Uncertain):
        await tracker.create(new_issue(SOFTWARE, TASK))
    assert len(site.issues) == 1


async def test_attack_issue_of_a_previous_tracker_is_not_changed(site: JiraServer, tracker: AnyTracker) -> None:
    made = await tracker.create(new_issue(SOFTWARE, TASK))
    with pytest.raises(Invalid, match=r"DEV-1 is in a different tracker, at https://before\.example/browse/DEV-1"):
        await tracker.transition(Issue(made.key, f"https://before.example/browse/{made.key}"), "done")
    assert not [call for call in site.calls if "transitions" in call]


async def test_attack_overlong_issue_key_is_uncertain(site: JiraServer, tracker: AnyTracker) -> None:
    site.faults.append(Fault("POST .*/issue", status=201, content={"key": f"DEV-{'9' * 300}"}))
    with pytest.raises(Uncertain, match="too long"):
        await tracker.create(new_issue(SOFTWARE, TASK))


async def test_transition_is_found_by_status_and_by_name(site: JiraServer, tracker: AnyTracker) -> None:
    made = await tracker.create(new_issue(SOFTWARE, TASK))
    assert await tracker.transition(made, "START WORK")
    assert site.issues[made.key].status == "In Progress"
    assert await tracker.transition(made, " done")
    assert site.issues[made.key].status == "Done"
    # It may be said again.
    assert not await tracker.transition(made, "done")


async def test_issue_closed_by_a_user_is_not_changed(site: JiraServer, tracker: AnyTracker) -> None:
    made = await tracker.create(new_issue(SOFTWARE, TASK))
    site.issues[made.key].status = "Won't do"
    assert not await tracker.transition(made, "done")
    assert site.issues[made.key].status == "Won't do"


async def test_unknown_transition_is_rejected(site: JiraServer, tracker: AnyTracker) -> None:
    made = await tracker.create(new_issue(SOFTWARE, TASK))
    with pytest.raises(
        Invalid, match=r"no transition .*'solved'.*; use one of: Start work \(to In Progress\), Close it"
    ):
        await tracker.transition(made, "solved")
    with pytest.raises(NotFound, match="Issue does not exist"):
        await tracker.transition(Issue("DEV-99", f"{site.url}/browse/DEV-99"), "done")


async def test_asset_objects_are_found_by_type_and_name(site: JiraServer, tracker: AnyTracker) -> None:
    found = await tracker.objects("Server", "WEB", Page(limit=1))
    assert [one.name for one in found.items] == ["web-1"]
    assert (found.total, found.has_next_page) == (2, True)
    found = await tracker.objects("Server", "web", Page(limit=1, offset=1))
    assert [one.name for one in found.items] == ["web-2"]
    assert not found.has_next_page
    found = await tracker.objects("Server", '"b" \\', Page())
    assert [one.name for one in found.items] == ['a "b" \\ c']
    # A name is never a query.
    assert not (await tracker.objects("Server", '" OR Name LIKE "', Page())).items
    assert len((await tracker.objects("Server", "", Page())).items) == 5


async def test_asset_object_must_be_unique(site: JiraServer, tracker: AnyTracker) -> None:
    for name, said in (("nope", "found no object of type 'Server'"), ("twin", "found several objects")):
        with pytest.raises(Invalid, match=said):
            await tracker.create(new_issue(DESK, REQUEST_TYPE, objects={OBJECT: ("Server", name)}))
    assert not site.issues


async def test_jira_without_assets_is_reported(site: JiraServer, tracker: AnyTracker) -> None:
    site.has_assets = False
    with pytest.raises(Invalid, match="this Jira has no Assets"):
        await tracker.objects("Server", "", Page())


async def test_assets_of_an_older_data_center_are_listed() -> None:
    async with serving(JiraServer(cloud=False, old_assets=True)) as site:
        tracker = tracker_of(jira_settings(site), LOOPBACK)
        assert [one.id for one in (await tracker.objects("Room", "", Page())).items] == ["CMDB-91"]
        with pytest.raises(Invalid, match="multiple of the limit"):
            await tracker.objects("Room", "", Page(limit=10, offset=5))
        await tracker.close()


async def test_scoped_token_uses_its_own_api_address() -> None:
    """https://support.atlassian.com/atlassian-account/docs/manage-api-tokens-for-your-atlassian-account/"""
    async with serving(JiraServer(prefix="/ex/jira/11223344-a1b2-3b33-c444-def123456789")) as site:
        tracker = tracker_of(jira_settings(site), LOOPBACK)
        new = new_issue(SOFTWARE, TASK)
        made = await tracker.create(new)
        assert made.url == f"{vendor.PEOPLE}/browse/{made.key}"
        assert await tracker.find(new) == made
        assert len((await tracker.objects("Server", "web", Page())).items) == 2
        await tracker.close()


async def test_assets_of_jira_cloud_are_called_at_their_own_address() -> None:
    async def nowhere(_host: str, _port: int) -> list[str]:
        return []

    settings = TrackerSettings(TrackerKind.JIRA_CLOUD, vendor.PEOPLE, vendor.USER, Secret(vendor.TOKEN))
    tracker = tracker_of(settings, resolver=nowhere)
    assert isinstance(tracker, JiraCloud)
    tracker._workspace = vendor.WORKSPACE
    with pytest.raises(Unavailable, match=r"api\.atlassian\.com has no address"):
        await tracker.objects("Server", "web", Page())
    with pytest.raises(Unavailable, match=r"acme\.atlassian\.net has no address"):
        await tracker.check()
    await tracker.close()
