"""The MySQL cases: judged by the parser, and run on a real MariaDB, whose behaviour decides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bypass import cases_mysql
from tests.bypass.cases import Case, Truth, judged_rightly
from tests.bypass.observe_mariadb import MariaDbObserver
from tests.bypass.score import score
from tests.support.mariadb import MariaDbServer, program

from postern.protocols.mysql.dialect.mysql_parser import MySqlParser


@pytest.fixture(scope="module")
def parser() -> MySqlParser:
    return cases_mysql.parser()


@pytest.fixture(scope="module")
def observer() -> Iterator[MariaDbObserver]:
    if program("mariadbd") is None:
        pytest.skip("no MariaDB server: install Debian's mariadb-server-core")
    server = MariaDbServer()
    server.start()
    try:
        yield MariaDbObserver(server)
    finally:
        server.stop()


@pytest.mark.parametrize("case", cases_mysql.CASES, ids=lambda case: case.name)
def test_mysql_case_is_judged_as_expected(parser: MySqlParser, case: Case) -> None:
    statements = parser.parse(case.text, cases_mysql.SCHEMA)
    assert judged_rightly(case, statements), statements


def test_mysql_attacks_are_denied_and_ordinary_statements_pass(parser: MySqlParser) -> None:
    result = score(parser, cases_mysql.CASES, cases_mysql.ORDINARY, cases_mysql.SCHEMA)
    print("\n" + result.table())
    assert not result.got_through
    assert not result.stopped_for_nothing
    assert not result.alarms
    assert not result.inexact_ordinary
    assert len(cases_mysql.CASES) >= 150
    assert len(cases_mysql.ORDINARY) >= 150


@pytest.mark.huge
def test_mariadb_server_behaves_as_the_cases_state(observer: MariaDbObserver) -> None:
    wrong = []
    for case in cases_mysql.CASES:
        seen = observer.observe(case)
        if case.truth is not Truth.UNDECIDABLE and seen.truth is not case.truth:
            wrong.append(f"{case.name}: said to be {case.truth}, seen to be {seen.truth} ({seen})")
    assert not wrong, "\n".join(wrong)
