"""Statements that read a whole table, in every dialect."""

from __future__ import annotations

from uuid import UUID

import pytest

from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.guardrail_presets import preset
from postern.domain.rules.statement import Effect
from postern.domain.targets.dialect import DIALECTS
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.inspection.sql.sql_parser import Parser
from postern.interception.events import Operation
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.oracledb.dialect.oracle_parser import OracleParser
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

# The tables that are read whole, and the statement.
EVERYWHERE = """
    t       | select * from t
    t       | select a, b from t order by a
    t       | select distinct a from t
    t       | select a, count(*) from t group by a
    t       | select * from t where 1 = 1
    t       | select * from t where 'a' = 'a' or 1 = 2
    t       | select * from (select * from t) x
    t       | with c as (select * from t) select * from c
    t u     | with c as (select * from t) select * from c, u
    t u     | select * from t join u on t.id = u.id
    t       | select * from t left join (select * from u where id = 1) x on t.id = x.id
    t u     | select * from t union all select * from u
    t       | select * from t union select * from u where id = 1
    t       | insert into u select * from t
    t       | select id, (select max(a) from u) from t
    t       | select count(*) over () from t
            | select * from t where id = 1
            | select * from t where a like 'x%' or b is null
            | select count(*) from t
            | select min(a), max(a) + 1 from t
            | select * from (select * from t) x where id = 1
            | with c as (select * from t) select * from c where id = 1
            | with c as (select * from t) select 1
            | with t as (select 1 as a) select a from t
            | select u.a from u where u.id in (select id from t)
            | select (select count(*) from t)
            | select 1
            | update t set a = 1
            | delete from t where id = 1
            | insert into t values (1, 2)
            | create table x (a int)
"""
LIMITED = """
            | select * from t limit 10
            | select * from t order by a limit 10 offset 20
            | select * from (select * from t limit 5) x
            | select * from (select * from t) x limit 5
            | (select * from t) union all (select * from u) limit 5
"""
_DUAL = EVERYWHERE.replace("| select 1\n", "| select 1 from dual\n").replace("*) from t)\n", "*) from t) from dual\n")
OWN = {
    PostgresParser: EVERYWHERE
    + LIMITED
    + """
    t       | table t
    t       | copy t to stdout
    t       | copy (select * from t) to stdout
    t       | declare c cursor for select * from t
    t       | prepare p as select * from t
    t       | create table x as select * from t
    t       | select * into x from t
    t       | create materialized view x as table t
    t       | explain analyze select * from t
    t       | select array_agg(a) from t
    t       | select count(*), json_agg(t) from t
    t       | select array(select a from t)
    t       | select (select string_agg(a, ',') from t)
    t       | select * from t limit all
    t       | select * from t limit null
    t       | select * from only t tablesample system (50)
    t       | with recursive c as (select 1 as a union select c.a from c join t on true) select * from c
    t       | with x as (insert into u select * from t) select 1
    t       | with x as (delete from t returning *) select * from x
    t       | delete from t returning *
            | explain select * from t
            | select * from t fetch first 5 rows only
            | select * from t limit $1
            | copy t from stdin
            | select * from pg_catalog.pg_class
            | select * from information_schema.columns
            | select * from generate_series(1, 10)
            | delete from t where id = 1 returning *
    """,
    MySqlParser: EVERYWHERE
    + LIMITED
    + """
    t       | table t
    t       | create table x select * from t
    t       | select * from t into outfile '/tmp/x'
    t       | select group_concat(a) from t
            | explain select * from t
            | select * from t limit 5, 10
            | select * from information_schema.tables
            | select 1 from dual
    """,
    TSqlParser: EVERYWHERE
    + """
    t       | select * into x from t
    t       | select top (50) percent * from t
            | select top 10 * from t
            | select * from t order by a offset 0 rows fetch next 5 rows only
            | select * from sys.objects
    """,
    OracleParser: _DUAL
    + """
    T       | create table x as select * from t
            | select * from t where rownum < 10
            | select * from t fetch first 5 rows only
    """,
}  # fmt: skip
CASES = [
    (parser, frozenset(left.lower().split()), right.strip())
    for parser, lines in OWN.items()
    for left, _, right in (line.partition("|") for line in lines.splitlines())
    if right.strip()
]


@pytest.mark.parametrize(("parser", "tables", "text"), CASES, ids=[f"{one.__name__}: {text}" for one, _, text in CASES])
def test_full_scans_of_a_statement_are_found(parser: type[Parser], tables: frozenset[str], text: str) -> None:
    found = parser().parse(text)
    assert found
    assert not any(Effect.UNKNOWN in one.effects for one in found), found
    assert {name.name.lower() for one in found for name in one.scans} == tables


@pytest.mark.parametrize("parser", [PostgresParser, MySqlParser, TSqlParser, OracleParser])
def test_full_scans_preset_denies_a_read_without_a_condition_in_every_dialect(
    session: SessionView, parser: type[Parser]
) -> None:
    made = preset("full-scans")
    assert made is not None
    assert made.protocols == tuple(DIALECTS)
    rails = GuardrailInterceptor((Guardrail(UUID(int=1), UUID(int=2), "care", input=made.input),), parser())
    verdict = rails.see(Operation(1, "select a from t"), session)
    assert isinstance(verdict, Refuse)
    assert "SELECT reads all of" in verdict.message
    assert rails.see(Operation(2, "select a from t where b = 1"), session) is FORWARD
    assert isinstance(rails.see(Operation(3, "execute p"), session), Refuse)


def test_full_scan_rule_with_objects_denies_scans_of_those_tables_only(session: SessionView) -> None:
    rule = Rule(RuleType.DENY_FULL_SCANS, objects=("hr.salary", "*.users"))
    rails = GuardrailInterceptor((Guardrail(UUID(int=1), UUID(int=2), "care", input=(rule,)),), PostgresParser())
    for text in ("table hr.salary", "select * from salary", "select a from app.users", "copy users to stdout"):
        assert isinstance(rails.see(Operation(1, text), session), Refuse), text
    for text in ("select * from orders", "select * from app.salary", "select * from users where id = 1"):
        assert rails.see(Operation(1, text), session) is FORWARD, text
