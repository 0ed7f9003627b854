"""Settings in the browser: the organisation, the login, features, the server with its log, and organisations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting, visiting_as
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    made = People(gateway)
    made.create("auditor@example.com", "auditor")
    return made


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/settings") as visit:
        yield visit


def test_organisation_is_changed_and_a_newer_change_is_not_overwritten(admin: Visit, people: People) -> None:
    page = admin.page
    admin.expected_errors.append("412 (Precondition Failed)")
    page.get_by_label("Help for denied users").fill("Ask in #dba.")
    page.get_by_role("button", name="Save organisation").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    people.ask("PUT", "/orgs/self", {"access_help": "Call the desk."})
    page.get_by_label("Help for denied users").fill("Ask nobody.")
    page.get_by_role("button", name="Save organisation").click()
    expect(page.get_by_text("Another user changed it while you edited.")).to_be_visible()
    page.get_by_role("button", name="Load it again").click()
    expect(page.get_by_label("Help for denied users")).to_have_value("Call the desk.")


def test_login_by_a_provider_that_would_lock_everybody_out_is_refused(admin: Visit, people: People) -> None:
    page = admin.page
    admin.expected_errors += ["409 (Conflict)", "422 (Unprocessable", "503 (Service Unavailable)", "400 (Bad Request)"]
    page.get_by_role("link", name="Login", exact=True).click()
    page.get_by_role("button", name="Login method").click()
    page.get_by_role("option", name="SAML").click()
    page.get_by_label("Metadata URL of the provider").fill("https://192.0.2.1/metadata")
    page.get_by_role("button", name="Save login settings").click()
    expect(page.get_by_role("alert")).to_be_visible(timeout=60_000)
    assert people.ask("GET", "/serverconfig/auth")["auth_method"] == "local"
    assert admin.accessibility() == []
    # What the gateway answers if no administrator would get in, without a provider for the test.
    message = "auth_method: no administrator could log in with the new method: none is invited"
    refusal = {"status": 409, "json": {"message": message}}
    page.route("**/api/serverconfig/auth", lambda route: route.fulfill(**refusal))
    page.get_by_role("button", name="Save login settings").click()
    expect(page.get_by_role("heading", name="No administrator could get in")).to_be_visible()
    expect(page.get_by_role("table", name="Administrators of today")).to_contain_text(ADMIN)
    expect(page.get_by_role("button", name="Save anyway")).to_be_visible()
    assert admin.accessibility() == []


def test_feature_is_switched_off_after_its_consequences_are_shown(admin: Visit, people: People) -> None:
    page = admin.page
    page.get_by_role("link", name="Features").click()
    row = page.get_by_role("table", name="Features").get_by_role("row").filter(has_text="session-download")
    expect(row).to_contain_text("recorded sessions can be downloaded as files")
    row.get_by_role("button", name="Switch off session-download").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("end at once")
    dialog.get_by_role("button", name="Switch off session-download").click()
    expect(row.get_by_text("Off", exact=True)).to_be_visible()
    assert people.ask("GET", "/serverinfo")["feature_flags"]["session-download"] is False


def test_server_log_shows_new_lines_as_text(admin: Visit, people: People) -> None:
    page = admin.page
    page.get_by_role("link", name="Server log").click()
    expect(page.get_by_text("Live: new lines appear by themselves.")).to_be_visible()
    lines = page.get_by_role("list", name="Lines of the log")
    expect(lines.get_by_role("listitem").first).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused: new lines wait.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Lowest level").click()
    page.get_by_role("option", name="Error").click()
    expect(page).to_have_url(f"{admin.url}/settings/log?level=error")
    expect(lines.get_by_text("info", exact=True)).to_have_count(0)
    assert page.locator("main img[src=x]").count() == 0


def test_organisation_is_created_with_a_link_and_deleted_by_its_name(admin: Visit) -> None:
    page = admin.page
    page.get_by_role("link", name="Organisations").click()
    page.get_by_role("button", name="Create organisation").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Acme")
    dialog.get_by_label("E-mail address of its first administrator").fill("boss@acme.example")
    dialog.get_by_role("button", name="Create organisation").click()
    expect(page.get_by_role("group", name="Set-up link")).to_contain_text("/setup#token=")
    page.get_by_role("button", name="I have it").click()
    row = page.get_by_role("table", name="Organisations").get_by_role("row").filter(has_text="Acme")
    row.get_by_role("button", name="Delete organisation").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete organisation")).to_be_disabled()
    dialog.get_by_label("Type Acme to confirm").fill("Acme")
    dialog.get_by_role("button", name="Delete organisation").click()
    expect(row.get_by_text("Being deleted")).to_be_visible()
    page.get_by_role("link", name="About").click()
    expect(page.get_by_text("Ready", exact=True)).to_be_visible()
    for name in ("PostgreSQL clients", "SQL Server clients", "Oracle clients", "TCP clients"):
        expect(page.get_by_text(name, exact=True)).to_be_visible()
    assert page.request.get(f"{admin.url}/licences.txt").ok
    assert page.request.get(f"{admin.url}/api/metrics").ok


def test_ending_all_logins_leads_to_the_login(browser: Browser, gateway: Gateway, people: People) -> None:
    with visiting(browser, gateway) as visit:
        visit.open("/settings/server")
        visit.log_in(ADMIN)
        visit.page.get_by_role("button", name="Create new key and end all logins").click()
        dialog = visit.page.get_by_role("dialog")
        dialog.get_by_label("Type end all logins to confirm").fill("end all logins")
        dialog.get_by_role("button", name="Create new key and end all logins").click()
        expect(visit.page.get_by_role("button", name="Log in")).to_be_visible()


def test_auditor_reads_settings_and_has_none_of_the_server(browser: Browser, gateway: Gateway, people: People) -> None:
    with visiting_as(browser, gateway, "auditor@example.com", "/settings", size=PHONE) as auditor:
        page = auditor.page
        expect(page.get_by_role("button", name="Save organisation")).to_be_disabled()
        for name in ("Server", "Server log", "Organisations"):
            expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)
        page.get_by_role("link", name="Login", exact=True).click()
        expect(page.get_by_role("button", name="Save login settings")).to_be_disabled()
        page.get_by_role("link", name="Features").click()
        expect(page.get_by_role("table", name="Features")).to_be_visible()
        expect(page.get_by_role("button", name="Switch off")).to_have_count(0)
        assert auditor.accessibility() == []
        auditor.expected_errors.append("403 (Forbidden)")
        auditor.open("/settings/server")
        expect(page.get_by_role("alert")).to_contain_text("only administrators")
