"""What a link reports about guardrail violations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from tests.support.links import Asks, Masks, ReadsAll, Warns, Withholds, Words, pipeline
from tests.support.protocols import postgres_test_messages as pg

from postern.interception.events import Event, Operation, Output, Rows
from postern.interception.pipeline import BatchNeed, Interceptor, SessionView
from postern.interception.verdicts import Refuse, Verdict, Warn
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Side
from postern.relay.link import Link

Told = tuple[str, str, str, list[str]]


@dataclass
class Explains:
    """Says that something was masked, which breaks no rule."""

    name: str = "explains"
    wants: frozenset[type[Event]] = frozenset({Rows, Output})
    batch_need: BatchNeed = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        return Warn(self.name, "this was masked", is_violation=False)


def watched(*interceptors: Interceptor) -> tuple[Link, list[Told]]:
    told: list[Told] = []

    def violated(action: str, rule: str, message: str, operations: Sequence[Operation]) -> None:
        told.append((action, rule, message, [one.text for one in operations]))

    chain = pipeline(*interceptors)
    chain.session.on_violation = violated
    return Link(PostgresWire(max_message=1 << 20), chain, clock=lambda: 0), told


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_denied_warned_and_held_statements_are_reported_with_their_text(size: int) -> None:
    link, told = watched(Words(), Warns(), Asks())
    for text in ("drop it", "careful", "select 1", "review this"):
        data = pg.query(text)
        for at in range(0, len(data), size):
            link.receive(Side.CLIENT, data[at : at + size])
    assert told == [
        ("deny", "words", "the word drop is not allowed", ["drop it"]),
        ("warn", "warns", "mind the word careful", ["careful"]),
        ("review", "", "may review this run?", ["review this"]),
    ]
    link.resume("t1", Refuse("asks", "bob rejected it"))
    assert told[3:] == [("deny", "asks", "bob rejected it", ["review this"])]


def test_violation_in_an_answer_is_reported_without_a_statement() -> None:
    answer = [pg.row_description("name"), pg.data_row(b"careful"), pg.command_complete("SELECT 1"), pg.ready()]
    link, told = watched(Warns())
    link.receive(Side.CLIENT, pg.query("select name"))
    link.receive(Side.TARGET, b"".join(answer))
    assert told == [("warn", "warns", "mind the word careful", [])]
    link, told = watched(Withholds())
    link.receive(Side.CLIENT, pg.query("select name"))
    link.receive(Side.TARGET, b"".join([answer[0], pg.data_row(b"secret-1"), *answer[2:]]))
    assert told == [("deny", "withholds", "a secret is not shown", [])]


def test_allowed_and_masked_output_is_not_reported() -> None:
    link, told = watched(ReadsAll(), Masks(), Explains())
    link.receive(Side.CLIENT, pg.query("select name"))
    row = pg.data_row(b"secret-1")
    parts = [pg.row_description("name"), row, pg.command_complete("SELECT 1"), pg.ready()]
    link.receive(Side.TARGET, b"".join(parts))
    assert told == []


def test_link_without_a_violation_listener_still_denies() -> None:
    link = Link(PostgresWire(max_message=1 << 20), pipeline(Words()), clock=lambda: 0)
    assert link.receive(Side.CLIENT, pg.query("drop it")) != []
