"""Clients of SQL Server for `bench/mssql.py`: see `bench/load_clients.py`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

from bench.load_clients import LoadClient, run_load
from tests.support.protocols import mssql_test_messages as messages

from postern.domain.secret import Secret
from postern.protocols.mssql.login.mssql_login import MssqlTargetLogin
from postern.protocols.mssql.login.mssql_login import connect as log_in
from postern.protocols.mssql.wire import mssql_packets as p
from postern.relay.relay_handshake import StreamHandshake

_SMALL = [
    messages.batch(f"select id, name, email, address from customers where id = {number}") for number in range(1, 1001)
]
_LARGE = [messages.batch("select id, name, email, address from lines")]
_ERROR = b"\xaa"


class MssqlRequester(LoadClient):
    def __init__(self, requests: Sequence[bytes]) -> None:
        super().__init__(requests)
        self._head = b""
        self._left = 0  # bytes of the packet that is read
        self._is_last = False

    def write(self, request: bytes) -> None:
        self._is_first = True
        super().write(request)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self._is_first and data[p.HEAD : p.HEAD + 1] == _ERROR:
            self.fail(RuntimeError(f"an error: {data!r}"))
            return
        self._is_first = False
        if self._head:
            data, self._head = self._head + data, b""
        at = self._left
        end = len(data)
        while at < end:
            if end - at < p.HEAD:
                self._head = data[at:]
                self._left = 0
                return
            self._is_last = bool(data[at + 1] & p.EOM)
            at += int.from_bytes(data[at + 2 : at + 4], "big")
        self._left = at - end
        if not self._left and self._is_last:
            self._is_last = False
            self.finish_answer()


async def connect(port: int, user: str, password: str, client: LoadClient) -> asyncio.Transport:
    """Log in, and hand the connection over. As with most drivers, the login alone is encrypted on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    transport, stream = await asyncio.get_running_loop().create_connection(
        lambda: StreamHandshake(context, server_name="127.0.0.1"), "127.0.0.1", port
    )
    await log_in(stream, MssqlTargetLogin(user, Secret(password), "shop", sslmode="disable"))
    stream.hand_over(client)
    return transport


if __name__ == "__main__":
    run_load(connect, small=lambda: MssqlRequester(_SMALL), large=lambda: MssqlRequester(_LARGE))
