"""Messages of MongoDB's wire protocol, in both directions.

A message begins with 16 bytes: its length, its request id, the id of the request that it answers, and its kind. After
the login all messages are OP_MSG: flags, sections, and a CRC-32C if a flag says so. One section, of kind 0, is the
command or reply; those of kind 1 are documents that belong into it as an array. OP_QUERY and OP_REPLY are only used by
the first `isMaster` of a connection.

The checksum is not verified here. A message that passes unchanged keeps it, so its receiver verifies it; one that is
changed loses it, together with its flag.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.mongodb.wire.bson_documents import (
    ARRAY,
    DOCUMENT,
    DOUBLE,
    INT32,
    INT64,
    SHORTEST,
    STRING,
    check_document,
    element,
    encode_document,
    int32_at,
    name_end,
    packed32,
    packed64,
    string_value,
    value_end,
)
from postern.protocols.mongodb.wire.bson_json import DocumentSequence

HEAD: Final = 16
MAX_MESSAGE: Final = 48_000_000  # maxMessageSizeBytes of every server

OP_REPLY: Final = 1
OP_QUERY: Final = 2004
OP_COMPRESSED: Final = 2012
OP_MSG: Final = 2013

# Flags of OP_MSG. A receiver must reject unknown ones of the low 16 bits, and ignore the others.
CHECKSUM_PRESENT: Final = 1
MORE_TO_COME: Final = 2
EXHAUST_ALLOWED: Final = 1 << 16
_REQUIRED: Final = 0xFFFF
_CHECKSUM_SIZE: Final = 4

SMALLEST: Final = HEAD + 4 + 1 + SHORTEST  # bytes of an OP_MSG with an empty document

# Sections
_BODY: Final = 0
_SEQUENCE: Final = 1

# Errors of the gateway itself, by number and name of MongoDB's ("error_codes.yml")
UNAUTHORIZED: Final = (13, "Unauthorized")
FAILED_TO_PARSE: Final = (9, "FailedToParse")
COMMAND_NOT_FOUND: Final = (59, "CommandNotFound")
TOO_LARGE: Final = (10334, "BSONObjectTooLarge")
PROTOCOL_ERROR: Final = (17, "ProtocolError")
INTERRUPTED: Final = (11601, "Interrupted")
UNKNOWN_ERROR: Final = (8, "UnknownError")

_OK: Final = bytes.fromhex("000000000000f03f")  # 1.0
_FAILED: Final = bytes(8)  # 0.0


def uint32_at(data: bytes, pos: i64) -> i64:
    """Return the unsigned int32 at `pos`."""
    return int32_at(data, pos) & 0xFFFFFFFF


class OpMessage:
    """The sections of an OP_MSG: its body from `pos` to `end`, and sequences of documents. All positions are in the
    message."""

    __slots__ = ("end", "flags", "pos", "request_id", "response_to", "sequences")

    def __init__(self, request_id: int, response_to: int, flags: i64) -> None:
        self.request_id = request_id
        self.response_to = response_to
        self.flags: i64 = flags
        self.pos: i64 = 0
        self.end: i64 = 0
        self.sequences: list[DocumentSequence] = []


def read_size(data: bytes, pos: i64) -> i64:
    """Return the length of the message at `pos`. Raises ProtocolViolation for an impossible one."""
    size = int32_at(data, pos)
    if size < HEAD or size > MAX_MESSAGE:
        raise ProtocolViolation(f"a message has a length of {size} bytes")
    return size


def check_kind(data: bytes, pos: i64) -> None:
    """Check that the message at `pos` is an OP_MSG."""
    kind = int32_at(data, pos + 12)
    if kind == OP_COMPRESSED:
        raise ProtocolViolation("a message is compressed, which was not negotiated")
    if kind != OP_MSG:
        raise ProtocolViolation(f"a message is of the kind {kind}; after the login, only OP_MSG is used")


def read_flags(data: bytes, pos: i64) -> i64:
    """Return the flags of the OP_MSG at `pos`."""
    flags = uint32_at(data, pos + HEAD)
    if flags & _REQUIRED & ~(CHECKSUM_PRESENT | MORE_TO_COME):
        raise ProtocolViolation(f"a message has the unknown flags {flags & _REQUIRED:#06x}")
    return flags


def parse_message(message: bytes) -> OpMessage:
    """Read a whole OP_MSG. Its documents are checked, in all levels."""
    size: i64 = len(message)
    if size < SMALLEST:
        raise ProtocolViolation(f"a message has a length of {size} bytes")
    flags = read_flags(message, 0)
    parsed = OpMessage(int(int32_at(message, 4)), int(int32_at(message, 8)), flags)
    end: i64 = size - _CHECKSUM_SIZE if flags & CHECKSUM_PRESENT else size
    pos: i64 = HEAD + 4
    while pos < end:
        kind: i64 = message[pos]
        pos += 1
        if kind == _BODY:
            if parsed.pos:
                raise ProtocolViolation("a message has several bodies")
            parsed.pos = pos
            pos = value_end(message, DOCUMENT, pos, end)
            parsed.end = pos
            check_document(message, parsed.pos, pos)
        elif kind == _SEQUENCE:
            pos = _read_sequence(message, pos, end, parsed.sequences)
        else:
            raise ProtocolViolation(f"a message has a section of the unknown kind {kind}")
    if not parsed.pos:
        raise ProtocolViolation("a message has no body")
    return parsed


def _read_sequence(message: bytes, pos: i64, end: i64, sequences: list[DocumentSequence]) -> i64:
    if end - pos < SHORTEST:
        raise ProtocolViolation("a section of a message is truncated")
    size = int32_at(message, pos)
    after: i64 = pos + size
    if size < SHORTEST or after > end:
        raise ProtocolViolation("the length of a section of a message is not valid")
    stop = name_end(message, pos + 4, after)
    sequences.append(DocumentSequence(message[pos + 4 : stop], stop + 1, after))
    pos = stop + 1
    while pos < after:
        next_pos = value_end(message, DOCUMENT, pos, after)
        check_document(message, pos, next_pos)
        pos = next_pos
    return after


def check_reply_flags(data: bytes, pos: i64) -> i64:
    """Return the flags of the reply at `pos`. The gateway never allows replies that follow each other unasked."""
    flags = read_flags(data, pos)
    if flags & MORE_TO_COME:
        raise ProtocolViolation("a reply announces more replies, which were not allowed")
    return flags


def parse_reply(message: bytes) -> OpMessage:
    """Read a whole reply: an OP_MSG with a body and nothing else. Nested documents are not checked."""
    size: i64 = len(message)
    if size < SMALLEST:
        raise ProtocolViolation(f"a message has a length of {size} bytes")
    flags = check_reply_flags(message, 0)
    parsed = OpMessage(int(int32_at(message, 4)), int(int32_at(message, 8)), flags)
    end: i64 = size - _CHECKSUM_SIZE if flags & CHECKSUM_PRESENT else size
    parsed.pos = HEAD + 5
    parsed.end = end
    if message[HEAD + 4] != _BODY or value_end(message, DOCUMENT, parsed.pos, end) != end:
        raise ProtocolViolation("a reply is not exactly one document")
    return parsed


def without_checksum(message: bytes) -> bytes:
    """Return a whole OP_MSG without its checksum, which is wrong after a change."""
    flags = uint32_at(message, HEAD)
    if not flags & CHECKSUM_PRESENT:
        return message
    shorter = int(flags & ~CHECKSUM_PRESENT).to_bytes(4, "little")
    size = packed32(len(message) - _CHECKSUM_SIZE)
    return size + message[4:HEAD] + shorter + message[HEAD + 4 : len(message) - _CHECKSUM_SIZE]


def encode_message(
    request_id: int, response_to: int, document: bytes, *, flags: i64 = 0, sections: bytes = b""
) -> bytes:
    """Encode an OP_MSG. `sections` are encoded sections of kind 1, sent after the body."""
    size = HEAD + 4 + 1 + len(document) + len(sections)
    head = packed32(size) + packed32(request_id) + packed32(response_to) + packed32(OP_MSG)
    return head + int(flags).to_bytes(4, "little") + b"\0" + document + sections


def encode_sequence(name: bytes, documents: bytes) -> bytes:
    """Encode a section of kind 1 from its documents."""
    return b"\x01" + packed32(4 + len(name) + 1 + len(documents)) + name + b"\0" + documents


def encode_reply(response_to: int, document: bytes) -> bytes:
    """Encode the gateway's own reply to a request. No client looks at the id of a reply."""
    return encode_message(0, response_to, document)


