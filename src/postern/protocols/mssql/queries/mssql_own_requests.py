"""The requests that the gateway itself sends to a target: a batch, and a statement with values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_tokens import encode_short_text

NO_TRANSACTION: Final = bytes(8)
_EXECUTE_SQL: Final = b"\xff\xff\x0a\0\0\0"  # sp_executesql by its number, without options
_COLLATION: Final = bytes.fromhex("0904d00034")  # of values, which are in UTF-16 anyway
_NVARCHAR_MAX: Final = bytes((t.NVARCHAR,)) + b"\xff\xff" + _COLLATION
_NULL: Final = b"\xff" * 8
_PLACE: Final = "?"


def _headers(transaction: bytes = NO_TRANSACTION) -> bytes:
    """Return ALL_HEADERS with the one that is required: the transaction, and one request at a time."""
    return b"\x16\0\0\0" + b"\x12\0\0\0\x02\0" + transaction + b"\x01\0\0\0"


def encode_batch(text: str, transaction: bytes = NO_TRANSACTION) -> bytes:
    """Encode a batch as a message. `transaction` is the open one, as the server has numbered it."""
    return p.message(p.BATCH, _headers(transaction) + text.encode(t.UTF16, "surrogatepass"))


def encode_statement(statement: str, values: Sequence[str | None]) -> bytes:
    """Encode a statement as a call of sp_executesql. Each `?` of it is a value. Raises ValueError if their numbers
    differ."""
    parts = statement.split(_PLACE)
    if len(parts) != len(values) + 1:
        raise ValueError(f"a query has {len(parts) - 1} placeholders for {len(values)} values")
    text = parts[0] + "".join([f"@v{place}{part}" for place, part in enumerate(parts[1:], 1)])
    given = [_parameter("", text)]
    if values:
        given.append(_parameter("", ", ".join([f"@v{place} nvarchar(max)" for place in range(1, len(values) + 1)])))
    given += [_parameter(f"@v{place}", value) for place, value in enumerate(values, 1)]
    return p.message(p.RPC, _headers() + _EXECUTE_SQL + b"".join(given))


def _parameter(name: str, value: str | None) -> bytes:
    head = encode_short_text(name) + b"\0" + _NVARCHAR_MAX
    if value is None:
        return head + _NULL
    data = value.encode(t.UTF16, "surrogatepass")
    chunk = len(data).to_bytes(4, "little") + data if data else b""
    return head + len(data).to_bytes(8, "little") + chunk + bytes(4)


def encode_typed_statement(statement: str, declaration: str, values: Sequence[tuple[str, bytes]]) -> bytes:
    """Encode a statement as a call of sp_executesql, with values that are encoded with their types already."""
    given = [_parameter("", statement)]
    if values:
        given.append(_parameter("", declaration))
    given += [encode_short_text(name) + b"\0" + value for name, value in values]
    return p.message(p.RPC, _headers() + _EXECUTE_SQL + b"".join(given))
