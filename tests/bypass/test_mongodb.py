"""The MongoDB cases, judged by the parser."""

from __future__ import annotations

import pytest
from tests.bypass import cases_mongodb
from tests.bypass.cases import Case, judged_rightly
from tests.bypass.score import score

from postern.protocols.mongodb.dialect.mongodb_parser import MongodbParser


@pytest.fixture(scope="module")
def parser() -> MongodbParser:
    return cases_mongodb.parser()


@pytest.mark.parametrize("case", cases_mongodb.CASES, ids=lambda case: case.name)
def test_mongodb_case_is_judged_as_expected(parser: MongodbParser, case: Case) -> None:
    statements = parser.parse(case.text, cases_mongodb.SCHEMA)
    assert judged_rightly(case, statements), statements


def test_mongodb_attacks_are_denied_and_ordinary_commands_pass(parser: MongodbParser) -> None:
    result = score(parser, cases_mongodb.CASES, cases_mongodb.ORDINARY, cases_mongodb.SCHEMA)
    print("\n" + result.table())
    assert not result.got_through
    assert not result.stopped_for_nothing
    assert not result.alarms
    assert not result.inexact_ordinary
    assert len(cases_mongodb.CASES) >= 150
    assert len(cases_mongodb.ORDINARY) >= 150
