"""Effect of a rule about columns on descriptions of results and on the reports of a target."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from postern.domain.rules.masking import DEFAULT_TYPES, MaskingRule, Strategy, Strictness
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Heading, Operation, Output, Rows, Summary
from postern.interception.pipeline import Pipeline
from postern.interception.verdicts import Refuse
from postern.protocols.mysql.dialect.mysql_statement_facts import MysqlStatementFacts
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_headings import ColumnHeading
from postern.protocols.mysql.wire.mysql_output import OF_OK, StatementSummary
from postern.protocols.mysql.wire.mysql_rows import layout_of

from ..conftest import make_session

NO_ID = UUID(int=0)
SCHEMA = TargetSchema({("shop", "users"): Relation("shop", "users", ("id", "surname"))}, search_path=("shop",))
AS_TEXT, UNNAMED = True, False


def masking(strictness: Strictness = Strictness.STRICT, strategy: Strategy = Strategy.REPLACE) -> Masking:
    rule = MaskingRule(NO_ID, NO_ID, "pii", columns=("users.surname",), strictness=strictness, strategy=strategy)
    origins = MySqlSessionLineage(MySqlLineage(), lambda: SCHEMA)
    return Masking(frozenset(), (rule,), b"key", origins, facts=MysqlStatementFacts())


def described(
    rules: Masking, asked: Sequence[str], names: Sequence[str], *, prepared: str = ""
) -> dict[int, bool] | Refuse:
    session = make_session()
    session.schema = SCHEMA
    for number, text in enumerate(asked, 1):
        rules.see(Operation(number, text), session)
    event = heading(names, len(asked), prepared)
    verdict = rules.see(event, session)
    if isinstance(verdict, Refuse):
        return verdict
    fields = [m.parse_field(packet.payload) for packet in m.MysqlPackets(1 << 20).feed(event.encode())]
    return {place: fields[place].name == names[place] for place in sorted(event.as_text)}


def heading(names: Sequence[str], exchange: int, prepared: str) -> ColumnHeading:
    definitions = [m.column(0, m.MysqlField(name, m.VAR_STRING))[m.HEAD :] for name in names]
    layout = layout_of(tuple(definitions), False, "utf-8")
    return ColumnHeading(exchange, layout, b"", definitions, 1, prepared, may_fetch=False, adds_metadata=False)


def test_only_rules_about_columns_request_descriptions_and_reports() -> None:
    session = make_session()
    assert {Heading, Summary} <= masking().wants
    finding = Masking(DEFAULT_TYPES)
    assert finding.wants == {Rows, Output}
    assert Pipeline([finding], session).wants.isdisjoint({Heading, Summary})


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("strictness", Strictness)
@pytest.mark.parametrize(
    ("asked", "names", "as_text"),
    [
        (["select surname from users"], ["surname"], {}),
        (["select id, upper(surname) from users"], ["id", "u"], {}),
        (["select id, (select surname from users limit 1) from users"], ["id", "s"], {1: AS_TEXT}),
        (["set @v = (select surname from users)", "select 1, @v"], ["1", "@v"], {1: AS_TEXT}),
        (["set @v = 1", "select @v"], ["@v"], {}),
        (
            ["set @v = (select surname from users)", "prepare s from 'select ?, 1'", "execute s using @v"],
            ["?", "1"],
            {0: AS_TEXT},
        ),
    ],
)
def test_computed_column_is_described_as_text_if_its_description_can_vary(
    asked: list[str], names: list[str], as_text: dict[int, bool], strictness: Strictness, strategy: Strategy
) -> None:
    assert described(masking(strictness, strategy), asked, names) == as_text


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("select f() as c", True),
        ("select f() as c, count(*) from t", True),
        ("select f() * 2 as c", False),
        ("select * from t", False),
        ("select t.* from t", False),
        ("table t", False),
        ("handler t read first", False),
        ("call p()", False),
        ("begin not atomic select 1 as c; end", False),
        ("execute s", False),
    ],
)
def test_strict_rule_denies_a_result_of_unknown_lineage_at_its_description(text: str, is_named: bool) -> None:
    """The name of a column can be a value if code or a computed text sets it."""
    found = described(masking(), [text], ["Doe"])
    assert isinstance(found, Refuse)
    assert ("Doe" in found.message) is is_named
    assert described(masking(Strictness.BEST_EFFORT), [text], ["Doe"]) == {}


@pytest.mark.parametrize(
    ("prepared", "names", "as_text"),
    [
        ("select surname, ? from users", ["surname", "?"], {}),
        ("select id, (select surname from users limit 1) from users", ["id", "s"], {1: AS_TEXT}),
        ("select f() as c, 1", ["c", "1"], {0: UNNAMED}),
        ("call p()", ["c"], {0: UNNAMED}),
    ],
)
def test_description_of_a_prepared_statement_hides_columns_of_unknown_lineage(
    prepared: str, names: list[str], as_text: dict[int, bool]
) -> None:
    assert described(masking(), [], names, prepared=prepared) == as_text
    known = {place: named for place, named in as_text.items() if named}
    assert described(masking(Strictness.BEST_EFFORT), [], names, prepared=prepared) == known


@pytest.mark.parametrize("strictness", Strictness)
@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (["insert into orders values (null)"], 7),
        (["insert into orders values (1) on duplicate key update id = last_insert_id(id)"], 7),
        (["update orders set id = last_insert_id((select surname from users limit 1))"], 0),
        (["set @v = (select surname from users)", "update orders set id = LAST_INSERT_ID(@v)"], 0),
        (["update orders set id = last_insert_id(f())"], 0),
        (["update orders set id = last_insert_id((select surname from users))", "insert into orders values (1)"], 7),
    ],
)  # fmt: skip
def test_report_omits_warnings_and_an_insert_id_that_derives_from_a_masked_value(
    asked: list[str], left: int, strictness: Strictness
) -> None:
    rules, session = masking(strictness), make_session()
    session.schema = TargetSchema(
        {**SCHEMA.relations, ("shop", "orders"): Relation("shop", "orders", ("id",))}, search_path=("shop",)
    )
    origins = MySqlSessionLineage(MySqlLineage(), lambda: session.schema)
    rule = MaskingRule(NO_ID, NO_ID, "pii", columns=("users.surname",), strictness=strictness)
    rules = Masking(frozenset(), (rule,), b"key", origins, facts=MysqlStatementFacts())
    for number, text in enumerate(asked, 1):
        rules.see(Operation(number, text), session)
    payload = m.ok(1, m.Done(insert_id=7, warnings=3))[m.HEAD :]
    report = StatementSummary(len(asked), payload, OF_OK, 1, True)
    rules.see(report, session)
    assert report.encode() == m.ok(1, m.Done(insert_id=left))
