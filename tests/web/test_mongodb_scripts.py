"""MongoDB in the browser: a connection from the form, scripts with completion, documents with masked fields, replay."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.mongodb import PASSWORD, USER, MongoServer, running_mongodb
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import choose, opened_result, run_script
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@pytest.fixture(scope="module")
def server() -> Iterator[MongoServer]:
    with running_mongodb() as running:
        with running.client() as client:
            address = {"city": "Berlin", "zip": "10115"}
            people = [{"_id": n, "email": f"ann{n}@example.com", "address": address} for n in range(20)]
            client.shop.customers.insert_many([*people, {"_id": 20, "tags": ["a", {"b": 1}]}])
        yield running


@pytest.fixture(scope="module")
def connection(server: MongoServer, people: People) -> Iterator[str]:
    values = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": USER, "PASS": PASSWORD, "DB": "shop"}
    secret = {f"envvar:{name}": base64.b64encode(value.encode()).decode() for name, value in values.items()}
    agent = people.ask("GET", "/connections/shop-demo")["agent_id"]
    body = {"name": "shop-mongo", "type": "database", "subtype": "mongodb", "agent_id": agent, "secret": secret}
    toggles = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks"), "enabled")
    made = people.ask("POST", "/connections", {**body, **toggles, "access_schema": "enabled"})
    rule = {"name": "home", "connection_ids": [made["id"]], "columns": ["customers.address"], "strategy": "partial"}
    people.ask("POST", "/datamasking-rules", rule)
    yield "shop-mongo"
    assert people.admin.delete("/datamasking-rules/home?force=true").is_success


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People, connection: str) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, f"/sql/{connection}") as visit:
        yield visit


def test_connection_is_created_by_its_form(admin: Visit, server: MongoServer) -> None:
    admin.open("/connections/new")
    page = admin.page
    choose(page, "Type", "MongoDB")
    page.get_by_label("Name", exact=True).fill("orders-mongo")
    expect(page.get_by_label("Port", exact=True)).to_have_attribute("placeholder", "27017")
    expect(page.get_by_label("Connection string")).to_have_attribute("type", "password")
    expect(page.get_by_label("Key of the client certificate (PEM)")).to_have_js_property("tagName", "TEXTAREA")
    page.get_by_label("Connection string").fill(f"mongodb://127.0.0.1:{server.port}/shop?authSource=admin")
    page.get_by_label("User at the target").fill(USER)
    page.get_by_label("Password at the target").fill(PASSWORD)
    assert admin.accessibility() == []
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="orders-mongo")).to_be_visible()
    page.get_by_role("navigation", name="About this connection").get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Test the target").click()
    expect(page.get_by_text("The target answers")).to_be_visible()


def test_credential_has_the_lines_of_clients(admin: Visit) -> None:
    admin.open("/connections/shop-mongo")
    admin.page.get_by_role("button", name="Get a credential").click()
    dialog = admin.page.get_by_role("dialog")
    expect(dialog.get_by_role("group", name="mongosh")).to_contain_text("loadBalanced=true")
    for name in ("PyMongo", "Node.js", "Database tools"):
        dialog.get_by_role("tab", name=name).click()
        expect(dialog.get_by_role("group", name=name)).to_contain_text("mongodb://")
    assert admin.accessibility() == []


def test_documents_are_rows_whose_masked_fields_are_marked(admin: Visit) -> None:
    page = admin.page
    find = "db.customers.find({_id: {$lt: 3}}) // ; no end\n  .sort({_id: -1})"
    run_script(page, f"{find}\ndb.customers.countDocuments()")
    expect(opened_result(page)).to_have_text("1: 3 rows")
    grid = page.get_by_role("grid", name="Result 1")
    expect(grid.get_by_role("columnheader")).to_have_text(["_id int", "email string", "address object"])
    expect(grid.get_by_role("gridcell").first).to_have_text("2")
    address = grid.locator("[role=gridcell][aria-colindex='3']").first
    expect(address).to_contain_text('{"city": "B****", "zip": "1****"}')
    expect(address).to_contain_text("(masked)")
    page.get_by_role("tab", name="2: 1 row").click()
    expect(page.get_by_role("grid", name="Result 2").get_by_role("gridcell")).to_have_text(["1", "21"])
    assert admin.accessibility() == []
    page.get_by_role("link", name="Open the session").click()
    expect(page.get_by_label("Statements and output")).to_contain_text('{"find": "customers"')
    expect(page.get_by_label("Statements and output")).to_contain_text("6 values masked")


def test_collections_methods_and_fields_are_offered(admin: Visit) -> None:
    page = admin.page
    expect(page.get_by_role("region", name="Tables")).to_contain_text("customers")
    editor = page.get_by_role("textbox", name="Script")
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.type("db.cus")
    page.get_by_role("option").filter(has_text="customers").click()
    page.keyboard.type(".findO")
    page.get_by_role("option", name="findOne", exact=True).click()
    page.keyboard.type("({ema")
    page.get_by_role("option").filter(has_text="email").click()
    page.keyboard.type(": 'ann1@example.com'})")
    expect(editor).to_have_text("db.customers.findOne({email: 'ann1@example.com'})")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("grid", name="Result 1").get_by_role("gridcell").first).to_have_text("1")


def test_editor_reads_scripts_as_the_shell_does(admin: Visit) -> None:
    page = admin.page
    expect(page.get_by_role("button", name="Format")).to_have_count(0)
    run_script(page, "db.customers.find({\n  \"_id\":0, email: /;'/, // it's; a comment\n})")
    colours = page.locator(".cm-line span").evaluate_all(
        "spans => Object.fromEntries(spans.map((span) => [span.textContent, getComputedStyle(span).color]))"
    )
    assert {"db", '"_id"', "0", "/;'/", "// it's; a comment"} <= set(colours)
    assert colours['"_id"'] == colours["/;'/"] != colours["// it's; a comment"]
    editor = page.get_by_role("textbox", name="Script")
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.insert_text('db.customers.find({"_id":true, email: :mail})')
    expect(page.get_by_label(":mail")).to_be_visible()
    expect(page.get_by_label(":true")).to_have_count(0)
    page.get_by_label(":mail").fill("ann2@example.com")
    editor.press("Control+Enter")
    expect(page.get_by_text("0 documents").first).to_be_visible()


def test_error_of_a_script_is_marked_at_its_place(admin: Visit) -> None:
    page = admin.page
    run_script(page, "db.customers.find({a: 1})\ndb.customers.find({a: foo()})")
    expect(page.get_by_role("region", name="Preview")).to_contain_text("'foo' is not a literal")
    expect(page.locator(".cm-mark-unreadable, .cm-mark-error").first).to_have_text("foo")


def test_guardrail_is_tried_on_a_command(admin: Visit) -> None:
    admin.open("/guardrails/new")
    page = admin.page
    choose(page, "Read as", "MongoDB")
    expect(page.get_by_text("A command in Extended JSON")).to_be_visible()
