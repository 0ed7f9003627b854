"""Integrations in the browser: event sinks with their deliveries, the issue tracker, templates and chat accounts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway, started
from tests.web.conftest import PHONE, Visit, visiting_as
from tests.web.controls import add_name, choose
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci

NOWHERE = "https://127.0.0.2:9/events"  # nothing listens there, so each delivery fails


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started(SINK_NETWORKS="127.0.0.2/32") as running:
        yield running


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    made.create("auditor@example.com", "auditor")
    return made


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/integrations") as visit:
        yield visit


def test_webhook_shows_its_secret_once_and_a_failed_test_event(admin: Visit, people: People) -> None:
    page = admin.page
    admin.expected_errors.append("422 (Unprocessable")
    page.get_by_role("link", name="New sink").click()
    page.get_by_label("Name").fill("siem")
    page.get_by_label("Address").fill("https://10.1.2.3/events")
    page.get_by_text("session.close").click()
    page.get_by_role("button", name="Create sink").click()
    expect(page.get_by_role("alert")).to_contain_text("POSTERN_SINK_NETWORKS")
    page.get_by_label("Address").fill(NOWHERE)
    page.get_by_role("button", name="Create sink").click()
    secret = page.get_by_role("dialog").get_by_role("group", name="Signing secret")
    expect(secret).to_contain_text("whsec_")
    page.keyboard.press("Escape")
    expect(secret).to_be_visible()
    page.get_by_role("button", name="I have it").click()
    expect(page).to_have_url(f"{admin.url}/integrations/sinks/siem")
    expect(page.get_by_text("whsec_")).to_have_count(0)

    page.get_by_role("button", name="Send test event").click()
    row = page.get_by_role("table", name="Deliveries").get_by_role("row").filter(has_text="sink.test")
    expect(row).to_contain_text(re.compile("Waiting"))
    expect(page.get_by_text("Failed attempts in a row")).to_be_visible(timeout=30_000)
    row.get_by_text("Show content").click()
    expect(row).to_contain_text('"type": "sink.test"')
    page.get_by_role("button", name="Create new secret").click()
    page.get_by_role("dialog").get_by_role("button", name="Create new secret").click()
    expect(page.get_by_role("dialog").get_by_text("whsec_")).to_be_visible()
    page.get_by_role("button", name="I have it").click()
    assert admin.accessibility() == []


def test_change_that_somebody_else_made_meanwhile_is_not_overwritten(admin: Visit, people: People) -> None:
    people.ask("POST", "/sinks", {"name": "shared", "kind": "webhook", "address": NOWHERE, "events": ["audit.entry"]})
    page = admin.page
    admin.expected_errors += ["412 (Precondition Failed)", "404 (Not Found)"]  # it may be asked for as it is deleted
    admin.open("/integrations/sinks/shared")
    settings = page.get_by_label("Settings of the sink")
    expect(settings.get_by_label("audit.entry")).to_be_checked()
    people.ask("PATCH", "/sinks/shared", {"events": ["session.kill"]})
    settings.get_by_text("Paused").click()
    settings.get_by_role("button", name="Save sink").click()
    expect(settings.get_by_text("Another user changed it while you edited.")).to_be_visible()
    settings.get_by_role("button", name="Load it again").click()
    expect(settings.get_by_label("session.kill")).to_be_checked()
    settings.get_by_role("button", name="Delete sink").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete sink").click()
    expect(page).to_have_url(f"{admin.url}/integrations")
    expect(page.get_by_role("link", name="shared")).to_have_count(0)


def test_template_is_previewed_while_it_is_typed(admin: Visit, people: People) -> None:
    session = people.admin.post("/sessions", json={"connection": "shop-demo", "script": "select 'preview me'"})
    assert session.is_success
    page = admin.page
    admin.open("/integrations/templates/new")
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("The preview appears once")
    page.get_by_label("Project key").fill("OPS")
    page.get_by_label("Request type or issue type").fill("10")
    expect(preview).to_contain_text("exec by alice@example.com")
    page.get_by_role("button", name="Add field").click()
    page.get_by_label("Field of the tracker").fill("customfield_1")
    page.get_by_role("button", name=re.compile("Value$")).click()
    page.get_by_role("option", name="session.script", exact=True).click()
    expect(preview).to_contain_text("update orders set state")
    choose(page, "Filled with", "Fixed text")
    page.get_by_label("Value", exact=True).fill("<b>from Postern</b>")
    expect(preview).to_contain_text("<b>from Postern</b>")
    page.get_by_role("button", name="Add question").click()
    page.get_by_label("Field of the tracker").last.fill("customfield_2")
    page.get_by_label("Question", exact=True).fill("Reason")
    page.locator("label").filter(has_text="Required").click()
    empty = preview.get_by_role("table", name="Fields that stay empty")
    expect(empty).to_contain_text("Needs an answer")
    preview.get_by_label("Answer to: Reason").fill("because")
    expect(preview).to_contain_text("because")
    expect(empty).to_have_count(0)
    preview.get_by_role("button", name="Session").click()
    page.get_by_role("option", name="shop-demo, admin@localhost").first.click()
    expect(preview).to_contain_text("exec by admin@localhost")
    assert admin.accessibility() == []
    assert people.ask("GET", "/integrations/tracker/issuetemplates?search=preview")["total"] == 0


def test_tracker_and_template_are_set_up(admin: Visit, people: People) -> None:
    page = admin.page
    page.get_by_role("link", name="Issue tracker").click()
    page.get_by_label("Address").fill("https://example.atlassian.net")
    page.get_by_label("User of the token").fill("postern@example.com")
    page.get_by_label("Token", exact=True).fill("a-token-for-tests")
    page.get_by_role("button", name="Set up tracker").click()
    expect(page.get_by_text("No session has opened an issue yet.")).to_be_visible()
    expect(page.get_by_label("Token", exact=True)).to_have_value("")

    page.get_by_role("link", name="Issue templates").click()
    page.get_by_role("link", name="New template").click()
    page.get_by_label("Name").fill("changes")
    page.get_by_label("Project key").fill("OPS")
    page.get_by_label("Request type or issue type").fill("10")
    add_name(page, "Connections", "shop-demo")
    page.get_by_role("button", name="Add field").click()
    page.get_by_label("Field of the tracker").fill("summary")
    page.get_by_role("button", name="Create template").click()
    expect(page).to_have_url(f"{admin.url}/integrations/templates/changes")
    saved = people.ask("GET", "/integrations/tracker/issuetemplates/changes")
    assert saved["mapping_types"]["items"][0]["tracker_field"] == "summary"
    assert len(saved["connection_ids"]) == 1
    assert admin.accessibility() == []


def test_chat_account_gets_a_code(admin: Visit) -> None:
    admin.page.get_by_role("link", name="Chat accounts").click()
    admin.page.get_by_role("button", name="Create code").click()
    expect(admin.page.get_by_role("group", name="Command", exact=True)).to_contain_text("/postern ")
    admin.page.get_by_role("button", name="I have it").click()
    expect(admin.page.get_by_role("group", name="Command", exact=True)).to_have_count(0)


def test_auditor_reads_what_administrators_set_up(browser: Browser, gateway: Gateway, people: People) -> None:
    with visiting_as(browser, gateway, "auditor@example.com", "/integrations", size=PHONE) as auditor:
        expect(auditor.page.get_by_role("link", name="New sink")).to_have_count(0)
        auditor.page.get_by_role("link", name="siem").click()
        expect(auditor.page.get_by_role("table", name="Deliveries")).to_be_visible()
        expect(auditor.page.get_by_role("button", name="Send test event")).to_have_count(0)
        expect(auditor.page.get_by_role("button", name="Save sink")).to_have_count(0)
        assert auditor.accessibility() == []
        auditor.page.get_by_role("link", name="All sinks").click()
        auditor.page.get_by_role("link", name="Events", exact=True).click()
        auditor.page.get_by_text("session.open").first.click()
        expect(auditor.page.get_by_role("table", name="session.open")).to_contain_text("connection_subtype")
