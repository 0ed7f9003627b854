"""Messages of a login: one command at a time, as a document, and its reply.

    client  OP_QUERY isMaster, in which drivers look for old servers   ─▶  OP_REPLY
            OP_MSG with one document                                   ─▶  OP_MSG

A message of a login is small, so it is read whole and decoded. Every length is checked before its bytes are awaited.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from postern.errors import ProtocolViolation
from postern.protocols.wire_base import Handshake

HEADER: Final = struct.Struct("<iiii")  # length, request id, response to, opcode
OP_REPLY: Final = 1
OP_QUERY: Final = 2004
OP_MSG: Final = 2013

# Maximum bytes of a message of a login, from a client and from a target. Real ones have a few hundred.
MAX_MESSAGE: Final = 64 * 1024

# Bits of OP_MSG. The lower half must be understood, the upper half can be ignored.
CHECKSUM: Final = 1
MORE_TO_COME: Final = 1 << 1
_REQUIRED_BITS: Final = 0xFFFF
_REPLY_FAILED: Final = 1 << 1  # of OP_REPLY: the document has `$err`

# Dates that Python has no value for are no reason to end a login.
_OPTIONS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)


@dataclass(frozen=True, slots=True)
class LoginMessage:
    """A message with one document. `flags` are those of its opcode."""

    request_id: int
    response_to: int
    opcode: int
    flags: int
    document: Mapping[str, Any]

    @property
    def command(self) -> str:
        """Return the command's name: the first key."""
        return next(iter(self.document), "")

    @property
    def is_answered(self) -> bool:
        """True if its sender waits for a reply."""
        return self.opcode == OP_QUERY or (self.opcode == OP_MSG and not self.flags & MORE_TO_COME)


async def peek_header(stream: Handshake, peer: str) -> tuple[int, int, int]:
    """Return (length, request id, opcode) of the next message, which stays unread. Raises ProtocolViolation for
    anything but a command or its reply."""
    length, request_id, _, opcode = HEADER.unpack(await stream.peek(HEADER.size))
    if length < HEADER.size or opcode not in (OP_REPLY, OP_QUERY, OP_MSG):
        raise ProtocolViolation(f"the {peer} sent something that is no message of MongoDB's protocol")
    return length, request_id, opcode


async def peek_message(stream: Handshake, peer: str) -> LoginMessage:
    """Return the next message, which stays unread. Raises ProtocolViolation."""
    length, _, _ = await peek_header(stream, peer)
    if length > MAX_MESSAGE:
        raise ProtocolViolation(
            f"the {peer} sent a message of {length} bytes at login; at most {MAX_MESSAGE} are accepted there"
        )
    return parse_message(await stream.peek(length), peer)


async def read_message(stream: Handshake, peer: str) -> LoginMessage:
    """Read the next message. Raises ProtocolViolation."""
    message = await peek_message(stream, peer)
    await skip_message(stream)
    return message


async def skip_message(stream: Handshake) -> None:
    """Remove the message that was looked at."""
    await stream.read(int.from_bytes(await stream.peek(4), "little"))


def parse_message(data: bytes, peer: str) -> LoginMessage:
    """Parse a whole message. Raises ProtocolViolation."""
    _, request_id, response_to, opcode = HEADER.unpack_from(data)
    try:
        if opcode == OP_MSG:
            flags, document = _parse_msg(data)
        elif opcode == OP_QUERY:
            flags, document = _parse_query(data)
        else:
            flags, document = _parse_reply(data)
        return LoginMessage(request_id, response_to, opcode, flags, _decode(document))
    # The decoder raises others, too: for texts that are not UTF-8, dates, and documents that are too deep.
    except (BSONError, ValueError, OverflowError, RecursionError, IndexError, struct.error) as error:
        raise ProtocolViolation(f"the {peer} sent a message that cannot be read ({type(error).__name__})") from None


def _decode(document: bytes) -> dict[str, Any]:
    return bson.decode(document, _OPTIONS)


def _parse_msg(data: bytes) -> tuple[int, bytes]:
    """Return the flags and the command; further documents of it are left out."""
    (flags,) = struct.unpack_from("<I", data, HEADER.size)
    if flags & _REQUIRED_BITS & ~(CHECKSUM | MORE_TO_COME):
        raise ValueError
    end = len(data) - (4 if flags & CHECKSUM else 0)
    at, command = HEADER.size + 4, b""
    while at < end:
        kind, start = data[at], at + 1
        (size,) = struct.unpack_from("<i", data, start)
        if kind not in (0, 1) or size < 5 or start + size > end or (kind == 0 and command):
            raise ValueError
        if kind == 0:
            command = data[start : start + size]
        at = start + size
    return flags, command


def _parse_query(data: bytes) -> tuple[int, bytes]:
    (flags,) = struct.unpack_from("<I", data, HEADER.size)
    at = data.index(b"\0", HEADER.size + 4) + 9  # behind the collection, and two numbers: to skip, and to return
    (size,) = struct.unpack_from("<i", data, at)
    return flags, data[at : at + size]  # a list of fields may follow


def _parse_reply(data: bytes) -> tuple[int, bytes]:
    flags, _, _, number = struct.unpack_from("<iqii", data, HEADER.size)
    if flags & _REPLY_FAILED or number != 1:
        raise ValueError
    return flags, data[HEADER.size + 20 :]


def op_msg(request_id: int, response_to: int, document: Mapping[str, Any]) -> bytes:
    """Return a message with one document."""
    body = b"\0\0\0\0\0" + bson.encode(document)  # no flags; a section of kind 0
    return HEADER.pack(HEADER.size + len(body), request_id, response_to, OP_MSG) + body


def op_query(request_id: int, document: Mapping[str, Any]) -> bytes:
    """Return a command in the older form, which every server understands at the beginning of a connection."""
    body = struct.pack("<I", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + bson.encode(document)
    return HEADER.pack(HEADER.size + len(body), request_id, 0, OP_QUERY) + body


def reply(request_id: int, to: LoginMessage, document: Mapping[str, Any]) -> bytes:
    """Return the reply to a command, in the form in which it came."""
    if to.opcode != OP_QUERY:
        return op_msg(request_id, to.request_id, document)
    body = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(document)
    return HEADER.pack(HEADER.size + len(body), request_id, to.request_id, OP_REPLY) + body


def error_document(code: int, name: str, text: str) -> dict[str, Any]:
    """Return the reply to a command that failed."""
    return {"ok": 0.0, "errmsg": text, "code": code, "codeName": name}
