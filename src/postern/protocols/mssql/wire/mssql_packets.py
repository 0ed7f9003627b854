"""Packets and messages (MS-TDS 2.2.3.1).

A packet is a header of 8 bytes and a payload: type, status, Int16 length of both in big-endian order, Int16 id of the
server's process, a number that counts packets, and a zero. A message is the payloads of packets up to one with the
status EOM. Integers in payloads are little-endian. Where a message is cut into packets has no meaning.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import i64

from postern.errors import ProtocolViolation

HEAD: Final = 8

# Types of packets
BATCH: Final = 0x01
RPC: Final = 0x03
REPLY: Final = 0x04  # every message of a server
ATTENTION: Final = 0x06
BULK: Final = 0x07
FEDERATED_TOKEN: Final = 0x08
TRANSACTION: Final = 0x0E
LOGIN: Final = 0x10
SSPI: Final = 0x11
PRELOGIN: Final = 0x12

# Bits of the status
EOM: Final = 0x01
IGNORE: Final = 0x02  # together with EOM: the client has cancelled this message while it sent it
RESET: Final = 0x08  # of the first packet: reset the session before the request
RESET_KEEP: Final = 0x10  # … and keep the transaction

MIN_SIZE: Final = 512
MAX_SIZE: Final = 32767
DEFAULT_SIZE: Final = 4096


def packet_size(buf: bytes, pos: i64) -> i64:
    """Return the size of the packet at `pos`, with its header. Raises ProtocolViolation for an impossible one."""
    high: i64 = buf[pos + 2]
    size: i64 = (high << 8) | buf[pos + 3]
    if size < HEAD:
        raise ProtocolViolation(f"a packet claims to have {size} bytes, fewer than its header")
    return size


def packet(kind: int, payload: bytes, status: int = EOM, number: int = 1, spid: bytes = b"\0\0") -> bytes:
    """Encode one packet."""
    size = HEAD + len(payload)
    return bytes((kind, status, size >> 8, size & 0xFF)) + spid + bytes((number & 0xFF, 0)) + payload


def message(
    kind: int, payload: bytes, size: int = DEFAULT_SIZE, *, status: int = 0, spid: bytes = b"\0\0", number: int = 1
) -> bytes:
    """Encode a message as packets of at most `size` bytes. `status` is that of the first packet, besides EOM."""
    room = size - HEAD
    if len(payload) <= room:
        return packet(kind, payload, EOM | status, number, spid)
    parts: list[bytes] = []
    for start in range(0, len(payload), room):
        last = EOM if start + room >= len(payload) else 0
        first = 0 if start else status
        parts.append(packet(kind, payload[start : start + room], last | first, number, spid))
        number += 1
    return b"".join(parts)


class TdsPacket(NamedTuple):
    """One packet. `is_last`: it ends its message."""

    kind: int
    status: int
    payload: bytes

    @property
    def is_last(self) -> bool:
        return bool(self.status & EOM)


class TdsMessage(NamedTuple):
    """One message. `status` is that of its first packet."""

    kind: int
    status: int
    payload: bytes


class TdsPackets:
    """Splits a stream of any chunk size into packets. Used outside of the wire: logins, recordings, queries."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[TdsPacket]:
        """Return the packets that are complete now. Raises ProtocolViolation."""
        buf = self._buffer + data if self._buffer else data
        packets: list[TdsPacket] = []
        pos = 0
        while len(buf) - pos >= HEAD:
            size = int(packet_size(buf, pos))
            if len(buf) - pos < size:
                break
            packets.append(TdsPacket(buf[pos], buf[pos + 1], buf[pos + HEAD : pos + size]))
            pos += size
        self._buffer = buf[pos:]
        return packets

    @property
    def rest(self) -> bytes:
        """Return the payload of the incomplete packet, as far as it has arrived."""
        return self._buffer[HEAD:]


class TdsMessages:
    """Splits a stream into messages of at most `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._packets = TdsPackets()
        self._parts: list[bytes] = []
        self._size = 0
        self._first: tuple[int, int] | None = None

    def feed(self, data: bytes) -> list[TdsMessage]:
        """Return the messages that are complete now. Raises ProtocolViolation, also for one that is too large."""
        messages: list[TdsMessage] = []
        for each in self._packets.feed(data):
            if self._first is None:
                self._first = (each.kind, each.status)
            elif self._first[0] != each.kind:
                raise ProtocolViolation(f"a packet of type {each.kind:#04x} is inside another message")
            self._parts.append(each.payload)
            self._size += len(each.payload)
            if self._size > self._most:
                raise ProtocolViolation(f"a message is larger than {self._most} bytes")
            if each.is_last:
                kind, status = self._first
                messages.append(TdsMessage(kind, status, b"".join(self._parts)))
                self._parts, self._size, self._first = [], 0, None
        return messages
