"""Message types and their layouts, in the words of the manual's chapter "Message Formats".

Integers are big-endian; strings end with a zero byte. Every message but the startup family is a
tag byte, an Int32 length that counts itself, and a body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from postern.errors import ProtocolViolation

INT32 = struct.Struct("!i")
UINT32 = struct.Struct("!I")
INT16 = struct.Struct("!h")
HEADER = struct.Struct("!cI")

# Frontend tags
BIND = ord("B")
CLOSE = ord("C")
COPY_DATA = ord("d")
COPY_DONE = ord("c")
COPY_FAIL = ord("f")
DESCRIBE = ord("D")
EXECUTE = ord("E")
FLUSH = ord("H")
FUNCTION_CALL = ord("F")
PARSE = ord("P")
PASSWORD = ord("p")
QUERY = ord("Q")
SYNC = ord("S")
TERMINATE = ord("X")

# Backend tags
AUTHENTICATION = ord("R")
BACKEND_KEY_DATA = ord("K")
BIND_COMPLETE = ord("2")
CLOSE_COMPLETE = ord("3")
COMMAND_COMPLETE = ord("C")
COPY_BOTH_RESPONSE = ord("W")
COPY_IN_RESPONSE = ord("G")
COPY_OUT_RESPONSE = ord("H")
DATA_ROW = ord("D")
EMPTY_QUERY_RESPONSE = ord("I")
ERROR_RESPONSE = ord("E")
FUNCTION_CALL_RESPONSE = ord("V")
NEGOTIATE_PROTOCOL_VERSION = ord("v")
NO_DATA = ord("n")
NOTICE_RESPONSE = ord("N")
NOTIFICATION_RESPONSE = ord("A")
PARAMETER_DESCRIPTION = ord("t")
PARAMETER_STATUS = ord("S")
PARSE_COMPLETE = ord("1")
PORTAL_SUSPENDED = ord("s")
READY_FOR_QUERY = ord("Z")
ROW_DESCRIPTION = ord("T")

# Request codes of the startup family
PROTOCOL_3_0 = 196608
PROTOCOL_3_2 = 196610
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104

AUTH_OK = 0
AUTH_CLEARTEXT = 3
AUTH_MD5 = 5
AUTH_SASL = 10
AUTH_SASL_CONTINUE = 11
AUTH_SASL_FINAL = 12


def message(tag: bytes, *body: bytes) -> bytes:
    data = b"".join(body)
    return HEADER.pack(tag, len(data) + 4) + data


def cstring(text: str | bytes) -> bytes:
    """A zero-terminated string. A zero inside would smuggle a second one: refused.

    Bytes that are no UTF-8 come as surrogates, as `parse_parameters` gives them.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if b"\0" in data:
        raise ProtocolViolation("a text for the target holds a zero byte")
    return data + b"\0"


def read_cstring(data: bytes, pos: int, end: int) -> tuple[bytes, int]:
    """The string at `pos` and the position behind its zero byte."""
    stop = data.find(b"\0", pos, end)
    if stop < 0:
        raise ProtocolViolation("a string in a message has no end")
    return data[pos:stop], stop + 1


def last_cstring(data: bytes, pos: int, end: int) -> bytes:
    """The string at `pos`, with which the message must end."""
    text, after = read_cstring(data, pos, end)
    if after != end:
        raise ProtocolViolation("a message is longer than it says")
    return text


def startup(parameters: Mapping[str, str], protocol: int = PROTOCOL_3_0) -> bytes:
    body = b"".join(cstring(name) + cstring(value) for name, value in parameters.items()) + b"\0"
    return UINT32.pack(len(body) + 8) + UINT32.pack(protocol) + body


def parse_parameters(body: bytes) -> dict[str, str]:
    """The name/value pairs of a StartupMessage. UTF-8 with every other byte kept by surrogates."""
    if not body.endswith(b"\0"):
        raise ProtocolViolation("the startup message has no end")
    words = body[:-1].split(b"\0") if body != b"\0" else [b""]
    if words.pop() != b"" or len(words) % 2:
        raise ProtocolViolation("the startup message holds a parameter without a value")
    names = [word.decode("utf-8", "surrogateescape") for word in words[::2]]
    values = [word.decode("utf-8", "surrogateescape") for word in words[1::2]]
    if "" in names or len(set(names)) != len(names):
        raise ProtocolViolation("the startup message holds an empty or repeated parameter name")
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
    """Status: b"I" idle, b"T" in a transaction, b"E" in a failed one."""
    return message(b"Z", status)


def negotiate_protocol_version(newest: int, unsupported: Iterable[str]) -> bytes:
    """`newest` is a whole version, major and minor, as in a StartupMessage: so server and clients read it."""
    options = [cstring(option) for option in unsupported]
    return message(b"v", INT32.pack(newest), INT32.pack(len(options)), *options)


def parse(name: bytes, query: bytes) -> bytes:
    return message(b"P", cstring(name), cstring(query), INT16.pack(0))


def describe_portal(name: bytes) -> bytes:
    return message(b"D", b"P", cstring(name))


def query(text: bytes) -> bytes:
    return message(b"Q", cstring(text))


SYNC_MESSAGE = message(b"S")
TERMINATE_MESSAGE = message(b"X")


@dataclass(frozen=True, slots=True)
class Report:
    """The fields of an ErrorResponse or NoticeResponse that people read."""

    severity: str
    code: str
    text: str
    detail: str = ""
    hint: str = ""


