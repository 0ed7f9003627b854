"""The contracts of questions, scripts and lenses find what is broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.links import interpreted_only
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.query_contracts import check_catalogue, check_lens, check_query, check_script

from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Row
from postern.protocols.mysql.queries.mysql_catalogue import CATALOGUE
from postern.protocols.mysql.queries.mysql_query import MysqlQuery
from postern.protocols.mysql.queries.mysql_script import MysqlScript
from postern.protocols.mysql.recorded.mysql_text_renderer import MysqlTextRenderer
from postern.protocols.mysql.wire import mysql_messages as mm
from postern.protocols.mysql.wire.mysql_wire import MysqlWire

ROWS = my.rows(("one",), ("two",))
CELLS: list[Row] = [("one",), ("two",)]
ERROR = my.error("there is no t")
GARBAGE = [mm.packet(1, b"")]


class Ours(MysqlQuery):
    def __init__(self) -> None:
        super().__init__("select a from t")


@interpreted_only
def test_a_question_that_reads_too_far_is_found_out() -> None:
    class Greedy(Ours):
        @property
        def needs(self) -> int:
            return super().needs + 1

    with pytest.raises(AssertionError, match="reads what is not its own"):
        check_query(Greedy, ROWS, CELLS, error=ERROR, garbage=GARBAGE)


def test_a_question_that_waits_for_more_than_it_may_is_found_out() -> None:
    with pytest.raises(AssertionError, match="it waits for 2003 more"):
        check_query(Ours, my.rows(("x" * 2000,)), [("x" * 2000,)], error=ERROR, garbage=GARBAGE, most=2000)


@interpreted_only
def test_a_question_that_loses_rows_at_a_cut_is_found_out() -> None:
    class Forgets(Ours):
        def feed(self, data: bytes) -> list[Row]:
            return super().feed(data)[:1]

    with pytest.raises(AssertionError, match="the rows are"):
        check_query(Forgets, ROWS, CELLS, error=ERROR, garbage=GARBAGE)


def test_garbage_that_is_none_is_found_out() -> None:
    with pytest.raises(AssertionError, match="taken for an answer"):
        check_query(Ours, ROWS, CELLS, error=ERROR, garbage=[mm.ok(1)])
    with pytest.raises(AssertionError, match="taken for an answer"):
        check_query(Ours, ROWS, CELLS, error=my.ok(), garbage=GARBAGE)


def test_a_catalogue_whose_rows_cost_more_than_it_tells_is_found_out() -> None:
    rows: dict[TargetTaskKind, Row] = {
        TargetTaskKind.TEST: ("1",),
        TargetTaskKind.DATABASES: ("shop",),
        TargetTaskKind.TABLES: ("shop", "t"),
        TargetTaskKind.COLUMNS: ("a", "int", "NO"),
        TargetTaskKind.SCHEMA: ("2", "shop", "t", "BASE TABLE", None, None, "0"),
    }
    check_catalogue(CATALOGUE, rows)
    target_tasks = {kind: replace(question, overhead=0) for kind, question in CATALOGUE.target_tasks.items()}
    with pytest.raises(AssertionError, match="rows cost more"):
        check_catalogue(replace(CATALOGUE, target_tasks=target_tasks), rows)


@interpreted_only
def test_a_script_that_fails_and_says_it_did_not_is_found_out() -> None:
    class Succeeds(MysqlScript):
        def exit_code(self) -> int:
            return int(not self.finished)

    with pytest.raises(AssertionError, match="its exit code is 0"):
        check_script(Succeeds, MysqlWire, "select 1", answer=ROWS, failing=ERROR)


@interpreted_only
def test_a_script_that_stays_is_found_out() -> None:
    class Stays(MysqlScript):
        def feed(self, data: bytes) -> bytes:
            super().feed(data)
            return b""

    with pytest.raises(AssertionError, match="neither says goodbye nor leaves"):
        check_script(Stays, MysqlWire, "select 1", answer=ROWS, failing=ERROR)


@interpreted_only
def test_a_lens_that_loses_something_is_found_out() -> None:
    class Drops(MysqlTextRenderer):
        def feed(self, data: bytes) -> list[tuple[str, bytes]]:
            return super().feed(data) if len(data) > 1 else []

    text = [("o", b"a\none\ntwo\n2 rows in set\n")]
    check_lens(MysqlTextRenderer, ROWS, text)
    with pytest.raises(AssertionError, match="it reads"):
        check_lens(Drops, ROWS, text)
