"""TNS packets, as a listener and its server read and write them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

CONNECT, ACCEPT, REFUSE, REDIRECT, DATA, RESEND, MARKER, CONTROL = 1, 2, 4, 5, 6, 11, 12, 14
BREAK, RESET, INTERRUPT = 1, 2, 3  # kinds of markers
END_OF_FILE, END_OF_RESPONSE = 0x40, 0x2000  # flags of data packets
FAST_AUTH, HAS_END_OF_RESPONSE = 0x10000000, 0x02000000  # flags of an ACCEPT
# Flags of a CONNECT and an ACCEPT about native services: negotiated, not here, not by this client, required.
NATIVE_SERVICES, NO_NATIVE_SERVICES, NO_NATIVE_LINKS, NATIVE_REQUIRED = 0x01, 0x04, 0x08, 0x10
HEADER = 8
LARGE_LENGTHS_SINCE = 315  # version of TNS from which a packet's length has four bytes
LARGEST = 2 << 20


class BadPacket(Exception):
    """The client sent something that is not a TNS packet."""


@dataclass(frozen=True)
class Packet:
    kind: int
    flags: int
    body: bytes


@dataclass(frozen=True)
class Connect:
    """What a client asks of the listener. `descriptor` is empty if it follows in a data packet of its own."""

    version: int
    lowest_version: int
    sdu: int
    descriptor_length: int
    descriptor: bytes
    native_flags: bytes = bytes(2)


class PacketSplitter:
    """Cuts a stream of bytes into packets."""

    def __init__(self) -> None:
        self.large = False
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_packet(self) -> Packet | None:
        """Return the next whole packet. Raises BadPacket."""
        if len(self._buffer) < HEADER:
            return None
        length = int.from_bytes(self._buffer[: 4 if self.large else 2], "big")
        if not HEADER <= length <= LARGEST:
            raise BadPacket(f"a packet of {length} bytes")
        if len(self._buffer) < length:
            return None
        packet = Packet(self._buffer[4], self._buffer[5], bytes(self._buffer[HEADER:length]))
        del self._buffer[:length]
        return packet


def packet_bytes(kind: int, body: bytes, large: bool, flags: int = 0) -> bytes:
    """Return one packet with its header."""
    length = HEADER + len(body)
    lengths = struct.pack(">I", length) if large else struct.pack(">HH", length, 0)
    return lengths + bytes([kind, flags, 0, 0]) + body


def data_packets(message: bytes, sdu: int, end_of_response: bool = False) -> bytes:
    """Return a message of TTC in as many data packets as it needs. Only the last one can say that the response ends."""
    room = sdu - HEADER - 2
    pieces = [message[start : start + room] for start in range(0, len(message), room)]
    packets = []
    for number, piece in enumerate(pieces, 1):
        flags = END_OF_RESPONSE if end_of_response and number == len(pieces) else 0
        packets.append(packet_bytes(DATA, struct.pack(">H", flags) + piece, True))
    return b"".join(packets)


def marker(kind: int) -> bytes:
    return packet_bytes(MARKER, bytes([1, 0, kind]), True)


def read_connect(body: bytes) -> Connect:
    """Read the body of a CONNECT. Raises BadPacket."""
    if len(body) < 26:
        raise BadPacket("a short CONNECT")
    version, lowest, _options, sdu = struct.unpack_from(">HHHH", body)
    length, offset = struct.unpack_from(">HH", body, 16)
    if len(body) >= 58:
        sdu = max(sdu, *struct.unpack_from(">I", body, 50))
    start = offset - HEADER
    descriptor = body[start : start + length]
    if descriptor and len(descriptor) < length:
        raise BadPacket("a CONNECT with a truncated descriptor")
    return Connect(version, lowest, sdu, length, descriptor, body[24:26])


def accept(version: int, sdu: int, flags: int = 0, native_flags: int = NO_NATIVE_SERVICES) -> bytes:
    """Return an ACCEPT without urgent data for breaks."""
    body = struct.pack(">HHHHHH", version, 1, min(sdu, 0xFFFF), min(sdu, 0xFFFF), 0x0100, 0)
    body += struct.pack(">HBB", 61, native_flags, native_flags & ~NATIVE_REQUIRED)
    body += bytes(8) + struct.pack(">II", sdu, sdu)
    body += bytes([0]) + struct.pack(">I", flags) + bytes(16)  # the name of the connection
    return packet_bytes(ACCEPT, body, False)


def refuse(code: int, description: str = "") -> bytes:
    """Return a REFUSE whose text has the error number where clients look for it."""
    text = f"(DESCRIPTION=(TMP=)(VSNNUM=318767104)(ERR={code})(ERROR_STACK=(ERROR=(CODE={code})(EMFI=4){description})))"
    return packet_bytes(REFUSE, bytes([34, 0]) + struct.pack(">H", len(text)) + text.encode(), False)


def redirect(address: str, descriptor: str) -> bytes:
    """Return a REDIRECT to another address. The text follows in a data packet of its own, as listeners send it."""
    text = f"{address}\0{descriptor}".encode()
    announced = packet_bytes(REDIRECT, struct.pack(">H", len(text)), False, 0x04 if descriptor else 0)
    return announced + packet_bytes(DATA, struct.pack(">H", END_OF_FILE) + text, False)
