"""What the server answers: the messages of TTC, written field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.oracledb import type_codings as types
from tests.support.oracledb.server_calls import LobCall, Variable
from tests.support.oracledb.ttc_fields import counted, fields, integer, sized, uint16
from tests.support.oracledb.type_codings import OracleType

PROTOCOL, DATA_TYPES, ERROR, ROW_HEADER, ROW_DATA, PARAMETER, STATUS, IO_VECTOR = 1, 2, 4, 6, 7, 8, 9, 11
LOB_DATA, DESCRIBE_INFO, BIT_VECTOR, IMPLICIT_RESULTS, END_OF_RESPONSE = 14, 16, 21, 27, 29
OUT, IN, IN_OUT = 16, 32, 48
NO_DATA_FOUND = 1403
TRANSACTION_OPEN = 0x02
CHARSET_FLAGS = 3  # characters have several bytes; lengths are converted
RowId = tuple[int, int, int, int]
NO_ROW: RowId = (0, 0, 0, 0)


@dataclass(frozen=True)
class ServerLevel:
    """What a server of one version offers."""

    version: tuple[int, int]
    field_version: int
    has_fast_auth: bool = False
    has_end_of_response: bool = False

    @property
    def number(self) -> int:
        return self.version[0] << 24 | self.version[1] << (16 if self.version[0] >= 18 else 20)

    @property
    def banner(self) -> str:
        edition = {12: "12c", 19: "19c"}.get(self.version[0], "23ai")
        return f"Oracle Database {edition} Test Release {self.version[0]}.{self.version[1]}.0.0.0 - Postern's tests"


ORACLE_12 = ServerLevel((12, 2), 8)
ORACLE_19 = ServerLevel((19, 3), 12)
ORACLE_23 = ServerLevel((23, 4), 24, True, True)


@dataclass(frozen=True)
class ColumnInfo:
    name: str
    type: OracleType
    nullable: bool = True


@dataclass(frozen=True)
class RowError:
    """An error of one row of an array DML statement."""

    row: int
    code: int
    message: str


@dataclass
class Completion:
    """The message that ends the answer to a call: an error, or success with what has been done."""

    code: int = 0
    message: str = ""
    cursor: int = 0
    rows: int = 0
    position: int = 0
    row_id: RowId = NO_ROW
    row_errors: list[RowError] = field(default_factory=list)


@dataclass(frozen=True)
class Dialogue:
    """What both sides have agreed on, as far as replies depend on it."""

    field_version: int
    compressed_scale: bool = False
    transaction_open: bool = False
    sequence: int = 0  # number of the call that is answered


def protocol_reply(level: ServerLevel) -> bytes:
    national = bytes(5) + bytes([0, 0]) + bytes(2) + uint16(types.UTF16)
    return (
        bytes([PROTOCOL, 6, 0])
        + b"x86_64/Linux 2.4.xx\0"
        + types.UTF8.to_bytes(2, "little")
        + bytes([CHARSET_FLAGS])
        + bytes(2)
        + uint16(len(national))
        + national
        + counted(compile_capabilities(level))
        + counted(bytes([2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]))
    )


def compile_capabilities(level: ServerLevel) -> bytes:
    """Return what the server can: indexes as clients name them."""
    capabilities = bytearray([1]) * 53
    values = {0: 6, 4: 0xEF, 5: 0, 7: level.field_version, 14: 0, 15: 0x29, 16: 0x91, 17: 3, 18: 7, 19: 3, 23: 0xCF}
    values |= {26: 4, 27: 1, 31: 0x10, 34: 12, 35: 0, 37: 0xB8, 39: 0, 40: 0x40, 42: 5, 44: 0, 45: 0, 52: 0}
    if level.has_end_of_response:
        values[40] |= 0x20
    for index, value in values.items():
        capabilities[index] = value
    return bytes(capabilities)


def data_types_reply(entries: Sequence[tuple[int, int, int]]) -> bytes:
    """Return the types as the client has offered them: each with the one it is converted to, and how it is sent."""
    reply = bytearray([DATA_TYPES])
    for number, converted, representation in entries:
        reply += uint16(number) + uint16(converted)
        if converted:
            reply += uint16(representation) + bytes(2)
    return bytes(reply + bytes(2))


def logon_reply(pairs: Sequence[tuple[str, str, int]]) -> bytes:
    reply = fields(bytes([PARAMETER]), len(pairs))
    return reply + b"".join(sized(key) + sized(value) + integer(flags) for key, value, flags in pairs)


def version_reply(level: ServerLevel, counts_texts: bool) -> bytes:
    banner = level.banner.encode()
    return fields(bytes([PARAMETER]), len(banner), counted(banner) if counts_texts else banner, level.number)


def status_reply(dialogue: Dialogue) -> bytes:
    return fields(bytes([STATUS]), TRANSACTION_OPEN if dialogue.transaction_open else 0, 0)


def completion_reply(completion: Completion, dialogue: Dialogue) -> bytes:
    message = completion.message.encode()
    row_id = completion.row_id
    reply = fields(
        bytes([ERROR]),
        TRANSACTION_OPEN if dialogue.transaction_open else 0,
        0,
        min(completion.rows, 0xFFFFFFFF),
        min(completion.code, 0xFFFF),
        0,
        0,
        completion.cursor,
        completion.position,
        bytes(6),
        fields(row_id[0], row_id[1], b"\0", row_id[2], row_id[3]),
        0,
        bytes([0, dialogue.sequence]),
        0,
        0,
        0,
        row_errors(completion.row_errors),
        completion.code,
        completion.rows,
    )
    if dialogue.field_version >= 14:
        reply += fields(0, 0)
    return reply + (counted(message) if completion.code else b"")


def row_errors(errors: Sequence[RowError]) -> bytes:
    """Return three lists: codes, rows and messages of the errors in an array DML statement."""
    if not errors:
        return bytes(3)
    count = len(errors)
    codes = b"".join(integer(error.code) for error in errors)
    rows = b"".join(integer(error.row) for error in errors)
    messages = b"".join(fields(len(error.message), counted(error.message.encode()), bytes(2)) for error in errors)
    return fields(count, b"\1", codes, count, b"\1", rows, count, b"\1", messages)


def describe_reply(columns: Sequence[ColumnInfo], dialogue: Dialogue) -> bytes:
    return bytes([DESCRIBE_INFO]) + counted(bytes(23)) + description(columns, dialogue)


def description(columns: Sequence[ColumnInfo], dialogue: Dialogue) -> bytes:
    reply = fields(sum(max(column.type.size, 1) for column in columns), len(columns))
    if columns:
        reply += b"\1"
    for position, column in enumerate(columns, 1):
        reply += column_bytes(column, position, dialogue)
    return reply + fields(7, counted(bytes([120, 124, 1, 1, 1, 1, 1])), 0, 0, 0, 0, 0)


def column_bytes(column: ColumnInfo, position: int, dialogue: Dialogue) -> bytes:
    kind, name = column.type, column.name.encode()
    scale = integer(kind.scale) if dialogue.compressed_scale else bytes([kind.scale & 0xFF])
    charset = {types.IMPLICIT: types.UTF8, types.NATIONAL: types.UTF16}.get(kind.form, 0)
    characters = kind.size // (2 if kind.form == types.NATIONAL else 4) if kind.form and not kind.is_lob else 0
    reply = fields(bytes([kind.number, 0, kind.precision]) + scale, kind.size, 0, 0, 0, 0, charset)
    reply += fields(bytes([kind.form]), characters)
    if dialogue.field_version >= 8:
        reply += fields(0)
    reply += bytes([int(column.nullable), min(len(name), 255)])
    reply += sized(name) + fields(0, 0, position, 0)
    if dialogue.field_version >= 17:
        reply += fields(0, 0)
    if dialogue.field_version >= 20:
        reply += fields(0)
    if dialogue.field_version >= 24:
        reply += fields(0, bytes(2))
    return reply


def row_header(requests: int, iterations: int) -> bytes:
    return fields(bytes([ROW_HEADER, 0]), requests, 0, iterations, 0, 0, 0)


def rows_reply(rows: Sequence[Sequence[bytes]], previous: Sequence[bytes] | None = None) -> bytes:
    """Return encoded rows. Columns equal to those of the row before are left out, as a bit vector says.

    To some clients a bit vector holds for one row, to others until the next one: so each row behind one has its own.
    """
    reply = bytearray()
    has_vector = False
    for row in rows:
        sent = [True] * len(row) if previous is None else [old != new for old, new in zip(previous, row, strict=True)]
        has_vector = has_vector or not all(sent)
        if has_vector:
            bits = bytearray((len(row) + 7) // 8)
            for position, is_sent in enumerate(sent):
                bits[position // 8] |= is_sent << position % 8
            reply += fields(bytes([BIT_VECTOR]), sum(sent), bytes(bits))
        reply += bytes([ROW_DATA]) + b"".join(cell for cell, is_sent in zip(row, sent, strict=True) if is_sent)
        previous = row
    return bytes(reply)


def parameter_reply(cursor: int, row_counts: Sequence[int] | None = None) -> bytes:
    """Return the parameters behind an execution."""
    reply = fields(bytes([PARAMETER]), 6, 0, 0, cursor, 0, 0, 0, 0, 0, 0)
    if row_counts is not None:
        reply += fields(len(row_counts), *row_counts)
    return reply


def io_vector(directions: Sequence[int]) -> bytes:
    count = len(directions)
    return fields(bytes([IO_VECTOR, 0]), count & 0xFF, count >> 8, 1, 0, 0, 0) + bytes(directions)


def lob_reply(call: LobCall, locator: bytes, amount: int | None, flag: int = 0) -> bytes:
    """Return the parameters behind an operation on a LOB: those that the call had places for."""
    reply = bytes([PARAMETER]) + locator.ljust(len(call.locator), b"\0")
    if call.charset:
        reply += fields(types.UTF8)
    if amount is not None:
        reply += fields(amount)
    return reply + bytes([flag]) if call.null_flag else reply


def lob_data_reply(data: bytes) -> bytes:
    return bytes([LOB_DATA]) + counted(data)


def lob_cell(locator: bytes, data: bytes, size: int, kind: OracleType, define: Variable | None) -> bytes:
    """Return a LOB in a row: its locator, its size, and as much of it as the client wants at once."""
    chunk = 8060 if kind.number == types.BLOB else 4030
    reply = fields(len(locator))
    if define is None or define.has_lob_header:
        reply += fields(size, chunk)
    if define is not None and define.has_lob_header and define.prefetch:
        if kind.number == types.CLOB:
            reply += fields(b"\1", types.UTF16, bytes([kind.form]))
        reply += counted(data)
    return reply + counted(locator)
