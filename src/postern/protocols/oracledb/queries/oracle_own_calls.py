"""The calls that the gateway itself sends to a target, as a client with the layout of its own sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.protocols.oracledb.login.oracle_login import SDU
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.statement_forms import form_of
from postern.protocols.oracledb.wire.ttc_buffers import pack_clr, pack_number

ROWS: Final = 1_000  # of each fetch
_LONGEST_LONG: Final = 0x7FFFFFFF
_BIND_SIZE: Final = 4_000


def encode_execute(text: str, values: Sequence[str | None], sequence: int) -> bytes:
    """Encode an execution of a statement, whose binds are texts. The first rows of a query come with the answer."""
    form = form_of(text)
    data = text.encode("utf-8", "replace")
    options = c.OPTION_PARSE | c.OPTION_EXECUTE | (c.OPTION_BIND if values else 0)
    options |= c.OPTION_PLSQL_BIND if form.is_plsql else c.OPTION_NOT_PLSQL
    count = 1
    if form.is_query:
        options |= c.OPTION_FETCH
        count = ROWS
    numbers = [1, count, 0, 0, 0, 0, 0, int(form.is_query), 0, 0, 0, 0, 0]
    parts = [
        bytes((c.FUNCTION, c.EXECUTE, sequence)),
        pack_number(options) + pack_number(0),
        b"\1" + pack_number(len(data)),
        b"\1" + pack_number(len(numbers)) + bytes(2),
        pack_number(0) + pack_number(ROWS) + pack_number(_LONGEST_LONG),
        bytes((1 if values else 0,)) + pack_number(len(values)),
        bytes(5),
        b"\0" + pack_number(0),
        b"\0\0\1" + bytes(5),  # notifications, object types, a list of values
        bytes(3),
        bytes(5),
        bytes(2),
        pack_clr(data),
        *[pack_number(number) for number in numbers],
        *[_bind(value) for value in values],
    ]
    if values:
        parts += [bytes((c.ROW_DATA,)), *[pack_clr(None if value is None else value.encode()) for value in values]]
    return _packets(b"".join(parts))


def _bind(value: str | None) -> bytes:
    size = max(len((value or "").encode()), 1)
    head = bytes((c.VARCHAR, 1, 0, 0)) + pack_number(max(size, _BIND_SIZE)) + bytes(2)
    return head + bytes(2) + pack_number(c.AL32UTF8) + bytes((c.IMPLICIT,)) + bytes(2)


def encode_fetch(cursor: int, sequence: int) -> bytes:
    """Encode a fetch of more rows of a cursor."""
    return _packets(bytes((c.FUNCTION, c.FETCH, sequence)) + pack_number(cursor) + pack_number(ROWS))


def encode_function(function: int, sequence: int) -> bytes:
    """Encode a call without arguments, such as a commit."""
    return _packets(bytes((c.FUNCTION, function, sequence)))


def _packets(data: bytes) -> bytes:
    return tns.data_packets(data, SDU)
