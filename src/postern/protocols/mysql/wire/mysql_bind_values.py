"""What is bound to the parameters of a prepared statement, as text (MySQL, "COM_STMT_EXECUTE")."""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_response_queue import MysqlStatement
from postern.protocols.mysql.wire.mysql_values import plain, read_binary

_HEAD: Final = 10  # command, number, flags, count of iterations
_SIGN: Final = 0x8000  # of a type: its number has no sign

# No client library sends values of these, and servers do not agree on how many bytes such a value has: MariaDB takes
# none, MySQL a text, and others what columns of the type have. What stands behind one would be read as something else.
DOUBTFUL: Final = frozenset({m.INT24, m.YEAR, m.BIT, m.GEOMETRY, m.NULL})


def brought(payload: bytes, statement: MysqlStatement) -> tuple[int, ...]:
    """The types that an EXECUTE brings, of which at least the head is there; empty where those of the last one stand.
    Raises ProtocolViolation."""
    count = statement.count
    if not count:
        return ()
    pos = _HEAD + (count + 7) // 8
    if len(payload) <= pos or payload[pos] > 1:  # servers take any number for a 1
        raise ProtocolViolation("the values of a prepared statement are shorter than they say")
    if not payload[pos]:
        return ()
    if len(payload) - pos - 1 < 2 * count:
        raise ProtocolViolation("the values of a prepared statement are shorter than they say")
    return tuple([int(m.uint16(payload, pos + 1 + 2 * at)) for at in range(count)])


def with_types(payload: bytes, statement: MysqlStatement) -> bytes:
    """The same EXECUTE, which brought none, with those that the statement is known to have."""
    pos = _HEAD + (statement.count + 7) // 8
    types = b"".join([m.packed16(given) for given in statement.types])
    return payload[:pos] + b"\x01" + types + payload[pos + 1 :]


def parameters(payload: bytes, statement: MysqlStatement, brings: bool) -> tuple[bytes | None, ...] | None:
    """The values of an EXECUTE, None for NULL; `brings`: its types stand in it. What was sent ahead as long data is
    in its place. None: values of DOUBTFUL types are among them. Raises ProtocolViolation."""
    count = statement.count
    if not count:
        return ()
    end = len(payload)
    pos = _HEAD + (count + 7) // 8 + 1 + (2 * count if brings else 0)
    if len(statement.types) != count:
        raise ProtocolViolation("a prepared statement was given values without types")
    values: list[bytes | None] = []
    for at, given in enumerate(statement.types):
        ahead = statement.long.get(at)
        if ahead is not None:
            values.append(bytes(ahead))
        elif payload[_HEAD + at // 8] >> at % 8 & 1:
            values.append(None)
        else:
            kind = given & 0xFF
            if kind in DOUBTFUL:
                return None
            data, pos = read_binary(payload, pos, end, kind)
            values.append(plain(kind, bool(given & _SIGN), data))
    if pos != end:
        raise ProtocolViolation("the values of a prepared statement are longer than they say")
    return tuple(values)
