"""The answer that the target owes, and the messages of it that are not rows.

    answer:   (message)*  end          end: ERROR, also without an error, or STATUS

    query         DESCRIBE_INFO  ROW_HEADER  (BIT_VECTOR)  ROW_DATA …  PARAMETER  ERROR
    PL/SQL, DML   IO_VECTOR  ROW_DATA (binds that come back)  PARAMETER  ERROR
    LOB           LOB_DATA  PARAMETER  ERROR or STATUS

A client has one call at a time, so there is one answer at most. Its messages have no length: each is read to its end,
and an unknown one ends the session.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_cursors import OracleCursor, OracleCursors
from postern.protocols.oracledb.wire.oracle_rows import RowLayout
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader
from postern.protocols.oracledb.wire.ttc_calls import OracleCall
from postern.protocols.oracledb.wire.ttc_columns import (
    MAX_BINDS,
    NestedCursor,
    OracleColumn,
    read_description,
    read_nested,
    skip_value,
)
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

_MAX_RESULTS: Final = 4_096

# Server-side piggybacks
_OS_PROCESS: Final = 2
_SESSION_VALUES: Final = 4
_SYNC: Final = 5
_LTXID: Final = 7
_REPLAY_CONTEXT: Final = 8
_EXTENDED_SYNC: Final = 9
_SIGNATURE: Final = 10
_EMPTY: Final = (1, 3)  # invalidation of the query cache, trace


class OraclePendingAnswer:
    """The owed answer. `fetches`: its ROW_DATA are rows of a result, else binds that come back (`outs`)."""

    __slots__ = (
        "bits",
        "call",
        "cursor",
        "exchange",
        "fetches",
        "flushing",
        "is_headed",
        "is_noted",
        "last_row",
        "noted",
        "outs",
        "returned",
        "row_layout",
        "rows",
        "stays_open",
    )

    def __init__(self, call: OracleCall, layout: TtcLayout) -> None:
        self.call = call
        self.exchange = call.exchange
        self.cursor = call.statement
        self.rows = 0
        self.bits: bytes | None = None  # of the next row: which columns it has
        self.flushing = False  # the target waits for the client to have taken the binds
        self.last_row: tuple[bytes, ...] = ()
        self.outs: list[OracleColumn] = []
        self.returned = 0
        self.row_layout: RowLayout | None = None
        self.fetches = False
        self.stays_open = False  # it has locators or cursors, which the client can read
        self.is_headed = False  # the columns of its rows have been judged
        self.is_noted = False  # the recording has a note about this answer, with the columns `noted`
        self.noted: RowLayout | None = None
        cursor = self.cursor
        if cursor is None:
            return
        self.fetches = call.function == c.FETCH or cursor.is_nested or cursor.form.is_query
        if self.fetches:
            self.last_row = cursor.last_row
            if cursor.columns:
                self.row_layout = RowLayout(cursor.columns, layout)
            return
        self.returned = max(cursor.form.returned, 0)
        binds = call.binds or cursor.binds
        if self.returned:
            self.outs = list(binds[len(binds) - self.returned :])
        elif call.function != c.EXECUTE and cursor.directions:
            self.outs = [bind for bind, way in zip(binds, cursor.directions, strict=False) if way != c.INPUT]

    @property
    def tag(self) -> str:
        """Return what the recording calls the statement."""
        if self.cursor is None or self.call.function == c.FETCH:
            return c.FUNCTION_NAMES.get(self.call.function, "").upper()
        return self.cursor.form.word


def read_answer_message(
    kind: int, reader: TtcReader, answer: OraclePendingAnswer, layout: TtcLayout, cursors: OracleCursors
) -> None:
    """Read a message after its type, other than rows, errors and data of LOBs. Raises ProtocolViolation."""
    if kind == c.DESCRIBE_INFO:
        _read_describe(reader, answer, layout)
    elif kind == c.PARAMETER:
        _read_parameters(reader, answer.call, layout)
    elif kind == c.IO_VECTOR:
        _read_io_vector(reader, answer)
    elif kind == c.BIT_VECTOR:
        read_bit_vector(reader, answer)
    elif kind == c.FLUSH_OUT_BINDS:
        answer.flushing = True
    elif kind == c.SERVER_PIGGYBACK:
        read_server_piggyback(reader)
    elif kind == c.IMPLICIT_RESULTS:
        store_nested(_read_implicit_results(reader, layout), answer, cursors)
    else:
        raise ProtocolViolation(f"the target sent a message of type {kind}, which is not known in an answer")


def store_nested(nested: list[NestedCursor], answer: OraclePendingAnswer, cursors: OracleCursors) -> None:
    """Remember cursors that came in an answer: their rows belong to the statement that opened them."""
    owner = answer.cursor
    if owner is None:
        raise ProtocolViolation("the target sent a cursor without a statement")
    for found in nested:
        if not found.number:
            continue
        cursor = OracleCursor(owner.text, owner.form)
        cursor.is_nested = True
        cursor.began = owner.began
        cursor.described = cursor.columns = found.columns
        cursors.store(found.number, cursor)
        answer.stays_open = True


def _read_describe(reader: TtcReader, answer: OraclePendingAnswer, layout: TtcLayout) -> None:
    reader.skip_clr()
    columns = read_description(reader, layout)
    cursor = answer.cursor
    if cursor is None:
        raise ProtocolViolation("the target described a result that was not asked for")
    cursor.describe(columns)
    if answer.call.defines is not None:
        cursor.define(answer.call.defines)
    answer.fetches = True
    answer.row_layout = RowLayout(cursor.columns, layout)


def read_row_header(reader: TtcReader, answer: OraclePendingAnswer) -> tuple[int, int]:
    """Read a ROW_HEADER after its type. Return where its bit vector begins and ends, with the length of it."""
    reader.ub1()
    reader.ub2()
    reader.ub4()
    reader.ub4()
    reader.ub2()
    start = int(reader.pos)
    size = reader.ub4()
    if size:
        reader.ub1()
        bits = reader.raw(size)
        answer.bits = bits if answer.fetches else None
    end = int(reader.pos)
    reader.skip_dlc()
    return start, end


def read_bit_vector(reader: TtcReader, answer: OraclePendingAnswer) -> None:
    reader.ub2()
    if answer.row_layout is None:
        raise ProtocolViolation("the target sent a row before the description of its columns")
    answer.bits = reader.raw((len(answer.row_layout.columns) + 7) // 8)


def _read_io_vector(reader: TtcReader, answer: OraclePendingAnswer) -> None:
    """Read the directions of the binds of a PL/SQL block."""
    reader.ub1()
    low = reader.ub2()
    count = reader.ub4() * 256 + low
    reader.ub4()
    reader.ub2()
    reader.skip(reader.ub2())
    reader.skip(reader.ub2())
    cursor = answer.cursor
    binds = answer.call.binds or (cursor.binds if cursor is not None else ())
    if count > MAX_BINDS or count != len(binds) or cursor is None:
        raise ProtocolViolation(f"the target returned {count} binds of {len(binds)}")
    directions = reader.raw(count)
    cursor.directions = tuple(directions)
    answer.outs = [bind for bind, way in zip(binds, directions, strict=True) if way != c.INPUT]


def _read_parameters(reader: TtcReader, call: OracleCall, layout: TtcLayout) -> None:
    """Read the values that a function returns."""
    lob = call.lob
    if lob is not None:
        lob.returned = reader.raw(len(lob.source))
        if lob.destination:
            reader.sb2()
            reader.skip(len(lob.destination))
        if lob.returns_charset:
            reader.ub2()
        if lob.returns_amount:
            lob.amount = reader.sb8()
        if lob.returns_flag:
            reader.sb1(layout.packed_sb1)
        return
    if call.function == c.VERSION:
        reader.text(reader.ub2(), layout.counts_texts)
        reader.ub4()
        return
    for _ in range(reader.ub2()):
        reader.ub4()
    reader.skip(reader.ub2())
    _skip_pairs(reader, reader.ub2())
    reader.skip(reader.ub2())
    if call.count_rows:
        for _ in range(reader.ub4()):
            reader.ub8()


def _skip_pairs(reader: TtcReader, count: int) -> None:
    for _ in range(count):
        reader.skip_dlc()
        reader.skip_dlc()
        reader.ub2()


def read_server_piggyback(reader: TtcReader) -> None:
    """Read what a server adds to an answer: changes of the session. Raises ProtocolViolation for an unknown one."""
    code = reader.ub1()
    if code in _EMPTY:
        return
    if code == _LTXID:
        reader.skip_dlc()
        return
    if code not in (_OS_PROCESS, _SESSION_VALUES, _SYNC, _REPLAY_CONTEXT, _EXTENDED_SYNC, _SIGNATURE):
        raise ProtocolViolation(f"the target sent the piggyback {code}, which is not supported")
    reader.ub2()
    if code == _OS_PROCESS:
        reader.skip_clr()
        return
    reader.ub1()
    if code == _SESSION_VALUES:
        count = reader.ub2()
        if count:
            reader.ub1()
            _skip_pairs(reader, count)
        reader.ub4()
        reader.ub4()
        reader.ub2()
    elif code == _SYNC:
        count = reader.ub2()
        reader.ub1()
        _skip_pairs(reader, count)
        reader.ub4()
    elif code == _REPLAY_CONTEXT:
        reader.ub4()
        reader.ub4()
        reader.ub1()
        reader.skip_dlc()
    elif code == _SIGNATURE:
        for _ in range(3):
            reader.ub8()


def described_columns(
    kind: int, reader: TtcReader, answer: OraclePendingAnswer, layout: TtcLayout
) -> tuple[OracleColumn, ...] | None:
    """Return the columns that a message describes, or those of rows that are to come without a description; None if
    there are none. Raises TtcIncomplete and ProtocolViolation."""
    if kind == c.DESCRIBE_INFO:
        reader.skip_clr()
        return read_description(reader, layout)
    nested: list[NestedCursor] = []
    if kind == c.IMPLICIT_RESULTS:
        nested = _read_implicit_results(reader, layout)
    elif kind == c.ROW_DATA and not answer.fetches:
        nested = read_out_values(reader, answer, layout).nested
    elif answer.fetches and not answer.is_headed and answer.row_layout is not None and answer.call.executes:
        return answer.row_layout.oracle
    return tuple([column for cursor in nested for column in cursor.columns]) or None


def _read_implicit_results(reader: TtcReader, layout: TtcLayout) -> list[NestedCursor]:
    count = reader.ub4()
    if count > _MAX_RESULTS:
        raise ProtocolViolation(f"the target sent {count} results at once")
    nested: list[NestedCursor] = []
    for _ in range(count):
        reader.skip(reader.ub1())
        nested.append(read_nested(reader, layout))
    return nested


class OutValues:
    """Values of binds that come back, as one row: a column for each value."""

    __slots__ = ("columns", "nested", "spans")

    def __init__(self) -> None:
        self.columns: list[OracleColumn] = []
        self.spans: list[int] = []
        self.nested: list[NestedCursor] = []


def read_out_values(reader: TtcReader, answer: OraclePendingAnswer, layout: TtcLayout) -> OutValues:
    """Read the ROW_DATA of binds that come back, after its type."""
    values = OutValues()
    for place, bind in enumerate(answer.outs):
        count = reader.ub4() if bind.is_array or answer.returned else 1
        column = OracleColumn(
            bind.type,
            bind.size,
            name=f"OUT{place + 1}",
            form=bind.form,
            has_lob_size=bind.has_lob_size,
            prefetch=bind.prefetch,
        )
        for _ in range(count):
            values.columns.append(column)
            values.spans.append(int(reader.pos))
            skip_value(reader, column, layout, values.nested)
            values.spans.append(int(reader.pos))
            reader.sb4()  # the real length, if the value was cut
    return values
