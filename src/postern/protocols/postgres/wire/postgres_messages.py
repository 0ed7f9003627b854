"""Message types and their layouts, named as in the manual's chapter "Message Formats".

Integers are big-endian; strings end with a zero byte. Every message except the startup family is a tag byte, an Int32
length that counts itself, and a body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import MAX_ROWS
from postern.protocols.framing import Intake, uint32
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.refusal_texts import text_of

INT32 = struct.Struct("!i")
UINT32 = struct.Struct("!I")
INT16 = struct.Struct("!h")
HEADER = struct.Struct("!cI")

# Frontend tags. Final numbers compile into the code that compares with them.
BIND: Final = 66  # B
CLOSE: Final = 67  # C
COPY_DATA: Final = 100  # d
COPY_DONE: Final = 99  # c
COPY_FAIL: Final = 102  # f
DESCRIBE: Final = 68  # D
EXECUTE: Final = 69  # E
FLUSH: Final = 72  # H
FUNCTION_CALL: Final = 70  # F
PARSE: Final = 80  # P
PASSWORD: Final = 112  # p
QUERY: Final = 81  # Q
SYNC: Final = 83  # S
TERMINATE: Final = 88  # X

# Backend tags
AUTHENTICATION: Final = 82  # R
BACKEND_KEY_DATA: Final = 75  # K
BIND_COMPLETE: Final = 50  # 2
CLOSE_COMPLETE: Final = 51  # 3
COMMAND_COMPLETE: Final = 67  # C
COPY_BOTH_RESPONSE: Final = 87  # W
COPY_IN_RESPONSE: Final = 71  # G
COPY_OUT_RESPONSE: Final = 72  # H
DATA_ROW: Final = 68  # D
EMPTY_QUERY_RESPONSE: Final = 73  # I
ERROR_RESPONSE: Final = 69  # E
FUNCTION_CALL_RESPONSE: Final = 86  # V
NEGOTIATE_PROTOCOL_VERSION: Final = 118  # v
NO_DATA: Final = 110  # n
NOTICE_RESPONSE: Final = 78  # N
NOTIFICATION_RESPONSE: Final = 65  # A
PARAMETER_DESCRIPTION: Final = 116  # t
PARAMETER_STATUS: Final = 83  # S
PARSE_COMPLETE: Final = 49  # 1
PORTAL_SUSPENDED: Final = 115  # s
READY_FOR_QUERY: Final = 90  # Z
ROW_DESCRIPTION: Final = 84  # T

# Request codes of the startup family
PROTOCOL_3_0: Final = 196608
PROTOCOL_3_2: Final = 196610
CANCEL_REQUEST: Final = 80877102
SSL_REQUEST: Final = 80877103
GSSENC_REQUEST: Final = 80877104

AUTH_OK: Final = 0
AUTH_CLEARTEXT: Final = 3
AUTH_MD5: Final = 5
AUTH_SASL: Final = 10
AUTH_SASL_CONTINUE: Final = 11
AUTH_SASL_FINAL: Final = 12


def position(intake: Intake, at: int) -> str:
    """Return the type of the message at `at` in that buffer, and its offset in the stream."""
    buf = intake.buf
    description = f"message type {chr(buf[at])!r} " if at < len(buf) else ""
    return f"{description}at byte {intake.first + at}"


def message(tag: bytes, *body: bytes) -> bytes:
    data = b"".join(body)
    return HEADER.pack(tag, len(data) + 4) + data


def cstring(text: str | bytes) -> bytes:
    """Encode a zero-terminated string. A zero inside is refused, because it would smuggle in a second string.

    Bytes that are not UTF-8 are surrogates, as `parse_parameters` returns them.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if b"\0" in data:
        raise ProtocolViolation("a text for the target contains a zero byte")
    return data + b"\0"


_NEAR: Final = 24  # bytes of a name that compiled code reads faster than it calls `find`


def read_cstring(data: bytes, pos: i64, end: i64) -> tuple[bytes, i64]:
    """Return the string at `pos` and the position after its zero byte."""
    at = pos
    near = min(end, pos + _NEAR)
    while at < near:
        if not data[at]:
            return data[pos:at], at + 1
        at += 1
    stop: i64 = data.find(b"\0", at, end)
    if stop < 0:
        raise ProtocolViolation("a string in a message is not terminated")
    return data[pos:stop], stop + 1


