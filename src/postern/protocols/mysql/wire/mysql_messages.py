"""Packets, commands and responses, named as in the manual's "Command Phase".

A packet is an Int3 length, a sequence id and as much payload; integers are little-endian. A payload of 0xFFFFFF bytes
or more continues in the next packet, and ends with the first shorter one, which can be empty. Sequence ids count the
packets of a command and its response together, from 0, modulo 256. Lengths within payloads are "length-encoded": one
byte up to 250, else a marker byte and 2, 3 or 8 more.

Responses are those of connections without CLIENT_DEPRECATE_EOF and CLIENT_SESSION_TRACK: neither is offered here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from mypy_extensions import i64

from postern.errors import ProtocolViolation

HEAD: Final = 4  # bytes before a payload
MAX_PAYLOAD: Final = 0xFFFFFF  # of one packet; a payload of that length or more continues in the next one

# Commands: the first byte of a client's payload. Final numbers compile into the code that compares with them.
COM_QUIT: Final = 0x01
COM_INIT_DB: Final = 0x02
COM_QUERY: Final = 0x03
COM_FIELD_LIST: Final = 0x04
COM_CREATE_DB: Final = 0x05
COM_DROP_DB: Final = 0x06
COM_REFRESH: Final = 0x07
COM_SHUTDOWN: Final = 0x08
COM_STATISTICS: Final = 0x09
COM_PROCESS_INFO: Final = 0x0A
COM_PROCESS_KILL: Final = 0x0C
COM_DEBUG: Final = 0x0D
COM_PING: Final = 0x0E
COM_CHANGE_USER: Final = 0x11
COM_BINLOG_DUMP: Final = 0x12
COM_TABLE_DUMP: Final = 0x13
COM_REGISTER_SLAVE: Final = 0x15
COM_STMT_PREPARE: Final = 0x16
COM_STMT_EXECUTE: Final = 0x17
COM_STMT_SEND_LONG_DATA: Final = 0x18
COM_STMT_CLOSE: Final = 0x19
COM_STMT_RESET: Final = 0x1A
COM_SET_OPTION: Final = 0x1B
COM_STMT_FETCH: Final = 0x1C
COM_BINLOG_DUMP_GTID: Final = 0x1E
COM_RESET_CONNECTION: Final = 0x1F

# The first byte of a response
OK: Final = 0x00
LOCAL_INFILE: Final = 0xFB  # and NULL as a cell of a text row
EOF: Final = 0xFE
ERR: Final = 0xFF

# Server status flags
IN_TRANSACTION: Final = 0x0001
AUTOCOMMIT: Final = 0x0002
MORE_RESULTS: Final = 0x0008
CURSOR_EXISTS: Final = 0x0040
LAST_ROW_SENT: Final = 0x0080
NO_BACKSLASH_ESCAPES: Final = 0x0200
EXECUTION: Final = 0x0830  # no good index was used, or none, or the query was slow
PS_OUT_PARAMS: Final = 0x1000

# Column types
DECIMAL: Final = 0
TINY: Final = 1
SHORT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
NULL: Final = 6
TIMESTAMP: Final = 7
LONGLONG: Final = 8
INT24: Final = 9
DATE: Final = 10
TIME: Final = 11
DATETIME: Final = 12
YEAR: Final = 13
NEWDATE: Final = 14
VARCHAR: Final = 15
BIT: Final = 16
TIMESTAMP2: Final = 17
DATETIME2: Final = 18
TIME2: Final = 19
JSON: Final = 245
NEWDECIMAL: Final = 246
ENUM: Final = 247
SET: Final = 248
TINY_BLOB: Final = 249
MEDIUM_BLOB: Final = 250
LONG_BLOB: Final = 251
BLOB: Final = 252
VAR_STRING: Final = 253
STRING: Final = 254
GEOMETRY: Final = 255

UNSIGNED: Final = 0x0020  # a column flag
BINARY_CHARSET: Final = 63  # the collation of bytes that are not text

# Errors that the gateway sends: number and SQLSTATE (MySQL, "Server Error Message Reference")
ER_ACCESS_DENIED: Final = 1045
ER_UNKNOWN_COMMAND: Final = 1047
ER_UNKNOWN: Final = 1105
ER_NET_PACKET_TOO_LARGE: Final = 1153
ER_SPECIFIC_ACCESS_DENIED: Final = 1227
ER_UNKNOWN_STATEMENT: Final = 1243
ER_MALFORMED_PACKET: Final = 1835
ER_CONNECTION_KILLED: Final = 1927
ER_LOCAL_REFUSED: Final = 3948
LOCAL_STATE: Final = "42000"

_SHORT: Final = "a packet is shorter than its fields"


def uint16(data: bytes, pos: i64) -> i64:
    a: i64 = data[pos]
    b: i64 = data[pos + 1]
    return a | (b << 8)


def uint24(data: bytes, pos: i64) -> i64:
    """Return the length of the packet whose header is at `pos`. Compiled, this is a few machine instructions."""
    a: i64 = data[pos]
    b: i64 = data[pos + 1]
    c: i64 = data[pos + 2]
    return a | (b << 8) | (c << 16)


def uint32(data: bytes, pos: i64) -> i64:
    a: i64 = data[pos]
    b: i64 = data[pos + 1]
    c: i64 = data[pos + 2]
    d: i64 = data[pos + 3]
    return a | (b << 8) | (c << 16) | (d << 24)


def packed16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def packed32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def packet(sequence: int, *body: bytes) -> bytes:
    """Encode the payload as one packet, or as several if it is too long for one; the first has this sequence id."""
    payload = b"".join(body) if len(body) != 1 else body[0]
    size = len(payload)
    if size < MAX_PAYLOAD:
        return size.to_bytes(3, "little") + (sequence & 0xFF).to_bytes(1, "little") + payload
    parts: list[bytes] = []
    for start in range(0, size + 1, MAX_PAYLOAD):
        part = payload[start : start + MAX_PAYLOAD]
        parts.append(len(part).to_bytes(3, "little") + (sequence & 0xFF).to_bytes(1, "little"))
        parts.append(part)
        sequence += 1
    return b"".join(parts)


def packets_of(size: int) -> int:
    """Return the number of packets of a payload of `size` bytes."""
    return size // MAX_PAYLOAD + 1


def lenenc(value: int) -> bytes:
    """Encode a length-encoded integer."""
    if value < 251:
        return value.to_bytes(1, "little")
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


def lenenc_text(text: bytes) -> bytes:
    return lenenc(len(text)) + text


# Size of a length-encoded integer by its first byte; 0: not valid.
_SIZES: Final = bytes([1] * 251 + [0, 3, 4, 9, 0])


def read_number(data: bytes, pos: i64, end: i64) -> tuple[int, i64]:
    """Read a length-encoded integer that counts something. Return it and where it ends. It can use all 64 bits, as
    `insert_id` of a BIGINT UNSIGNED does, so it is not an i64."""
    after = after_lenenc(data, pos, end)
    if after - pos == 1:
        return int(data[pos]), after
    return int.from_bytes(data[pos + 1 : after], "little"), after


def after_lenenc(data: bytes, pos: i64, end: i64) -> i64:
    """Return where the length-encoded integer at `pos` ends."""
    if pos >= end:
        raise ProtocolViolation(_SHORT)
    size: i64 = _SIZES[data[pos]]
    if not size:
        raise ProtocolViolation("a length-encoded integer begins with an invalid byte")
    if end - pos < size:
        raise ProtocolViolation(_SHORT)
    return pos + size


def read_lenenc(data: bytes, pos: i64, end: i64) -> tuple[i64, i64]:
    """Read a length-encoded integer that is a length. Return it and where it ends. No length has 2^63 bytes, so a
    larger one is a violation; numbers of rows or ids are read by `read_number`."""
    if pos >= end:
        raise ProtocolViolation(_SHORT)
    first: i64 = data[pos]
    if first < 251:
        return first, pos + 1
    size: i64 = _SIZES[first]
    if not size or end - pos < size:
        raise ProtocolViolation("a length in a packet is not valid" if not size else _SHORT)
    if size == 3:
        return uint16(data, pos + 1), pos + 3
    if size == 4:
        return uint24(data, pos + 1), pos + 4
    high = uint32(data, pos + 5)
    if high >= 1 << 31:
        raise ProtocolViolation("a length in a packet is too large")
    return uint32(data, pos + 1) | (high << 32), pos + 9


def read_text(data: bytes, pos: i64, end: i64) -> tuple[bytes, i64]:
    """Return the length-encoded string at `pos`, and where it ends."""
    size, pos = read_lenenc(data, pos, end)
    if end - pos < size:
        raise ProtocolViolation(_SHORT)
    return data[pos : pos + size], pos + size


def cstring(text: bytes) -> bytes:
    """Encode a zero-terminated string. A zero inside is refused, because it would smuggle in a second string."""
    if b"\0" in text:
        raise ProtocolViolation("a text contains a zero byte")
    return text + b"\0"


def read_cstring(data: bytes, pos: i64, end: i64) -> tuple[bytes, i64]:
    """Return the string at `pos` and the position after its zero byte."""
    stop: i64 = data.find(b"\0", pos, end)
    if stop < 0:
        raise ProtocolViolation("a string in a packet is not terminated")
    return data[pos:stop], stop + 1


class Packet(NamedTuple):
    """A whole payload, and the sequence id of its last packet."""

    sequence: int
    payload: bytes


class MysqlPackets:
    """Splits a stream into whole payloads, for readers of complete streams; the wire does not use it.

    Raises ProtocolViolation for a payload of more than `most` bytes before it is buffered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[Packet]:
        self._buffer += data
        packets: list[Packet] = []
        pos = 0
        while len(self._buffer) - pos >= HEAD:
            size = int.from_bytes(self._buffer[pos : pos + 3], "little")
            if self._held + size > self._most:
                raise ProtocolViolation(f"a packet is longer than {self._most} bytes")
            if len(self._buffer) - pos < HEAD + size:
                break
            part = bytes(self._buffer[pos + HEAD : pos + HEAD + size])
            sequence = self._buffer[pos + 3]
            pos += HEAD + size
            if size == MAX_PAYLOAD or self._parts:
                self._parts.append(part)
                self._held += size
                if size == MAX_PAYLOAD:
                    continue
                part = b"".join(self._parts)
                self._parts, self._held = [], 0
            packets.append(Packet(sequence, part))
        del self._buffer[:pos]
        return packets

    @property
    def waiting(self) -> int:
        """Return the number of buffered bytes."""
        return len(self._buffer) + self._held


