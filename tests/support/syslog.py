"""Who listens for syslog."""

from __future__ import annotations

import socket
import threading


class Syslog(threading.Thread):
    """Over TCP, octet counting (RFC 6587), until its socket is closed."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.messages: list[bytes] = []

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                while (length := b"".join(iter(lambda: stream.read(1).strip(), b""))) != b"":
                    self.messages.append(stream.read(int(length)))
