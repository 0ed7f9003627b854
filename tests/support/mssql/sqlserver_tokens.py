"""Tokens of answers (MS-TDS 2.2.7)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.sqlserver_collations import SqlCollation
from tests.support.mssql.sqlserver_errors import SqlError
from tests.support.mssql.sqlserver_types import SqlColumn, SqlType, b_varchar, us_varchar
from tests.support.mssql.sqlserver_values import SqlValue, encode_value

SERVER: Final = "TESTSERVER"
DONE, DONEPROC, DONEINPROC = 0xFD, 0xFE, 0xFF
MORE, ERROR, IN_TRANSACTION, COUNT, ATTENTION = 1, 2, 4, 0x10, 0x20
PROGRAM_VERSION: Final = b"\x10\x00\x03\xe8"  # 16.0.1000


def message(error: SqlError, version: int) -> bytes:
    """Return ERROR, or INFO for a severity up to 10."""
    texts = us_varchar(error.text[:8000]) + b_varchar(SERVER) + b_varchar(error.procedure)
    line = struct.pack("<I" if t.has(version, t.V72) else "<H", error.line)
    body = struct.pack("<iBB", error.number, error.state, error.severity) + texts + line
    return struct.pack("<BH", 0xAB if error.severity <= 10 else 0xAA, len(body)) + body


def done(token: int, status: int, count: int | None, version: int, command: int = 0xFD) -> bytes:
    status |= 0 if count is None else COUNT
    form = "<BHHQ" if t.has(version, t.V72) else "<BHHI"
    return struct.pack(form, token, status, command, count or 0)


def columns(described: Sequence[SqlColumn], version: int) -> bytes:
    """Return COLMETADATA."""
    parts = [struct.pack("<BH", 0x81, len(described))]
    for column in described:
        kind = t.sent_type(column.type, version)
        flags = 0x8 | column.nullable | (0x10 if column.identity else 0) | (0x2000 if column.hidden else 0)
        user_type = 0x50 if kind.name == "timestamp" else 0
        parts.append(struct.pack("<IH" if t.has(version, t.V72) else "<HH", user_type, flags))
        parts.append(t.type_info(kind, column.nullable))
        if kind.name in t.LONG:
            names = [part for part in column.base.split(".") if part]
            if t.has(version, t.V72):
                parts.append(bytes([len(names)]) + b"".join(us_varchar(name) for name in names))
            else:
                parts.append(us_varchar(column.base))
        parts.append(b_varchar(column.name))
    return b"".join(parts)


def row(described: Sequence[SqlColumn], values: Sequence[SqlValue], version: int) -> bytes:
    """Return ROW, or NBCROW where that is shorter and the version has it."""
    cells = [
        (value, t.sent_type(column.type, version), column.nullable)
        for column, value in zip(described, values, strict=True)
    ]
    nulls = sum(1 << index for index, (value, _, _) in enumerate(cells) if value is None)
    if nulls and t.has(version, t.V73) and nulls.bit_count() * 2 > (len(cells) + 7) // 8:
        bitmap = nulls.to_bytes((len(cells) + 7) // 8, "little")
        present = (encode_value(kind, nullable, value) for value, kind, nullable in cells if value is not None)
        return b"\xd2" + bitmap + b"".join(present)
    return b"\xd1" + b"".join(encode_value(kind, nullable, value) for value, kind, nullable in cells)


def order(places: Sequence[int]) -> bytes:
    return struct.pack("<BH", 0xA9, len(places) * 2) + b"".join(struct.pack("<H", place) for place in places)


def return_status(status: int) -> bytes:
    return struct.pack("<Bi", 0x79, status)


def return_value(place: int, name: str, kind: SqlType, value: SqlValue, version: int) -> bytes:
    kind = t.sent_type(kind, version)
    head = struct.pack("<BH", 0xAC, place) + b_varchar(name) + b"\x01"
    head += struct.pack("<IH" if t.has(version, t.V72) else "<HH", 0, 1)
    return head + t.type_info(kind) + encode_value(kind, True, value)


def _change(kind: int, body: bytes) -> bytes:
    return struct.pack("<BHB", 0xE3, len(body) + 1, kind) + body


def text_change(kind: int, new: str, old: str) -> bytes:
    """Return ENVCHANGE of database (1), language (2) or packet size (4)."""
    return _change(kind, b_varchar(new) + b_varchar(old))


def collation_change(collation: SqlCollation) -> bytes:
    return _change(7, b"\x05" + collation.wire + b"\0")


def transaction_begun(descriptor: bytes) -> bytes:
    return _change(8, bytes([len(descriptor)]) + descriptor + b"\0")


def transaction_ended(descriptor: bytes, *, committed: bool) -> bytes:
    return _change(9 if committed else 10, b"\0" + bytes([len(descriptor)]) + descriptor)


def session_reset() -> bytes:
    return _change(18, b"\0\0")


def routing(host: str, port: int) -> bytes:
    value = b"\0" + struct.pack("<H", port) + us_varchar(host)
    return _change(20, struct.pack("<H", len(value)) + value + b"\0\0")


def login_ack(version: int) -> bytes:
    body = b"\x01" + struct.pack(">I", version) + b_varchar("Microsoft SQL Server\0\0") + PROGRAM_VERSION
    return struct.pack("<BH", 0xAD, len(body)) + body


def features(acknowledged: dict[int, bytes]) -> bytes:
    """Return FEATUREEXTACK."""
    parts = (struct.pack("<BI", number, len(data)) + data for number, data in acknowledged.items())
    return b"\xae" + b"".join(parts) + b"\xff"
