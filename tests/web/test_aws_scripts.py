"""DynamoDB and CloudWatch in the browser: connections from the form, scripts with names from the catalogue, rows."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.support.cloudwatch_target import REGION, MotoCloudwatch, moto_cloudwatch
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import choose, run_script
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

GROUP = "/shop/orders"


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoCloudwatch]:
    """Both services at one address."""
    with moto_cloudwatch() as server:
        logs: Any = server.client("logs")
        logs.create_log_group(logGroupName=GROUP)
        logs.create_log_stream(logGroupName=GROUP, logStreamName="web")
        event = {"timestamp": int(time.time() * 1000), "message": json.dumps({"mail": "ann@example.com"})}
        logs.put_log_events(logGroupName=GROUP, logStreamName="web", logEvents=[event])
        tables: Any = server.client("dynamodb")
        tables.create_table(
            TableName="invoices",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for number in range(3):
            item = {"id": {"S": str(number)}, "email": {"S": f"ann{number}@example.com"}, "total": {"N": "7"}}
            tables.put_item(TableName="invoices", Item=item)
        yield server


@pytest.fixture(scope="module")
def connections(moto: MotoCloudwatch, people: People) -> Iterator[None]:
    values = {
        "AWS_ENDPOINT_URL": moto.url,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    secret = {f"envvar:{name}": base64.b64encode(value.encode()).decode() for name, value in values.items()}
    agent = people.ask("GET", "/connections/shop-demo")["agent_id"]
    toggles = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks"), "enabled")
    for name, subtype in (("shop-dynamo", "dynamodb"), ("shop-logs", "cloudwatch")):
        body = {"name": name, "type": "custom", "subtype": subtype, "agent_id": agent, "secret": secret}
        people.ask("POST", "/connections", {**body, **toggles, "access_schema": "enabled"})
    masked = [people.ask("GET", "/connections/shop-dynamo")["id"]]
    rule = {"name": "invoices", "connection_ids": masked, "columns": ["invoices.email"], "strategy": "partial"}
    people.ask("POST", "/datamasking-rules", rule)
    yield
    assert people.admin.delete("/datamasking-rules/invoices?force=true").is_success


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People, connections: None) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, "/") as visit:
        yield visit


def test_connection_is_created_by_its_form(admin: Visit, moto: MotoCloudwatch) -> None:
    admin.open("/connections/new")
    page = admin.page
    choose(page, "Type", "Amazon DynamoDB")
    page.get_by_label("Name", exact=True).fill("orders-dynamo")
    for label in ("Secret access key", "Session token"):
        expect(page.get_by_label(label)).to_have_attribute("type", "password")
    expect(page.get_by_label("Role to assume (ARN)")).to_be_visible()
    page.get_by_label("AWS region").fill(REGION)
    page.get_by_label("URL of the service").fill(moto.url)
    page.get_by_label("Access key ID").fill("test")
    page.get_by_label("Secret access key").fill("test")
    assert admin.accessibility() == []
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="orders-dynamo")).to_be_visible()
    page.get_by_role("navigation", name="About this connection").get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Test the target").click()
    expect(page.get_by_text("The target answers")).to_be_visible()


@pytest.mark.parametrize(
    ("connection", "variable"),
    [("shop-dynamo", "AWS_ENDPOINT_URL_DYNAMODB"), ("shop-logs", "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS")],
)
def test_credential_has_the_lines_of_clients(admin: Visit, connection: str, variable: str) -> None:
    admin.open(f"/connections/{connection}")
    admin.page.get_by_role("button", name="Get a credential").click()
    dialog = admin.page.get_by_role("dialog")
    for name in ("AWS CLI", "Shell variables"):
        dialog.get_by_role("tab", name=name).click()
        expect(dialog.get_by_role("group", name=name)).to_contain_text(variable)
    for name in ("AWS profile", "boto3"):
        expect(dialog.get_by_role("tab", name=name)).to_be_visible()


def test_items_are_rows_whose_masked_attributes_are_marked(admin: Visit) -> None:
    admin.open("/sql/shop-dynamo")
    page = admin.page
    expect(page.get_by_text("scan --table-name orders")).to_be_visible()  # the example of an empty editor
    expect(page.get_by_role("button", name="Format")).to_have_count(0)
    expect(page.get_by_role("region", name="Tables")).to_contain_text("invoices")
    run_script(
        page, 'list-tables\nGetItem {"TableName": "invoices",\n "Key": {"id": {"S": "1"}}}\nscan --table-name invoices'
    )
    page.get_by_role("tab", name="3: 3 rows").click()
    grid = page.get_by_role("grid", name="Result 3")
    names = [name.split()[0] for name in grid.get_by_role("columnheader").all_inner_texts()]
    assert set(names) == {"id", "email", "total"}
    mail = grid.locator(f"[role=gridcell][aria-colindex='{names.index('email') + 1}']").first
    expect(mail).to_contain_text("***@example.com (masked)")
    assert admin.accessibility() == []
    page.get_by_role("link", name="Open the session").click()
    timeline = page.get_by_label("Statements and output")
    expect(timeline).to_contain_text('Scan {"TableName": "invoices"}')
    expect(timeline).to_contain_text("3 values masked")
    page.get_by_role("link", name="Results").click()
    expect(page.get_by_role("tab", name="3: 3 rows")).to_be_visible()


def test_tables_and_options_are_offered(admin: Visit) -> None:
    admin.open("/sql/shop-dynamo")
    page = admin.page
    expect(page.get_by_role("region", name="Tables")).to_contain_text("invoices")
    editor = page.get_by_role("textbox", name="Script")
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.type("scan --table-n")
    page.get_by_role("option", name="--table-name", exact=True).click()
    page.keyboard.type(" invo")
    page.get_by_role("option").filter(has_text="invoices").click()
    expect(editor).to_have_text("scan --table-name invoices")


def test_events_of_logs_are_rows(admin: Visit) -> None:
    admin.open("/sql/shop-logs")
    page = admin.page
    expect(page.get_by_role("region", name="Tables")).to_contain_text(GROUP)
    run_script(page, f"logs describe-log-groups # all; of them\nlogs filter-log-events --log-group-name {GROUP}")
    page.get_by_role("tab", name="2: 1 row").click()
    expect(page.get_by_role("grid", name="Result 2")).to_contain_text("mail")
    page.get_by_role("link", name="Open the session").click()
    expect(page.get_by_label("Statements and output")).to_contain_text("FilterLogEvents")


def test_error_of_a_script_is_marked_at_its_place(admin: Visit) -> None:
    admin.open("/sql/shop-logs")
    page = admin.page
    run_script(page, "logs describe-log-groups\nlogs describe-log-groups | head")
    expect(page.get_by_role("region", name="Preview")).to_contain_text("for a shell")
    expect(page.locator(".cm-mark-unreadable, .cm-mark-error").first).to_be_visible()
