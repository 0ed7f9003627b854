"""Packets of SFTP, version 3 (draft-ietf-secsh-filexfer-02, and PROTOCOL of OpenSSH for its extensions).

A packet is u32 length, u8 type, and the rest that the length counts. Except for INIT and VERSION the rest begins with a
u32 id. Texts are u32 length and bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.framing import encode_length, uint32

INIT: Final = 1
VERSION: Final = 2
OPEN: Final = 3
CLOSE: Final = 4
READ: Final = 5
WRITE: Final = 6
LSTAT: Final = 7
FSTAT: Final = 8
SETSTAT: Final = 9
FSETSTAT: Final = 10
OPENDIR: Final = 11
READDIR: Final = 12
REMOVE: Final = 13
MKDIR: Final = 14
RMDIR: Final = 15
REALPATH: Final = 16
STAT: Final = 17
RENAME: Final = 18
READLINK: Final = 19
SYMLINK: Final = 20
STATUS: Final = 101
HANDLE: Final = 102
DATA: Final = 103
NAME: Final = 104
ATTRS: Final = 105
EXTENDED: Final = 200
EXTENDED_REPLY: Final = 201

# Flags of OPEN (section 6.3).
READS: Final = 0x01
WRITES: Final = 0x02
APPENDS: Final = 0x04

# Codes of STATUS (section 7).
OK: Final = 0
END_OF_FILE: Final = 1
PERMISSION_DENIED: Final = 3

HEADER: Final = 5  # the length and the type
MAX_PACKET: Final = 256 * 1024  # bytes after the length; OpenSSH's limit (SFTP_MAX_MSG_LENGTH)

_OFFSET: Final = struct.Struct(">Q")


def text(data: bytes) -> bytes:
    return encode_length(len(data)) + data


def packet(kind: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return encode_length(len(body) + 1) + bytes((kind,)) + body


def status(number: int, code: int, message: str) -> bytes:
    """Encode a STATUS response to the request with that id."""
    return packet(
        STATUS, encode_length(number), encode_length(code), text(message.encode("utf-8", "replace")), text(b"")
    )


class SftpReader:
    """Reader of the fields of one packet, from its id on. Raises ProtocolViolation at its end."""

    def __init__(self, data: bytes, pos: int = HEADER) -> None:
        self._data = data
        self._pos = pos

    def number(self) -> int:
        self._need(4)
        self._pos += 4
        return uint32(self._data, self._pos - 4)

    def offset(self) -> int:
        self._need(8)
        self._pos += 8
        return int(_OFFSET.unpack_from(self._data, self._pos - 8)[0])

    def text(self) -> bytes:
        size = self.number()
        self._need(size)
        self._pos += size
        return self._data[self._pos - size : self._pos]

    def _need(self, size: int) -> None:
        if len(self._data) - self._pos < size:
            raise ProtocolViolation("an SFTP packet is shorter than its fields")


class SftpPackets:
    """Splits a stream into packets. Raises ProtocolViolation for one that is too long; then it is not usable any
    more."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waiting(self) -> int:
        """Return the number of bytes of an incomplete packet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the packets that `data` completes, each with its length."""
        if self._rest:
            data = self._rest + data
        packets: list[bytes] = []
        pos, end = 0, len(data)
        while end - pos >= 4:
            size = uint32(data, pos)
            if not 1 <= size <= MAX_PACKET:
                raise ProtocolViolation(f"an SFTP packet of {size} bytes, where at most {MAX_PACKET} are allowed")
            if end - pos < 4 + size:
                break
            packets.append(data[pos : pos + 4 + size])
            pos += 4 + size
        self._rest = data[pos:]
        return packets