def last_cstring(data: bytes, pos: int, end: int) -> bytes:
    """Return the string at `pos`, with which the message must end."""
    text, after = read_cstring(data, pos, end)
    if after != end:
        raise ProtocolViolation("a message has bytes after its last field")
    return text


def startup(parameters: Mapping[str, str], protocol: int = PROTOCOL_3_0) -> bytes:
    body = b"".join(cstring(name) + cstring(value) for name, value in parameters.items()) + b"\0"
    return UINT32.pack(len(body) + 8) + UINT32.pack(protocol) + body


def parse_parameters(body: bytes) -> dict[str, str]:
    """Parse the name/value pairs of a StartupMessage. They are UTF-8; any other byte becomes a surrogate."""
    if not body.endswith(b"\0"):
        raise ProtocolViolation("the startup message is not terminated")
    words = body[:-1].split(b"\0") if body != b"\0" else [b""]
    if words.pop() != b"" or len(words) % 2:
        raise ProtocolViolation("the startup message has a parameter without a value")
    names = [word.decode("utf-8", "surrogateescape") for word in words[::2]]
    values = [word.decode("utf-8", "surrogateescape") for word in words[1::2]]
    if "" in names or len(set(names)) != len(names):
        raise ProtocolViolation("the startup message has an empty or repeated parameter name")
    return dict(zip(names, values, strict=True))


def cancel_request(pid: int, key: bytes) -> bytes:
    return UINT32.pack(12 + len(key)) + UINT32.pack(CANCEL_REQUEST) + UINT32.pack(pid) + key


def authentication(code: int, body: bytes = b"") -> bytes:
    return message(b"R", INT32.pack(code), body)


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", cstring(name), cstring(value))


def backend_key_data(pid: int, key: bytes) -> bytes:
    return message(b"K", UINT32.pack(pid), key)


def ready_for_query(status: bytes) -> bytes:
    """Encode ReadyForQuery. Status: b"I" idle, b"T" in a transaction, b"E" in a failed one."""
    return message(b"Z", status)


def negotiate_protocol_version(newest: int, unsupported: Iterable[str]) -> bytes:
    """Encode NegotiateProtocolVersion. `newest` is a whole version, major and minor, as in a StartupMessage; servers
    and clients read it so."""
    options = [cstring(option) for option in unsupported]
    return message(b"v", INT32.pack(newest), INT32.pack(len(options)), *options)


def parse(name: bytes, query: bytes, oids: tuple[int, ...] = ()) -> bytes:
    types = b"".join([oid.to_bytes(4, "big") for oid in oids])
    return message(b"P", cstring(name), cstring(query), INT16.pack(len(oids)), types)


def describe_portal(name: bytes) -> bytes:
    return message(b"D", b"P", cstring(name))


def query(text: bytes) -> bytes:
    return message(b"Q", cstring(text))


SYNC_MESSAGE = message(b"S")
FLUSH_MESSAGE = message(b"H")
TERMINATE_MESSAGE = message(b"X")


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """The human-readable fields of an ErrorResponse or NoticeResponse."""

    severity: str
    code: str
    text: str
    detail: str = ""
    hint: str = ""
    position: str = ""  # decimal index of a character in the statement, from 1


def make_target_refused(body: bytes) -> TargetRefused:
    """Return an ErrorResponse to the gateway itself as an exception."""
    report = parse_report(body)
    return TargetRefused(report.text, report.code, report.hint)


def report(tag: bytes, severity: str, code: str, text: str, detail: str = "", hint: str = "") -> bytes:
    """Encode an ErrorResponse (tag E) or NoticeResponse (tag N); chapter "Error and Notice Message Fields"."""
    fields = [(b"S", severity), (b"V", severity), (b"C", code), (b"M", text), (b"D", detail), (b"H", hint)]
    body = b"".join(key + value.replace("\0", "").encode("utf-8", "replace") + b"\0" for key, value in fields if value)
    return message(tag, body, b"\0")


def error_response(code: str, text: str, *, severity: str = "ERROR", detail: str = "", hint: str = "") -> bytes:
    return report(b"E", severity, code, text, detail, hint)