def error_document(message: str, code: tuple[int, str], hint: str = "") -> bytes:
    """Return the document of an error. It has one text only, so a hint is appended."""
    text = f"{message.rstrip('.')}. {hint}" if hint and message else message or hint
    return encode_document(
        element(DOUBLE, b"ok", _FAILED),
        element(STRING, b"errmsg", string_value(text.encode("utf-8", "replace"))),
        element(INT32, b"code", packed32(code[0])),
        element(STRING, b"codeName", string_value(code[1].encode("ascii"))),
    )


def kill_cursor_document(database: bytes, collection: bytes, cursor: int) -> bytes:
    """Return the command that closes a cursor."""
    return encode_document(
        element(STRING, b"killCursors", string_value(collection)),
        element(ARRAY, b"cursors", encode_document(element(INT64, b"0", packed64(cursor)))),
        element(STRING, b"$db", string_value(database)),
    )


def ok_document() -> bytes:
    """Return the document of a success without further fields."""
    return encode_document(element(DOUBLE, b"ok", _OK))


def parse_query(message: bytes) -> tuple[bytes, bytes]:
    """Read a whole OP_QUERY. Return its collection (`admin.$cmd`) and its document. It asks for the gateway's first
    reply, so it must be one command and nothing else."""
    size: i64 = len(message)
    if size < HEAD + 4 + 1 + 8 + SHORTEST:
        raise ProtocolViolation("a message is truncated")
    stop = name_end(message, HEAD + 4, size)
    pos: i64 = stop + 1 + 8
    if size - pos < SHORTEST:
        raise ProtocolViolation("a message is truncated")
    end = value_end(message, DOCUMENT, pos, size)
    check_document(message, pos, end)
    if end != size:
        raise ProtocolViolation("a first message has more than a command")
    return message[HEAD + 4 : stop], message[pos:end]


