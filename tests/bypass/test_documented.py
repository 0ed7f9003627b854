"""The cases of T-SQL and Oracle. No server is available for tests, so the vendor's documents decide the effects."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from tests.bypass.cases import judged_rightly
from tests.bypass.score import score


@pytest.fixture(params=["tsql", "oracle"])
def dialect(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"tests.bypass.cases_{request.param}")


def test_every_case_of_the_dialect_is_judged_as_documented(dialect: ModuleType) -> None:
    parser = dialect.parser()
    wrong = [
        f"{case.name}: {found}"
        for case in dialect.CASES
        if not judged_rightly(case, found := parser.parse(case.text, dialect.SCHEMA))
    ]
    assert not wrong, "\n".join(wrong)


def test_attacks_of_the_dialect_are_denied_and_ordinary_statements_pass(dialect: ModuleType) -> None:
    result = score(dialect.parser(), dialect.CASES, dialect.ORDINARY, dialect.SCHEMA)
    print("\n(not checked on a server)\n" + result.table())
    assert not result.got_through
    assert not result.stopped_for_nothing
    assert not result.alarms
    assert not result.inexact_ordinary
    assert len(dialect.CASES) >= 150
    assert len(dialect.ORDINARY) >= 150
