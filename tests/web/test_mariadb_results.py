"""Results of a MariaDB in the browser: rows while a script runs, numbers in their order, plans."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import opened_result, run_script
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]

PASSWORD = "s3cr3t"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with running_mariadb("--max-statement-time=0") as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("create database shop")
            cursor.execute("use shop")
            cursor.execute("create table shop.orders (id int primary key, total decimal(20, 2), note text)")
            cursor.execute("insert into shop.orders select seq, seq * 1.5, concat('note ', seq) from seq_1_to_1000")
            cursor.execute(f"create user app@'%' identified by '{PASSWORD}'")
            cursor.execute("grant all on shop.* to app@'%'")
        yield running


@pytest.fixture(scope="module")
def connection(server: MariaDbServer, people: People) -> str:
    values = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": "app", "PASS": PASSWORD, "DB": "shop"}
    secret = {f"envvar:{name}": base64.b64encode(value.encode()).decode() for name, value in values.items()}
    agent = people.ask("GET", "/connections/shop-demo")["agent_id"]
    body = {"name": "shop-maria", "type": "database", "subtype": "mysql", "agent_id": agent, "secret": secret}
    toggles = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks"), "enabled")
    people.ask("POST", "/connections", {**body, **toggles, "access_schema": "enabled"})
    return "shop-maria"


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People, connection: str) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, f"/sql/{connection}") as visit:
        yield visit


def test_results_of_mariadb_are_tabs_whose_numbers_are_sorted_by_value(admin: Visit) -> None:
    page = admin.page
    run_script(page, "set @a = 1; select total, note from orders where id <= 12; select count(*) as n from orders")
    expect(opened_result(page)).to_have_text("2: 12 rows")
    grid = page.get_by_role("grid", name="Result 2")
    totals = grid.locator("[role=gridcell][aria-colindex='1']")
    expect(totals.first).to_have_text("1.50")
    grid.get_by_role("columnheader", name="total").click()
    grid.get_by_role("columnheader", name="total").click()
    expect(totals.first).to_have_text("18.00")  # as a text, 9.00 would be the first
    page.get_by_role("tab", name="3: 1 row").click()
    expect(page.get_by_role("grid", name="Result 3").get_by_role("gridcell")).to_have_text(["1000"])
    assert admin.accessibility() == []


def test_plan_of_mariadb_is_a_tree(admin: Visit) -> None:
    page = admin.page
    run_script(page, "analyze format=json select count(*) from orders o join orders p on p.id = o.id")
    steps = page.get_by_role("region", name="Steps")
    expect(steps.get_by_role("listitem").first).to_contain_text("query block")
    expect(steps).to_contain_text("p (PRIMARY)")
    expect(page.get_by_role("region", name="Plan as text")).to_contain_text('"query_block"')
    assert admin.accessibility() == []
