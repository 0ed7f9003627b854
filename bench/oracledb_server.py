"""A target that answers Oracle Database's clients with prepared messages, so that it is never the slowest part.

    python -m bench.oracledb_server PORT MEGABYTES

A statement with `lines` in it returns MEGABYTES of rows, 1,000 with each fetch, any other SELECT one row. The login is
that of the test server, without TLS. Statements by which the gateway reads the catalogue return the two tables.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

import uvloop
from tests.support.oracledb import server_replies as replies
from tests.support.oracledb.database import Database
from tests.support.oracledb.listener_packets import PacketSplitter
from tests.support.oracledb.server_replies import ColumnInfo, Completion, Dialogue
from tests.support.oracledb.server_session import ServerOptions, ServerSession
from tests.support.oracledb.ttc_fields import counted
from tests.support.oracledb.type_codings import NUMBER_TYPE, encode_number, text_type

from postern.protocols.oracledb.queries import oracle_schema
from postern.protocols.oracledb.queries.oracle_own_calls import ROWS

OWNER, TABLES, NAMES = "APP", ("CUSTOMERS", "LINES"), ("ID", "NAME", "EMAIL", "ADDRESS")
_TYPES = (NUMBER_TYPE, text_type(40), text_type(80), text_type(200))
_COLUMNS = [ColumnInfo(name, kind) for name, kind in zip(NAMES, _TYPES, strict=True)]
_FETCH, _EXECUTE, _AGAIN = b"\x03\x05", b"\x03\x5e", b"\x03\x4e"
_ONE, _MANY = 1, 2  # cursors
_NO_MORE = "ORA-01403: no data found\n"


def customer(number: int) -> list[bytes]:
    """Cells of about 100 bytes, with values that masking finds."""
    texts = (f"Ada Lovelace {number}", f"ada.{number}@example.com", f"St James's Square {number}, London SW1Y 4JH")
    return [counted(encode_number(number)), *[counted(text.encode()) for text in texts]]


def _texts(dialogue: Dialogue, *rows: tuple[str | None, ...]) -> bytes:
    """A result of texts."""
    columns = [ColumnInfo(f"C{place}", text_type(128)) for place in range(len(rows[0]) if rows else 1)]
    cells = [[counted(text.encode() if text else None) for text in row] for row in rows]
    return replies.describe_reply(columns, dialogue) + _rows(cells, dialogue, _ONE, is_last=True)


def _rows(rows: list[list[bytes]], dialogue: Dialogue, cursor: int, *, is_last: bool) -> bytes:
    end = Completion(1403, _NO_MORE, cursor, len(rows)) if is_last else Completion(0, "", cursor, len(rows))
    header = replies.row_header(len(_COLUMNS), ROWS) if rows else b""
    return header + replies.rows_reply(rows) + replies.completion_reply(end, dialogue)


@dataclass(frozen=True)
class Answers:
    """Answers for clients that have agreed on one layout."""

    described: bytes
    one: bytes  # a row without its description
    block: bytes
    last_block: bytes
    done: bytes
    status: bytes
    catalogue: dict[bytes, bytes]


@cache
def answers(dialogue: Dialogue) -> Answers:
    block = [customer(4711 + number) for number in range(ROWS)]
    path, relations, columns, *others = [question.encode() for question in oracle_schema.QUESTIONS]
    return Answers(
        replies.describe_reply(_COLUMNS, dialogue),
        _rows([customer(4711)], dialogue, _ONE, is_last=True),
        _rows(block, dialogue, _MANY, is_last=False),
        _rows(block, dialogue, _MANY, is_last=True),
        replies.completion_reply(Completion(), dialogue),
        replies.status_reply(dialogue),
        {
            path: _texts(dialogue, (OWNER,)),
            relations: _texts(dialogue, *[(OWNER, table, None) for table in TABLES]),
            columns: _texts(dialogue, *[(OWNER, table, name, "NO", None, "NO") for table in TABLES for name in NAMES]),
            **dict.fromkeys(others, _texts(dialogue)),
        },
    )


class PreparedSession(ServerSession):
    """A session of the test server up to its login. Its statements have prepared answers."""

    blocks = 1  # of the large result
    _blocks_left = 0

    def _calls(self) -> bytes:
        message, prepared = bytes(self._message), answers(replace(self._dialogue(), sequence=0))
        if message.startswith(_AGAIN):
            return self._packets(prepared.one)
        if message.startswith(_FETCH):
            return self._packets(self._next_block(prepared))
        if b"select id" in message:
            if b"lines" not in message:
                return self._packets(prepared.described + prepared.one)
            self._blocks_left = self.blocks
            return self._packets(prepared.described + self._next_block(prepared))
        if _EXECUTE not in message:
            return self._packets(prepared.status)
        known = [answer for question, answer in prepared.catalogue.items() if question in message]
        return self._packets(known[0] if known else prepared.done)

    def _next_block(self, prepared: Answers) -> bytes:
        self._blocks_left -= 1
        return prepared.block if self._blocks_left > 0 else prepared.last_block


class OracleAnswering(asyncio.Protocol):
    """One connection."""

    database: Database
    options = ServerOptions({"APP": "secret"}, ("shop",))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._splitter = PacketSplitter()
        self._session = PreparedSession(self.database, self.options)

    def data_received(self, data: bytes) -> None:
        self._splitter.feed(data)
        while packet := self._splitter.next_packet():
            self._transport.write(self._session.receive(packet))
            self._splitter.large = self._session.large_packets
        if self._session.closed:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._session.end()


async def serve(port: int, megabytes: int) -> None:
    PreparedSession.blocks = megabytes * 1_000_000 // len(answers(Dialogue(12)).block)
    with tempfile.TemporaryDirectory(prefix="bench-oracle-") as folder:
        OracleAnswering.database = Database(Path(folder))
        server = await asyncio.get_running_loop().create_server(OracleAnswering, "127.0.0.1", port, backlog=1024)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
