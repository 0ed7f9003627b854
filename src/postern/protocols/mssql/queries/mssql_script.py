"""The client that `exec` uses to run one script on SQL Server. Without I/O."""

from __future__ import annotations

from collections import deque

from postern.errors import ProtocolViolation
from postern.protocols.mssql.dialect.tsql_splitting import batch_texts
from postern.protocols.mssql.queries.mssql_own_requests import encode_batch
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_token_reader import TokenReader


class MssqlScript:
    """One batch after the other, as lines with GO separate them. A batch with an error is the last one. The output is
    in the recording."""

    def __init__(self, text: str) -> None:
        self._batches = deque(batch_texts(text))
        self._packets = p.TdsPackets()
        self._reader = TokenReader()
        self.failed = False
        self.finished = False

    @property
    def leaves(self) -> bool:
        """Return True at the end: a client of SQL Server closes the connection without a message."""
        return self.finished

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error, else 1."""
        return int(self.failed or not self.finished)

    def batches(self) -> list[bytes]:
        """Return the requests that are not sent yet."""
        return [encode_batch(text) for text in self._batches]

    def start(self) -> bytes:
        return encode_batch(self._batches.popleft())

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        for packet in self._packets.feed(data):
            for token in self._reader.feed(packet.payload):
                if isinstance(token, k.MessageToken):
                    self.failed = self.failed or token.code == k.ERROR
                elif isinstance(token, k.DoneToken):
                    self.failed = self.failed or bool(token.status & k.DONE_ERROR)
            if not packet.is_last:
                continue
            if self._reader.rest:
                raise ProtocolViolation("a message ends within a token")
            if self._batches and not self.failed:
                return encode_batch(self._batches.popleft())
            self.finished = True
        return b""
