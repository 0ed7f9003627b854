"""Rows that a client fetches through a cursor of a prepared statement are masked as those that come at once."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.mysql_links import links, recorded, sent
from tests.support.protocols import mysql_test_messages as my

from postern.domain.rules.masking import MaskingRule, Strictness
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Refusal
from postern.protocols.mysql.dialect.mysql_statement_facts import MysqlStatementFacts
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.wire_base import Side
from postern.relay.link import Link

PEOPLE = Relation("shop", "people", ("id", "name", "salary"))
SCHEMA = TargetSchema(relations={("shop", "people"): PEOPLE}, search_path=("shop",))


def field(name: str) -> m.MysqlField:
    return m.MysqlField(
        name, m.VAR_STRING, length=40, database="shop", table="people", org_table="people", org_name=name
    )


NAME, SALARY = field("name"), field("salary")


def link_with(strictness: Strictness) -> Link:
    rule = MaskingRule(UUID(int=1), UUID(int=2), "salaries", columns=("people.salary",), strictness=strictness)
    origins = MySqlSessionLineage(MySqlLineage(), lambda: SCHEMA)
    return links(Masking(frozenset(), (rule,), b"key", origins, facts=MysqlStatementFacts()))()


def opens_cursor(link: Link, number: int, text: str, *columns: m.MysqlField) -> None:
    """Prepare and execute a statement whose rows are fetched later."""
    link.receive(Side.CLIENT, my.prepare(text))
    link.receive(Side.TARGET, my.AnswerPackets().prepared(number, 0, columns).bytes)
    link.receive(Side.CLIENT, my.execute(number, flags=1))
    link.receive(Side.TARGET, my.AnswerPackets().columns(*columns, status=m.CURSOR_EXISTS).bytes)


def fetched(link: Link, number: int, *values: str) -> bytes:
    """What the client receives of one row."""
    link.receive(Side.CLIENT, my.fetch(number, 1))
    row = my.AnswerPackets().binary_row(*((m.VAR_STRING, value) for value in values)).eof(m.CURSOR_EXISTS)
    effects = link.receive(Side.TARGET, row.bytes)
    assert not [event for event in recorded(effects) if isinstance(event, Refusal)]
    return sent(effects, Side.CLIENT)


@pytest.mark.parametrize("strictness", Strictness)
def test_rows_of_a_cursor_are_masked_fetch_by_fetch(strictness: Strictness) -> None:
    link = link_with(strictness)
    opens_cursor(link, 1, "select name, salary from people", NAME, SALARY)
    for name in ("Ada", "Bob", "Cleo"):
        shown = fetched(link, 1, name, "83412")
        assert name.encode() in shown
        assert b"83412" not in shown


def test_statements_between_two_fetches_change_nothing() -> None:
    link = link_with(Strictness.STRICT)
    opens_cursor(link, 1, "select name, salary from people", NAME, SALARY)
    opens_cursor(link, 2, "select salary, name from people", SALARY, NAME)
    for number in range(3):
        link.receive(Side.CLIENT, my.query(f"select name from people where id = {number}"))
        link.receive(Side.TARGET, my.AnswerPackets().columns(NAME).row("Ada").eof().bytes)
        assert b"Ada" in fetched(link, 1, "Ada", "83412")
        assert b"83412" not in fetched(link, 2, "83412", "Ada")


def test_attack_cursors_without_end_are_forgotten_and_refused() -> None:
    """What is kept of open cursors is bounded; of the others nothing is known any more."""
    link = link_with(Strictness.STRICT)
    for number in range(1, 400):
        opens_cursor(link, number, f"select name, salary as s{number} from people", NAME, SALARY)
    link.receive(Side.CLIENT, my.fetch(1, 1))
    row = my.AnswerPackets().binary_row((m.VAR_STRING, "Ada"), (m.VAR_STRING, "83412")).eof(m.CURSOR_EXISTS)
    effects = link.receive(Side.TARGET, row.bytes)
    assert [event for event in recorded(effects) if isinstance(event, Refusal)]
    assert b"83412" not in sent(effects, Side.CLIENT)
