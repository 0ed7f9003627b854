"""A target that answers SQL Server's clients with prepared messages, so that it is never the slowest part.

    python bench/mssql_server.py PORT MEGABYTES

A batch with `lines` in it returns MEGABYTES of rows, any other SELECT one row. Everyone can log in, without TLS. Calls,
by which the gateway reads the catalogue, return the two tables.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop
from tests.support.protocols import mssql_test_messages as messages

from postern.protocols.mssql.login import mssql_prelogin as pre
from postern.protocols.mssql.queries import mssql_schema
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k

SIZE = 4096  # of packets, as drivers ask for
_LINES = messages.utf16("lines")
_SELECT = messages.utf16("select id")
_DONE = messages.reply(messages.done())
_ATTENDED = messages.done_attention()
_PRELOGIN = p.packet(
    p.REPLY, pre.encode_prelogin({pre.VERSION: pre.OWN_VERSION, pre.ENCRYPTION: bytes((pre.NOT_SUPPORTED,))})
)
_WELCOME = messages.reply(
    messages.environment(k.ENV_DATABASE, k.encode_short_text("shop")),
    k.encode_login_ack(k.TDS_74, k.SERVER, (16, 0, 1000)),
    messages.environment(k.ENV_PACKET_SIZE, k.encode_short_text(str(SIZE)), k.encode_short_text(str(SIZE))),
    messages.done(),
)
TABLES = ("customers", "lines")
NAMES = ("id", "name", "email", "address")
_TYPES = (messages.INT, messages.text_type(40), messages.text_type(80), messages.text_type(200))
COLUMNS = messages.columns(*[messages.column(name, kind) for name, kind in zip(NAMES, _TYPES, strict=True)])


def _texts(*rows: tuple[str | None, ...]) -> bytes:
    """A result of texts."""
    described = [messages.column("", messages.text_type(128)) for _ in rows[0]] if rows else []
    tokens = [messages.row(*map(messages.text_cell, row)) for row in rows]
    return messages.reply(messages.columns(*described), *tokens, messages.done(len(rows)))


def _catalogue() -> dict[bytes, bytes]:
    """The answer to each question of the gateway, by its text."""
    path, relations, columns, *others = map(messages.utf16, mssql_schema.QUESTIONS)
    return {
        path: _texts(("shop", "dbo")),
        relations: _texts(*[("dbo", table, None) for table in TABLES]),
        columns: _texts(*[("dbo", table, name, None, None, "0") for table in TABLES for name in NAMES]),
        **dict.fromkeys(others, _texts()),
    }


def customer(number: int) -> bytes:
    """A row of about 200 bytes, with values that masking finds."""
    texts = ("Ada Lovelace", f"ada.{number}@example.com", "St James's Square 12, London SW1Y 4JH, United Kingdom")
    return messages.row(messages.int_cell(number), *[messages.text_cell(text) for text in texts])


def lines(megabytes: int) -> bytes:
    rows: list[bytes] = []
    size = 0
    while size < megabytes * 1_000_000:
        rows.append(customer(len(rows)))
        size += len(rows[-1])
    return messages.reply(COLUMNS, *rows, messages.done(len(rows)), size=SIZE)


class Answering(asyncio.Protocol):
    """One connection."""

    one = messages.reply(COLUMNS, customer(4711), messages.done(1))
    large = b""
    catalogue = _catalogue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._packets = p.TdsPackets()
        self._payload = b""

    def data_received(self, data: bytes) -> None:
        for packet in self._packets.feed(data):
            self._payload += packet.payload
            if packet.is_last:
                self._transport.write(self._answer(packet.kind))
                self._payload = b""

    def _answer(self, kind: int) -> bytes:
        if kind == p.PRELOGIN:
            return _PRELOGIN
        if kind == p.LOGIN:
            return _WELCOME
        if kind == p.RPC:
            return next(answer for question, answer in self.catalogue.items() if question in self._payload)
        if kind == p.ATTENTION:
            return _ATTENDED
        if _SELECT not in self._payload:
            return _DONE
        return self.large if _LINES in self._payload else self.one


async def serve(port: int, megabytes: int) -> None:
    Answering.large = lines(megabytes)
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