def parse_fields(body: bytes) -> list[tuple[int, bytes]]:
    """Return the (field type, value) pairs of an ErrorResponse or NoticeResponse body."""
    fields: list[tuple[int, bytes]] = []
    pos, end = 0, len(body)
    while pos < end and body[pos]:
        value, after = read_cstring(body, pos + 1, end)
        fields.append((body[pos], value))
        pos = after
    return fields


def parse_report(body: bytes) -> ErrorFields:
    fields = {chr(key): value.decode("utf-8", "replace") for key, value in parse_fields(body)}
    return ErrorFields(
        severity=fields.get("V", fields.get("S", "ERROR")),
        code=fields.get("C", "XX000"),
        text=fields.get("M", ""),
        detail=fields.get("D", ""),
        hint=fields.get("H", ""),
        position=fields.get("P", ""),
    )


@dataclass(frozen=True, slots=True)
class PostgresField:
    """One column of a RowDescription; `format` is 0 for text, 1 for binary.

    `table` is the OID of its table, or 0, and `place` the column's number there: from 1, 0 for the whole row, negative
    for system columns. `modifier` is that of its type, such as a length; negative without one.
    """

    name: str
    oid: int
    format: int
    table: int = 0
    place: int = 0
    modifier: int = -1


_FIELD = struct.Struct("!IhIhih")


@lru_cache(maxsize=64)
def parse_row_description(body: bytes, codec: str = "utf-8") -> tuple[PostgresField, ...]:
    count = _read_int16(body, 0, len(body))
    fields: list[PostgresField] = []
    pos, end = 2, len(body)
    for _ in range(count):
        name, pos = read_cstring(body, pos, end)
        if end - pos < _FIELD.size:
            raise ProtocolViolation("a RowDescription is shorter than its fields")
        table, place, oid, _, modifier, code = _FIELD.unpack_from(body, pos)
        fields.append(PostgresField(text_of(name, codec, "replace"), oid, code, table, place, modifier))
        pos += _FIELD.size
    if pos != end:
        raise ProtocolViolation("a RowDescription has bytes after its fields")
    return tuple(fields)


def parse_oids(data: bytes, pos: i64, end: i64) -> tuple[int, ...]:
    """Parse an Int16 count and as many type OIDs, up to `end`: the end of a Parse, or a ParameterDescription."""
    count = _read_int16(data, pos, end)
    if pos + 2 + 4 * count != end:
        raise ProtocolViolation("a message's length does not fit its parameters")
    if not count:
        return _NONE
    return struct.unpack_from(f"!{count}I", data, pos + 2)


def parse_parameter_types(data: bytes, pos: i64, end: i64) -> tuple[int, ...]:
    """Parse the OIDs of a ParameterDescription. The server writes one for each parameter of the statement, but only the
    last 16 bits of their count."""
    count = (end - pos - 2) // 4
    if end - pos < 2 or pos + 2 + 4 * count != end or _read_int16(data, pos, end) != count & 0xFFFF:
        raise ProtocolViolation("a ParameterDescription's length does not fit its parameters")
    return struct.unpack_from(f"!{count}I", data, pos + 2)


@dataclass(init=False)
class BindBody:
    """A decoded Bind. `values` are raw parameter values, None for NULL."""

    portal: bytes
    statement: bytes
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]

    def __init__(
        self,
        portal: bytes,
        statement: bytes,
        formats: tuple[int, ...],
        values: tuple[bytes | None, ...],
        result_formats: tuple[int, ...],
    ) -> None:
        self.portal = portal
        self.statement = statement
        self.formats = formats
        self.values = values
        self.result_formats = result_formats


def parse_bind(data: bytes, pos: i64, end: i64) -> BindBody:
    portal, pos = read_cstring(data, pos, end)
    statement, pos = read_cstring(data, pos, end)
    formats = _read_int16s(data, pos, end)
    pos += 2 + 2 * len(formats)
    values, pos = _read_values(data, pos, end)
    result_formats = _read_int16s(data, pos, end)
    if pos + 2 + 2 * len(result_formats) != end:
        raise ProtocolViolation("a Bind message has bytes after its fields")
    return BindBody(portal, statement, formats, values, result_formats)


# A client with more than 65,535 values or types writes the last 16 bits of their count, so the message's length is
# inconsistent. A server responds with an error, and the connection continues. To get the server's own error, the
# gateway sends a shorter message that every server rejects, without any value that could not be parsed.


