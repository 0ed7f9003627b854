from __future__ import annotations

from typing import Any

import pytest

from postern.cli.terminal import terminal_timeline

EMPTY: dict[str, Any] = {
    "at": 1.0, "exchange": 1, "statement": None, "statement_size": 0, "values": [], "truncated": False,
    "duration": None, "rows": None, "tag": "", "error": "", "error_code": "", "refusal": None, "note": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        (
            {"statement": "select 1\nfrom x", "duration": 2.0, "tag": "SELECT 1"},
            ["1.0 ms  select 1", "from x", "-> SELECT 1  (2.0 ms)"],
        ),
        (
            {"statement": "x", "values": ["a'\x1b[2J", None], "duration": 1500.0},
            ["1.0 ms  x", "-- $1 = \"a'\\x1b[2J\"", "-- $2 = NULL", "-> done  (1.5 s)"],
        ),
        (
            {"statement": "y", "error": "no \x1b]0;t\x07", "duration": 1.0},
            ["1.0 ms  y", "! no \\x1b]0;t\\x07", "-> failed  (1.0 ms)"],
        ),
        ({"statement": "drop", "refusal": {"rule": "r", "message": "blocked"}}, ["1.0 ms  drop", "! blocked"]),
        (
            {
                "statement": "m",
                "masked": [
                    {"rule": "a\x1b[2J", "strategy": "hash", "info_types": [], "values": 1},
                    {"rule": None, "strategy": "replace", "info_types": ["X", "Y"], "values": 1200},
                ],
            },
            [
                "1.0 ms  m",
                'masked by rule "a\\x1b[2J" (hash): 1 value',
                "masked by information types of the connection (replace, X, Y): 1,200 values",
            ],
        ),
        ({"note": "[note] killed\r\nx"}, ["1.0 ms  [note] killed\\r\\nx"]),
        (
            {"statement": "z", "statement_size": 70_000, "truncated": True},
            ["1.0 ms  z", "-- truncated: the statement has 70000 bytes"],
        ),
        (
            {"statement": "o", "output": "a\tb\n\x1b[5n", "errors": "bad", "error": "bad", "output_truncated": True},
            ["1.0 ms  o", "a\tb", "\\x1b[5n", "! bad", "[truncated]"],
        ),
    ],
)  # fmt: skip
def test_an_exchange_is_shown_harmlessly(
    changes: dict[str, Any], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert terminal_timeline.show([EMPTY | changes], with_output=True)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == shown


def test_nothing_happened() -> None:
    assert not terminal_timeline.show([], with_output=False)
