"""TNS packets: the framing below TTC.

A packet is a header of 8 bytes and a body:

    length (2 bytes, then 2 of a checksum; 4 bytes from ACCEPT on)   type   flags   checksum (2 bytes)   body

The length counts the header. The body of a DATA packet begins with 2 bytes of flags. Packets do not align with the
messages of TTC: a message can span packets, and a packet can hold several. Nothing here depends on how reads cut the
stream.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.framing import Intake, uint32

HEAD: Final = 8
DATA_HEAD: Final = HEAD + 2

CONNECT: Final = 1
ACCEPT: Final = 2
REFUSE: Final = 4
REDIRECT: Final = 5
DATA: Final = 6
RESEND: Final = 11
MARKER: Final = 12
CONTROL: Final = 14
FAILURE: Final = 0x7F  # no target sends it: native encryption of the agent failed

PACKET_NAMES: Final = {
    CONNECT: "CONNECT",
    ACCEPT: "ACCEPT",
    REFUSE: "REFUSE",
    REDIRECT: "REDIRECT",
    DATA: "DATA",
    RESEND: "RESEND",
    MARKER: "MARKER",
    CONTROL: "CONTROL",
}

# Flags of DATA packets
END_OF_FILE: Final = 0x0040
END_OF_RESPONSE: Final = 0x2000
BEGIN_PIPELINE: Final = 0x1000
END_OF_REQUEST: Final = 0x0800

# Kinds of markers
BREAK: Final = 1
RESET: Final = 2
INTERRUPT: Final = 3

# Kinds of CONTROL packets
IN_BAND_NOTIFICATION: Final = 8
RESET_OUT_OF_BAND: Final = 9

MIN_SDU: Final = 512
MAX_SDU: Final = 2 * 1024 * 1024  # the most that Oracle Net allows
# A packet before ACCEPT has a length of two bytes; none is legitimately longer than this.
MAX_EARLY: Final = 16 * 1024


class TnsPacket:
    """One packet. `body` is everything after the header; of DATA, after its flags, which are `data_flags`."""

    __slots__ = ("body", "data_flags", "flags", "type")

    def __init__(self, type_code: int, flags: int, body: bytes, data_flags: int = 0) -> None:
        self.type = type_code
        self.flags = flags
        self.body = body
        self.data_flags = data_flags

    @property
    def marker(self) -> int:
        """Return the kind of a MARKER, 0 for an unknown form."""
        if len(self.body) != 3 or self.body[0] > 1:
            return 0
        # The first byte says whether the third one means something; a marker without it is a break.
        return self.body[2] if self.body[0] == 1 else BREAK


class TnsReader:
    """Cuts the bytes of one side into packets. `large`: lengths have four bytes, as after ACCEPT."""

    __slots__ = ("_intake", "_peer", "large", "max_size")

    def __init__(self, peer: str, large: bool, max_size: int) -> None:
        self._peer = peer
        self.large = large
        self.max_size = max_size
        self._intake = Intake()

    def feed(self, data: bytes) -> None:
        self._intake.feed(data)

    def read(self) -> TnsPacket | None:
        """Return the next packet; None: feed more bytes. Raises ProtocolViolation."""
        intake = self._intake
        buf = intake.buf
        pos: i64 = intake.pos
        available: i64 = len(buf) - pos
        if available < HEAD:
            return None
        size = read_size(buf, pos, self.large, self.max_size, self._peer)
        if available < size:
            intake.wait(size)
            return None
        intake.pos = pos + size
        return cut_packet(buf, pos, size, self._peer)

    @property
    def next_type(self) -> int:
        """Return the type of the next packet, -1 if its header has not arrived."""
        intake = self._intake
        return intake.buf[intake.pos + 4] if len(intake.buf) - intake.pos >= HEAD else -1

    @property
    def position(self) -> str:
        intake = self._intake
        if len(intake.buf) - intake.pos < HEAD:
            return f"at byte {intake.first + intake.pos}"
        kind = intake.buf[intake.pos + 4]
        return f"packet {PACKET_NAMES.get(kind, str(kind))} at byte {intake.first + intake.pos}"


def read_size(buf: bytes, pos: i64, large: bool, max_size: i64, peer: str) -> i64:
    """Return the checked size of the packet at `pos`, with its header."""
    size: i64 = uint32(buf, pos)
    if not large:
        size >>= 16
    if size < HEAD or size > max_size:
        raise ProtocolViolation(
            f"the {peer} sent a packet of {size} bytes; it probably does not speak the protocol of Oracle Database"
        )
    return size


def cut_packet(buf: bytes, pos: i64, size: i64, peer: str) -> TnsPacket:
    kind: i64 = buf[pos + 4]
    flags: i64 = buf[pos + 5]
    if kind != DATA:
        return TnsPacket(int(kind), int(flags), buf[pos + HEAD : pos + size])
    if size < DATA_HEAD:
        raise ProtocolViolation(f"the {peer} sent a DATA packet without flags")
    first: i64 = buf[pos + HEAD]
    second: i64 = buf[pos + HEAD + 1]
    return TnsPacket(int(kind), int(flags), buf[pos + DATA_HEAD : pos + size], int(first << 8 | second))


def packet(kind: int, body: bytes, *, large: bool, flags: int = 0) -> bytes:
    """Encode one packet."""
    size = HEAD + len(body)
    length = size.to_bytes(4, "big") if large else size.to_bytes(2, "big") + b"\0\0"
    return length + bytes((kind, flags, 0, 0)) + body


_DATA_TAIL: Final = bytes((DATA, 0, 0, 0, 0, 0))


def data_packets(data: bytes, sdu: int) -> bytes:
    """Encode bytes of TTC as DATA packets of at most `sdu` bytes, with lengths of four bytes."""
    most = sdu - DATA_HEAD
    if len(data) <= most:
        return (DATA_HEAD + len(data)).to_bytes(4, "big") + _DATA_TAIL + data
    out: list[bytes] = []
    for start in range(0, len(data), most):
        part = data[start : start + most]
        out.append((DATA_HEAD + len(part)).to_bytes(4, "big") + _DATA_TAIL)
        out.append(part)
    return b"".join(out)


def marker(kind: int, *, large: bool = True) -> bytes:
    """Encode a MARKER."""
    return packet(MARKER, bytes((1, 0, kind)), large=large)


def end_of_file() -> bytes:
    """Encode the DATA packet that closes a connection."""
    return packet(DATA, END_OF_FILE.to_bytes(2, "big"), large=True)
