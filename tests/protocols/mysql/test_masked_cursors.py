"""Rows that a client fetches through a cursor of a prepared statement are masked like other rows."""

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


def open_cursor(link: Link, number: int, text: str, *columns: m.MysqlField) -> None:
    """Prepare and execute a statement whose rows are fetched later."""
    link.receive(Side.CLIENT, my.prepare(text))
    link.receive(Side.TARGET, my.AnswerPackets().prepared(number, 0, columns).bytes)
    link.receive(Side.CLIENT, my.execute(number, flags=1))
    link.receive(Side.TARGET, my.AnswerPackets().columns(*columns, status=m.CURSOR_EXISTS).bytes)


def fetch_row(link: Link, number: int, *values: str) -> bytes:
    """Fetch one row and return the bytes that the client receives."""
    link.receive(Side.CLIENT, my.fetch(number, 1))
    row = my.AnswerPackets().binary_row(*((m.VAR_STRING, value) for value in values)).eof(m.CURSOR_EXISTS)
    effects = link.receive(Side.TARGET, row.bytes)
    assert not [event for event in recorded(effects) if isinstance(event, Refusal)]
    return sent(effects, Side.CLIENT)


@pytest.mark.parametrize("strictness", Strictness)
def test_every_row_fetched_from_a_cursor_is_masked(strictness: Strictness) -> None:
    link = link_with(strictness)
    open_cursor(link, 1, "select name, salary from people", NAME, SALARY)
    for name in ("Ada", "Bob", "Cleo"):
        shown = fetch_row(link, 1, name, "83412")
        assert name.encode() in shown
        assert b"83412" not in shown


def test_statements_between_fetches_do_not_change_the_masking_of_a_cursor() -> None:
    link = link_with(Strictness.STRICT)
    open_cursor(link, 1, "select name, salary from people", NAME, SALARY)
    open_cursor(link, 2, "select salary, name from people", SALARY, NAME)
    for number in range(3):
        link.receive(Side.CLIENT, my.query(f"select name from people where id = {number}"))
        link.receive(Side.TARGET, my.AnswerPackets().columns(NAME).row("Ada").eof().bytes)
        assert b"Ada" in fetch_row(link, 1, "Ada", "83412")
        assert b"83412" not in fetch_row(link, 2, "83412", "Ada")


def test_attack_fetch_from_a_cursor_beyond_the_tracked_number_is_denied() -> None:
    """The number of tracked cursors is bounded; rows of the others have unknown lineage."""
    link = link_with(Strictness.STRICT)
    for number in range(1, 400):
        open_cursor(link, number, f"select name, salary as s{number} from people", NAME, SALARY)
    link.receive(Side.CLIENT, my.fetch(1, 1))
    row = my.AnswerPackets().binary_row((m.VAR_STRING, "Ada"), (m.VAR_STRING, "83412")).eof(m.CURSOR_EXISTS)
    effects = link.receive(Side.TARGET, row.bytes)
    assert [event for event in recorded(effects) if isinstance(event, Refusal)]
    assert b"83412" not in sent(effects, Side.CLIENT)
