"""Clients of Oracle Database for `bench/oracledb.py`, which fetch 1,000 rows at a time: see `bench/load_clients.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.load_clients import LoadClient, run_load
from tests.support.oracledb.server_replies import Completion, Dialogue, completion_reply

from postern.domain.secret import Secret
from postern.protocols.oracledb.login.oracle_login import OracleTargetLogin
from postern.protocols.oracledb.login.oracle_login import connect as log_in
from postern.protocols.oracledb.queries.oracle_own_calls import ROWS, encode_execute, encode_fetch
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.relay.relay_handshake import StreamHandshake

_SMALL = [
    encode_execute(f"select id, name, email, address from customers where id = {number}", (), number % 255 + 1)
    for number in range(1, 1001)
]
_LARGE = [encode_execute("select id, name, email, address from lines", (), 1)]
_CURSOR = 2  # of the large result, see `bench/oracledb_server.py`
_FETCH = encode_fetch(_CURSOR, 2)
_LAST = b"ORA-01403: no data found\n"  # ends the last answer of each result
_MORE = completion_reply(Completion(cursor=_CURSOR, rows=ROWS), Dialogue(12))  # ends the others
_FULL = 64  # bytes; a shorter packet without an end is the rest of an answer


class OracleRequester(LoadClient):
    def __init__(self, requests: Sequence[bytes]) -> None:
        super().__init__(requests)
        self._packets = tns.TnsReader("server", True, tns.MAX_SDU)

    def write(self, request: bytes) -> None:
        self._is_first, self._end = True, b""
        super().write(request)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        self._packets.feed(data)
        while packet := self._packets.read():
            body = packet.body
            if packet.type != tns.DATA or (self._is_first and body[:1] == bytes((c.ERROR,))):
                self.fail(RuntimeError(f"an error: {body!r}"))
                return
            self._is_first = False
            self._end = body if len(body) >= _FULL else self._end + body
            if self._end.endswith(_LAST):
                self.finish_answer()
            elif self._end.endswith(_MORE):
                self.write(_FETCH)


async def connect(port: int, user: str, password: str, client: LoadClient) -> asyncio.Transport:
    """Log in, and hand the connection over."""
    transport, stream = await asyncio.get_running_loop().create_connection(
        lambda: StreamHandshake(None, server_name="127.0.0.1"), "127.0.0.1", port
    )
    await log_in(stream, OracleTargetLogin("127.0.0.1", port, user, Secret(password), "shop"))
    stream.hand_over(client)
    return transport


if __name__ == "__main__":
    run_load(connect, small=lambda: OracleRequester(_SMALL), large=lambda: OracleRequester(_LARGE))
