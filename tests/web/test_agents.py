"""Agents in the browser: from a key to an agent that is online."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/agents") as visit:
        yield visit


def start_agent(gateway: Gateway, key: str) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
    environment |= {"POSTERN_KEY": key, "POSTERN_AGENT_GRACE": "1"}
    log = (gateway.folder / "agent.log").open("ab")
    return subprocess.Popen([sys.executable, "-m", "postern", "agent"], env=environment, stdout=log, stderr=log)


def test_new_agent_comes_online_on_the_page_and_is_drained(admin: Visit, gateway: Gateway) -> None:
    page = admin.page
    page.get_by_role("button", name="Create agent").click()
    page.get_by_role("dialog").get_by_label("Name").fill("edge")
    page.get_by_role("dialog").get_by_role("button", name="Create agent").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_contain_text("Waiting for edge to connect")
    key = dialog.get_by_role("group", name="Key", exact=True).locator("code").inner_text()
    lines = dialog.get_by_role("group", name="Lines to paste")
    expect(lines).to_contain_text("postern agent")
    assert admin.accessibility() == []
    for place, words in (("systemd", "systemctl enable"), ("Docker", "docker run"), ("Kubernetes", "kind: Deployment")):
        dialog.get_by_role("button", name="Where it runs").click()
        page.get_by_role("option", name=place).click()
        expect(lines).to_contain_text(words)
        expect(lines).to_contain_text(key)
    agent = start_agent(gateway, key)
    try:
        expect(dialog.get_by_role("status")).to_contain_text("edge is online.", timeout=60_000)
        page.get_by_role("button", name="I have it").click()
        expect(page).to_have_url(f"{admin.url}/agents/edge")
        expect(page.get_by_role("heading", name="edge", exact=True)).to_be_visible()
        expect(page.get_by_text("Online", exact=True)).to_be_visible()
        assert key not in page.content()
        page.get_by_role("button", name="Drain agent").click()
        page.get_by_role("dialog").get_by_role("button", name="Drain agent").click()
        assert agent.wait(60) == 0
        expect(page.get_by_text("Offline", exact=True)).to_be_visible(timeout=60_000)
    finally:
        agent.kill()
        agent.wait()


def test_renewed_key_replaces_the_old_one(admin: Visit, people: People) -> None:
    old = people.ask("POST", "/agents", {"name": "harbour"})["key"]
    admin.open("/agents?search=harb")
    admin.page.get_by_role("link", name="harbour").click()
    admin.page.get_by_role("button", name="Renew key").click()
    admin.page.get_by_role("dialog").get_by_role("button", name="Renew key").click()
    key = admin.page.get_by_role("group", name="Key", exact=True).locator("code").inner_text()
    assert key.partition("://")[0] == old.partition("://")[0]
    assert key != old


def test_agent_that_a_connection_names_is_not_deleted(admin: Visit, people: People) -> None:
    admin.expected_errors.append("409 (Conflict)")
    page = admin.page
    agent = people.ask("POST", "/agents", {"name": "depot"})
    demo = people.ask("GET", "/connections/shop-demo")
    modes = {f"access_mode_{use}": "enabled" for use in ("connect", "exec", "runbooks")} | {"access_schema": "enabled"}
    body = {"name": "depot-db", "type": demo["type"], "subtype": demo["subtype"], "agent_id": agent["id"], **modes}
    secret = {"envvar:HOST": "ZGI=", "envvar:USER": "YXBw", "envvar:PASS": "cGFzcw=="}
    people.ask("POST", "/connections", {**body, "secret": secret})
    admin.open("/agents/depot")
    expect(page.get_by_role("region", name="Connections")).to_contain_text("depot-db")
    page.get_by_role("button", name="Delete agent").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete agent").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("depot-db")
    people.admin.delete("/connections/depot-db")
    page.get_by_role("dialog").get_by_role("button", name="Delete agent").click()
    expect(page).to_have_url(f"{admin.url}/agents")


def test_auditor_sees_agents_and_no_buttons(browser: Browser, gateway: Gateway, people: People) -> None:
    people.create("aud@example.com", "auditor")
    with visiting_as(browser, gateway, "aud@example.com", "/agents/embedded") as visit:
        expect(visit.page.get_by_role("region", name="Connections")).to_contain_text("shop-demo")
        expect(visit.page.locator("main").get_by_role("button")).to_have_count(0)
