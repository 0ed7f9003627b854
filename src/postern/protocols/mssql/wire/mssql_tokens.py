"""Tokens: the parts of a server's messages (MS-TDS 2.2.7), and of a bulk load.

A token is a byte with its type, and what belongs to that type. Not every type has a length, so an unknown one is a
violation of the protocol. Up to TDS 7.1 some fields are shorter: functions take `wide`, which is True from 7.2 on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_types import MssqlType, read_short_text, read_text, read_type, require
from postern.protocols.mssql.wire.mssql_types import uint16 as uint16
from postern.protocols.mssql.wire.mssql_types import uint32 as uint32
from postern.protocols.mssql.wire.mssql_value_forms import content, value_end

OFFSET: Final = 0x78
RETURNSTATUS: Final = 0x79
COLMETADATA: Final = 0x81
TABNAME: Final = 0xA4
COLINFO: Final = 0xA5
ORDER: Final = 0xA9
ERROR: Final = 0xAA
INFO: Final = 0xAB
RETURNVALUE: Final = 0xAC
LOGINACK: Final = 0xAD
FEATUREEXTACK: Final = 0xAE
ROW: Final = 0xD1
NBCROW: Final = 0xD2
ENVCHANGE: Final = 0xE3
SESSIONSTATE: Final = 0xE4
SSPI: Final = 0xED
FEDAUTHINFO: Final = 0xEE
DONE: Final = 0xFD
DONEPROC: Final = 0xFE
DONEINPROC: Final = 0xFF

# Tokens with a length of two bytes
_SIZED: Final = frozenset({TABNAME, COLINFO, ORDER, ERROR, INFO, LOGINACK, ENVCHANGE, SSPI})
_FIXED: Final = frozenset({OFFSET, RETURNSTATUS})  # of five bytes
_LARGE: Final = frozenset({SESSIONSTATE, FEDAUTHINFO})  # with a length of four bytes

# Status of DONE
DONE_MORE: Final = 0x001
DONE_ERROR: Final = 0x002
DONE_IN_TRANSACTION: Final = 0x004
DONE_COUNT: Final = 0x010
DONE_ATTENTION: Final = 0x020
DONE_SERVER_ERROR: Final = 0x100

# Types of ENVCHANGE
ENV_DATABASE: Final = 1
ENV_LANGUAGE: Final = 2
ENV_PACKET_SIZE: Final = 4
ENV_COLLATION: Final = 7
ENV_BEGIN: Final = 8
ENV_COMMIT: Final = 9
ENV_ROLLBACK: Final = 10
ENV_ENLIST: Final = 11
ENV_PARTNER: Final = 13  # the mirror of the database
ENV_TRANSACTION_ENDED: Final = 17
ENV_RESET: Final = 18
ENV_USER_INSTANCE: Final = 19
ENV_ROUTING: Final = 20

NULLABLE: Final = 0x0001  # flags of a column
NULLABLE_UNKNOWN: Final = 0x8000
HIDDEN_COLUMN: Final = 0x2000
MAX_COLUMNS: Final = 4096
NO_COLUMNS: Final = 0xFFFF  # in COLMETADATA: there are none, or they are not described

# Versions of TDS, as in LOGINACK
TDS_71: Final = 0x71000001
TDS_72: Final = 0x72090002
TDS_73: Final = 0x730B0003
TDS_74: Final = 0x74000004
TDS_80: Final = 0x08000000


def is_wide(version: int) -> bool:
    """Return True for the layout of TDS 7.2 and later."""
    return version >= 0x72000000 or version == TDS_80


class MssqlColumn:
    """One column of a result. `raw` is its description as it came."""

    __slots__ = ("flags", "name", "raw", "table", "type")

    def __init__(self, name: str, kind: MssqlType, flags: int, table: str, raw: bytes) -> None:
        self.name = name
        self.type = kind
        self.flags = flags
        self.table = table
        self.raw = raw


def read_columns(
    buf: bytes, pos: i64, end: i64, wide: bool, *, is_parameter: bool = False
) -> tuple[list[MssqlColumn] | None, i64]:
    """Read a COLMETADATA behind its type. None: it describes no columns. Raises Truncated and ProtocolViolation.

    `is_parameter`: a client sends it, for a bulk load.
    """
    after = require(pos, 2, end)
    count = int(uint16(buf, pos))
    if count == NO_COLUMNS:
        return None, after
    if count > MAX_COLUMNS:
        raise ProtocolViolation(f"a result claims to have {count} columns")
    columns: list[MssqlColumn] = []
    for _ in range(count):
        column, after = _read_column(buf, after, end, wide, is_parameter)
        columns.append(column)
    return columns, after


def _read_column(buf: bytes, pos: i64, end: i64, wide: bool, is_parameter: bool) -> tuple[MssqlColumn, i64]:
    start = pos
    pos = require(start, 6 if wide else 4, end)
    flags = int(uint16(buf, pos - 2))
    kind, pos = read_type(buf, pos, end)
    table = ""
    if kind.form == t.POINTER:
        table, pos = _read_table(buf, pos, end, wide and not is_parameter)
    name, pos = read_short_text(buf, pos, end)
    kind.is_nullable = kind.form < 0 and bool(flags & (NULLABLE | NULLABLE_UNKNOWN))
    return MssqlColumn(name, kind, flags, table, buf[start:pos]), pos


def _read_table(buf: bytes, pos: i64, end: i64, wide: bool) -> tuple[str, i64]:
    if not wide:
        return read_text(buf, pos, end)
    after = require(pos, 1, end)
    parts: list[str] = []
    for _ in range(buf[pos]):
        part, after = read_text(buf, after, end)
        parts.append(part)
    return ".".join(parts), after


def row_end(buf: bytes, pos: i64, end: i64, forms: list[int]) -> i64:
    """Return where the ROW or NBCROW at `pos` ends; if it is not all there, minus the position up to which bytes are
    needed at least. Raises ProtocolViolation."""
    width: i64 = len(forms)
    column: i64 = 0
    if buf[pos] == ROW:
        pos += 1
        while column < width:
            pos = value_end(buf, pos, end, forms[column])
            if pos < 0:
                return pos
            column += 1
        return pos
    nulls: i64 = pos + 1
    pos = nulls + ((width + 7) >> 3)
    if pos > end:
        return -pos
    while column < width:
        mask: i64 = buf[nulls + (column >> 3)]
        if not (mask >> (column & 7)) & 1:
            pos = value_end(buf, pos, end, forms[column])
            if pos < 0:
                return pos
        column += 1
    return pos


def row_starts(buf: bytes, pos: i64, forms: list[int], starts: list[int]) -> i64:
    """Store where each value of a complete row begins and ends, alternately; -1 for a NULL in the bits of an NBCROW.
    Return where the row ends."""
    end: i64 = len(buf)
    width: i64 = len(forms)
    is_plain = buf[pos] == ROW
    nulls: i64 = pos + 1
    pos = nulls if is_plain else nulls + ((width + 7) >> 3)
    column: i64 = 0
    while column < width:
        mask: i64 = 0 if is_plain else buf[nulls + (column >> 3)]
        if (mask >> (column & 7)) & 1:
            starts.append(-1)
            starts.append(-1)
        else:
            starts.append(pos)
            pos = value_end(buf, pos, end, forms[column])
            if pos < 0:
                raise ProtocolViolation("a row is shorter than its columns")
            starts.append(pos)
        column += 1
    return pos


def token_end(buf: bytes, pos: i64, end: i64, wide: bool) -> i64:
    """Return where the token at `pos` ends; if it is not all there, minus the position up to which bytes are needed.
    Not for rows and COLMETADATA. Raises ProtocolViolation for an unknown type."""
    code: i64 = buf[pos]
    after: i64
    if code >= DONE:
        after = pos + (13 if wide else 9)
    elif code in _SIZED:
        if end - pos < 3:
            return -(pos + 3)
        after = pos + 3 + uint16(buf, pos + 1)
    elif code in _FIXED:
        after = pos + 5
    elif code == RETURNVALUE:
        return _return_value_end(buf, pos, end, wide)
    elif code == FEATUREEXTACK:
        return _features_end(buf, pos, end)
    elif code in _LARGE:
        if end - pos < 5:
            return -(pos + 5)
        after = pos + 5 + uint32(buf, pos + 1)
    else:
        raise ProtocolViolation(f"token {code:#04x} is unknown")
    return after if after <= end else -after


def _return_value_end(buf: bytes, pos: i64, end: i64, wide: bool) -> i64:
    try:
        kind, start = read_return_value_type(buf, pos, end, wide)[1:]
    except t.Truncated as more:
        return -more.need
    return value_end(buf, start, end, kind.form)


def read_return_value_type(buf: bytes, pos: i64, end: i64, wide: bool) -> tuple[str, MssqlType, i64]:
    """Return the name and type in a RETURNVALUE, and where its value begins. Raises Truncated."""
    name, after = read_short_text(buf, pos + 3, end)
    after = require(after, 7 if wide else 5, end)  # status, user type, flags
    kind, after = read_type(buf, after, end, is_parameter=True)
    return name, kind, after


def _features_end(buf: bytes, pos: i64, end: i64) -> i64:
    pos += 1
    while True:
        if pos >= end:
            return -(pos + 1)
        if buf[pos] == 0xFF:
            return pos + 1
        if end - pos < 5:
            return -(pos + 5)
        pos += 5 + uint32(buf, pos + 1)


# Reading of complete tokens


@dataclass(frozen=True, slots=True)
class DoneToken:
    """DONE, DONEPROC or DONEINPROC. `rows` is None if it has no valid count."""

    code: int
    status: int
    command: int
    rows: int | None

    @property
    def is_final(self) -> bool:
        return not self.status & DONE_MORE


def parse_done(buf: bytes, pos: i64, end: i64) -> DoneToken:
    """Read a DONE, DONEPROC or DONEINPROC."""
    status = int(uint16(buf, pos + 1))
    rows = int.from_bytes(buf[pos + 5 : end], "little") if status & DONE_COUNT else None
    return DoneToken(buf[pos], status, int(uint16(buf, pos + 3)), rows)


@dataclass(frozen=True, slots=True)
class MessageToken:
    """ERROR or INFO. `severity` is what the manual calls class."""

    code: int
    number: int
    state: int
    severity: int
    text: str
    server: str = ""
    procedure: str = ""
    line: int = 0


def error_place(message: MessageToken) -> str:
    """Return where in its batch or procedure an error was, as client tools show it; empty if that is not known."""
    procedure = f"Procedure {message.procedure}, " if message.procedure else ""
    return f"{procedure}Line {message.line}" if message.line > 0 else ""


def parse_message(buf: bytes, pos: i64, end: i64) -> MessageToken:
    """Read an ERROR or INFO. Raises ProtocolViolation."""
    try:
        at = require(pos + 3, 6, end)
        number = int(uint32(buf, pos + 3))
        state, severity = buf[at - 2], buf[at - 1]
        text, at = read_text(buf, at, end)
        server, at = read_short_text(buf, at, end)
        procedure, at = read_short_text(buf, at, end)
    except t.Truncated as error:
        raise ProtocolViolation("a message of the server is shorter than its fields") from error
    line = int.from_bytes(buf[at:end], "little")
    return MessageToken(buf[pos], number, state, severity, text, server, procedure, line)


@dataclass(frozen=True, slots=True)
class EnvironmentToken:
    """ENVCHANGE. The values are texts in UTF-8, or bytes where the type has none."""

    kind: int
    new: bytes
    old: bytes


_TEXT_CHANGES: Final = frozenset({1, 2, 3, 4, 5, 6, 13, 19})


def parse_environment(buf: bytes, pos: i64, end: i64) -> EnvironmentToken:
    """Read an ENVCHANGE. Raises ProtocolViolation."""
    kind = buf[pos + 3] if end - pos > 3 else 0
    try:
        if kind in _TEXT_CHANGES:
            new, at = read_short_text(buf, pos + 4, end)
            old, at = read_short_text(buf, at, end)
            return EnvironmentToken(kind, new.encode("utf-8", "replace"), old.encode("utf-8", "replace"))
        if kind == ENV_ROUTING:
            at = require(pos + 4, 2, end)
            stop = require(at, uint16(buf, at - 2), end)
            return EnvironmentToken(kind, buf[at:stop], b"")
        at = require(pos + 4, 1, end)
        stop = require(at, buf[at - 1], end)
        return EnvironmentToken(kind, buf[at:stop], buf[stop + 1 : end])
    except t.Truncated as error:
        raise ProtocolViolation("a change of the environment is shorter than its fields") from error


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """An output parameter; `value` has no lengths, and None is NULL."""

    name: str
    type: MssqlType = field(compare=False)
    value: bytes | None


def parse_return_value(buf: bytes, pos: i64, end: i64, wide: bool) -> ReturnValue:
    """Read a RETURNVALUE."""
    name, kind, start = read_return_value_type(buf, pos, end, wide)
    return ReturnValue(name, kind, content(buf, start, end, kind.form))


@dataclass(frozen=True, slots=True)
class LoginAck:
    """LOGINACK. `version` is that of TDS."""

    version: int
    program: str
    program_version: tuple[int, int, int]


def parse_login_ack(buf: bytes, pos: i64, end: i64) -> LoginAck:
    """Read a LOGINACK. Raises ProtocolViolation."""
    try:
        at = require(pos + 3, 5, end)
        program, at = read_short_text(buf, at, end)
        stop = require(at, 4, end)
    except t.Truncated as error:
        raise ProtocolViolation("the acknowledgement of a login is shorter than its fields") from error
    version = int.from_bytes(buf[pos + 4 : pos + 8], "big")
    build = buf[stop - 2] << 8 | buf[stop - 1]
    return LoginAck(version, program.rstrip("\0"), (buf[at], buf[at + 1], build))


# Encoding

SERVER: Final = "Postern"
UNKNOWN_ERROR: Final = 50000  # the number of errors that statements raise themselves


def encode_done(status: int, wide: bool, rows: int = 0, command: int = 0, code: int = DONE) -> bytes:
    head = bytes((code,)) + status.to_bytes(2, "little") + command.to_bytes(2, "little")
    return head + rows.to_bytes(8 if wide else 4, "little")


def encode_short_text(text: str) -> bytes:
    data = text.encode(t.UTF16, "surrogatepass")[: 2 * 255]
    return bytes((len(data) // 2,)) + data


def encode_message(
    code: int,
    number: int,
    severity: int,
    text: str,
    wide: bool,
    *,
    state: int = 1,
    server: str = SERVER,
    procedure: str = "",
    line: int = 1,
) -> bytes:
    """Encode an ERROR or INFO. Longer texts than a token can have are cut."""
    data = text.encode(t.UTF16, "surrogatepass")[: 2 * 30_000]
    body = b"".join(
        [
            number.to_bytes(4, "little"),
            bytes((state, severity)),
            (len(data) // 2).to_bytes(2, "little"),
            data,
            encode_short_text(server),
            encode_short_text(procedure),
            line.to_bytes(4 if wide else 2, "little"),
        ]
    )
    return bytes((code,)) + len(body).to_bytes(2, "little") + body


def encode_environment(kind: int, new: bytes, old: bytes) -> bytes:
    """Encode an ENVCHANGE from the bytes of both values, each with its length."""
    body = bytes((kind,)) + new + old
    return bytes((ENVCHANGE,)) + len(body).to_bytes(2, "little") + body


def encode_login_ack(version: int, program: str, program_version: tuple[int, int, int]) -> bytes:
    major, minor, build = program_version
    name = encode_short_text(program)
    body = b"\1" + version.to_bytes(4, "big") + name + bytes((major, minor, build >> 8 & 0xFF, build & 0xFF))
    return bytes((LOGINACK,)) + len(body).to_bytes(2, "little") + body