# Client to target


def command(code: int, *body: bytes) -> bytes:
    return packet(0, code.to_bytes(1, "little"), *body)


def query(text: bytes) -> bytes:
    return command(COM_QUERY, text)


QUIT: Final = command(COM_QUIT)
PING: Final = command(COM_PING)


# Target to client


@dataclass(frozen=True, slots=True)
class Done:
    """An OK packet: the number of affected rows, the last generated id, the status, and a text."""

    affected: int = 0
    insert_id: int = 0
    status: int = AUTOCOMMIT
    warnings: int = 0
    info: bytes = b""


def ok(sequence: int, done: Done | None = None) -> bytes:
    result = done or Done()
    numbers = lenenc(result.affected) + lenenc(result.insert_id) + packed16(result.status) + packed16(result.warnings)
    return packet(sequence, b"\0", numbers, result.info)


def parse_ok(payload: bytes) -> Done:
    """Parse an OK packet, including one that begins with 0xFE instead of an EOF."""
    end = len(payload)
    affected, pos = read_number(payload, 1, end)
    insert_id, pos = read_number(payload, pos, end)
    if end - pos < 4:
        raise ProtocolViolation(_SHORT)
    status, warnings = int(uint16(payload, pos)), int(uint16(payload, pos + 2))
    return Done(affected, insert_id, status, warnings, payload[pos + 4 :])


