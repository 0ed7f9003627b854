"""Texts that crash PostgreSQL's parser, or block it for minutes, are not passed to it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.postgres import postgres_tree
from postern.inspection.sql.postgres.postgres_lexing import scans_slowly
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.dialect.postgres_statement_facts import copy_format
from postern.protocols.postgres.lineage import postgres_lineage as lineage

SIGNS = {
    "comments that open": "/*" * 16_000,
    "empty comments": "select 1 " + "/**/" * 16_000,
    "pluses": "select 1 " + "+" * 60_000,
    "signs and comments": "select 1 " + "@/*" * 16_000,
}


@pytest.mark.parametrize("text", SIGNS.values(), ids=SIGNS.keys())
def test_attack_long_runs_of_operator_characters_are_unknown_without_parsing(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_tree, "_parse", None)
    (statement,) = PostgresParser().parse(text)
    assert statement.effects == {Effect.UNKNOWN}
    assert "too many operator signs" in statement.reason
    assert lineage.Lineage().read(text, TargetSchema()) is None
    assert copy_format(text) is None


def test_decorated_comments_are_not_taken_for_slow_text() -> None:
    for text in ("/" + "*" * 200 + "\n" + "-- " + "=" * 200 + "\n" * 3, "--" + "-" * 250 + "\n"):
        assert not scans_slowly(text * 200 + "select 1")


@pytest.mark.parametrize("sign", ["+1", "||''", "::int"])
def test_attack_thousands_of_operators_in_a_row_do_not_crash_the_process(sign: str) -> None:
    """Runs in a separate process, because a failure would crash it."""
    code = (
        "from postern.domain.targets.target_schema import TargetSchema\n"
        "from postern.protocols.postgres.lineage.postgres_lineage import Lineage\n"
        "from postern.protocols.postgres.dialect.postgres_statement_facts import copy_format\n"
        f"text = 'select 1' + {sign!r} * {60_000 // len(sign)}\n"
        "assert Lineage().read(text, TargetSchema()) is None\n"
        "assert copy_format('copy (' + text + ') to stdout') is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