def report(tag: bytes, severity: str, code: str, text: str, detail: str = "", hint: str = "") -> bytes:
    """An ErrorResponse (tag E) or NoticeResponse (tag N); chapter "Error and Notice Message Fields"."""
    fields = [(b"S", severity), (b"V", severity), (b"C", code), (b"M", text), (b"D", detail), (b"H", hint)]
    body = b"".join(key + value.replace("\0", "").encode() + b"\0" for key, value in fields if value)
    return message(tag, body, b"\0")


def error_response(code: str, text: str, *, severity: str = "ERROR", detail: str = "", hint: str = "") -> bytes:
    return report(b"E", severity, code, text, detail, hint)


def parse_fields(body: bytes) -> list[tuple[int, bytes]]:
    """The (field type, value) pairs of an ErrorResponse or NoticeResponse body."""
    fields: list[tuple[int, bytes]] = []
    pos, end = 0, len(body)
    while pos < end and body[pos]:
        value, after = read_cstring(body, pos + 1, end)
        fields.append((body[pos], value))
        pos = after
    return fields


def parse_report(body: bytes) -> Report:
    found = {chr(key): value.decode("utf-8", "replace") for key, value in parse_fields(body)}
    return Report(
        severity=found.get("V", found.get("S", "ERROR")),
        code=found.get("C", "XX000"),
        text=found.get("M", ""),
        detail=found.get("D", ""),
        hint=found.get("H", ""),
    )


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a RowDescription; `format` is 0 for text, 1 for binary."""

    name: str
    oid: int
    format: int


_FIELD = struct.Struct("!IhIhih")


@lru_cache(maxsize=64)
def parse_row_description(body: bytes) -> tuple[Field, ...]:
    count = int.from_bytes(_need(body, 0, 2, len(body)), "big")
    fields: list[Field] = []
    pos, end = 2, len(body)
    for _ in range(count):
        name, pos = read_cstring(body, pos, end)
        if end - pos < _FIELD.size:
            raise ProtocolViolation("a RowDescription is shorter than it says")
        _, _, oid, _, _, code = _FIELD.unpack_from(body, pos)
        fields.append(Field(name.decode("utf-8", "replace"), oid, code))
        pos += _FIELD.size
    if pos != end:
        raise ProtocolViolation("a RowDescription is longer than it says")
    return tuple(fields)


def parse_oids(data: bytes, pos: int, end: int) -> tuple[int, ...]:
    """An Int16 count and as many type OIDs, up to `end`: the end of a Parse, or a ParameterDescription."""
    count = int.from_bytes(_need(data, pos, 2, end), "big")
    if pos + 2 + 4 * count != end:
        raise ProtocolViolation("a message has another length than its parameters need")
    return struct.unpack_from(f"!{count}I", data, pos + 2)


@dataclass(frozen=True, slots=True)
class BindBody:
    """A decoded Bind. `values` holds raw parameter values, None for NULL."""

    portal: bytes
    statement: bytes
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


def parse_bind(data: bytes, pos: int, end: int) -> BindBody:
    portal, pos = read_cstring(data, pos, end)
    statement, pos = read_cstring(data, pos, end)
    formats, pos = _read_int16s(data, pos, end)
    values, pos = _read_values(data, pos, end)
    result_formats, pos = _read_int16s(data, pos, end)
    if pos != end:
        raise ProtocolViolation("a Bind message is longer than it says")
    return BindBody(portal, statement, formats, values, result_formats)


def parse_function_call(data: bytes, pos: int, end: int) -> tuple[int, tuple[bytes | None, ...]]:
    """The function's OID and the raw arguments, None for NULL."""
    oid = int.from_bytes(_need(data, pos, 4, end), "big")
    _, pos = _read_int16s(data, pos + 4, end)
    values, pos = _read_values(data, pos, end)
    if end - pos != 2:
        raise ProtocolViolation("a FunctionCall message has another length than its arguments need")
    return oid, values


def _read_values(data: bytes, pos: int, end: int) -> tuple[tuple[bytes | None, ...], int]:
    """An Int16 count, then Int32 length (-1 is NULL) and bytes of each value."""
    count = int.from_bytes(_need(data, pos, 2, end), "big")
    pos += 2
    values: list[bytes | None] = []
    for _ in range(count):
        size = int.from_bytes(_need(data, pos, 4, end), "big", signed=True)
        pos += 4
        if size == -1:
            values.append(None)
            continue
        values.append(_need(data, pos, size, end))
        pos += size
    return tuple(values), pos


def _read_int16s(data: bytes, pos: int, end: int) -> tuple[tuple[int, ...], int]:
    count = int.from_bytes(_need(data, pos, 2, end), "big")
    pos += 2
    block = _need(data, pos, 2 * count, end)
    return struct.unpack(f"!{count}h", block), pos + 2 * count


def _need(data: bytes, pos: int, size: int, end: int) -> bytes:
    if size < 0 or end - pos < size:
        raise ProtocolViolation("a message is shorter than it says")
    return data[pos : pos + size]


def rows_of(tag: str) -> int | None:
    """The row count of a CommandComplete tag (`SELECT 5`, `INSERT 0 3`), None for commands without one."""
    last = tag.rpartition(" ")[2]
    return int(last) if last.isdecimal() and len(last) < 20 else None
