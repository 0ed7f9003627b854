"""The cases of T-SQL and Oracle, of which no server can be had for tests: what each does is by the vendor's documents."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from tests.bypass.cases import judged_rightly
from tests.bypass.score import score


@pytest.fixture(params=["tsql", "oracle"])
def dialect(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"tests.bypass.cases_{request.param}")


def test_each_case_is_judged_as_it_must_be(dialect: ModuleType) -> None:
    parser = dialect.parser()
    wrong = [
        f"{case.name}: {found}"
        for case in dialect.CASES
        if not judged_rightly(case, found := parser.parse(case.text, dialect.SCHEMA))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_attack_gets_through_and_no_ordinary_statement_is_stopped(dialect: ModuleType) -> None:
    result = score(dialect.parser(), dialect.CASES, dialect.ORDINARY, dialect.SCHEMA)
    print("\n(not checked on a server)\n" + result.table())
    assert not result.got_through
    assert not result.stopped_for_nothing
    assert not result.alarms
    assert not result.inexact_ordinary
    assert len(dialect.CASES) >= 150
    assert len(dialect.ORDINARY) >= 150
