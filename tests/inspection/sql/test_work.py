"""Texts designed to make parsing take forever. The first ones are judged on the shared event loop."""

from __future__ import annotations

import pytest

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.sql.sql_parser import Parser
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import SessionState
from postern.protocols.oracledb.dialect.oracle_parser import OracleParser

_PARSERS: tuple[Parser, ...] = (MySqlParser(), OracleParser(), TSqlParser())
_SCHEMA = TargetSchema({("shop", "t"): Relation("shop", "t", ("a",))}, {}, ("shop",))


def nested(before: str, after: str, inner: str = "a", times: int = 40) -> str:
    return before * times + inner + after * times


@pytest.mark.parametrize("parser", _PARSERS, ids=lambda one: one.dialect)
@pytest.mark.parametrize("word", ["char", "varchar", "decimal", "timestamp", "binary"])
def test_attack_deeply_nested_type_names_are_unknown(parser: Parser, word: str) -> None:
    """Each was tried as a type and as a function: forty levels took 2 to the power of 40 attempts."""
    (found,) = parser.parse(f"select {nested(word + '(', ')')} from t")
    assert Effect.UNKNOWN in found.effects
    (found,) = parser.parse(f"select {nested(word + '(', ')', times=4)} from t")
    assert "nested too deeply" not in found.reason


@pytest.mark.parametrize("between", ["1 xor (", "1 xor (1 and (", "1 xor not ("])
def test_attack_deeply_nested_condition_is_judged(between: str) -> None:
    after = ")" * between.count("(")
    for inner, always in (("a", False), ("1", True)):
        (found,) = MySqlParser().parse(f"delete from t where {nested(between, after, inner, times=24)}")
        assert found.without_where is always


def test_attack_deeply_nested_ctes_are_read() -> None:
    text = f"select {nested('(with x as ((', ')) select 1 from x)', 'select a from t', times=18)}"
    assert MySqlLineage().read(text, _SCHEMA, SessionState(databases=("shop",))) is not None


def test_attack_long_text_with_many_readings_has_no_lineage() -> None:
    ways = "".join(f"/*!{version} + {version} */" for version in (50600, 80000, 100100, 100300))
    text = f"""select "x", '\\\\', 1 {ways} {"+ 1" * 8000}"""
    assert MySqlLineage().read(text, _SCHEMA, SessionState(databases=("shop",))) is None


LONG = {
    "calls": "select " + "f(" * 20_000,
    "ctes": f"with {','.join(f'c{at} as (select 1)' for at in range(5000))} select 1 from {','.join(['t'] * 20_000)}",
    "negated": "delete from t where a or " + " or ".join(f"not b{at}" for at in range(15_000)),
    "statements": 'select "a";' + ";".join(f"drop table t{at}" for at in range(8000)),
    "queries": "set @a = " + "(select " * 20_000,
}


@pytest.mark.parametrize("text", LONG)
@pytest.mark.ci
def test_attack_very_long_mysql_text_is_parsed(text: str) -> None:
    assert MySqlParser().parse(LONG[text])


def test_cte_is_in_scope_for_later_ctes_and_its_query_only() -> None:
    def tables(text: str) -> set[str]:
        return {one.name for statement in MySqlParser().parse(text) for one in statement.objects}

    assert tables("with a as (select 1 from b), b as (select 1 from a) select 1 from a, b, c") == {"b", "c"}
    assert tables("with a as (select 1 from a) select 1 from a") == {"a"}
    assert tables("select 1 from a, (with a as (select 1) select 1 from a) x") == {"a"}


def test_condition_joined_with_its_own_negation_counts_as_no_where() -> None:
    def always(text: str) -> bool:
        (found,) = MySqlParser().parse(f"delete from t where {text}")
        return found.without_where

    assert always("a = 1 or b = 1 or not (a = 1)")
    assert not always("a = 1 or b = 1 or not (a = 2)")
    assert always("not (a = 1 and not a = 1)")