def rejected_parse(data: bytes, pos: i64, end: i64) -> bytes:
    """Return a Parse of the same name and text that every server rejects: it has bytes after its end."""
    name, pos = read_cstring(data, pos, end)
    text, pos = read_cstring(data, pos, end)
    return message(b"P", cstring(name), cstring(text), b"\0\0\0")


def rejected_bind(data: bytes, pos: i64, end: i64) -> tuple[bytes, BindBody]:
    """Return the names, formats and number of values of a Bind, as a message that every server rejects: it has no
    values and no result formats. A server compares the count first, so it returns the same error as for the whole
    message."""
    start = pos
    portal, pos = read_cstring(data, pos, end)
    statement, pos = read_cstring(data, pos, end)
    formats = _read_int16s(data, pos, end)
    pos += 2 + 2 * len(formats)
    _read_int16(data, pos, end)
    return message(b"B", data[start : pos + 2]), BindBody(portal, statement, (), (), ())


def parse_function_call(data: bytes, pos: i64, end: i64) -> tuple[int, tuple[bytes | None, ...]]:
    """Return the function's OID and the raw arguments, None for NULL."""
    if end - pos < 4:
        raise ProtocolViolation(_SHORT)
    oid = int(uint32(data, pos))
    pos += 4
    pos += 2 + 2 * len(_read_int16s(data, pos, end))
    values, pos = _read_values(data, pos, end)
    if end - pos != 2:
        raise ProtocolViolation("a FunctionCall message's length does not fit its arguments")
    return oid, values


_SHORT = "a message is shorter than its fields"
_NONE: tuple[int, ...] = ()
_ALL_OF_ONE: Final = [(code,) for code in range(256)]  # one format code for all values


def _read_values(data: bytes, pos: i64, end: i64) -> tuple[tuple[bytes | None, ...], i64]:
    """Parse an Int16 count, then Int32 length (-1 is NULL) and bytes of each value."""
    count = _read_int16(data, pos, end)
    pos += 2
    values: list[bytes | None] = []
    for _ in range(count):
        if end - pos < 4:
            raise ProtocolViolation(_SHORT)
        size = uint32(data, pos)
        pos += 4
        if size == 0xFFFFFFFF:
            values.append(None)
            continue
        if end - pos < size:
            raise ProtocolViolation(_SHORT)
        values.append(data[pos : pos + size])
        pos += size
    return tuple(values), pos


def _read_int16(data: bytes, pos: i64, end: i64) -> i64:
    if end - pos < 2:
        raise ProtocolViolation(_SHORT)
    high: i64 = data[pos]
    low: i64 = data[pos + 1]
    return (high << 8) | low


def _read_int16s(data: bytes, pos: i64, end: i64) -> tuple[int, ...]:
    """Parse a counted list of format codes."""
    count = _read_int16(data, pos, end)
    if not count:
        return _NONE
    if end - pos < 2 + 2 * count:
        raise ProtocolViolation(_SHORT)
    if count == 1 and not data[pos + 2]:
        return _ALL_OF_ONE[data[pos + 3]]
    return struct.unpack_from(f"!{count}h", data, pos + 2)


_COMPLETIONS: Final[dict[bytes, tuple[str, int | None]]] = {}  # most statements end like one before
_MOST_COMPLETIONS: Final = 1_000
_LONGEST_KEPT: Final = 24  # bytes


def parse_completion(body: bytes) -> tuple[str, int | None]:
    """Return the tag of a CommandComplete, and its row count if it has one."""
    known = _COMPLETIONS.get(body)
    if known is not None:
        return known
    tag = last_cstring(body, 0, len(body)).decode("utf-8", "replace")
    completion = tag, rows_of(tag)
    if len(body) <= _LONGEST_KEPT:
        if len(_COMPLETIONS) >= _MOST_COMPLETIONS:
            _COMPLETIONS.clear()
        _COMPLETIONS[body] = completion
    return completion


def rows_of(tag: str) -> int | None:
    """Return the row count of a CommandComplete tag (`SELECT 5`, `INSERT 0 3`), None for commands without one."""
    last = tag.rpartition(" ")[2]
    return min(int(last), MAX_ROWS) if last.isdecimal() and len(last) < 20 else None
