"""Messages of SQL Server's protocol, both ways, for playbooks and doubles: one short function for each."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.wire_base import Side

LATIN = bytes.fromhex("0904d00034")
NULL = None
HEADERS = struct.pack("<IIHQI", 22, 18, 2, 0, 1)  # the transaction descriptor


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


# What a client sends


def batch(text: str, *, size: int = 4096, status: int = 0) -> bytes:
    return p.message(p.BATCH, HEADERS + utf16(text), size, status=status)


def nvarchar(text: str | None, name: str = "", status: int = 0) -> bytes:
    """A parameter of an RPC."""
    head = k.encode_short_text(name) + bytes((status,)) + b"\xe7" + struct.pack("<H", 8000) + LATIN
    return head + (b"\xff\xff" if text is None else struct.pack("<H", 2 * len(text)) + utf16(text))


def nvarchar_max(text: str, chunk: int = 7, status: int = 0) -> bytes:
    data = utf16(text)
    chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    parts = b"".join([struct.pack("<I", len(part)) + part for part in chunks])
    return b"\0" + bytes((status,)) + b"\xe7\xff\xff" + LATIN + b"\xfe" + b"\xff" * 7 + parts + bytes(4)


def integer(number: int | None, name: str = "", status: int = 0) -> bytes:
    value = b"\0" if number is None else b"\x04" + struct.pack("<i", number)
    return k.encode_short_text(name) + bytes((status,)) + b"\x26\x04" + value


def call(procedure: int | str, *parameters: bytes, flags: int = 0) -> bytes:
    name = b"\xff\xff" + struct.pack("<H", procedure) if isinstance(procedure, int) else _us(procedure)
    return name + struct.pack("<H", flags) + b"".join(parameters)


def _us(text: str) -> bytes:
    return struct.pack("<H", len(text)) + utf16(text)


def rpc(*calls: bytes, size: int = 4096, status: int = 0) -> bytes:
    return p.message(p.RPC, HEADERS + b"\xff".join(calls), size, status=status)


def execute_sql(text: str, *values: bytes) -> bytes:
    return rpc(call(r.EXECUTE_SQL, nvarchar(text), nvarchar("@P1 int"), *values))


def attention() -> bytes:
    return p.packet(p.ATTENTION, b"")


def transaction(kind: int, rest: bytes = b"\0\0") -> bytes:
    return p.message(p.TRANSACTION, HEADERS + struct.pack("<H", kind) + rest)


# What a server sends: tokens, and messages of them


def reply(*tokens: bytes, size: int = 4096) -> bytes:
    return p.message(p.REPLY, b"".join(tokens), size)


def column(name: str, kind: bytes, flags: int = k.NULLABLE) -> bytes:
    return struct.pack("<IH", 0, flags) + kind + k.encode_short_text(name)


def text_type(characters: int) -> bytes:
    return b"\xe7" + struct.pack("<H", 2 * characters if characters else 0xFFFF) + LATIN


INT = b"\x38"
INTN = b"\x26\x04"


def columns(*described: bytes) -> bytes:
    return bytes((k.COLMETADATA,)) + struct.pack("<H", len(described)) + b"".join(described)


def text_cell(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else struct.pack("<H", len(utf16(text))) + utf16(text)


def max_cell(text: str, chunk: int = 8) -> bytes:
    data = utf16(text)
    chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    parts = b"".join([struct.pack("<I", len(part)) + part for part in chunks])
    return struct.pack("<Q", len(data)) + parts + bytes(4)


def int_cell(number: int) -> bytes:
    return struct.pack("<i", number)


def intn_cell(number: int | None) -> bytes:
    return b"\0" if number is None else b"\x04" + struct.pack("<i", number)


def row(*cells: bytes) -> bytes:
    return bytes((k.ROW,)) + b"".join(cells)


def null_row(nulls: Sequence[int], width: int, *cells: bytes) -> bytes:
    bits = bytearray((width + 7) // 8)
    for at in nulls:
        bits[at // 8] |= 1 << at % 8
    return bytes((k.NBCROW,)) + bytes(bits) + b"".join(cells)


def done(
    rows: int | None = None, *, more: bool = False, error: bool = False, status: int = 0, code: int = 0xFD
) -> bytes:
    status |= (k.DONE_MORE if more else 0) | (k.DONE_ERROR if error else 0) | (0 if rows is None else k.DONE_COUNT)
    return k.encode_done(status, True, rows or 0, 0xC1, code)


def done_attention() -> bytes:
    return reply(done(status=k.DONE_ATTENTION))


def error(number: int, text: str) -> bytes:
    return k.encode_message(k.ERROR, number, 16, text, True, server="sql")


def info(text: str) -> bytes:
    return k.encode_message(k.INFO, 0, 0, text, True, server="sql")


def handle(number: int | None, ordinal: int = 0) -> bytes:
    """A RETURNVALUE with a number."""
    head = bytes((k.RETURNVALUE,)) + struct.pack("<H", ordinal) + b"\0\1" + struct.pack("<IH", 0, 0)
    return head + INTN + intn_cell(number)


def returned(name: str, text: str) -> bytes:
    """A RETURNVALUE with a text of at most 20 characters."""
    head = bytes((k.RETURNVALUE,)) + struct.pack("<H", 1) + k.encode_short_text(name) + b"\1" + struct.pack("<IH", 0, 0)
    return head + text_type(20) + text_cell(text)


def status(number: int) -> bytes:
    return bytes((k.RETURNSTATUS,)) + struct.pack("<i", number)


def environment(kind: int, new: bytes = b"\0", old: bytes = b"\0") -> bytes:
    return k.encode_environment(kind, new, old)


def begun() -> bytes:
    return environment(k.ENV_BEGIN, b"\x08" + bytes(7) + b"\1")


def payload(data: bytes) -> bytes:
    """The tokens in packets, without headers, and the ends of messages as a mark."""
    parts: list[bytes] = []
    for each in p.TdsPackets().feed(data):
        parts.append(each.payload)
        if each.is_last:
            parts.append(b"<end>")
    return b"".join(parts)


def shown(data: bytes) -> bytes:
    """The same with texts in UTF-8, so that a text in UTF-16 is found as one."""
    return payload(data).replace(b"\0", b"")


CLIENT, TARGET = Side.CLIENT, Side.TARGET
