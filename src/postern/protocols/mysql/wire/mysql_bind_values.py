"""Values bound to the parameters of a prepared statement, as text (MySQL, "COM_STMT_EXECUTE")."""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_response_queue import MysqlStatement
from postern.protocols.mysql.wire.mysql_values import plain, read_binary

_HEAD: Final = 10  # command, number, flags, count of iterations
_SIGN: Final = 0x8000  # flag of a type: its number is unsigned

# No client library sends values of these types, and servers disagree on their size: MariaDB reads none, MySQL a text,
# and others the format of such columns. Whatever follows one would be misread.
DOUBTFUL: Final = frozenset({m.INT24, m.YEAR, m.BIT, m.GEOMETRY, m.NULL})


def read_execute_types(payload: bytes, statement: MysqlStatement) -> tuple[int, ...]:
    """Return the types in an EXECUTE, of which at least the header has arrived; empty if it reuses the last ones.
    Raises ProtocolViolation."""
    count = statement.count
    if not count:
        return ()
    pos = _HEAD + (count + 7) // 8
    if len(payload) <= pos or payload[pos] > 1:  # servers read any number as 1
        raise ProtocolViolation("the values of a prepared statement are truncated")
    if not payload[pos]:
        return ()
    if len(payload) - pos - 1 < 2 * count:
        raise ProtocolViolation("the values of a prepared statement are truncated")
    return tuple([int(m.uint16(payload, pos + 1 + 2 * at)) for at in range(count)])


def with_types(payload: bytes, statement: MysqlStatement) -> bytes:
    """Return an EXECUTE that has no types with those that the statement is known to have."""
    pos = _HEAD + (statement.count + 7) // 8
    types = b"".join([m.packed16(type_code) for type_code in statement.types])
    return payload[:pos] + b"\x01" + types + payload[pos + 1 :]


def parameters(payload: bytes, statement: MysqlStatement, brings: bool) -> tuple[bytes | None, ...] | None:
    """Return the values of an EXECUTE, None for NULL. `brings`: it contains its types. Long data sent earlier is in its
    place. None if there are values of DOUBTFUL types. Raises ProtocolViolation."""
    count = statement.count
    if not count:
        return ()
    end = len(payload)
    pos = _HEAD + (count + 7) // 8 + 1 + (2 * count if brings else 0)
    if len(statement.types) != count:
        raise ProtocolViolation("a prepared statement has values without types")
    values: list[bytes | None] = []
    for at, type_code in enumerate(statement.types):
        ahead = statement.long.get(at)
        if ahead is not None:
            values.append(bytes(ahead))
        elif payload[_HEAD + at // 8] >> at % 8 & 1:
            values.append(None)
        else:
            kind = type_code & 0xFF
            if kind in DOUBTFUL:
                return None
            data, pos = read_binary(payload, pos, end, kind)
            values.append(plain(kind, bool(type_code & _SIGN), data))
    if pos != end:
        raise ProtocolViolation("the values of a prepared statement have extra bytes")
    return tuple(values)
