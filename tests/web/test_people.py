"""People, groups, keys and machine identities in the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.running import Gateway
from tests.support.ssh_ca import Authority
from tests.web.conftest import Visit, visiting, visiting_as
from tests.web.people import ADMIN, PASSWORD, People

HOSTILE = "<img src=x onerror=alert(1)>"

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    people = People(gateway)
    people.create("bob@example.com", "dba")
    people.ask("PATCH", "/users/bob@example.com", {"name": HOSTILE})
    return people


@pytest.fixture(scope="module")
def shared(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/people") as visit:
        yield visit


@pytest.fixture
def admin(shared: Visit) -> Page:
    return shared.page


def choose(dialog: Locator, label: str, name: str) -> None:
    field = dialog.get_by_role("combobox", name=label)
    field.fill(name)
    field.press("Enter")
    field.press("Tab")  # which closes the menu of further names


def test_invited_person_sets_a_password_and_is_found(
    admin: Page, shared: Visit, browser: Browser, gateway: Gateway
) -> None:
    shared.open("/people")
    admin.get_by_role("button", name="Invite a person").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("E-mail address").fill("carol@example.com")
    choose(dialog, "Groups", "dba")
    assert shared.accessibility() == []
    dialog.get_by_role("button", name="Create account").click()
    shown = admin.get_by_role("group", name="Set-up link")
    link = shown.locator("code").inner_text()
    assert "#token=" in link
    admin.keyboard.press("Escape")  # what is shown once is not closed by accident
    expect(shown).to_be_visible()
    with visiting(browser, gateway) as carol:
        carol.page.goto(link)
        carol.page.get_by_label("Your name").fill("Carol")
        carol.page.get_by_label("New password").fill(PASSWORD)
        carol.page.get_by_role("button", name="Set password").click()
        expect(carol.page.get_by_role("heading", name="Hello, Carol")).to_be_visible()
    admin.get_by_role("button", name="I have it").click()
    admin.get_by_label("Search people").fill("carol")
    expect(admin).to_have_url(f"{shared.url}/people?search=carol")
    row = admin.get_by_role("row").filter(has_text="carol@example.com")
    expect(row).to_contain_text("dba")
    admin.get_by_role("link", name="carol@example.com").click()
    expect(admin.get_by_role("region", name="Logins").get_by_role("row")).to_have_count(2)


def test_person_who_exists_cannot_be_invited_again(admin: Page, shared: Visit) -> None:
    shared.expected_errors.append("409 (Conflict)")
    shared.open("/people")
    expect(admin.get_by_role("table", name="People")).to_contain_text(HOSTILE)
    assert admin.locator("main img[src=x]").count() == 0
    admin.get_by_role("button", name="Invite a person").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("E-mail address").fill("bob@example.com")
    dialog.get_by_role("button", name="Create account").click()
    expect(dialog.get_by_role("alert")).to_contain_text("bob@example.com")


def test_change_that_somebody_else_made_meanwhile_is_not_overwritten(
    admin: Page, shared: Visit, people: People
) -> None:
    shared.expected_errors.append("412 (Precondition Failed)")
    people.ask("POST", "/users", {"email": "dan@example.com", "name": "Dan"})
    shared.open("/people/dan@example.com")
    account = admin.get_by_role("region", name="Account")
    account.get_by_label("Name").fill("Daniel")
    people.ask("PATCH", "/users/dan@example.com", {"name": "Danny"})
    account.get_by_role("button", name="Save").click()
    expect(account).to_contain_text("Another user changed it")
    account.get_by_role("button", name="Load it again").click()
    expect(account.get_by_label("Name")).to_have_value("Danny")
    account.get_by_label("Name").fill("Daniel")
    account.get_by_role("button", name="Save").click()
    expect(account.get_by_text("Saved.")).to_be_visible()
    account.get_by_role("button", name="Delete person").click()
    admin.get_by_role("dialog").get_by_role("button", name="Delete person").click()
    expect(admin).to_have_url(f"{shared.url}/people")


def test_deactivated_person_is_logged_out_at_once(
    admin: Page, shared: Visit, browser: Browser, gateway: Gateway, people: People
) -> None:
    people.create("fay@example.com")
    with visiting(browser, gateway) as fay:
        fay.expected_errors.append("401 (Unauthorized)")
        fay.open("/connections")
        fay.log_in("fay@example.com")
        expect(fay.page.get_by_role("heading", name="Connections")).to_be_visible()
        shared.open("/people/fay@example.com")
        admin.get_by_role("button", name="Deactivate").click()
        admin.get_by_role("dialog").get_by_role("button", name="Deactivate").click()
        expect(admin.get_by_text("Deactivated", exact=True)).to_be_visible()
        expect(fay.page.get_by_role("heading", name="Log in")).to_be_visible()
    shared.open(f"/people/{ADMIN}")
    expect(admin.get_by_role("button", name="Create set-up link")).to_be_visible()
    expect(admin.get_by_role("button", name="Deactivate")).to_have_count(0)  # nobody deactivates themselves


def test_group_gets_members_and_stays_while_a_connection_needs_it(admin: Page, shared: Visit, people: People) -> None:
    shared.expected_errors.append("409 (Conflict)")
    shared.open("/people/groups")
    admin.get_by_role("button", name="Create group").click()
    admin.get_by_role("dialog").get_by_label("Name").fill("on call")
    admin.get_by_role("dialog").get_by_role("button", name="Create group").click()
    expect(admin).to_have_url(f"{shared.url}/people/groups/on%20call")
    admin.get_by_role("button", name="Add member").click()
    dialog = admin.get_by_role("dialog")
    choose(dialog, "Person", "bob@example.com")
    dialog.get_by_role("button", name="Add member").click()
    members = admin.get_by_role("region", name="Members")
    expect(members.get_by_role("link", name="bob@example.com")).to_be_visible()
    assert people.ask("GET", "/users/bob@example.com")["groups"] == ["dba", "on call"]
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["on call"]})
    admin.get_by_role("button", name="Delete group").click()
    admin.get_by_role("dialog").get_by_role("button", name="Delete group").click()
    expect(admin.get_by_role("dialog").get_by_role("alert")).to_contain_text("shop-demo")
    admin.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": []})
    members.get_by_role("button", name="Remove").click()
    admin.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(members.get_by_text("This group has no members.")).to_be_visible()
    assert people.ask("GET", "/users/bob@example.com")["groups"] == ["dba"]


def test_api_key_is_shown_once_and_works_until_it_is_revoked(admin: Page, shared: Visit) -> None:
    shared.open("/people/api-keys")
    admin.get_by_role("button", name="Create API key").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("Name").fill("ci")
    dialog.get_by_role("button", name="Create API key").click()
    key = admin.get_by_role("group", name="Key").locator("code").inner_text()

    def status() -> int:
        return httpx.get(f"{shared.url}/api/connections", headers={"Api-Key": key}).status_code

    assert status() == 200
    admin.get_by_role("button", name="I have it").click()
    expect(admin.get_by_role("row").filter(has_text="ci")).to_contain_text("in 90 days")
    assert key not in admin.content()
    admin.get_by_role("link", name="ci", exact=True).click()
    admin.get_by_role("button", name="Revoke key").click()
    admin.get_by_role("dialog").get_by_role("button", name="Revoke key").click()
    expect(admin.get_by_text("Revoked", exact=True).first).to_be_visible()
    assert status() == 401
    admin.get_by_role("button", name="Reactivate key").click()
    admin.get_by_role("dialog").get_by_role("button", name="Reactivate key").click()
    expect(admin.get_by_text("Active", exact=True)).to_be_visible()
    assert status() == 200


def test_service_account_is_created_and_deactivated(admin: Page, shared: Visit, people: People) -> None:
    shared.open("/people/service-accounts")
    expect(admin.get_by_text("There are no service accounts yet.")).to_be_visible()
    admin.get_by_role("button", name="Create service account").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("Subject").fill("deploy")
    dialog.get_by_role("button", name="Create service account").click()
    expect(admin).to_have_url(f"{shared.url}/people/service-accounts/deploy")
    admin.get_by_role("button", name="Deactivate").click()
    admin.get_by_role("dialog").get_by_role("button", name="Deactivate").click()
    expect(admin.get_by_role("button", name="Activate", exact=True)).to_be_visible()
    assert people.ask("GET", "/serviceaccounts/deploy")["status"] == "inactive"


def test_credential_of_a_machine_is_rotated_with_an_overlap(admin: Page, shared: Visit) -> None:
    shared.open("/people/machines")
    admin.get_by_role("button", name="Create machine identity").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("Name").fill("nightly")
    choose(dialog, "Connections", "shop-demo")
    dialog.get_by_role("button", name="Create machine identity").click()
    first = admin.get_by_role("group", name="Password").locator("code").inner_text()
    admin.get_by_role("button", name="I have it").click()
    admin.get_by_role("link", name="nightly").click()
    admin.get_by_role("button", name="Rotate").click()
    admin.get_by_role("dialog").get_by_role("button", name="Create new credential").click()
    second = admin.get_by_role("group", name="Password").locator("code").inner_text()
    assert first != second
    admin.get_by_role("button", name="I have it").click()
    credentials = admin.get_by_role("region", name="Credentials")
    expect(credentials.get_by_text("Active", exact=True)).to_have_count(2)
    expect(credentials.get_by_role("button", name="Rotate")).to_have_count(1)  # the old one expires by itself
    expect(credentials).to_contain_text(re.compile(r"in (1 hour|\d\d minutes)"))
    settings = admin.get_by_role("region", name="Settings")
    settings.get_by_role("button", name="Remove shop-demo").click()
    settings.get_by_role("button", name="Save").click()
    expect(credentials.get_by_text("Revoked", exact=True).first).to_be_visible()


def test_ssh_authority_is_added_by_its_public_key_only(
    admin: Page, shared: Visit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared.expected_errors.append("422 (Unprocessable")
    authority = Authority(tmp_path_factory.mktemp("authority"))
    shared.open("/people/ssh-authorities")
    admin.get_by_role("button", name="Add SSH authority").click()
    dialog = admin.get_by_role("dialog")
    dialog.get_by_label("Name").fill("people")
    dialog.get_by_label("Public key").fill("-----BEGIN OPENSSH PRIVATE KEY-----")
    dialog.get_by_role("button", name="Add SSH authority").click()
    expect(dialog.get_by_role("alert")).to_contain_text("private")
    dialog.get_by_label("Public key").fill(authority.line)
    dialog.get_by_role("button", name="Add SSH authority").click()
    admin.get_by_role("link", name="people", exact=True).click()
    expect(admin.get_by_text("SHA256:")).to_be_visible()


def test_auditor_reads_and_changes_nothing(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("aud@example.com", "auditor")
    with visiting(browser, gateway) as visit:
        visit.open("/people")
        visit.log_in("aud@example.com")
        expect(visit.page.get_by_role("table", name="People")).to_contain_text("bob@example.com")
        expect(visit.page.get_by_role("button", name="Invite a person")).to_have_count(0)
        visit.page.get_by_role("link", name="bob@example.com").click()
        logins = visit.page.get_by_role("region", name="Logins")
        expect(logins.get_by_role("table")).to_be_visible()
        expect(visit.page.locator("main").get_by_role("button")).to_have_count(0)


def test_user_without_a_role_sees_no_administration(browser: Browser, gateway: Gateway, people: People) -> None:
    with visiting(browser, gateway) as visit:
        visit.expected_errors.append("403 (Forbidden)")
        visit.open("/people/api-keys")
        visit.log_in("bob@example.com")
        expect(visit.page.get_by_role("alert")).to_contain_text("administrators and auditors")
        navigation = visit.page.get_by_role("navigation", name="Main navigation")
        expect(navigation.get_by_role("link", name="Agents")).to_have_count(0)
