"""Rules about a table apply to the views that read it, by the catalogue of a real MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.bypass import views_mysql
from tests.protocols.mysql.test_catalogue_on_server import ask
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType, Unknown
from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.guardrails.guardrail_findings import GuardrailFinding
from postern.inspection.guardrails.guardrail_rules import CompiledRules, judge_text
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.mysql.dialect.mysql_prepared import MySqlPreparedStatements
from postern.protocols.mysql.queries.mysql_schema import QUESTIONS, target_schema

USES = views_mysql.USES.strip().splitlines()
NAMES = [*views_mysql.READING, *views_mysql.CLAUSES]


def qualified(name: str) -> str:
    return name if "." in name else f"scratch.{name}"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with running_mariadb() as running:
        run(running, "create database scratch", database=None)
        for text in views_mysql.TABLES.strip().split(";\n"):
            run(running, text)
        for name, query in (views_mysql.READING | views_mysql.APART).items():
            run(running, f"create view {name} as {query}")
        for name, clause in views_mysql.CLAUSES.items():
            run(running, f"create {clause} view {name} as select * from vault.secrets")
        run(running, "create user reader")
        run(running, "grant select on scratch.* to reader")
        yield running


def run(server: MariaDbServer, text: str, database: str | None = "scratch") -> list[tuple[Any, ...]]:
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def snapshot(server: MariaDbServer, user: str = "root") -> TargetSchema:
    with server.connect(user, "scratch") as connection:
        return target_schema([ask(connection, question) for question in QUESTIONS])


@pytest.fixture(scope="module")
def schema(server: MariaDbServer) -> TargetSchema:
    return snapshot(server)


def judged(
    text: str,
    schema: TargetSchema | None,
    rule: Rule | None = None,
    before: tuple[str, ...] = (),
) -> GuardrailFinding | None:
    """Return the finding for `text` in a session that has sent `before`."""
    parser = MySqlParser()
    made = rule or Rule(RuleType.DENY_STATEMENTS, objects=(views_mysql.GUARDED,), name="vault")
    rules = CompiledRules((Guardrail(UUID(int=1), UUID(int=2), "rail", input=(made,)),), parser, schema)
    session = MySqlPreparedStatements(parser)
    for each in before:
        session.record_statement(each)
    return judge_text(rules, text, session)


@pytest.mark.parametrize("name", NAMES)
def test_view_that_returns_a_protected_value_is_denied(server: MariaDbServer, schema: TargetSchema, name: str) -> None:
    shown = str(run(server, f"select * from {qualified(name)}"))
    assert views_mysql.VALUE in shown.lower()
    for spelled in (qualified(name), name):
        finding = judged(f"select * from {spelled}", schema)
        assert finding is not None
        assert (finding.action, finding.unknown) == (Action.DENY, False)
        assert "vault.secrets" in finding.reason


@pytest.mark.parametrize("name", views_mysql.APART)
def test_view_of_other_tables_passes(schema: TargetSchema, name: str) -> None:
    assert judged(f"select * from {qualified(name)}", schema) is None


@pytest.mark.parametrize("name", ["plain", "elsewhere.of_it", "definers", "`odd ``name`"])
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_view_is_denied(schema: TargetSchema, use: str, name: str) -> None:
    finding = judged(use.format(qualified(name).replace("'", "''")), schema)
    assert finding is not None
    assert finding.action is Action.DENY


@pytest.mark.parametrize("use", USES)
def test_same_use_of_an_unrelated_view_passes(schema: TargetSchema, use: str) -> None:
    assert judged(use.format("scratch.names"), schema) is None


def test_execute_of_a_prepared_view_is_denied(schema: TargetSchema) -> None:
    assert judged("execute p", schema, before=("prepare p from 'select * from of_elsewhere'",)) is not None
    assert judged("execute p", schema, before=("prepare p from 'select * from names'",)) is None


@pytest.mark.parametrize(
    "text", ["drop view plain", "show create view plain", "grant select on plain to x", "use scratch"]
)
def test_naming_a_view_is_not_reading_its_table(schema: TargetSchema, text: str) -> None:
    assert judged(text, schema) is None


def test_view_created_after_the_schema_snapshot_is_unknown(server: MariaDbServer, schema: TargetSchema) -> None:
    run(server, "create or replace view fresh as select pin from vault.secrets")
    finding = judged("select * from fresh", schema)
    assert finding is not None
    assert finding.unknown
    assert "fresh is unknown" in finding.reason
    allowing = Rule(RuleType.DENY_STATEMENTS, objects=(views_mysql.GUARDED,), unknown=Unknown.ALLOW, name="vault")
    assert judged("select * from fresh", schema, allowing) is None
    assert judged("create view another as select pin from vault.secrets", schema) is not None
    found = judged("select * from fresh", snapshot(server))
    assert found is not None
    assert not found.unknown


def test_view_with_a_hidden_definition_is_unknown(server: MariaDbServer) -> None:
    """The account reads the view with its definer's privileges and cannot see its definition."""
    assert views_mysql.VALUE in str(run(server, "select * from definers"))
    hidden = snapshot(server, "reader")
    finding = judged("select * from definers", hidden)
    assert finding is not None
    assert finding.unknown
    assert "grant SHOW VIEW" in finding.reason
    assert judged("select * from people", hidden) is None
    assert judged("select * from definers", hidden, Rule(RuleType.READ_ONLY, name="reads")) is None


@pytest.mark.parametrize("text", ["select * from plain", "select * from people", "delete from people where id = 1"])
def test_every_table_is_unknown_without_a_schema_snapshot(text: str) -> None:
    finding = judged(text, None)
    assert finding is not None
    assert finding.unknown
    assert "catalogue could not be read" in finding.reason


@pytest.mark.parametrize(
    "text",
    ["select 1", "select 1 from dual", "select table_name from information_schema.tables", "set @a = 1", "commit"],
)
@pytest.mark.parametrize("known", [True, False])
def test_statements_without_tables_pass(schema: TargetSchema, text: str, known: bool) -> None:
    assert judged(text, schema if known else None) is None


def test_view_that_calls_a_function_has_the_effects_of_that_function(server: MariaDbServer) -> None:
    run(server, "create function spy() returns int begin insert into sink values ('x'); return 1; end")
    run(server, "create or replace view spying as select spy() as n")
    run(server, "create or replace view of_spying as select * from spying")
    known = snapshot(server)
    reads = Rule(RuleType.READ_ONLY, name="reads")
    for name in ("spying", "of_spying"):
        finding = judged(f"select * from {name}", known, reads)
        assert finding is not None
        assert "calls a function" in finding.reason
    assert judged("select * from names", known, reads) is None
    allowed = Rule(RuleType.READ_ONLY, allow_functions=("scratch.spy()", "spy()"), name="reads")
    assert judged("select * from of_spying", known, allowed) is None


def test_write_rule_denies_writes_through_a_view_and_passes_reads(schema: TargetSchema) -> None:
    rule = Rule(RuleType.DENY_STATEMENTS, objects=("vault.*",), effects=frozenset({Effect.WRITE}), name="no writes")
    assert judged("select * from plain", schema, rule) is None
    assert judged("delete from plain where id = 1", schema, rule) is not None
