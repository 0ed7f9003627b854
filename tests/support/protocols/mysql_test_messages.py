"""Packets of the MySQL protocol, both ways, for playbooks and doubles: one short function for each."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_values import add_length_prefix, pack_value
from postern.protocols.wire_base import Side

Cell = bytes | str | None


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


# What a client sends


def query(text: bytes | str) -> bytes:
    return m.query(_bytes(text))


def prepare(text: bytes | str) -> bytes:
    return m.command(m.COM_STMT_PREPARE, _bytes(text))


def execute(
    number: int,
    values: Sequence[tuple[int, Cell]] = (),
    *,
    flags: int = 0,
    types: bool = True,
    ahead: Sequence[int] = (),
) -> bytes:
    """`values` are (type, text); those whose places are in `ahead` were sent as long data."""
    nulls = bytearray((len(values) + 7) // 8)
    parts: list[bytes] = []
    for at, (kind, value) in enumerate(values):
        if value is None:
            nulls[at // 8] |= 1 << at % 8
        elif at not in ahead:
            parts.append(add_length_prefix(kind, pack_value(kind, False, _bytes(value))))
    given = b"".join([struct.pack("<H", kind) for kind, _ in values]) if types else b""
    bound = bytes(nulls) + (b"\x01" if types else b"\0") + given + b"".join(parts) if values else b""
    return m.command(m.COM_STMT_EXECUTE, struct.pack("<IBI", number, flags, 1), bound)


def long_data(number: int, place: int, data: bytes) -> bytes:
    return m.command(m.COM_STMT_SEND_LONG_DATA, struct.pack("<IH", number, place), data)


def fetch(number: int, rows: int) -> bytes:
    return m.command(m.COM_STMT_FETCH, struct.pack("<II", number, rows))


def close(number: int) -> bytes:
    return m.command(m.COM_STMT_CLOSE, m.packed32(number))


def reset(number: int) -> bytes:
    return m.command(m.COM_STMT_RESET, m.packed32(number))


def change_user(user: str, proof: bytes = b"", database: str = "", plugin: str = "mysql_native_password") -> bytes:
    body = len(proof).to_bytes(1, "little") + proof + _bytes(database) + b"\0" + m.packed16(45)
    return m.command(m.COM_CHANGE_USER, _bytes(user) + b"\0" + body + _bytes(plugin) + b"\0")


def file_data(sequence: int, data: bytes = b"") -> bytes:
    """A part of a file; the empty one ends it."""
    return m.packet(sequence, data)


# What a target sends


class AnswerPackets:
    """Packets of one answer, which number themselves. `bytes` is what was said so far."""

    def __init__(self, first: int = 1) -> None:
        self.sequence = first
        self.bytes = b""

    def add(self, *body: bytes) -> AnswerPackets:
        payload = b"".join(body)
        self.bytes += m.packet(self.sequence, payload)
        self.sequence += m.packets_of(len(payload))
        return self

    def ok(self, affected: int = 0, status: int = m.AUTOCOMMIT, info: bytes = b"") -> AnswerPackets:
        return self.add(m.ok(0, m.Done(affected, status=status, info=info))[m.HEAD :])

    def eof(self, status: int = m.AUTOCOMMIT) -> AnswerPackets:
        return self.add(m.eof(0, status)[m.HEAD :])

    def error(self, text: str, code: int = 1064, state: str = "42000") -> AnswerPackets:
        return self.add(m.err(0, code, state, text)[m.HEAD :])

    def columns(self, *fields: str | m.MysqlField, status: int = m.AUTOCOMMIT, count: bool = True) -> AnswerPackets:
        """Column definitions with their count in front and the EOF behind."""
        if count:
            self.add(m.lenenc(len(fields)))
        for field in fields:
            one = field if isinstance(field, m.MysqlField) else m.MysqlField(field, m.VAR_STRING)
            self.add(m.column(0, one)[m.HEAD :])
        return self.eof(status)

    def row(self, *cells: Cell) -> AnswerPackets:
        return self.add(*[b"\xfb" if cell is None else m.lenenc_text(_bytes(cell)) for cell in cells])

    def binary_row(self, *values: tuple[int, Cell]) -> AnswerPackets:
        """Of (type, text)."""
        nulls = bytearray((len(values) + 9) // 8)
        parts: list[bytes] = []
        for at, (kind, value) in enumerate(values):
            if value is None:
                nulls[(at + 2) // 8] |= 1 << (at + 2) % 8
            else:
                parts.append(add_length_prefix(kind, pack_value(kind, False, _bytes(value))))
        return self.add(b"\0", bytes(nulls), *parts)

    def prepared(self, number: int, parameters: int = 0, columns: Sequence[m.MysqlField] = ()) -> AnswerPackets:
        self.add(struct.pack("<BIHHBH", 0, number, len(columns), parameters, 0, 0))
        if parameters:
            self.columns(*["?"] * parameters, count=False)
        return self.columns(*columns, count=False) if columns else self

    def wants_file(self, name: str = "data.csv") -> AnswerPackets:
        return self.add(b"\xfb", name.encode())


def ok(affected: int = 0, status: int = m.AUTOCOMMIT) -> bytes:
    return AnswerPackets().ok(affected, status).bytes


def error(text: str, code: int = 1064) -> bytes:
    return AnswerPackets().error(text, code).bytes


def rows(*cells: Sequence[Cell], names: Sequence[str] = ("a",), status: int = m.AUTOCOMMIT) -> bytes:
    """A whole result of text columns."""
    answer = AnswerPackets().columns(*names)
    for row in cells:
        answer.row(*row)
    return answer.eof(status).bytes


def show(author: Side, data: bytes) -> list[str]:
    """Packets that `author` made, for people, one a line."""
    found: list[str] = []
    pos = 0
    while len(data) - pos >= m.HEAD:
        size = int.from_bytes(data[pos : pos + 3], "little")
        body = data[pos + m.HEAD : pos + m.HEAD + size]
        shown = repr(body) if size <= 200 else f"{body[:100]!r} … of {size}"
        found.append(f"#{data[pos + 3]} {shown}" + ("" if len(body) == size else " (cut)"))
        pos += m.HEAD + size
    return [*found, f"rest {data[pos:]!r}"] if pos < len(data) else found
