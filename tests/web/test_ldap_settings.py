"""LDAP in the settings of login: a real directory is set up in the browser, and a user of it logs in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.support.slapds import BASE, NEEDED, PASSWORD, READER, READER_PASSWORD, Directory, running_slapd
from tests.web.conftest import visiting, visiting_as
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, NEEDED]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with running_slapd(tmp_path_factory.mktemp("slapd")) as running:
        yield running


def test_directory_is_set_up_in_the_browser_and_its_user_logs_in(
    browser: Browser, gateway: Gateway, directory: Directory
) -> None:
    people = People(gateway)
    assert people.ask("GET", "/serverconfig/auth")["auth_method"] == "local"  # logs in while that is so
    with visiting_as(browser, gateway, ADMIN, "/settings/login") as visit:
        visit.expected_errors.append("409 (Conflict)")
        page = visit.page
        page.get_by_role("button", name="Login method").click()
        page.get_by_role("option", name="LDAP").click()
        servers = page.get_by_role("combobox", name="Servers")
        servers.fill(f"ldaps://localhost:{directory.tls_port}")
        servers.press("Enter")
        for label, value in (
            ("CA certificates of the servers", directory.ca),
            ("Entry below which users are", BASE),
            ("Account that searches for users", READER),
            ("Password of that account", READER_PASSWORD),
            ("Entry below which groups count", f"ou=groups,{BASE}"),
            ("Filter that finds the groups", "(member={dn})"),
        ):
            page.get_by_label(label).fill(value)
        assert visit.accessibility() == []
        page.get_by_role("button", name="Save login settings").click()
        expect(page.get_by_role("heading", name="No administrator could get in")).to_be_visible()
        page.get_by_role("button", name="Save anyway").click()
        page.get_by_role("dialog").get_by_role("button", name="Save anyway").click()
        expect(page.get_by_text("Stored, and never shown.")).to_be_visible()
    stored = people.ask("GET", "/serverconfig/auth")
    assert (stored["auth_method"], stored["ldap_config"]["has_bind_password"]) == ("ldap", True)
    with visiting(browser, gateway) as visit:
        visit.open("/")
        visit.page.get_by_label("User name").fill("ann")
        visit.page.get_by_label("Password").fill(PASSWORD)
        visit.page.get_by_role("button", name="Log in").click()
        expect(visit.page.get_by_role("navigation", name="Main navigation")).to_be_visible()
