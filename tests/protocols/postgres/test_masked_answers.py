"""Masking rules on the wire: the output does not depend on the chunks of the stream, and masking is idempotent."""

from __future__ import annotations

import struct
from itertools import pairwise
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.links import links
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.masking import CustomType, InfoType, MaskingRule, Strategy, TypeGroup
from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.masking.masking_interceptor import Masking
from postern.inspection.masking.origins import Sources
from postern.interception.events import Column
from postern.protocols.postgres.dialect.postgres_statement_facts import PostgresStatementFacts
from postern.protocols.wire_base import Side
from postern.relay.link import Send

NO_ID = UUID(int=0)
MARKED = frozenset({ColumnRef("public", "users", "secret")})


class Third:
    """Lineage in which the third column of every answer is a masked column."""

    def record_statement(self, statement: str) -> None:
        return None

    def unread(self, statement: str) -> None:
        return None

    def of(self, statement: str, columns: tuple[Column, ...]) -> Sources | None:
        return (Origin(), Origin(), Origin(MARKED, frozenset({MARKED})))

    def tags(self, column: ColumnRef) -> frozenset[str]:
        return frozenset()


def masking(strategy: Strategy) -> Masking:
    rule = MaskingRule(
        NO_ID,
        NO_ID,
        "pii",
        groups=(TypeGroup("ALL", (InfoType.EMAIL_ADDRESS, InfoType.CREDIT_CARD, InfoType.PHONE_NUMBER)),),
        custom_types=(CustomType("BADGE", "B-[0-9]{6}"),),
        columns=("users.secret",),
        strategy=strategy,
    )
    return Masking(frozenset(), (rule,), b"k" * 32, Third(), facts=PostgresStatementFacts())


TEXTS = st.sampled_from(
    [
        "ann@example.com",
        "to ann@example.com, B-123456",
        "4111 1111 1111 1111",
        "nothing",
        "",
        "call 212-555-0142",
        "B-1",
    ]
)
NUMBERS = st.sampled_from([4111111111111111, 7, -5])
ROWS = st.lists(st.tuples(TEXTS | st.none(), NUMBERS, TEXTS | st.none()), min_size=1, max_size=6)


def answer(rows: list[tuple[str | None, int, str | None]]) -> bytes:
    """Return an answer of the target: a notice, rows with a text, a binary number and a masked column, and an error."""
    described = pg.row_description(("note", 25, 0), ("no", 20, 1), ("x", 25, 0))
    data = b"".join(pg.data_row(note, struct.pack("!q", no), marked) for note, no, marked in rows)
    return (
        pg.notice("about ann@example.com") + described + data + pg.command_complete(f"SELECT {len(rows)}") + pg.ready()
    )


def masked_output(strategy: Strategy, stream: bytes, cuts: list[int]) -> bytes:
    link = links(masking(strategy))()
    link.receive(Side.CLIENT, pg.query("select note, no, x from users"))
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    out = b""
    for start, end in pairwise(edges):
        for effect in link.receive(Side.TARGET, stream[start:end]):
            if isinstance(effect, Send) and effect.side is Side.CLIENT:
                out += effect.data
    return out


@given(ROWS, st.sampled_from(Strategy), st.lists(st.integers(0, 4000), max_size=6))
@settings(max_examples=60, deadline=None)
def test_masked_answer_does_not_depend_on_the_chunks_of_the_stream(
    rows: list[tuple[str | None, int, str | None]], strategy: Strategy, cuts: list[int]
) -> None:
    stream = answer(rows)
    whole = masked_output(strategy, stream, [])
    assert masked_output(strategy, stream, cuts) == whole
    assert [tag for tag, _ in pg.split(whole)] == [tag for tag, _ in pg.split(stream)]
    for secret in (b"ann@example.com", b"4111 1111", b"555-01", b"B-123456", struct.pack("!q", 4111111111111111)):
        assert secret not in whole


@given(ROWS, st.sampled_from([strategy for strategy in Strategy if strategy is not Strategy.HASH]))
@settings(max_examples=60, deadline=None)
def test_masking_of_an_answer_is_idempotent(rows: list[tuple[str | None, int, str | None]], strategy: Strategy) -> None:
    once = masked_output(strategy, answer(rows), [])
    assert masked_output(strategy, once, []) == once