def encode_query_reply(response_to: int, document: bytes) -> bytes:
    """Encode the OP_REPLY to an OP_QUERY."""
    body = packed32(8) + bytes(8) + packed32(0) + packed32(1) + document  # flags: AwaitCapable
    return packed32(HEAD + len(body)) + packed32(0) + packed32(response_to) + packed32(OP_REPLY) + body


def encode_query(request_id: int, document: bytes, collection: bytes = b"admin.$cmd") -> bytes:
    """Encode an OP_QUERY for one command, as the first message to servers of unknown version."""
    body = packed32(0) + collection + b"\0" + packed32(0) + packed32(-1) + document
    return packed32(HEAD + len(body)) + packed32(request_id) + packed32(0) + packed32(OP_QUERY) + body


def parse_query_reply(message: bytes) -> bytes:
    """Return the document of a whole OP_REPLY. Raises ProtocolViolation for one without exactly one document."""
    size: i64 = len(message)
    pos: i64 = HEAD + 20
    if size < pos + SHORTEST:
        raise ProtocolViolation("a message is truncated")
    end = value_end(message, DOCUMENT, pos, size)
    check_document(message, pos, end)
    if end != size or int32_at(message, HEAD + 16) != 1:
        raise ProtocolViolation("a first reply is not exactly one document")
    return message[pos:end]