def ok_status(data: bytes, pos: i64, end: i64) -> i64:
    """Return the status flags of the OK packet at `pos`."""
    pos = after_lenenc(data, after_lenenc(data, pos + 1, end), end)
    if end - pos < 4:
        raise ProtocolViolation(_SHORT)
    return uint16(data, pos)


def eof(sequence: int, status: int = AUTOCOMMIT, warnings: int = 0) -> bytes:
    return packet(sequence, b"\xfe", packed16(warnings), packed16(status))


def parse_eof(payload: bytes) -> tuple[int, int]:
    """Return (status flags, count of warnings)."""
    if len(payload) != 5:
        raise ProtocolViolation("an EOF packet has the wrong length")
    return int(uint16(payload, 3)), int(uint16(payload, 1))


def is_eof(first: int, size: int) -> bool:
    """Return True if a packet with that first byte is an EOF. A row can begin so as well, with a cell of 16 MiB or
    more."""
    return first == EOF and size < 9


@dataclass(frozen=True, slots=True)
class Failed:
    """An ERR packet. `code` is the number, `state` the SQLSTATE."""

    code: int
    state: str
    text: str


def err(sequence: int, code: int, state: str, text: str, hint: str = "") -> bytes:
    """Encode an ERR packet. The protocol has one text only, so a hint is appended. A quoted text can contain invalid
    bytes."""
    full_text = f"{text.rstrip('.')}. {hint}" if hint and text else text or hint
    head = packed16(code) + b"#" + state.encode("ascii", "replace")[:5].ljust(5, b"0")
    return packet(sequence, b"\xff", head, full_text.encode("utf-8", "replace"))


