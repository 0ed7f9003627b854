"""Packets of TDS over a blocking socket, and TLS inside or around them (MS-TDS 2.2.3, 3.2.5.1)."""

from __future__ import annotations

import select
import socket
import ssl
import struct
from typing import Final, NamedTuple

HEADER: Final = struct.Struct(">BBHHBB")
BATCH, RPC, ANSWER, ATTENTION, BULK, TRANSACTION, LOGIN7, PRELOGIN = 1, 3, 4, 6, 7, 14, 16, 18
END, IGNORE, RESET, RESET_KEEPING_TRANSACTION = 1, 2, 8, 16
_MOST: Final = 64 << 20  # bytes of a message


class TdsClosed(Exception):
    """The client is gone, or does not speak TDS."""


class TdsMessage(NamedTuple):
    """A message. `status` has the bits of all its packets."""

    kind: int
    status: int
    body: bytes


class TdsStream:
    """The server's side of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._read = b""  # clear text that nobody has taken
        self._raw = b""
        self.packet_size = 4096
        self.attention_waits = False

    def peek(self) -> int:
        """Return the first byte of what the client sends next."""
        if not self._raw:
            self._raw = self._receive()
        return self._raw[0]

    # -- TLS ---------------------------------------------------------------------------------------------------------

    def start_tls(self, context: ssl.SSLContext, *, in_packets: bool) -> None:
        """Do the handshake, in packets of type PRELOGIN or bare."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._send_handshake(in_packets)
            except ssl.SSLError as error:
                raise TdsClosed(f"TLS: {error}") from None
            self._incoming.write(self._receive_handshake(in_packets))
        self._send_handshake(in_packets)
        self._tls = tls

    def _send_handshake(self, in_packets: bool) -> None:
        data = self._outgoing.read()
        if data and in_packets:
            data = HEADER.pack(PRELOGIN, END, 8 + len(data), 0, 0, 0) + data
        self._socket.sendall(data)

    def _receive_handshake(self, in_packets: bool) -> bytes:
        if not in_packets:
            data, self._raw = self._raw or self._receive(), b""
            return data
        head = self._take_raw(8)
        kind, _, size, *_ = HEADER.unpack(head)
        if kind != PRELOGIN:
            raise TdsClosed(f"a packet of type {kind} in a TLS handshake")
        return self._take_raw(size - 8)

    def stop_tls(self) -> None:
        """Go on in clear text, as after a login that alone was encrypted."""
        self._tls = None
        self._raw, self._read = self._incoming.read() + self._raw, b""

    # -- Reading -----------------------------------------------------------------------------------------------------

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(65536)
        except OSError as error:
            raise TdsClosed(str(error)) from None
        if not data:
            raise TdsClosed("the client has closed its connection")
        return data

    def _take_raw(self, size: int) -> bytes:
        while len(self._raw) < size:
            self._raw += self._receive()
        data, self._raw = self._raw[:size], self._raw[size:]
        return data

    def _take(self, size: int) -> bytes:
        if self._tls is None:
            return self._take_raw(size)
        while len(self._read) < size:
            self._decrypt(wait=True)
        data, self._read = self._read[:size], self._read[size:]
        return data

    def _decrypt(self, *, wait: bool) -> None:
        """Read what is there of the clear text; `wait` for some."""
        assert self._tls is not None
        while True:
            try:
                data = self._tls.read(65536)
                if not data:
                    raise TdsClosed("the client has ended TLS")
                self._read += data
                return
            except ssl.SSLWantReadError:
                if not wait and not self._raw and not self._readable():
                    return
                self._incoming.write(self._raw or self._receive())
                self._raw = b""
            except ssl.SSLError as error:
                raise TdsClosed(f"TLS: {error}") from None

    def _readable(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def read_message(self, *, first_packet_encrypted: bool = False) -> TdsMessage:
        """Wait for a message. `first_packet_encrypted`: the others may be in clear text."""
        parts, kind, status, size = [], None, 0, 0
        while not status & END:
            head_kind, status_here, length, *_ = HEADER.unpack(self._take(8))
            if kind not in (None, head_kind) or length < 8:
                raise TdsClosed(f"a packet of type {head_kind} and {length} bytes")
            kind, status, size = head_kind, status | status_here, size + length
            if size > _MOST:
                raise TdsClosed("a message is too long")
            parts.append(self._take(length - 8))
            if first_packet_encrypted and not status & END and not self._read:
                self._raw = self._incoming.read() + self._raw
                if self.peek() == kind:
                    self.stop_tls()
        assert kind is not None
        return TdsMessage(kind, status, b"".join(parts))

    def attention_came(self) -> bool:
        """Whether the client has sent an attention while it is answered."""
        if self.attention_waits:
            return True
        if self._tls is not None:
            self._decrypt(wait=False)
        elif self._readable():
            self._raw += self._receive()
        waiting = self._read if self._tls is not None else self._raw
        if len(waiting) < 8 or waiting[0] != ATTENTION:
            return False
        self.read_message()
        self.attention_waits = True
        return True

    # -- Writing -----------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise TdsClosed(str(error)) from None


class TdsAnswer:
    """One message to the client. It is sent packet by packet."""

    def __init__(self, stream: TdsStream, kind: int = ANSWER, spid: int = 0) -> None:
        self._stream = stream
        self._kind = kind
        self._spid = spid
        self._waiting = bytearray()
        self._number = 0

    def write(self, data: bytes) -> None:
        self._waiting += data
        room = self._stream.packet_size - 8
        while len(self._waiting) > room:
            self._packet(bytes(self._waiting[:room]), 0)
            del self._waiting[:room]

    def end(self) -> None:
        self._packet(bytes(self._waiting), END)
        self._waiting.clear()

    def _packet(self, data: bytes, status: int) -> None:
        self._number = (self._number + 1) & 0xFF
        self._stream.send(HEADER.pack(self._kind, status, len(data) + 8, self._spid, self._number, 0) + data)
