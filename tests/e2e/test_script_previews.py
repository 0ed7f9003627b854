"""Previews of scripts against the runs of the same scripts: by real workers, on real databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mysql_gateway import connect, mysql_connection, run
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.domain.lists import Page
from postern.domain.reviews.review import Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.rules.script_preview import MAX_PREVIEW, MAX_PREVIEWED
from postern.domain.rules.statement import Effect
from postern.domain.sessions.script_parameters import Parameters
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection
from postern.errors import Invalid
from postern.services.targets.script_previews import ScriptPreviews
from postern.store.ports.review_ports import ReviewFilter

pytestmark = pytest.mark.slow

Previewed = Mapping[str, Any]

STRICT = (
    Rule(RuleType.REQUIRE_WHERE, name="where"),
    Rule(RuleType.DENY_STATEMENTS, effects=frozenset({Effect.GRANT}), name="grants", action=Action.REVIEW),
    Rule(RuleType.DENY_WORDS_LIST, ("watched",), name="watch", action=Action.WARN),
    Rule(RuleType.PATTERN_MATCH, (), r"(?i)four_eyes", "four eyes", action=Action.REVIEW),
    Rule(RuleType.PATTERN_MATCH, (), r"(?i)do not", "author", message="Ask the shop's owner."),
    Rule(RuleType.PATTERN_MATCH, (), r"(?s)select 1.*select 2", "across", action=Action.WARN),
)
OBJECTS = (
    Rule(RuleType.DENY_STATEMENTS, objects=("vault.salary",), name="salaries", unknown=Unknown.WARN),
    Rule(RuleType.DENY_FULL_SCANS, objects=("vault.orders",), name="scans", action=Action.REVIEW),
)
FROZEN = (Rule(RuleType.READ_ONLY, name="frozen"),)
RULES = {"free": (), "strict": STRICT, "objects": OBJECTS, "frozen": FROZEN, "both": STRICT + FROZEN}

BOTH: Sequence[str] = (
    "select 1",
    "select 1; select 'größe'",
    "select 1;\n select 2",
    "",
    " -- nothing\n",
    "delete from vault.orders",
    "delete from vault.orders where 1 = 1",
    "select 1; delete from vault.orders",
    "delete from vault.orders where id = -1",
    "update vault.orders set id = id where id = -1; delete from vault.orders",
    "select 'four_eyes'",
    "select 'watched'",
    "select 'watched', 'four_eyes'",
    "select 'watched'; delete from vault.orders",
    "select 'four_eyes'; delete from vault.orders",
    "delete from vault.orders; select 'four_eyes'",
    "select 'do not'",
    "select 'DO/**/NOT', 'do' 'not'",
    "select * from vault.pay",
    "select * from vault.pay where id = 1",
    "select id from vault.orders",
    "select id from vault.orders where id = 1",
    "select count(*) from vault.orders",
    "selec 1",
    "select 1; selec 2",
    "select 'open",
    "begin; delete from vault.orders where id = -1; rollback",
    "select " + " + ".join(["1"] * 3000),
    "select '" + "x" * 11_000 + "four_eyes'",
)
POSTGRES = (
    "prepare p as delete from vault.orders; execute p",
    "prepare p as select 'four_eyes'; execute p",
    "do $$ begin delete from vault.orders where false; end $$",
    "select vault.touch()",
    "set client_encoding to 'SJIS'; select 1",
    "set standard_conforming_strings to off; select '\\'; delete from vault.orders; --'",
    "grant select on vault.orders to public",
    "truncate vault.orders",
    "with gone as (delete from vault.orders returning *) select * from gone",
    "explain analyze delete from vault.orders",
    "vacuum vault.orders",
    "copy vault.orders to stdout",
)
MYSQL = (
    "prepare p from 'delete from vault.orders'; execute p",
    "/*!50000 delete from vault.orders */",
    "select /*! 'four_eyes', */ 1",
    "replace into vault.orders values (1)",
    "kill 999999",
    "set names sjis; select 1",
    "truncate table vault.orders",
    "call vault.touch()",
)


@pytest.fixture(scope="module")
def vault(direct: psycopg.Connection) -> Iterator[None]:
    direct.execute(
        "create schema vault; create table vault.orders (id int); create table vault.salary (id int, amount int);"
        " create view vault.pay as select id, amount from vault.salary;"
        " create function vault.touch() returns int language plpgsql as"
        " 'begin delete from vault.orders where false; return 1; end'"
    )
    yield
    direct.execute("drop schema vault cascade")


@pytest.fixture(scope="module")
def maria_vault(maria: MariaDbServer) -> Iterator[None]:
    for statement in (
        "create database vault",
        "create table vault.orders (id int primary key)",
        "create table vault.salary (id int, amount int)",
        "create view vault.pay as select id, amount from vault.salary",
        "create procedure vault.touch() delete from vault.orders where false",
    ):
        run(maria, statement)
    yield
    run(maria, "drop database vault")


def ruled(gateway: Gateway, connection: Connection, rules: tuple[Rule, ...]) -> None:
    if rules:
        fields = {"name": f"rules of {connection.name}", "input": rules, "connection_ids": (str(connection.id),)}
        gateway.call(gateway.services.guardrails.create(gateway.admin, fields))


@pytest.fixture(scope="module")
def postgres_connections(gateway: Gateway, target: PostgresServer, vault: None) -> None:
    for name, rules in RULES.items():
        ruled(gateway, gateway.connection(f"pg-{name}", target), rules)


@pytest.fixture(scope="module")
def mysql_connections(gateway: Gateway, maria: MariaDbServer, maria_vault: None) -> None:
    for name, rules in RULES.items():
        ruled(gateway, mysql_connection(gateway, f"my-{name}", maria), rules)


def preview(gateway: Gateway, connection: str, script: str, parameters: Parameters | None = None) -> Previewed:
    services = gateway.services
    previews = ScriptPreviews(services.target_tasks, services.access, services.asking, services.now)  # not throttled
    previewed = gateway.call(
        previews.preview(
            gateway.admin, connection, script, database=None, parameters=parameters or {}, source="127.0.0.1"
        )
    )
    assert not previewed.requirements
    return previewed.result


def review_of(gateway: Gateway, session: Session) -> Review | None:
    found = gateway.call(
        gateway.services.reviews.find(gateway.admin, ReviewFilter(session_id=session.id), Page())
    ).items
    return found[0] if found else None


def run_script(
    gateway: Gateway, connection: str, script: str, parameters: Parameters | None = None
) -> tuple[str, Session, Review | None]:
    """The outcome of a run. A held one is killed."""
    session = gateway.call(
        gateway.services.sessions.submit(
            gateway.admin,
            connection,
            script,
            source="127.0.0.1",
            invocation=Invocation(parameters=parameters or {}),
        )
    )

    def settled() -> tuple[Session, Review | None] | None:
        now, review = gateway.session(session.id), review_of(gateway, session)
        return (now, review) if review is not None or now.status is SessionStatus.DONE else None

    now, review = wait_until(settled)
    if review is not None:
        wait_until(lambda: "waits for a decision" in gateway.text(session.id))  # its author is told after it exists
        gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        return "hold", gateway.finished(session.id), review
    counted = {name: now.metrics[name] for name in ("refused", "warned")}
    return "deny" if counted["refused"] else "warn" if counted["warned"] else "allow", now, None


def compare(gateway: Gateway, connection: str, script: str, parameters: Parameters | None = None) -> str:
    previewed = preview(gateway, connection, script, parameters)
    outcome, session, review = run_script(gateway, connection, script, parameters)
    assert previewed["outcome"] == outcome, f"{script[:200]!r}: {previewed}"
    told = gateway.text(session.id)
    for message in previewed["messages"]:
        assert message["message"] in told, script[:200]
        assert outcome != "deny" or message["hint"] in told, script[:200]  # warnings of MySQL have none
    if review is not None:
        assert previewed["held_by"] == list(review.groups)
        assert previewed["messages"][0]["rule"] == review.demands[0].rule
    severity = ["allow", "warn", "hold", "deny"]
    for statement in previewed["statements"]:
        assert severity.index(statement["outcome"]) <= severity.index(outcome)
    return outcome


@pytest.mark.parametrize("rules", RULES)
def test_preview_tells_what_a_run_on_postgresql_tells(gateway: Gateway, postgres_connections: None, rules: str) -> None:
    outcomes = {script: compare(gateway, f"pg-{rules}", script) for script in (*BOTH, *POSTGRES)}
    expected = {
        "free": {"allow"},
        "strict": {"allow", "warn", "hold", "deny"},
        "objects": {"allow", "hold", "deny"},
        "frozen": {"allow", "deny"},
        "both": {"allow", "warn", "hold", "deny"},
    }
    assert set(outcomes.values()) == expected[rules]


@pytest.mark.parametrize("rules", RULES)
def test_preview_tells_what_a_run_on_mysql_tells(gateway: Gateway, mysql_connections: None, rules: str) -> None:
    outcomes = {script: compare(gateway, f"my-{rules}", script) for script in (*BOTH, *MYSQL)}
    assert set(outcomes.values()) >= ({"allow"} if rules == "free" else {"allow", "deny"})


@pytest.mark.parametrize("connection", ["pg-strict", "my-strict"])
@pytest.mark.parametrize(
    ("script", "parameters", "outcome"),
    [
        ("select :a", {"a": "harmless"}, "allow"),
        ("select :a", {"a": "watched"}, "warn"),
        ("select :a, :b", {"a": "x", "b": "four_eyes"}, "hold"),
        ("select :a; select :b", {"a": "x", "b": "do not"}, "deny"),
        ("select :a; delete from vault.orders", {"a": 1}, "deny"),
        ("delete from vault.orders where id = :id", {"id": -1}, "allow"),
        ("select :a", {"a": "'; delete from vault.orders; -- "}, "allow"),
    ],
)
def test_preview_with_parameters_tells_what_a_run_tells(
    gateway: Gateway,
    postgres_connections: None,
    mysql_connections: None,
    connection: str,
    script: str,
    parameters: Parameters,
    outcome: str,
) -> None:
    assert compare(gateway, connection, script, parameters) == outcome


@pytest.mark.parametrize("connection", ["pg-strict", "my-strict"])
def test_preview_describes_each_statement(
    gateway: Gateway, postgres_connections: None, mysql_connections: None, connection: str
) -> None:
    script = "-- ü\nselect id from vault.orders;\n  delete from vault.orders ;"
    previewed = preview(gateway, connection, script)
    read, write = previewed["statements"]
    assert [script[part["offset"] :][: part["length"]] for part in (read, write)] == [
        "select id from vault.orders",
        "delete from vault.orders",
    ]
    orders = {"kind": "table", "schema": "vault", "name": "orders"}
    assert (read["tag"], read["effects"], read["objects"]) == ("SELECT", ["read"], [orders])
    assert (read["without_where"], read["outcome"], read["messages"]) == (False, "allow", [])
    assert (write["tag"], "write" in write["effects"], write["objects"]) == ("DELETE", True, [orders])
    assert (write["without_where"], write["outcome"]) == (True, "deny")
    assert write["messages"] == previewed["messages"]
    assert (previewed["statements_truncated"], previewed["syntax_error"]) == (False, None)


@pytest.mark.parametrize("connection", ["pg-objects", "my-objects"])
def test_tables_behind_views_are_judged_but_not_shown(
    gateway: Gateway, postgres_connections: None, mysql_connections: None, connection: str
) -> None:
    previewed = preview(gateway, connection, "select * from vault.pay")
    assert previewed["outcome"] == "deny"
    (statement,) = previewed["statements"]
    assert statement["objects"] == [{"kind": "table", "schema": "vault", "name": "pay"}]


@pytest.mark.parametrize(
    ("connection", "script", "offset"), [("pg-free", "select 1;\n selec 'é' 2", 11), ("my-free", "select 1, 'open", 10)]
)
def test_preview_says_where_a_script_cannot_be_parsed(
    gateway: Gateway, postgres_connections: None, mysql_connections: None, connection: str, script: str, offset: int
) -> None:
    previewed = preview(gateway, connection, script)
    assert previewed["syntax_error"]["offset"] == offset
    assert previewed["syntax_error"]["message"]
    assert [part["effects"] for part in previewed["statements"]] == [["unknown"]]


def test_places_are_those_of_the_script_with_its_parameters(
    gateway: Gateway, postgres_connections: None, mysql_connections: None
) -> None:
    script = "select :long_name , :b ; select :b, ':b' , :long_name"
    for connection in ("pg-free", "my-free"):
        previewed = preview(gateway, connection, script, {"long_name": "x" * 100, "b": 1})
        assert [script[part["offset"] :][: part["length"]] for part in previewed["statements"]] == [
            "select :long_name , :b",
            "select :b, ':b' , :long_name",
        ]


def test_long_scripts_are_judged_whole_and_described_in_part(gateway: Gateway, postgres_connections: None) -> None:
    many = "select 0;" * (MAX_PREVIEWED + 1)
    previewed = preview(gateway, "pg-strict", many)
    assert (len(previewed["statements"]), previewed["statements_truncated"]) == (MAX_PREVIEWED, True)
    previewed = preview(gateway, "pg-strict", many + "delete from vault.orders")
    assert previewed["outcome"] == "deny"
    assert {part["outcome"] for part in previewed["statements"]} == {"allow"}
    with pytest.raises(Invalid, match="at most 65,536 characters"):
        preview(gateway, "pg-strict", "x" * (MAX_PREVIEW + 1))


def test_preview_leaves_nothing(gateway: Gateway, postgres_connections: None) -> None:
    before = len(gateway.sessions())
    assert preview(gateway, "pg-strict", "select 'four_eyes'")["outcome"] == "hold"
    assert preview(gateway, "pg-free", "create table never_made (n int)")["outcome"] == "allow"
    assert len(gateway.sessions()) == before
    found = gateway.call(gateway.services.reviews.find(gateway.admin, ReviewFilter(connection="pg-strict"), Page()))
    assert not [review for review in found.items if review.status is ReviewStatus.PENDING]


def test_previewed_kill_ends_no_session_of_the_gateway(
    gateway: Gateway, mysql_connections: None, maria: MariaDbServer
) -> None:
    with connect(gateway, gateway.credential("my-free")) as client, client.cursor() as cursor:
        cursor.execute("select connection_id()")
        ((thread,),) = cursor.fetchall()
        assert preview(gateway, "my-free", f"kill {thread}")["outcome"] == "allow"
        cursor.execute("select 1")
        assert cursor.fetchall() == ((1,),)
