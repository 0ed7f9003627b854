from __future__ import annotations

import base64

from postern.cli.timeline import steps
from postern.client.shapes import EventTriple


def event(at: float, kind: str, content: bytes) -> EventTriple:
    return at, kind, base64.b64encode(content).decode()


def test_each_input_gets_what_followed_it() -> None:
    happened = list(
        steps(
            [
                event(1.0, "i", b"select 1"),
                event(1.5, "o", b"a\n1\n"),
                event(3.0, "o", b"(1 row)\n"),
                event(9.0, "i", b"drop table x"),
                event(9.5, "e", b"ERROR: blocked"),
                event(12.0, "i", b"select pg_sleep(9)"),
            ]
        )
    )
    assert [(step.statement, step.duration, step.errors) for step in happened] == [
        ("select 1", 2.0, []),
        ("drop table x", 0.5, ["ERROR: blocked"]),
        ("select pg_sleep(9)", None, []),
    ]
    assert happened[0].result == "(1 row)"
    assert happened[2].result == ""


def test_output_before_any_input_is_kept() -> None:
    [step] = steps([event(0.0, "e", b"\xff gone")])
    assert step.statement is None
    assert step.errors == ["\ufffd gone"]


def test_nothing_happened() -> None:
    assert list(steps([])) == []
