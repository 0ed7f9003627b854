"""Command lines and SSH clients that wait behind a code until their user confirms them in the browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting
from tests.web.people import PASSWORD, People

HOSTILE = "<img src=x onerror=alert(1)>"

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture(scope="module")
def people(gateway: Gateway) -> People:
    people = People(gateway)
    people.create("ann@example.com")
    return people


@pytest.fixture
def ann(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting(browser, gateway, PHONE) as visit:
        yield visit


def begin(visit: Visit) -> dict[str, Any]:
    answer = httpx.post(f"{visit.url}/api/login/device", json={}, headers={"User-Agent": HOSTILE})
    begun: dict[str, Any] = answer.json()
    return begun


def poll(visit: Visit, begun: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{visit.url}/api/login/device/token", json={"device_code": begun["device_code"]})


def test_command_line_is_logged_in_by_its_code_on_a_phone(ann: Visit) -> None:
    begun = begin(ann)
    ann.page.goto(begun["verification_url_complete"])
    ann.log_in("ann@example.com")
    main = ann.page.get_by_role("main")
    expect(main).to_contain_text("A command line requests to log in as ann@example.com.")
    expect(main).to_contain_text(begun["user_code"])
    expect(main).to_contain_text(HOSTILE)
    assert ann.page.locator("main img[src=x]").count() == 0
    assert ann.accessibility() == []
    ann.page.get_by_role("button", name="Log the command line in").click()
    expect(main).to_contain_text("The command line is logged in.")
    token = poll(ann, begun).headers["token"]
    user = httpx.get(f"{ann.url}/api/userinfo", headers={"Authorization": f"Bearer {token}"}).json()
    assert user["email"] == "ann@example.com"


def test_link_for_an_organisation_leads_to_its_login(browser: Browser, gateway: Gateway, people: People) -> None:
    answer = httpx.post(f"{gateway.told['api_url']}/api/login/device", json={"organization": "default"}).json()
    with visiting(browser, gateway, PHONE) as visit:
        visit.page.goto(answer["verification_url_complete"])
        expect(visit.page.get_by_text("Organisation: default")).to_be_visible()
        visit.log_in("ann@example.com")
        expect(visit.page.get_by_role("main")).to_contain_text(answer["user_code"])


def test_command_line_is_logged_in_without_javascript(browser: Browser, ann: Visit) -> None:
    begun = begin(ann)
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(begun["verification_url_complete"])
        page.get_by_role("link", name="continue without JavaScript").click()
        page.get_by_label("E-mail address").fill("ann@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("main")).to_contain_text(begun["user_code"])
        page.get_by_role("button", name="Log the command line in").click()
        expect(page.get_by_role("main")).to_contain_text("The command line is logged in.")
    assert "token" in poll(ann, begun).headers


def test_unknown_code_is_refused_and_a_rejected_command_line_gets_nothing(ann: Visit) -> None:
    ann.expected_errors.append("404 (Not Found)")
    begun = begin(ann)
    ann.open("/device")
    ann.log_in("ann@example.com")
    ann.page.get_by_label("Code that the terminal shows").fill("BBBB-BBBB")
    ann.page.get_by_role("button", name="Continue").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("this code is unknown")
    ann.page.get_by_role("button", name="Enter another code").click()
    ann.page.get_by_label("Code that the terminal shows").fill(begun["user_code"].lower())
    ann.page.get_by_role("button", name="Continue").click()
    ann.page.get_by_role("button", name="Reject").click()
    expect(ann.page.get_by_role("main")).to_contain_text("The command line is not logged in.")
    assert poll(ann, begun).status_code == 403


def start_ssh(gateway: Gateway, port: int) -> tuple[subprocess.Popen[str], str, str]:
    """Return an SSH client that waits, the address that it shows, and its number."""
    program = shutil.which("ssh") or pytest.skip("OpenSSH's client is missing")
    options = ["StrictHostKeyChecking=no", f"UserKnownHostsFile={gateway.folder / 'known_hosts'}", "IdentityAgent=none"]
    options += ["PubkeyAuthentication=no", "PreferredAuthentications=keyboard-interactive", "LogLevel=INFO"]
    words = [program, "-F", "none", *(f"-o{option}" for option in options), "-p", str(port), "-N"]
    client = subprocess.Popen(
        [*words, "ann#shop-demo@localhost"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # without a terminal, to which it would write
        env={"HOME": str(gateway.folder), "PATH": str(Path(program).parent)},
    )
    assert client.stdout is not None
    shown = ""
    for line in client.stdout:
        shown += line
        found = re.search(r"(http\S+user_code=\S+).*the number (\d\d) there", shown, re.DOTALL)
        if found is not None:
            return client, found[1], found[2]
    raise AssertionError(shown)


def test_ssh_client_is_approved_by_the_number_in_its_terminal(ann: Visit, gateway: Gateway, people: People) -> None:
    ann.expected_errors.append("403 (Forbidden)")
    port = people.ask("GET", "/serverinfo")["ssh_port"]
    client, address, number = start_ssh(gateway, port)
    try:
        ann.page.goto(address)
        ann.log_in("ann@example.com")
        main = ann.page.get_by_role("main")
        expect(main).to_contain_text("An SSH client requests to log in as ann@example.com.")
        expect(main).to_contain_text("shop-demo")
        assert ann.accessibility() == []
        ann.page.get_by_label("Number in the terminal").fill(number)
        ann.page.get_by_role("button", name="Approve SSH client").click()
        expect(main).to_contain_text("The SSH client is logged in.")
    finally:
        client.kill()
        client.wait()
    client, address, number = start_ssh(gateway, port)
    try:
        ann.page.goto(address)
        ann.page.get_by_label("Number in the terminal").fill("99" if number != "99" else "98")
        ann.page.get_by_role("button", name="Approve SSH client").click()
        expect(ann.page.get_by_role("alert")).to_contain_text("number")
    finally:
        client.kill()
        client.wait()