def early_err(code: int, text: str) -> bytes:
    """Encode an ERR packet from before the capabilities are exchanged. It has no SQLSTATE, because clients would read
    one as text."""
    return packet(0, b"\xff", packed16(code), text.encode("utf-8", "replace"))


def parse_err(payload: bytes, codec: str = "utf-8") -> Failed:
    """Parse an ERR packet. Before the capabilities are exchanged, a server may omit the SQLSTATE."""
    if len(payload) < 3:
        raise ProtocolViolation(_SHORT)
    code = int(uint16(payload, 1))
    if payload[3:4] == b"#" and len(payload) >= 9:
        state = payload[4:9].decode("ascii", "replace")
        return Failed(code, state, payload[9:].decode(codec, "replace"))
    return Failed(code, "HY000", payload[3:].decode(codec, "replace"))


def local_infile(sequence: int, name: bytes) -> bytes:
    """Encode the target's request for the contents of that file."""
    return packet(sequence, b"\xfb", name)


class MysqlField(NamedTuple):
    """A Column Definition 41. `collation` is that of the cells, 63 for bytes; `table` is the alias in the query,
    `org_table` the table itself and `org_name` the column in it, both empty without one."""

    name: str
    type: int
    flags: int = 0
    collation: int = 45
    decimals: int = 0
    length: int = 0
    database: str = ""
    table: str = ""
    org_table: str = ""
    org_name: str = ""


_TAIL: Final = struct.Struct("<BHIBHBH")


_LONGEST: Final = 4 * 1024  # bytes of a cached definition; servers send a few hundred


def parse_field(payload: bytes, codec: str = "utf-8") -> MysqlField:
    """Parse a definition. Names are in the encoding of the connection. Default values of COM_FIELD_LIST are ignored."""
    return _known_field(payload, codec) if len(payload) <= _LONGEST else _read_field(payload, codec)


@lru_cache(maxsize=512)
def _known_field(payload: bytes, codec: str) -> MysqlField:
    return _read_field(payload, codec)


