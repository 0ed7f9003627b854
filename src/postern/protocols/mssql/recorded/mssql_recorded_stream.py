"""Splitting a recorded stream into tokens.

Clients before TDS 7.2 get a narrower layout of some tokens. A recording does not tell which one it has, so both are
tried until one of them fails. They differ in every column and in every end of a statement.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire.mssql_token_reader import Token, TokenReader

MAX_TOKEN: Final = 16 << 20


class MssqlRecordedTokens:
    """Splitter: `feed` takes the stream in chunks of any size."""

    def __init__(self) -> None:
        self._wide: bool | None = None  # not known yet
        self._start()

    def _start(self) -> None:
        self._packets = p.TdsPackets()
        widths = (True, False) if self._wide is None else (self._wide,)
        self._readers = [TokenReader(wide, most=MAX_TOKEN) for wide in widths]
        self._told = 0  # tokens of this message that were returned while both layouts were possible
        self._other: list[Token] = []  # those of the second layout meanwhile

    def feed(self, data: bytes) -> list[Token]:
        """Return the tokens that are complete now. Raises ProtocolViolation for bytes that are not packets."""
        tokens: list[Token] = []
        for packet in self._packets.feed(data):
            if packet.kind != p.REPLY:
                raise ProtocolViolation("a packet in a recording is not one of a server")
            tokens += self._take(packet.payload, packet.is_last)
        return tokens

    def _take(self, payload: bytes, is_last: bool) -> list[Token]:
        if len(self._readers) == 1:
            return _complete(self._readers[0], payload, is_last)
        first, second = self._readers
        try:
            other: list[Token] | None = _complete(second, payload, is_last)
        except ProtocolViolation:
            other = None
        if other is not None:
            self._other += other
        try:
            tokens = _complete(first, payload, is_last)
        except ProtocolViolation:
            if other is None:
                raise
            left = self._other[self._told :]
            self._choose(second)
            return left
        if other is None or is_last:
            self._choose(first)
        self._told += len(tokens)
        return tokens

    def _choose(self, reader: TokenReader) -> None:
        self._wide = reader.wide
        self._readers = [reader]
        self._other = []

    def begin_anew(self) -> None:
        """Forget an incomplete message: another one follows a gap."""
        self._start()


def _complete(reader: TokenReader, payload: bytes, is_last: bool) -> list[Token]:
    tokens = reader.feed(payload)
    if is_last and reader.rest:
        raise ProtocolViolation("a message in a recording ends within a token")
    return tokens
