"""Invariants of masking for results of any types, in rows and in copies, with every strategy."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import Format
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.masking import InfoType, MaskingRule, Strategy, TypeGroup
from postern.domain.targets.target_schema import ColumnRef, Origin, Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.inspection.masking.origins import Sources
from postern.interception.events import CopyFormat
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.postgres.dialect.postgres_statement_facts import PostgresStatementFacts
from postern.protocols.postgres.wire.postgres_copies import change_lines
from postern.protocols.postgres.wire.postgres_rows import cut
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Side
from postern.relay.link import Link, Send

NO_ID = UUID(int=0)
MAIL = "ann@example.com"


def array(element: int, *cells: bytes | None) -> bytes:
    sized = [struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells]
    return struct.pack("!iiIii", 1, int(None in cells), element, len(cells), 1) + b"".join(sized)


def both(text: str) -> tuple[bytes, bytes]:
    return text.encode(), text.encode()


# Values of each type, as text and as bytes.
VALUES: dict[int, list[tuple[bytes, bytes]]] = {
    25: [both(text) for text in (MAIL, "Lovelace", "", "a\tb\n\"c\", d;\\N|'", "4111 1111 1111 1111", "Zoë")],
    1042: [both("Lovelace  ")],
    142: [both("<a>ann@example.com</a>")],
    20: [(b"%d" % n, struct.pack("!q", n)) for n in (0, -7, 4111111111111111, 2**63 - 1, -(2**63))],
    21: [(b"%d" % n, struct.pack("!h", n)) for n in (0, -32768, 32767)],
    23: [(b"%d" % n, struct.pack("!i", n)) for n in (0, -(2**31), 83412)],
    26: [(b"%d" % n, struct.pack("!I", n)) for n in (0, 2**32 - 1)],
    700: [(b"0.5", struct.pack("!f", 0.5)), (b"-1e+20", struct.pack("!f", -1e20))],
    701: [(b"0.1", struct.pack("!d", 0.1)), (b"NaN", struct.pack("!d", float("nan")))],
    1700: [(b"1234.50", struct.pack("!hhHhhh", 2, 0, 0, 2, 1234, 5000)), (b"NaN", b"\0\0\0\0\xc0\0\0\0")],
    16: [(b"t", b"\1"), (b"f", b"\0")],
    1082: [(b"2000-01-03", struct.pack("!i", 2)), (b"infinity", struct.pack("!i", 2**31 - 1))],
    1083: [(b"00:00:00.5", struct.pack("!q", 500_000))],
    1114: [(b"2000-01-01 00:00:01.5", struct.pack("!q", 1_500_000)), (b"infinity", struct.pack("!q", 2**63 - 1))],
    1184: [(b"2000-01-01 02:00:01+02", struct.pack("!q", 1_000_000))],
    1186: [(b"1 year 3 days 04:05:06", struct.pack("!qii", 14_706_000_000, 3, 12)), (b"P1Y", bytes(15) + b"\x0c")],
    2950: [(b"123e4567-e89b-42d3-a456-426614174abc", bytes.fromhex("123e4567e89b42d3a456426614174abc"))],
    17: [(b"\\xdead", b"\xde\xad"), (b"\\x" + MAIL.encode().hex().encode(), MAIL.encode())],
    869: [(b"10.0.0.1/8", b"\2\x08\0\4\x0a\0\0\1")],
    829: [(b"08:00:2b:01:02:03", bytes.fromhex("08002b010203"))],
    3802: [(doc, b"\1" + doc) for doc in (b'{"a": "ann\\u0040example.com", "n": [4111111111111111, null]}', b"[]")],
    114: [both('{"a": [1, {"b": "ann@example.com"}]}')],
    1009: [(b'{ann@example.com,NULL,"a b"}', array(25, MAIL.encode(), None, b"a b"))],
    1007: [(b"{1,NULL}", array(23, struct.pack("!i", 1), None))],
    3904: [(b"[3,9)", b"\x02" + struct.pack("!iiii", 4, 3, 4, 9))],
    1562: [(b"1011", struct.pack("!i", 4) + b"\xb0")],
    600: [(b"(1,2)", struct.pack("!dd", 1, 2))],
    70_000: [both("happy")],
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """Columns by type, format and whether they are masked; rows of values, None for NULL."""

    columns: tuple[tuple[int, int, bool], ...]
    rows: tuple[tuple[tuple[bytes, bytes] | None, ...], ...]

    def cells(self, row: Sequence[tuple[bytes, bytes] | None], form: int | None = None) -> list[bytes | None]:
        return [
            None if value is None else value[column[1] if form is None else form]
            for value, column in zip(row, self.columns, strict=True)
        ]


@st.composite
def results(draw: st.DrawFn) -> Result:
    columns = draw(
        st.lists(st.tuples(st.sampled_from(sorted(VALUES)), st.integers(0, 1), st.booleans()), min_size=1, max_size=5)
    )
    row = st.tuples(*[st.none() | st.sampled_from(VALUES[oid]) for oid, _, _ in columns])
    return Result(tuple(columns), tuple(draw(st.lists(row, min_size=1, max_size=4))))


class Marked:
    def __init__(self, result: Result) -> None:
        refs = [
            frozenset({ColumnRef("public", "t", f"m{place}" if marked else f"c{place}")})
            for place, (_, _, marked) in enumerate(result.columns)
        ]
        self._sources: Sources = tuple(Origin(ref, frozenset({ref})) for ref in refs)

    def record_statement(self, statement: str) -> None:
        return None

    def unread(self, statement: str) -> None:
        return None

    def of(self, statement: str, columns: object) -> Sources:
        return self._sources

    def tags(self, column: ColumnRef) -> frozenset[str]:
        return frozenset()


def link(result: Result, strategy: Strategy, *, finds: bool) -> Link:
    types = (TypeGroup("ALL", (InfoType.EMAIL_ADDRESS, InfoType.CREDIT_CARD)),) if finds else ()
    rule = MaskingRule(NO_ID, NO_ID, "pii", groups=types, columns=("t.m*",), strategy=strategy)
    view = SessionView(NO_ID, "", frozenset(), "", "database", "postgres", {})
    names = tuple(f"m{place}" if marked else f"c{place}" for place, (_, _, marked) in enumerate(result.columns))
    relation = Relation("public", "t", names, types=tuple(oid for oid, _, _ in result.columns))
    view.schema = TargetSchema({("public", "t"): relation})
    return Link(
        PostgresWire(),
        Pipeline([Masking(frozenset(), (rule,), b"k" * 32, Marked(result), facts=PostgresStatementFacts())], view),
        lambda: 0,
    )


def masked_output(made: Link, statement: str, stream: bytes, cuts: Sequence[int] = ()) -> bytes:
    made.receive(Side.CLIENT, pg.query(statement))
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return b"".join(
        effect.data
        for start, end in pairwise(edges)
        for effect in made.receive(Side.TARGET, stream[start:end])
        if isinstance(effect, Send) and effect.side is Side.CLIENT
    )


def rows_of(result: Result) -> bytes:
    described = pg.row_description(*[(f"x{place}", oid, form) for place, (oid, form, _) in enumerate(result.columns)])
    data = b"".join(pg.data_row(*result.cells(row)) for row in result.rows)
    return described + data + pg.command_complete(f"SELECT {len(result.rows)}") + pg.ready()


CUTS = st.lists(st.integers(0, 5000), max_size=5)


@given(results(), st.sampled_from(Strategy), st.booleans(), CUTS)
@settings(max_examples=80, deadline=None)
def test_masked_rows_keep_their_structure_and_valid_values(
    result: Result, strategy: Strategy, finds: bool, cuts: list[int]
) -> None:
    stream = rows_of(result)
    once = masked_output(link(result, strategy, finds=finds), "select", stream)
    assert masked_output(link(result, strategy, finds=finds), "select", stream, cuts) == once
    if strategy is not Strategy.HASH:  # what looks like a hash may be a value that was moved there
        assert masked_output(link(result, strategy, finds=finds), "select", once) == once
    assert [tag for tag, _ in pg.split(once)] == [tag for tag, _ in pg.split(stream)]
    block = b"".join(pg.data_row(*()) if body is None else b"D" + struct.pack("!i", len(body) + 4) + body
                     for tag, body in pg.split(once) if tag == b"D")  # fmt: skip
    width = len(result.columns)
    columns = [column or [] for column in cut(block, width, [True] * width)]
    reader = Transformer()
    for (oid, form, marked), column, was in zip(
        result.columns, columns, zip(*[result.cells(row) for row in result.rows], strict=True), strict=True
    ):
        assert len(column) == len(result.rows)
        for new, old in zip(column, was, strict=True):
            if old is None or (not marked and not finds):
                assert new == old
            elif new is not None and new != old:
                reader.get_loader(oid, Format(form)).load(new)


FORMATS = {
    "": CopyFormat(),
    "delimiter '|' null 'none'": CopyFormat(delimiter=b"|", null=b"none"),
    "(format csv)": CopyFormat("csv", delimiter=b",", null=b""),
    "(format csv, force_quote *, escape '\\', quote '''', null 'x')": CopyFormat(
        "csv", delimiter=b",", null=b"x", quote=b"'", escape=b"\\"
    ),
    "(format binary)": CopyFormat("binary"),
}


def copied(result: Result, form: CopyFormat, *, forced: bool) -> bytes:
    if form.kind == "binary":
        tuples = []
        for row in result.rows:
            cells = result.cells(row, 1)
            sized = [struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells]
            tuples.append(struct.pack("!h", len(cells)) + b"".join(sized))
        tuples[0] = b"PGCOPY\n\xff\r\n\0" + bytes(8) + tuples[0]
        parts = [*tuples, b"\xff\xff"]
    else:
        parts = [form.delimiter.join(written(cell, form, forced) for cell in result.cells(row, 0)) + b"\n"
                 for row in result.rows]  # fmt: skip
    binary = int(form.kind == "binary")
    data = b"".join(b"d" + struct.pack("!i", len(part) + 4) + part for part in parts)
    return pg.copy_out(len(result.columns), binary) + data + pg.copy_done() + pg.command_complete("COPY 1") + pg.ready()


def written(cell: bytes | None, form: CopyFormat, forced: bool) -> bytes:
    """Return the field as the target writes it."""
    if cell is None:
        return form.null
    if form.kind == "text":
        for sign, letter in ((b"\\", b"\\"), (b"\t", b"t"), (b"\n", b"n")):
            cell = cell.replace(sign, b"\\" + letter)
        return cell if form.delimiter == b"\t" else cell.replace(form.delimiter, b"\\" + form.delimiter)
    special = [form.delimiter, form.quote, b"\n", b"\r"]
    if not forced and cell != form.null and not any(sign in cell for sign in special):
        return cell
    for sign in dict.fromkeys((form.escape, form.quote)):
        cell = cell.replace(sign, form.escape + sign)
    return form.quote + cell + form.quote


@given(results(), st.sampled_from(Strategy), st.booleans(), st.sampled_from(sorted(FORMATS)), CUTS)
@settings(max_examples=80, deadline=None)
@example(Result(columns=((701, 0, True),), rows=(((b"NaN", b"\x7f\xf8" + bytes(6)),),)), Strategy.HASH, True, "", [])
def test_masked_copy_keeps_its_structure(
    result: Result, strategy: Strategy, finds: bool, options: str, cuts: list[int]
) -> None:
    names = ", ".join(f"m{at}" if marked else f"c{at}" for at, (_, _, marked) in enumerate(result.columns))
    statement = f"copy t ({names}) to stdout {options}"
    form = FORMATS[options]
    stream = copied(result, form, forced="force" in options)
    once = masked_output(link(result, strategy, finds=finds), statement, stream)
    assert masked_output(link(result, strategy, finds=finds), statement, stream, cuts) == once
    if strategy is not Strategy.HASH:
        assert masked_output(link(result, strategy, finds=finds), statement, once) == once
    assert [tag for tag, _ in pg.split(once)] == [tag for tag, _ in pg.split(stream)]
    was = [body for tag, body in pg.split(stream) if tag == b"d"]
    now = [body for tag, body in pg.split(once) if tag == b"d"]
    if form.kind != "binary":
        change_lines(now, form, [None] * len(result.columns))  # raises where their number is another one
    if not finds and not any(marked for _, _, marked in result.columns):
        assert now == was