def _read_field(payload: bytes, codec: str) -> MysqlField:
    end = len(payload)
    texts: list[str] = []
    pos: i64 = 0
    for _ in range(6):
        text, pos = read_text(payload, pos, end)
        texts.append(text.decode(codec, "replace"))
    extended = b""
    if end - pos > _TAIL.size:
        extended, pos = _extended_metadata(payload, pos, end)
    if end - pos < _TAIL.size or payload[pos] < 12:
        raise ProtocolViolation("a column definition is truncated")
    _, collation, length, kind, flags, decimals, _ = _TAIL.unpack_from(payload, int(pos))
    _, database, table, org_table, name, org_name = texts
    if extended == _JSON_FORMAT:
        kind = JSON  # MariaDB stores it as text
    return MysqlField(name, kind, flags, collation, decimals, length, database, table, org_table, org_name)


_JSON_FORMAT: Final = b"\x01\x04json"  # item 1 is a format, item 0 the name of a type


def _extended_metadata(payload: bytes, pos: i64, end: i64) -> tuple[bytes, i64]:
    """Read MariaDB's extended metadata, a string before the fixed-length part. Return it and where it ends. If the
    lengths do not fit exactly, there is none, and a default value is at the end."""
    size: i64 = payload[pos]
    after = pos + 1 + size
    if size < 251 and end - after == _TAIL.size and payload[after] == 12:
        return payload[pos + 1 : after], after
    return b"", pos


def with_no_metadata(payload: bytes) -> bytes:
    """Return the column definition with empty extended metadata."""
    _, pos = _name_and_end(payload)
    return payload[:pos] + b"\0" + payload[pos:]


def definition_of_text(payload: bytes, with_name: bool) -> bytes:
    """Return the definition of a computed text instead of this one. It keeps only the name, or not even that."""
    name, pos = _name_and_end(payload)
    texts = (b"def", b"", b"", b"", name if with_name else b"****", b"")
    extended = b"\0" if len(payload) - pos > _TAIL.size else b""
    tail = _TAIL.pack(12, _TEXT_COLLATION, _TEXT_LENGTH, VAR_STRING, 0, _NO_DECIMALS, 0)
    return b"".join([*[lenenc_text(text) for text in texts], extended, tail])


_TEXT_COLLATION: Final = 45  # utf8mb4_general_ci
_TEXT_LENGTH: Final = 1020  # bytes: 255 characters
_NO_DECIMALS: Final = 0x1F  # the value that servers send for texts


def _name_and_end(payload: bytes) -> tuple[bytes, i64]:
    """Return the name in a column definition, and where its six texts end."""
    end = len(payload)
    name = b""
    pos: i64 = 0
    for place in range(6):
        text, pos = read_text(payload, pos, end)
        if place == _NAME_PLACE:
            name = text
    return name, pos


_NAME_PLACE: Final = 4


def column(sequence: int, field: MysqlField, extended: bytes | None = None) -> bytes:
    """Encode a column definition. `extended` is MariaDB's extended metadata; None if it is not negotiated."""
    texts = ("def", field.database, field.table, field.org_table, field.name, field.org_name)
    body = b"".join([lenenc_text(text.encode()) for text in texts])
    return packet(
        sequence,
        body if extended is None else body + lenenc_text(extended),
        _TAIL.pack(12, field.collation, field.length, field.type, field.flags, field.decimals, 0),
    )


def text_row(sequence: int, cells: tuple[bytes | None, ...]) -> bytes:
    return packet(sequence, *[b"\xfb" if cell is None else lenenc_text(cell) for cell in cells])


def parse_text_row(payload: bytes, width: int) -> tuple[bytes | None, ...]:
    cells: list[bytes | None] = []
    pos: i64 = 0
    end = len(payload)
    for _ in range(width):
        if pos < end and payload[pos] == LOCAL_INFILE:
            cells.append(None)
            pos += 1
            continue
        cell, pos = read_text(payload, pos, end)
        cells.append(cell)
    if pos != end:
        raise ProtocolViolation("a row is longer than its columns")
    return tuple(cells)
