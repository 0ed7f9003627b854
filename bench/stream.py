"""A PostgreSQL client that costs next to nothing: it logs in, asks, and counts the bytes of the answer.

A real client's parsing would hide what a proxy costs; and a client that must not read, or must only
sit there, is easier to have this way.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from bench.processes import cpu_seconds
from bench.stage import Route
from scramp import ScramClient

from postern.protocols.postgres.wire import postgres_messages as m

_READY = m.ready_for_query(b"I")
_COMPLETE = (b"SELECT ", b"COPY ")
_BUFFER = 256 * 1024
_TAIL = 64
_NO_NAME = m.cstring("")
_BIND_BINARY = _NO_NAME * 2 + m.INT16.pack(0) * 2 + m.INT16.pack(1) * 2  # no values; the one format is for all columns
_EXECUTE_ALL = _NO_NAME + m.INT32.pack(0)


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes of an answer, and the seconds that it took; `cpu` are the proxy's, 0 for the direct route."""

    size: int
    seconds: float
    cpu: float


def read(route: Route, statement: str, *, binary: bool = False) -> Reading:
    """The whole answer, in a session of its own."""
    stream = Stream(route.url)
    before = cpu_seconds(route.pid) if route.pid else 0.0
    start = time.perf_counter()
    size = stream.read_all(statement, binary=binary)
    seconds = time.perf_counter() - start
    cpu = cpu_seconds(route.pid) - before if route.pid else 0.0
    stream.close()
    return Reading(size, seconds, cpu)


class Stream:
    """Logged in when made, or told by a NOTICE that it is `held` at login. `url` as libpq takes it; TLS is never asked
    for.

    Raises RuntimeError with the server's words when it refuses the login or a statement.
    """

    def __init__(self, url: str, timeout: float = 60.0, *, held: bool = False) -> None:
        parts = urlsplit(url)
        self._user = unquote(parts.username or "")
        self._password = unquote(parts.password or "")
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._view = memoryview(bytearray(_BUFFER))
        self._socket.sendall(m.startup({"user": self._user, "database": parts.path.lstrip("/")}))
        self._log_in(m.NOTICE_RESPONSE if held else m.READY_FOR_QUERY)

    def let_in(self) -> None:
        """Waits until it is."""
        self._log_in(m.READY_FOR_QUERY)

    def cut(self) -> None:
        """Waits until it is told that it was ended."""
        while self._message()[0] != m.ERROR_RESPONSE:
            pass

    def ask(self, statement: str) -> None:
        """Sends it and reads nothing."""
        self._socket.sendall(m.query(statement.encode()))

    def ask_binary(self, statement: str) -> None:
        """The same, by the extended protocol, with all columns in the binary format."""
        self._socket.sendall(
            m.parse(b"", statement.encode())
            + m.message(b"B", _BIND_BINARY)
            + m.describe_portal(b"")
            + m.message(b"E", _EXECUTE_ALL)
            + m.SYNC_MESSAGE
        )

    def read_all(self, statement: str, *, binary: bool = False) -> int:
        """Asks, reads the whole answer, and tells how many bytes it had.

        The end is known by the last bytes alone: no value of ours ends like the ready message.
        """
        if binary:
            self.ask_binary(statement)
        else:
            self.ask(statement)
        total, tail = 0, b""
        while not tail.endswith(_READY):
            size = self._socket.recv_into(self._view)
            if not size:
                raise RuntimeError("the connection was closed in the middle of an answer")
            total += size
            tail = (tail + bytes(self._view[max(0, size - _TAIL) : size]))[-_TAIL:]
        if not any(word in tail for word in _COMPLETE):
            raise RuntimeError(f"the statement failed; the answer ends with {tail!r}")
        return total

    def close(self) -> None:
        self._socket.sendall(m.message(b"X"))
        self._socket.close()

    def abort(self) -> None:
        """Gone without a word."""
        self._socket.close()

    def _log_in(self, until: int) -> None:
        scram = ScramClient(["SCRAM-SHA-256"], self._user, self._password)
        while True:
            tag, body = self._message()
            if tag == m.ERROR_RESPONSE:
                raise RuntimeError(f"the login was refused: {body!r}")
            if tag == until:
                return
            if tag != m.AUTHENTICATION:
                continue
            code = int.from_bytes(body[:4], "big")
            if code == m.AUTH_SASL:
                first = scram.get_client_first().encode()
                self._send_password(m.cstring("SCRAM-SHA-256"), m.INT32.pack(len(first)), first)
            elif code == m.AUTH_SASL_CONTINUE:
                scram.set_server_first(body[4:].decode())
                self._send_password(scram.get_client_final().encode())
            elif code == m.AUTH_SASL_FINAL:
                scram.set_server_final(body[4:].decode())

    def _send_password(self, *parts: bytes) -> None:
        self._socket.sendall(m.message(b"p", *parts))

    def _message(self) -> tuple[int, bytes]:
        head = self._exactly(5)
        return head[0], self._exactly(int.from_bytes(head[1:], "big") - 4)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise RuntimeError("the connection was closed during the login")
            data += more
        return data
