"""One's own account in the browser: second factors, password, SSH keys, logins."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyotp
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.running import Gateway
from tests.support.ssh_ca import Authority
from tests.web.conftest import Visit, visiting, visiting_as
from tests.web.people import PASSWORD, People

NEW = "another long password"

pytestmark = pytest.mark.ci


@pytest.fixture
def ann(browser: Browser, gateway: Gateway, people: People, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A user of her own for each test, at her account."""
    email = f"{request.node.name[:40].replace('_', '-')}@example.com"
    people.create(email)
    with visiting_as(browser, gateway, email, "/me") as visit:
        yield visit


def email_of(page: Page) -> str:
    return page.locator("main dd").first.inner_text()


def log_out(page: Page) -> None:
    page.get_by_role("button", name="Log out", exact=True).click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def add_app(page: Page) -> pyotp.TOTP:
    """Add an authenticator app, up to its confirmation."""
    page.get_by_role("button", name="Add authenticator app").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("phone")
    dialog.get_by_label("Current password").fill(PASSWORD)
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog.get_by_role("img", name="QR code")).to_be_visible()
    return pyotp.TOTP(dialog.get_by_role("group", name="Key to type instead").locator("code").inner_text())


def test_authenticator_app_is_added_by_its_code_and_removed_with_a_recovery_code(ann: Visit) -> None:
    ann.expected_errors += ["422 (Unprocessable", "403 (Forbidden)", "401 (Unauthorized)"]
    page = ann.page
    app = add_app(page)
    dialog = page.get_by_role("dialog")
    assert ann.accessibility() == []
    dialog.get_by_label("Code that the app shows now").fill("000000")
    dialog.get_by_role("button", name="Confirm authenticator app").click()
    expect(dialog.get_by_role("alert")).to_contain_text("does not match")
    dialog.get_by_label("Code that the app shows now").fill(app.now())
    dialog.get_by_role("button", name="Confirm authenticator app").click()
    codes = page.get_by_role("group", name="Recovery codes").locator("code").inner_text().split()
    assert len(codes) == 10
    page.get_by_role("button", name="I have it").click()
    factors = page.get_by_role("region", name="Second factors")
    expect(factors).to_contain_text("10 recovery codes are left.")
    assert codes[0] not in page.content()
    factors.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_label("Current password").fill("a wrong password")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Confirm that it is you with").click()
    page.get_by_role("option", name="a recovery code").click()
    page.get_by_role("dialog").get_by_label("Code", exact=True).fill("wrong")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("was not accepted")  # and still logged in
    page.get_by_role("dialog").get_by_label("Code", exact=True).fill(codes[0])
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(factors).to_contain_text("You have no second factor yet.")


def test_security_key_is_registered_and_logs_in(ann: Visit) -> None:
    page = ann.page
    email = email_of(page)
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "usb", "hasUserVerification": True, "isUserVerified": True}
    session.send("WebAuthn.addVirtualAuthenticator", {"options": {**options, "automaticPresenceSimulation": True}})
    page.get_by_role("button", name="Add security key").click()
    page.get_by_role("dialog").get_by_label("Name").fill("<b>key</b>\u200b")
    page.get_by_role("dialog").get_by_label("Current password").fill(PASSWORD)
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="I have it").click()
    factors = page.get_by_role("region", name="Second factors")
    expect(factors.get_by_role("row")).to_have_count(2)
    expect(factors).to_contain_text("<b>key</b>")
    log_out(page)
    ann.log_in(email)
    page.get_by_role("button", name="Use a security key").click()
    expect(page.get_by_role("navigation", name="Main navigation")).to_be_visible()


def test_new_password_ends_other_logins_and_keeps_this_one(ann: Visit, browser: Browser, gateway: Gateway) -> None:
    ann.expected_errors += ["401 (Unauthorized)", "403 (Forbidden)", "422 (Unprocessable"]
    page = ann.page
    email = email_of(page)
    with visiting(browser, gateway) as other:
        other.expected_errors.append("401 (Unauthorized)")
        other.open("/sessions")
        other.log_in(email)
        expect(other.page.get_by_role("heading", name="Sessions")).to_be_visible()
        password = page.get_by_role("region", name="Password")
        password.get_by_label("Current password").fill("a wrong password")
        password.get_by_label("New password").fill(NEW)
        password.get_by_role("button", name="Change password").click()
        expect(password.get_by_role("alert")).to_be_visible()
        password.get_by_label("Current password").fill(PASSWORD)
        password.get_by_role("button", name="Change password").click()
        expect(password).to_contain_text("Your password is changed.")
        expect(other.page.get_by_role("heading", name="Log in")).to_be_visible()
        other.open("/connections")
        other.log_in(email, NEW)
        expect(other.page.get_by_role("heading", name="Connections")).to_be_visible()
        logins = page.get_by_role("region", name="Logins")
        page.reload()
        expect(logins.get_by_text("This browser")).to_be_visible()
        logins.get_by_role("button", name="Log out everywhere").click()
        page.get_by_role("dialog").get_by_role("button", name="Log out everywhere").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        expect(other.page.get_by_role("heading", name="Log in")).to_be_visible()


def test_ssh_key_is_added_and_a_private_one_refused(ann: Visit, tmp_path_factory: pytest.TempPathFactory) -> None:
    ann.expected_errors.append("422 (Unprocessable")
    page = ann.page
    page.get_by_role("button", name="Add SSH key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("laptop")
    dialog.get_by_label("Public key").fill("-----BEGIN OPENSSH PRIVATE KEY-----")
    dialog.get_by_role("button", name="Add SSH key").click()
    expect(dialog.get_by_role("alert")).to_contain_text("private")
    dialog.get_by_label("Public key").fill(Authority(tmp_path_factory.mktemp("key")).line)
    dialog.get_by_role("button", name="Add SSH key").click()
    keys = page.get_by_role("region", name="SSH keys")
    expect(keys.get_by_role("cell", name="laptop")).to_be_visible()
    keys.get_by_role("button", name="Delete key").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete key").click()
    expect(keys).to_contain_text("You have no SSH keys yet.")


def test_chat_account_is_linked_by_a_code(ann: Visit) -> None:
    ann.page.get_by_role("button", name="Link Slack account").click()
    code = ann.page.get_by_role("group", name="Send this").locator("code")
    expect(code).to_have_text(re.compile(r"^/postern \S+$"))
    ann.page.get_by_role("button", name="I have it").click()


def test_required_second_factor_is_added_before_anything_else(
    browser: Browser, gateway: Gateway, people: People
) -> None:
    people.create("gus@example.com")
    people.ask("PUT", "/serverconfig/auth", {"auth_method": "local", "require_second_factor": True})
    try:
        with visiting(browser, gateway) as visit:
            page = visit.page
            visit.open("/sessions")
            visit.log_in("gus@example.com")
            expect(page).to_have_url(f"{visit.url}/second-factor?next=%2Fsessions")
            assert visit.accessibility() == []
            page.get_by_role("button", name="Add authenticator app").click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("Name").fill("phone")
            dialog.get_by_role("button", name="Continue").click()
            secret = dialog.get_by_role("group", name="Key to type instead").locator("code").inner_text()
            dialog.get_by_label("Code that the app shows now").fill(pyotp.TOTP(secret).now())
            dialog.get_by_role("button", name="Confirm authenticator app").click()
            page.get_by_role("button", name="I have it").click()
            expect(page).to_have_url(f"{visit.url}/sessions")
            expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    finally:
        done = gateway.run_apart("auth", "reset", "--home", str(gateway.home), "--yes", "--json")
        assert done.returncode == 0, done.stderr
