"""Logging in with a browser: set-up link, password, second factor, and the way back to the page that needed it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pyotp
import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import DESKTOP, PHONE, Visit, visiting
from tests.web.people import ADMIN, PASSWORD

OPEN = ["/login", "/setup#token=x", "/nothing"]  # without a login


@pytest.fixture
def logged_in(visit: Visit, admin: str) -> Visit:
    visit.open()
    visit.log_in(admin)
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("Hello")
    return visit


@pytest.fixture
def second_factor(gateway: Gateway, admin: str) -> Iterator[pyotp.TOTP]:
    """An authenticator app of the administrator, for as long as the test runs."""
    api = f"{gateway.told['api_url']}/api"
    login = httpx.post(f"{api}/localauth/login", json={"email": admin, "password": PASSWORD})
    bearer = {"Authorization": f"Bearer {login.headers['token']}"}
    body = {"kind": "totp", "name": "phone", "current_password": PASSWORD}
    made = httpx.post(f"{api}/users/self/second-factors", json=body, headers=bearer).json()
    app = pyotp.TOTP(made["secret"])
    confirm = f"{api}/users/self/second-factors/{made['id']}/confirm"
    assert httpx.post(confirm, json={"code": app.now()}, headers=bearer).status_code == 200
    yield app
    assert gateway.run_apart("setup-link", "--reset-second-factors", "--json").returncode == 0


def test_new_administrator_sets_a_password_and_sees_the_demo(browser: Browser, gateway: Gateway) -> None:
    with visiting(browser, gateway) as visit:
        page = visit.page
        page.goto(gateway.told["setup_url"])
        expect(page).to_have_url(f"{visit.url}/setup")  # the token is neither in the address bar nor in the history
        page.get_by_label("Your name").fill("Ada")
        page.get_by_label("New password").fill("too short")
        page.get_by_role("button", name="Set password").click()
        expect(page.get_by_text("3 more characters are needed")).to_be_visible()
        page.get_by_label("New password").fill(PASSWORD)
        page.get_by_role("button", name="Set password").click()
        expect(page.get_by_role("heading", name="Hello, Ada")).to_be_visible()
        page.get_by_role("link", name="Connections", exact=True).click()
        expect(page.get_by_role("cell", name="shop-demo")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.fixture(scope="module")
def admin(gateway: Gateway) -> str:
    """The administrator whom the first test of this file set up."""
    answer = httpx.post(f"{gateway.told['api_url']}/api/localauth/login", json={"email": ADMIN, "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    return ADMIN


def test_page_that_needs_a_login_opens_after_it(visit: Visit, admin: str) -> None:
    visit.open("/connections?search=shop")
    expect(visit.page).to_have_url(f"{visit.url}/login?next=%2Fconnections%3Fsearch%3Dshop")
    visit.log_in(admin)
    expect(visit.page).to_have_url(f"{visit.url}/connections?search=shop")
    expect(visit.page.get_by_label("Search connections")).to_have_value("shop")


def test_wrong_password_is_reported_in_the_gateways_words(visit: Visit, admin: str) -> None:
    visit.expected_errors.append("401 (Unauthorized)")
    visit.open()
    visit.log_in(admin, "wrong password 1")
    expect(visit.page.get_by_role("alert")).to_contain_text("password")


@pytest.mark.parametrize(
    "target", ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:alert(1)"]
)
def test_attack_login_link_cannot_lead_to_another_site(visit: Visit, admin: str, target: str) -> None:
    visit.page.goto(f"{visit.url}/login?{httpx.QueryParams(next=target)}")
    visit.log_in(admin)
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("Hello")
    assert visit.page.url == f"{visit.url}/"


def test_second_factor_is_asked_for_and_a_wrong_code_is_refused(
    visit: Visit, admin: str, second_factor: pyotp.TOTP
) -> None:
    visit.expected_errors.append("401 (Unauthorized)")
    visit.open("/sessions")
    visit.log_in(admin)
    code = visit.page.get_by_label("Code of your authenticator app")
    code.fill("000000")
    visit.page.get_by_role("button", name="Continue").click()
    expect(visit.page.get_by_role("alert")).to_be_visible()
    visit.page.get_by_role("button", name="Use a recovery code").click()
    expect(visit.page.get_by_label("Recovery code")).to_be_focused()
    visit.page.get_by_role("button", name="Use a code of an authenticator app").click()
    code.fill(second_factor.at(datetime.now(UTC) + timedelta(seconds=30)))  # each code is valid once
    visit.page.get_by_role("button", name="Continue").click()
    expect(visit.page).to_have_url(f"{visit.url}/sessions")


def test_login_that_ended_leads_back_to_the_same_page(logged_in: Visit) -> None:
    logged_in.expected_errors.append("401 (Unauthorized)")
    page = logged_in.page
    page.get_by_role("link", name="Sessions").click()
    expect(page.get_by_text("There are no sessions yet.")).to_be_visible()  # what is being read is not read again
    page.context.clear_cookies()
    # As if the user came back to the tab.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))")
    expect(page).to_have_url(f"{logged_in.url}/login?next=%2Fsessions")


@pytest.mark.ci
def test_log_out_in_one_tab_is_one_in_all(logged_in: Visit) -> None:
    other = logged_in.page.context.new_page()
    other.goto(f"{logged_in.url}/connections")
    expect(other.get_by_role("heading", level=1, name="Connections")).to_be_visible()
    logged_in.page.get_by_role("button", name="Log out").click()
    expect(logged_in.page).to_have_url(f"{logged_in.url}/login")
    expect(other).to_have_url(f"{logged_in.url}/login?next=%2Fconnections")


@pytest.mark.ci
def test_write_succeeds_after_another_tab_renewed_the_login(logged_in: Visit) -> None:
    """The renewal changed the CSRF token, so the first attempt is refused."""
    logged_in.expected_errors.append("403 (Forbidden)")
    api = logged_in.page.context.request
    token = api.get(f"{logged_in.url}/api/login/session").json()["csrf_token"]
    headers = {"X-CSRF-Token": token, "Origin": logged_in.url}
    assert api.post(f"{logged_in.url}/api/login/refresh", headers=headers).ok
    logged_in.page.get_by_role("button", name="Log out").click()
    expect(logged_in.page).to_have_url(f"{logged_in.url}/login")


def test_token_is_out_of_reach_of_scripts(logged_in: Visit) -> None:
    assert logged_in.page.evaluate("document.cookie") == ""
    assert logged_in.page.evaluate("Object.keys(localStorage)") == []
    assert logged_in.page.evaluate("Object.keys(sessionStorage)") == []


def test_page_opened_at_another_name_of_the_machine_moves_to_its_own_address(visit: Visit, admin: str) -> None:
    visit.page.goto(visit.url.replace("localhost", "127.0.0.1") + "/connections")
    visit.log_in(admin)
    expect(visit.page).to_have_url(f"{visit.url}/connections")


def test_unknown_address_has_a_page_of_its_own(visit: Visit) -> None:
    visit.open("/no/such/page")
    expect(visit.page.get_by_role("heading", name="There is nothing here")).to_be_visible()


@pytest.mark.ci
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", OPEN)
def test_page_without_a_login_is_accessible_and_fits_a_phone(
    browser: Browser, gateway: Gateway, path: str, theme: str
) -> None:
    with visiting(browser, gateway, PHONE, color_scheme=theme) as visit:
        visit.open(path)
        visit.page.wait_for_load_state("networkidle")
        assert visit.accessibility() == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        visit.page.set_viewport_size(DESKTOP)
        assert visit.accessibility() == []
