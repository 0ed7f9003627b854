"""Bind values of prepared statements: values that the gateway accepts are read identically by MariaDB."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb

from postern.errors import ProtocolViolation
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_bind_values import parameters, read_execute_types
from postern.protocols.mysql.wire.mysql_response_queue import MysqlStatement
from postern.protocols.mysql.wire.mysql_values import binary_texts

BODIES = [
    b"", b"\0", b"\x01a", b"ab", b"\x03abc", b"\x01\x02\x03\x04", b"\x04\xd0\x07\x01\x02", b"\x05\xd0\x07\x01\x02\x01",
    b"\x05abcde", b"12345678", b"\x03abc\x03abc", b"\x07\xd0\x07\x01\x02\x01\x02\x03",
    b"\x08\0\x01\0\0\0\x01\x02\x03", b"\x0b\xd0\x07\x01\x02\x01\x02\x03\x01\0\0\0",
    b"\x0c\0\x01\0\0\0\x01\x02\x03\x04\0\0\0",
]  # fmt: skip
BEHIND = b"behind"
TWO = m.MysqlField("a", m.VAR_STRING)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with running_mariadb() as running:
        yield running


def read_by_the_server(client: Any, number: int, payload: bytes) -> tuple[bytes | None, ...] | None:
    """Return the values that the server reads, or None if it rejects them."""
    client._execute_command(m.COM_STMT_EXECUTE, payload[1:])
    try:
        for _ in range(4):  # the count of columns, two columns, an end
            client._read_packet()
    except pymysql.err.MySQLError:
        return None
    row = client._read_packet().get_all_data()
    client._read_packet()
    return binary_texts(row, (TWO, TWO))


@pytest.mark.parametrize("flag", [1, 2])
def test_attack_bind_value_of_any_type_is_read_as_by_the_server(server: MariaDbServer, flag: int) -> None:
    with server.connect() as client:
        client._execute_command(m.COM_STMT_PREPARE, b"select concat(?), concat(?)")
        number = int.from_bytes(client._read_packet().get_all_data()[1:5], "little")
        for _ in range(6):
            client._read_packet()
        taken = 0
        for kind in range(256):
            for body in BODIES:
                types = bytes((kind, 0, m.VAR_STRING, 0))
                values = b"\0" + bytes([flag]) + types + body + m.lenenc_text(BEHIND)
                payload = struct.pack("<BIBI", m.COM_STMT_EXECUTE, number, 0, 1) + values
                statement = MysqlStatement("", number, 2)
                try:
                    statement.types = read_execute_types(payload, statement)
                    judged = parameters(payload, statement, bool(statement.types))
                except ProtocolViolation:
                    continue
                if judged is None:
                    continue
                found = read_by_the_server(client, number, payload)
                assert found is None or (judged[1], found[1]) == (BEHIND, BEHIND), (kind, body)
                taken += found is not None
        assert bool(taken) is (flag == 1)
