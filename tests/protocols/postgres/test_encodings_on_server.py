"""Client encodings that the gateway can read are read as by a real server."""

from __future__ import annotations

import pytest
from psycopg import pq
from psycopg.pq.abc import PGconn
from tests.support.postgres import PostgresServer

from postern.protocols.postgres.wire.postgres_response_queue import PostgresResponseQueue
from postern.protocols.refusal_texts import text_of

READ = (
    *("UTF8", "SQL_ASCII", "KOI8R", "KOI8U", "ISO_8859_5", "ISO_8859_6", "ISO_8859_7", "ISO_8859_8"),
    *(f"LATIN{number}" for number in range(1, 11)),
    *(f"WIN{number}" for number in (866, 874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
)
UNREAD = (
    *("BIG5", "EUC_CN", "EUC_JIS_2004", "EUC_JP", "EUC_KR", "EUC_TW", "GB18030", "GBK", "JOHAB"),
    *("SHIFT_JIS_2004", "SJIS", "UHC"),
)


def connected(postgres_server: PostgresServer, encoding: str) -> PGconn:
    connection = pq.PGconn.connect(f"{postgres_server.dsn()}?client_encoding={encoding}".encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    return connection


@pytest.mark.parametrize("encoding", READ)
def test_bytes_of_a_readable_encoding_are_read_as_by_a_server(postgres_server: PostgresServer, encoding: str) -> None:
    ledger = PostgresResponseQueue()
    connection = connected(postgres_server, encoding)
    reported = connection.parameter_status(b"client_encoding")
    assert reported is not None
    ledger.encode(reported.decode())
    assert not ledger.unread
    texts = [bytes([number]) for number in range(1, 256) if number not in b"'"]
    texts += ["\u00e9\u3042\U0001f600".encode(), b"\xc3", b"\xe3\x81'\\", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    for text in texts:
        answer = connection.exec_(b"select encode(convert_to($$" + text + b"$$, 'UTF8'), 'hex')")
        if answer.status != pq.ExecStatus.TUPLES_OK:
            continue  # it cannot be read, and nothing runs
        value = answer.get_value(0, 0)
        assert value is not None
        if b"'" not in text:
            assert text_of(text, ledger.encoding).encode() == bytes.fromhex(value.decode()), (encoding, text)
    connection.finish()


@pytest.mark.parametrize("encoding", UNREAD)
def test_unreadable_encoding_reported_by_a_server_is_recognised(postgres_server: PostgresServer, encoding: str) -> None:
    ledger = PostgresResponseQueue()
    connection = connected(postgres_server, encoding)
    reported = connection.parameter_status(b"client_encoding")
    assert reported is not None
    ledger.encode(reported.decode())
    assert ledger.unread == reported.decode()
    connection.finish()


def test_server_ends_a_literal_in_sjis_where_latin1_would_not(postgres_server: PostgresServer) -> None:
    r"""In SJIS, 0x95 0x5C is one character, so the next quote ends the literal. In Latin-1, `\'` continues it."""
    connection = connected(postgres_server, "SJIS")
    answer = connection.exec_(b"select E'\x95\\', 4711 --'")
    assert answer.get_value(0, 1) == b"4711"
    connection.finish()
