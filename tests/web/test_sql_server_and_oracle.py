"""SQL Server and Oracle in the browser: a connection from the form, scripts, masked rows, completion, formatting."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, expect
from tests.support.mssql_server import DATABASE, PASSWORD, USER, running_sqlserver
from tests.support.oracle_gateway import ask_directly
from tests.support.oracledb.running_server import running_oracle
from tests.support.running import Gateway
from tests.web.conftest import Visit, visiting_as
from tests.web.controls import choose, opened_result, run_script
from tests.web.people import ADMIN, People

pytestmark = [pytest.mark.ci, pytest.mark.shares_gateway]


@dataclass(frozen=True)
class Database:
    """One that runs. `script` has a statement with three rows, and another one; `broken` fails in its second part."""

    subtype: str
    title: str
    port: str  # by default
    secret: Mapping[str, str]
    script: str
    columns: tuple[str, ...]
    broken: str
    error: str
    table: str
    completed: str  # with a column whose name is completed
    clients: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"shop-{self.subtype}"


def _sql_server(stack: ExitStack) -> Database:
    server = stack.enter_context(running_sqlserver())
    server.run("create table dbo.[Order Items] (id int primary key, email nvarchar(60), price decimal(10, 2))")
    values = ", ".join(f"({n}, N'ann{n}@example.com', {n}.5)" for n in range(1, 21))
    server.run(f"insert into dbo.[Order Items] values {values}")
    return Database(
        subtype="mssql",
        title="SQL Server",
        port="1433",
        secret={
            "HOST": "localhost",
            "PORT": str(server.port),
            "USER": USER,
            "PASS": PASSWORD,
            "DB": DATABASE,
            "SSLROOTCERT": server.issued.authority,
        },
        script="declare @most int = 3; select * from dbo.[Order Items] where id <= @most\nGO\nselect count(*) as n "
        "from dbo.[Order Items]",
        columns=("id", "email", "price"),
        broken="select 1 as one\nGO\nselect * from missing",
        error="Invalid object name",
        table="Order Items",
        completed="select email from dbo.[Order Items]",
        clients=("sqlcmd", "JDBC", "ODBC", "SQLAlchemy", "python-tds"),
    )


def _oracle(stack: ExitStack) -> Database:
    server = stack.enter_context(running_oracle())
    ask_directly(
        server,
        "create table customers (id number(9) primary key, email varchar2(60), price number(10, 2))",
        *[f"insert into customers values ({n}, 'ann{n}@example.com', {n}.5)" for n in range(1, 21)],
    )
    return Database(
        subtype="oracledb",
        title="Oracle Database",
        port="1521",
        secret={
            "HOST": "127.0.0.1",
            "PORT": str(server.port),
            "USER": server.user,
            "PASS": server.password,
            "DB": server.service,
            "SSLMODE": "disable",
        },
        script="select * from customers where id <= 3; select count(*) as n from customers",
        columns=("ID", "EMAIL", "PRICE"),
        broken="select 1 as one from dual; select * from missing",
        error="ORA-00942",
        table="CUSTOMERS",
        completed="select EMAIL from customers",
        clients=("sql", "JDBC", "Connect descriptor", "python-oracledb", "go-ora"),
    )


DATABASES = {"mssql": _sql_server, "oracledb": _oracle}


@pytest.fixture(scope="module", params=DATABASES)
def database(request: pytest.FixtureRequest, people: People) -> Iterator[Database]:
    """With a connection, and a rule that masks e-mail addresses."""
    with ExitStack() as stack:
        made = DATABASES[request.param](stack)
        secret = {f"envvar:{key}": base64.b64encode(value.encode()).decode() for key, value in made.secret.items()}
        agent = people.ask("GET", "/connections/shop-demo")["agent_id"]
        body = {"name": made.name, "type": "database", "subtype": made.subtype, "agent_id": agent, "secret": secret}
        toggles = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks"), "enabled")
        connection = people.ask("POST", "/connections", {**body, **toggles, "access_schema": "enabled"})
        rule = {
            "name": f"mail-{made.subtype}",
            "connection_ids": [connection["id"]],
            "columns": ["*.email"],
            "strategy": "partial",
        }
        people.ask("POST", "/datamasking-rules", rule)
        yield made
        assert people.admin.delete(f"/datamasking-rules/mail-{made.subtype}?force=true").is_success


@pytest.fixture
def admin(browser: Browser, gateway: Gateway, people: People, database: Database) -> Iterator[Visit]:
    with visiting_as(browser, gateway, ADMIN, f"/sql/{database.name}") as visit:
        yield visit


def test_connection_is_created_by_its_form(admin: Visit, database: Database) -> None:
    admin.open("/connections/new")
    page = admin.page
    choose(page, "Type", database.title)
    page.get_by_label("Name", exact=True).fill(f"orders-{database.subtype}")
    expect(page.get_by_label("Port", exact=True)).to_have_attribute("placeholder", database.port)
    page.get_by_label("Host", exact=True).fill(database.secret["HOST"])
    page.get_by_label("Port", exact=True).fill(database.secret["PORT"])
    page.get_by_label("User at the target").fill(database.secret["USER"])
    page.get_by_label("Password at the target").fill(database.secret["PASS"])
    assert admin.accessibility() == []


def test_credential_has_the_lines_of_clients(admin: Visit, database: Database) -> None:
    admin.open(f"/connections/{database.name}")
    admin.page.get_by_role("button", name="Get a credential").click()
    dialog = admin.page.get_by_role("dialog")
    for name in database.clients:
        expect(dialog.get_by_role("tab", name=name, exact=True)).to_be_visible()
    assert admin.accessibility() == []


def test_results_are_rows_whose_masked_cells_are_marked(admin: Visit, database: Database) -> None:
    page = admin.page
    run_script(page, database.script)
    expect(opened_result(page)).to_have_text("1: 3 rows")
    grid = page.get_by_role("grid", name="Result 1")
    for place, column in enumerate(database.columns):
        expect(grid.get_by_role("columnheader").nth(place)).to_contain_text(column)
    email = grid.locator("[role=gridcell][aria-colindex='2']").first
    expect(email).not_to_contain_text("ann1@")
    expect(email).to_contain_text("(masked)")
    page.get_by_role("tab", name="2: 1 row").click()
    expect(page.get_by_role("grid", name="Result 2").get_by_role("gridcell")).to_have_text(["20"])
    assert admin.accessibility() == []
    page.get_by_role("link", name="Open the session").click()
    expect(page.get_by_label("Statements and output")).to_contain_text(database.script.split("\n")[0].split(";")[0])
    expect(page.get_by_label("Statements and output")).to_contain_text("3 values masked")
    expect(page.get_by_role("link", name="Replay")).to_have_count(0)


def test_error_is_shown_beside_the_results_before_it(admin: Visit, database: Database) -> None:
    page = admin.page
    run_script(page, database.broken)
    expect(page.get_by_role("alert")).to_contain_text(database.error)
    page.get_by_role("tab", name="1: 1 row").click()
    expect(page.get_by_role("grid", name="Result 1").get_by_role("gridcell")).to_have_text(["1"])


def test_names_are_offered_as_the_dialect_writes_them(admin: Visit, database: Database) -> None:
    page = admin.page
    head, column, *_ = database.completed.split(" ")
    expect(page.get_by_role("region", name="Tables")).to_contain_text(database.table)
    editor = page.get_by_role("textbox", name="Script")
    editor.press("Control+a")
    editor.press("Delete")
    page.keyboard.insert_text(database.completed.replace(column, ""))
    editor.press("Home")
    for _ in f"{head} ":
        editor.press("ArrowRight")
    page.keyboard.type(column[:2])
    page.get_by_role("option", name=column).first.click()
    expect(editor).to_have_text(database.completed)
    editor.press("Control+Enter")
    expect(page.get_by_role("region", name="Result 1")).to_contain_text("20 rows")


def test_script_is_formatted(admin: Visit, database: Database) -> None:
    page = admin.page
    run_script(page, database.script)
    page.get_by_role("button", name="Format").click()
    expect(page.locator(".cm-line", has_text=re.compile(r"^from$")).first).to_be_visible()
    formatted = "\n".join(page.locator(".cm-line").all_inner_texts())
    assert "from\n" in formatted
    assert formatted.count("\nGO\n") == database.script.count("\nGO\n")
    page.get_by_role("textbox", name="Script").press("Control+Enter")
    expect(opened_result(page)).to_have_text("1: 3 rows")
