"""Runbooks in the browser: found, filled in, run, approved, scheduled; their repositories and rules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.gits import Bare
from tests.support.running import Gateway
from tests.web.conftest import PHONE, Visit, visiting, visiting_as
from tests.web.controls import choose
from tests.web.people import ADMIN, People

pytestmark = pytest.mark.ci

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
FILES = {
    "users/unlock.runbook.sql": """select {{ .user | required "whom?" | order 1 | minlength 2 | squote }} as unlocked,
  {{ .state | type "select" | options "free" "locked" | default "free" | order 2 | squote }} as state,
  {{ .days | type "number" | default "30" | order 3 }} as days
""",
    "users/pin.runbook.sql": "select {{ .pin | type `password` | squote }} is not null as has_pin,"
    f" {{{{ .note | type `textarea` | description `{HOSTILE}` | squote }}}} as note,"
    " {{ .list | type `file` | squote }} as list",
    "say.runbook.sh": 'echo {{ .words | required "what?" | squote }}; echo {{ .words | squote }} >&2; exit 3',
    "broken.runbook.sql": "select {{ .x | unknown }}",
    # PostgreSQL sends rows by 8 KiB, so there are some long before the end.
    "users/slow.runbook.sql": "select n, repeat('x', 1000) as filling, pg_sleep(0.04)"
    " from generate_series(1, {{ .rows | type `number` }}) n; select 'after' as b",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    made = Bare.made(tmp_path_factory.mktemp("git") / "ops.git")
    made.commit(FILES, "Unlock users")
    return made


@pytest.fixture(scope="module")
def gateway_settings(repository: Bare) -> dict[str, str]:
    return {"RUNBOOK_SCHEMES": "https,ssh,file", "RUNBOOK_FOLDERS": str(repository.path.parent)}


@pytest.fixture(scope="module")
def shelf(people: People, repository: Bare) -> str:
    """The identifier of the repository."""
    added = people.ask("POST", "/runbooks/configurations", {"git_url": f"file://{repository.path}"})
    people.ask("POST", f"/runbooks/configurations/{added['id']}/refresh")
    identifier: str = added["id"]
    return identifier


@pytest.fixture(scope="module")
def bob(people: People) -> httpx.Client:
    return people.create("bob@example.com")


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/runbooks") as visit:
        yield visit


def script_of(page: Page) -> Locator:
    return page.get_by_role("group", name="Script", exact=True)


def test_repository_is_added_read_and_gets_a_runbook(admin: Visit, repository: Bare, people: People) -> None:
    page = admin.page
    expect(page.get_by_text("your organisation has no repository of runbooks")).to_be_visible()
    page.get_by_role("link", name="Add repository").click()
    page.get_by_label("Address").fill("git@git.example.com:ops/runbooks")
    expect(page.get_by_label("SSH private key")).to_be_visible()
    page.get_by_label("Address").fill(f"file://{repository.path}")
    page.get_by_label("Password or token").fill("s3cr3t")
    page.get_by_role("button", name="Add repository").click()
    expect(page.get_by_text("Not read yet")).to_be_visible()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("Read", exact=True)).to_be_visible()
    expect(page.get_by_text(repository.head())).to_be_visible()
    assert "s3cr3t" not in page.content()
    expect(page.get_by_text("One is stored. Leave this empty to keep it.")).to_be_visible()
    page.get_by_role("checkbox", name="Delete the stored password").check(force=True)
    page.get_by_role("button", name="Save repository").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Delete the stored password")).to_have_count(0)
    page.get_by_label("Path").fill("extra/count.runbook.sql")
    page.get_by_label("Content").fill("select count(*) from customers")
    assert admin.accessibility() == []
    page.get_by_role("button", name="Commit runbook").click()
    expect(page.get_by_text("extra/count.runbook.sql is committed as")).to_be_visible()
    assert repository.text("extra/count.runbook.sql") == "select count(*) from customers"
    page.get_by_role("link", name="All repositories").click()
    expect(page.get_by_role("table", name="Repositories of runbooks")).to_contain_text("anonymous")
    (row,) = people.ask("GET", "/runbooks/configurations")["data"]
    assert row["secrets_set"] == []
    assert people.admin.delete(f"/runbooks/configurations/{row['id']}").is_success


def test_runbook_is_found_filled_in_and_run(admin: Visit, shelf: str) -> None:
    page = admin.page
    admin.expected_errors.append("400 (Bad Request)")
    admin.open("/connections/shop-demo")
    page.get_by_role("link", name="Run a runbook").click()
    expect(page).to_have_url(re.compile(r"/runbooks\?connection=shop-demo"))
    expect(page.get_by_role("table", name="Root folder")).to_contain_text("Cannot run")
    assert admin.accessibility() == []
    page.get_by_role("searchbox", name="Search runbooks").fill("unlock")
    expect(page).to_have_url(re.compile(r"search=unlock"))
    expect(page.get_by_text("1 runbook", exact=True)).to_be_visible()
    page.get_by_role("link", name="unlock.runbook.sql").click()
    expect(page.get_by_role("heading", level=1, name="Run unlock.runbook.sql")).to_be_visible()
    run = page.get_by_role("button", name="Run runbook")
    expect(run).to_be_disabled()
    page.get_by_label("user", exact=True).fill("o'hara")
    expect(script_of(page)).to_contain_text("select 'o''hara' as unlocked")
    choose(page, "state", "locked")
    expect(script_of(page)).to_contain_text("'locked' as state")
    assert admin.accessibility() == []
    page.get_by_label("days").fill("many")
    expect(page.get_by_role("alert")).to_contain_text("days must be a number")
    page.get_by_label("days").fill("7")
    expect(script_of(page)).to_contain_text("7 as days")
    run.click()
    grid = page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("gridcell")).to_have_text(["o'hara", "locked", "7"])
    expect(page.get_by_role("link", name="Open the session")).to_be_visible()
    last = page.get_by_role("table", name="Last runs")
    expect(last.get_by_role("row").nth(1)).to_contain_text("Succeeded")
    assert admin.accessibility() == []
    page.reload()
    expect(grid.get_by_role("gridcell")).to_have_text(["o'hara", "locked", "7"])
    last.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(r"/sessions/"))


def test_rows_are_shown_while_the_runbook_runs(admin: Visit, shelf: str) -> None:
    page = admin.page
    admin.open("/runbooks/run?file=/users/slow.runbook.sql&connection=shop-demo")
    page.get_by_label("rows").fill("2000")
    expect(script_of(page)).to_contain_text("generate_series(1, 2000)")
    page.get_by_role("button", name="Run runbook").click()
    grid = page.get_by_role("grid", name="Result 1")
    stop = page.get_by_role("button", name="Stop")
    for _ in range(2):  # as it is started, and as it is followed after a reload
        expect(grid.get_by_role("gridcell", name="1", exact=True)).to_be_visible()
        expect(page.get_by_role("region", name="Result 1")).to_contain_text("rows so far")
        expect(stop).to_be_visible()
        assert int(grid.get_attribute("aria-rowcount") or 0) < 2001
        page.reload()
    stop.click()
    expect(page.get_by_role("alert")).to_contain_text("killed")
    expect(page.get_by_role("region", name="Result 1")).not_to_contain_text("so far")


def test_secrets_are_not_shown_and_hostile_texts_are_texts(admin: Visit, shelf: str, people: People) -> None:
    page = admin.page
    admin.open("/runbooks/run?file=/users/pin.runbook.sql")
    expect(page.get_by_text("<img src=x onerror=alert(1)>U+202E", exact=True)).to_be_visible()
    page.get_by_label("pin", exact=True).fill("4711")
    page.get_by_label("note", exact=True).fill(HOSTILE)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose file: list").click()
    chooser.value.set_files({"name": "list.txt", "mimeType": "text/plain", "buffer": b"\xff\xfe"})
    expect(page.get_by_role("alert")).to_contain_text("not text in UTF-8")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose file: list").click()
    chooser.value.set_files({"name": "list.txt", "mimeType": "text/plain", "buffer": b"a\nb"})
    expect(page.get_by_text("list.txt, 3 characters")).to_be_visible()
    expect(script_of(page)).to_contain_text("***")
    expect(script_of(page)).to_contain_text("<img src=x onerror=alert(1)>U+202E")
    assert "4711" not in script_of(page).inner_text()
    page.get_by_role("button", name="Run runbook").click()
    expect(page.get_by_role("grid", name="Result 1")).to_contain_text("U+202E")
    assert page.locator("main img[src=x]").count() == 0
    assert "4711" not in page.url
    audited = people.ask("GET", "/audit/logs?resource_type=runbooks")["data"]
    assert {entry["action"] for entry in audited} <= {"exec", "create"}
    admin.expected_errors.append("404 (Not Found)")
    admin.open(f"/runbooks/run?file=/{HOSTILE}gnp.runbook.sql")
    expect(page.get_by_role("heading", level=1)).to_contain_text("U+202Egnp.runbook.sql")
    expect(page.get_by_role("alert")).to_contain_text("there is no runbook")


def test_newer_commit_is_read_before_it_runs(admin: Visit, shelf: str, repository: Bare, people: People) -> None:
    page = admin.page
    repository.commit(FILES, "Start")  # an earlier attempt can have left the other text
    people.ask("POST", f"/runbooks/configurations/{shelf}/refresh")
    admin.expected_errors.append("409 (Conflict)")
    admin.open("/runbooks/run?file=/users/unlock.runbook.sql")
    page.get_by_label("user", exact=True).fill("ann")
    expect(script_of(page)).to_contain_text("'ann' as unlocked")
    text = FILES["users/unlock.runbook.sql"].replace("as unlocked", "as opened")
    repository.commit({**FILES, "users/unlock.runbook.sql": text}, "Open")
    people.ask("POST", f"/runbooks/configurations/{shelf}/refresh")
    page.get_by_role("button", name="Run runbook").click()
    expect(page.get_by_role("alert")).to_contain_text("ref_hash")
    page.route("**/api/runbooks/file?*", lambda route: None)  # the form stays that of the older commit
    page.get_by_label("user", exact=True).fill("anna")
    expect(script_of(page)).to_contain_text("'anna' as opened")
    page.get_by_role("button", name="Run runbook").click()
    expect(page.get_by_role("grid", name="Result 1")).to_contain_text("anna")


def approve(reviewer: httpx.Client) -> None:
    (review,) = reviewer.get("/reviews?waiting_for_me=true").json()["data"]
    assert reviewer.put(f"/reviews/{review['id']}", json={"status": "APPROVED"}).is_success


def test_held_run_continues_on_its_page_after_approval(
    browser: Browser, gateway: Gateway, people: People, bob: httpx.Client, shelf: str
) -> None:
    ann = people.create("ann@example.com", "dba")
    people.ask("PATCH", "/connections/shop-demo", {"reviewers": ["dba"]})
    try:
        with visiting(browser, gateway, PHONE) as visit:
            page = visit.page
            visit.open("/runbooks/run?file=/users/unlock.runbook.sql")
            visit.log_in("bob@example.com")
            page.get_by_label("user", exact=True).fill("carol")
            page.get_by_label("Reason, if a review is needed").fill("ticket 4711")
            expect(script_of(page)).to_contain_text("'carol'")
            waits = page.get_by_text("This script waits for approval by dba.")
            grid = page.get_by_role("grid", name="Result 1")
            page.get_by_role("button", name="Run runbook").click()
            expect(waits).to_be_visible()
            page.reload()
            expect(waits).to_be_visible()
            assert visit.accessibility() == []
            approve(ann)
            expect(grid).to_contain_text("carol", timeout=30_000)

            page.get_by_label("user", exact=True).fill("dora")
            expect(script_of(page)).to_contain_text("'dora'")
            page.get_by_role("button", name="Run runbook").click()
            expect(waits).to_be_visible()
            visit.open("/runbooks")  # what is left does not run by itself
            expect(page.get_by_role("link", name="unlock.runbook.sql")).to_be_visible()
            approve(ann)
            page.get_by_role("link", name="unlock.runbook.sql").click()
            page.get_by_role("link", name="Waiting: continue here").click()
            expect(page.get_by_text("This script is approved, and has not run yet.")).to_be_visible()
            page.get_by_role("button", name="Run approved script").click()
            expect(grid).to_contain_text("dora", timeout=30_000)
    finally:
        people.ask("PATCH", "/connections/shop-demo", {"reviewers": []})


def test_command_shows_both_streams_and_its_exit_code(
    admin: Visit, gateway: Gateway, people: People, shelf: str
) -> None:
    edge = people.ask("POST", "/agents", {"name": "edge"})
    toggles = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks"), "enabled")
    shell = {"name": "shell", "type": "custom", "subtype": "", "command": ["bash"], "agent_id": edge["id"]}
    people.ask("POST", "/connections", {**shell, **toggles, "access_schema": "disabled"})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
    log = (gateway.folder / "agent.log").open("ab")
    agent = subprocess.Popen(
        [sys.executable, "-m", "postern", "agent"],
        env=environment | {"POSTERN_KEY": edge["key"], "POSTERN_AGENT_GRACE": "1"},
        stdout=log,
        stderr=log,
    )
    try:
        page = admin.page
        admin.open("/agents/edge")
        expect(page.get_by_text("Online", exact=True)).to_be_visible(timeout=60_000)
        admin.open("/runbooks/run?file=/say.runbook.sh&connection=shell")
        page.get_by_label("words").fill("hello; date")
        expect(script_of(page)).to_contain_text("echo 'hello; date'")
        page.get_by_role("button", name="Run runbook").click()
        output = page.get_by_role("group", name="Output")
        expect(output).to_contain_text("hello; date")
        expect(output.locator("[title='error output']")).to_contain_text("hello; date")
        expect(page.get_by_text("Exit code 3")).to_be_visible()
        assert admin.accessibility() == []
    finally:
        agent.kill()
        agent.wait()


def test_schedule_from_its_times_to_its_runs(
    browser: Browser, gateway: Gateway, people: People, bob: httpx.Client, shelf: str
) -> None:
    with visiting(browser, gateway, timezone_id="Europe/Berlin") as visit:
        page = visit.page
        visit.expected_errors += ["422 (Unprocessable", "412 (Precondition Failed)"]
        visit.open("/runbooks/run?file=/users/unlock.runbook.sql&connection=shop-demo")
        visit.log_in("bob@example.com")
        page.get_by_role("link", name="Create schedule").click()
        page.get_by_label("Name", exact=True).fill("nightly")
        expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
        cron = page.get_by_label("Times as a cron expression")
        cron.fill("61 2 * * *")
        expect(page.get_by_role("alert")).to_contain_text("Bad minute")
        cron.fill("30 2 * * MON")
        times = page.get_by_role("region", name="Next runs")
        expect(times).to_contain_text("At 02:30 on Monday in Europe/Berlin")
        expect(times.get_by_role("listitem")).to_have_count(5)
        expect(times.get_by_role("listitem").first).to_contain_text("Monday")
        page.get_by_label("user", exact=True).fill("dave")
        assert visit.accessibility() == []
        page.get_by_role("button", name="Create schedule").click()
        expect(page.get_by_role("heading", level=1, name="Schedule nightly")).to_be_visible()
        expect(page.get_by_text("Stored, and never shown again: user.")).to_be_visible()
        page.get_by_role("button", name="Run now").click()
        expect(page.get_by_text("It has started.")).to_be_visible()
        expect(page.get_by_role("table", name="Last runs").get_by_role("row")).to_have_count(2)
        assert visit.accessibility() == []
        assert bob.patch("/runbooks/schedules/nightly", json={"cron": "0 4 * * *"}).is_success
        cron.fill("0 5 * * *")
        page.get_by_role("button", name="Save schedule").click()
        expect(page.get_by_text("Another user changed it while you edited.")).to_be_visible()
        page.get_by_role("button", name="Load it again").click()
        expect(cron).to_have_value("0 4 * * *")
        cron.fill("0 5 * * *")
        page.get_by_role("button", name="Save schedule").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
    kept = bob.get("/runbooks/schedules/nightly").json()
    assert (kept["cron"], kept["parameter_names"]) == ("0 5 * * *", ["user"])


def test_administrator_only_switches_off_and_deletes_the_schedule_of_another(
    admin: Visit, bob: httpx.Client, shelf: str
) -> None:
    body = {"connection_name": "shop-demo", "file_name": "users/unlock.runbook.sql", "parameters": {"user": "eve"}}
    assert bob.post("/runbooks/schedules", json={**body, "name": "weekly", "cron": "0 3 * * 1"}).is_success
    page = admin.page
    page.get_by_role("link", name="Schedules", exact=True).click()
    page.get_by_role("link", name="weekly").click()
    expect(page.get_by_text("It runs as bob@example.com")).to_be_visible()
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    expect(page.get_by_label("Times as a cron expression")).to_be_disabled()
    page.get_by_role("button", name="Switch off").click()
    page.get_by_role("dialog").get_by_role("button", name="Switch off").click()
    expect(page.get_by_text("Off", exact=True)).to_be_visible()
    assert bob.get("/runbooks/schedules/weekly").json()["enabled"] is False
    page.get_by_role("button", name="Delete schedule").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete schedule").click()
    expect(page).to_have_url(f"{admin.url}/runbooks/schedules")
    assert bob.get("/runbooks/schedules/weekly").status_code == 404


def test_rule_decides_who_finds_a_runbook(
    admin: Visit, browser: Browser, gateway: Gateway, people: People, bob: httpx.Client, shelf: str
) -> None:
    page = admin.page
    people.create("carol@example.com", "auditor")
    people.ask("POST", "/users/groups", {"name": "crew"})
    page.get_by_role("link", name="Rules", exact=True).click()
    page.get_by_role("link", name="New rule").first.click()
    page.get_by_label("Name", exact=True).fill("unlock")
    page.get_by_role("combobox", name="Repository").click()
    page.get_by_role("option").first.click()
    page.get_by_label("Path begins with").fill("users/")
    box = page.get_by_role("combobox", name="Groups whose members can run them")
    box.fill("crew")
    page.get_by_role("option", name="crew", exact=True).click()
    box.press("Escape")
    assert admin.accessibility() == []
    page.get_by_role("button", name="Create rule").click()
    expect(page.get_by_role("heading", level=1, name="Runbook rule unlock")).to_be_visible()
    try:
        with visiting(browser, gateway) as visit:
            visit.expected_errors.append("403 (Forbidden)")
            visit.open("/runbooks")
            visit.log_in("bob@example.com")
            expect(visit.page.get_by_text("There are no runbooks that you can run.")).to_be_visible()
            expect(visit.page.get_by_role("link", name="Repositories")).to_have_count(0)
            people.ask("PATCH", "/users/bob@example.com", {"groups": ["crew"]})
            visit.open("/runbooks")
            expect(visit.page.get_by_role("link", name="unlock.runbook.sql")).to_be_visible()
            expect(visit.page.get_by_role("link", name="say.runbook.sh")).to_have_count(0)
            visit.open("/runbooks/repositories")
            expect(visit.page.get_by_role("alert")).to_contain_text("administrators and auditors")
        with visiting_as(browser, gateway, "carol@example.com", "/runbooks/rules/unlock") as visit:
            expect(visit.page.get_by_label("Name", exact=True)).to_be_disabled()
            expect(visit.page.get_by_role("button", name="Delete rule")).to_have_count(0)
            visit.open("/runbooks/repositories")
            expect(visit.page.get_by_role("table", name="Repositories of runbooks")).to_be_visible()
            expect(visit.page.get_by_role("button", name="Refresh")).to_have_count(0)
            people.admin.delete("/runbooks/rules/unlock")  # which grants an auditor nothing
            visit.open("/runbooks/run?file=/users/unlock.runbook.sql")
            expect(visit.page.get_by_text("Auditors can read runbooks")).to_be_visible()
            expect(visit.page.get_by_label("user", exact=True)).to_be_disabled()
            expect(visit.page.get_by_role("button", name="Run runbook")).to_have_count(0)
            expect(visit.page.get_by_role("link", name="Create schedule")).to_have_count(0)
    finally:
        people.admin.delete("/runbooks/rules/unlock")
