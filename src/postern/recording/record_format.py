"""Record format: encoding of each recorded event.

A recording is a series of segments, each a file: a header, followed by records. All integers are little-endian.

    file header  magic 8 bytes · u16 format · u32 length · JSON header · u32 crc32 of all before
    record       u32 payload length · u8 kind · u64 microseconds since start · payload · u32 crc32 of all before

A record that is incomplete or has a wrong checksum is where a crash cut the file: reading stops before it. The last
record of a segment is an End; a segment without one was cut. Zeros can follow the records of a segment that is being
written: space for more of them. Texts are UTF-8 in which lone surrogates are allowed, so
that bytes without a valid encoding survive a round trip.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID
from zlib import crc32

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from postern.domain.sessions.results import Mask
from postern.errors import Malformed
from postern.interception.events import (
    RUN,
    ClientOutput,
    Completed,
    End,
    Event,
    Mark,
    Masked,
    Note,
    Operation,
    Phase,
    Refusal,
    Resized,
)

MAGIC = b"POSTREC\n"
FORMAT = 1
MAX_PAYLOAD = 256 * 1024 * 1024
MAX_HEADER = 64 * 1024

OPERATION: Final = 1
SHOWN: Final = 2
COMPLETED: Final = 3
REFUSAL: Final = 4
NOTE: Final = 5
END: Final = 6
RESIZED: Final = 7
MASKED: Final = 8

PREFIX = struct.Struct("<IBQ")
UNWRITTEN = bytes(PREFIX.size)  # where a spool has no record yet; no kind has the number 0
CRC = struct.Struct("<I")
FILE_PREFIX = struct.Struct("<8sHI")

_OPERATION = struct.Struct("<QBBII")  # exchange, phase, truncated, number of values, bytes of text
_COMPLETED = struct.Struct("<QqQIII")  # exchange, rows or -1, micros, sizes of tag, error code and error
_REFUSAL = struct.Struct("<QII")  # exchange, sizes of rule and message
_MASKED = struct.Struct("<QIIIHI")  # exchange, at, size, rows, number of masks and of marks
_MASK = struct.Struct("<HHH")  # sizes of rule and strategy, number of information types
_NAME = struct.Struct("<H")  # size of an information type's or column's name, or the number of names
_MAX_NAME = 0xFFFF
_MARK = struct.Struct("<HBQHI")  # number of the mask, whole, count, number of columns, bytes of rows
_RESIZED = struct.Struct("<II")  # columns and rows
_LENGTH = struct.Struct("<i")  # of a bind value; -1 is NULL

_PHASES = (Phase.PREPARE, RUN)

# Called for every exchange: a Final name needs no look-up in the module's dictionary.
_crc32: Final = crc32
_pack_crc: Final = CRC.pack
_pack_prefix: Final = PREFIX.pack
_OPERATION_SIZE: Final = _OPERATION.size
_COMPLETED_SIZE: Final = _COMPLETED.size
_SMALL: Final = 4096  # bytes of output that are copied rather than joined


@dataclass(frozen=True, slots=True)
class Header:
    """Facts that make a recording readable without the store.

    `started_at` is the session's start, with a time zone. The times of all records count from it, in whichever
    `segment` (from 1) they are.
    """

    session: UUID
    organisation: UUID
    protocol: str
    connection: str
    user: str
    started_at: datetime
    segment: int = 1


def encode_header(header: Header) -> bytes:
    """Return the bytes that start a recording."""
    body = json.dumps(
        {
            "session": str(header.session),
            "organisation": str(header.organisation),
            "segment": header.segment,
            "protocol": header.protocol,
            "connection": header.connection,
            "user": header.user,
            "started_at": header.started_at.isoformat(),
        }
    ).encode()
    data = FILE_PREFIX.pack(MAGIC, FORMAT, len(body)) + body
    return data + CRC.pack(crc32(data))


def decode_header(prefix: bytes, body: bytes, crc: bytes) -> Header:
    """Parse a header. Raises Malformed if this is not a recording, is cut short, or has the format of a later
    release.
    """
    if len(prefix) < FILE_PREFIX.size:
        raise Malformed("this file is too short to be a recording")
    magic, number, length = FILE_PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise Malformed("this file is not a recording")
    if number != FORMAT:
        raise Malformed(f"this recording has format {number}; this release reads format {FORMAT}: use a later release")
    if len(body) < length or len(crc) < CRC.size or crc32(prefix + body) != CRC.unpack(crc)[0]:
        raise Malformed("the header of this recording is damaged")
    try:
        values = json.loads(body)
        return Header(
            session=UUID(values["session"]),
            organisation=UUID(values["organisation"]),
            segment=int(values["segment"]),
            protocol=_read_text(values, "protocol"),
            connection=_read_text(values, "connection"),
            user=_read_text(values, "user"),
            started_at=_read_time(values, "started_at"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise Malformed("the header of this recording is not valid") from None


def _read_text(values: Mapping[str, object], name: str) -> str:
    """Return the text of a field. Raises TypeError for another type."""
    text = values[name]
    if not isinstance(text, str):
        raise TypeError(name)
    return text


def _read_time(values: Mapping[str, object], name: str) -> datetime:
    """Return the time of a field. Raises ValueError if it has no offset from UTC."""
    time = datetime.fromisoformat(_read_text(values, name))
    if time.tzinfo is None:
        raise ValueError(name)
    return time


def encode(event: Event, micros: int) -> bytes:
    """Encode one record. `micros` counts from the start of the session.

    Raises Malformed for an event that is not recorded, or a payload over MAX_PAYLOAD.
    """
    try:
        record = _encode(event, micros)
    except (struct.error, ValueError, OverflowError) as error:
        raise Malformed(f"this {type(event).__name__} cannot be recorded: {error}") from error
    if len(record) > MAX_PAYLOAD:
        raise Malformed(f"this {type(event).__name__} is larger than {MAX_PAYLOAD} bytes and cannot be recorded")
    return record


def _encode(event: Event, micros: int) -> bytes:
    if isinstance(event, ClientOutput):
        return _encode_shown(event, micros)
    if isinstance(event, Operation):
        return _encode_operation(event, micros)
    if isinstance(event, Masked):
        return _encode_masked(event, micros)
    if isinstance(event, Completed):
        return _encode_completed(event, micros)
    if isinstance(event, Refusal):
        return _encode_refusal(event, micros)
    if isinstance(event, Note):
        return _encode_note(event, micros)
    if isinstance(event, Resized):
        return _record(RESIZED, micros, _RESIZED.pack(event.columns, event.rows))
    if isinstance(event, End):
        return _encode_end(event, micros)
    raise Malformed(f"{type(event).__name__} is not a recorded event")


def decode(kind: int, payload: bytes) -> Event:
    """Decode the event of a record whose checksum is right. Raises Malformed if kind or payload is not valid."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise Malformed(f"unknown kind of record {kind}")
    try:
        return decoder(payload)
    except (struct.error, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise Malformed(f"a record of kind {kind} is not valid: {error}") from error


def _encode_operation(event: Operation, micros: int) -> bytes:
    text = event.text.encode("utf-8", "surrogatepass")
    values = event.values
    size: i64 = _OPERATION_SIZE + len(text) + 4 * len(values)
    for value in values:
        if value is not None:
            size += len(value)
    record = _begin(OPERATION, micros, size)
    write_i64_le(record, _check_unsigned(event.exchange))
    record.append(1 if event.phase is RUN else 0)
    record.append(1 if event.truncated else 0)
    write_i32_le(record, i32(len(values)))
    write_i32_le(record, i32(len(text)))
    record.write(text)
    for value in values:
        if value is None:
            write_i32_le(record, -1)
        else:
            write_i32_le(record, i32(len(value)))
            record.write(value)
    return _finish(record)


def _decode_operation(payload: bytes) -> Operation:
    exchange, phase, truncated, count, length = _OPERATION.unpack_from(payload)
    text, at = _take(payload, _OPERATION.size, length)
    values: list[bytes | None] = []
    for _ in range(count):
        (size,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        if size < 0:
            values.append(None)
        else:
            value, at = _take(payload, at, size)
            values.append(value)
    return Operation(exchange, _text(text), _PHASES[phase], tuple(values), bool(truncated))


def _encode_shown(event: ClientOutput, micros: int) -> bytes:
    data = event.data
    if len(data) > _SMALL:
        head = _pack_prefix(len(data), SHOWN, micros)
        return b"".join((head, data, _pack_crc(_crc32(data, _crc32(head)))))
    record = _begin(SHOWN, micros, len(data))
    record.write(data)
    return _finish(record)


def _encode_masked(event: Masked, micros: int) -> bytes:
    """Encode marks. Each mask is written once, and marks refer to it. Most results of a session have the same ones.

    Names of columns follow all marks, if any mark has some: older readers stop before them.
    """
    numbers: dict[Mask, int] = {}
    parts: list[bytes] = []
    for mark in event.marks:
        number = numbers.setdefault(mark.mask, len(numbers))
        parts += (
            _MARK.pack(number, mark.whole, mark.count, len(mark.columns), len(mark.rows)),
            _encode_columns(mark.columns),
            mark.rows,
        )
    head = _MASKED.pack(event.exchange, event.at, event.size, event.rows, len(numbers), len(event.marks))
    if any(mark.names for mark in event.marks):
        parts += [_encode_names(mark.names[:_MAX_NAME]) for mark in event.marks]
    return _record(MASKED, micros, b"".join([head, *map(_encode_mask, numbers), *parts]))


def _encode_names(names: tuple[str, ...]) -> bytes:
    encoded = [name.encode("utf-8", "surrogatepass")[:_MAX_NAME] for name in names]
    return b"".join([_NAME.pack(len(encoded)), *(_NAME.pack(len(name)) + name for name in encoded)])


@lru_cache(maxsize=64)
def _encode_columns(columns: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(columns)}H", *columns)


@lru_cache(maxsize=256)
def _encode_mask(mask: Mask) -> bytes:
    rule, strategy, *names = (
        text.encode("utf-8", "surrogatepass") for text in (mask.rule, mask.strategy, *mask.info_types)
    )
    types = b"".join([_NAME.pack(len(name)) + name for name in names])
    return _MASK.pack(len(rule), len(strategy), len(names)) + rule + strategy + types


def _decode_masked(payload: bytes) -> Masked:
    exchange, at, size, rows, number_of_masks, number_of_marks = _MASKED.unpack_from(payload)
    position = _MASKED.size
    masks: list[Mask] = []
    for _ in range(number_of_masks):
        mask, position = _decode_mask(payload, position)
        masks.append(mask)
    marks: list[Mark] = []
    for _ in range(number_of_marks):
        number, whole, count, width, length = _MARK.unpack_from(payload, position)
        columns, position = _take(payload, position + _MARK.size, 2 * width)
        bits, position = _take(payload, position, length)
        marks.append(Mark(masks[number], struct.unpack(f"<{width}H", columns), bits, count, bool(whole)))
    if position < len(payload):
        for mark in marks:
            mark.names, position = _decode_names(payload, position)
    return Masked(exchange, at, size, rows, marks)


def _decode_names(payload: bytes, at: int) -> tuple[tuple[str, ...], int]:
    (count,) = _NAME.unpack_from(payload, at)
    at += _NAME.size
    names: list[str] = []
    for _ in range(count):
        (size,) = _NAME.unpack_from(payload, at)
        name, at = _take(payload, at + _NAME.size, size)
        names.append(name.decode("utf-8", "replace"))
    return tuple(names), at


def _decode_mask(payload: bytes, at: int) -> tuple[Mask, int]:
    rule_size, strategy_size, number_of_types = _MASK.unpack_from(payload, at)
    rule, at = _take(payload, at + _MASK.size, rule_size)
    strategy, at = _take(payload, at, strategy_size)
    types: list[str] = []
    for _ in range(number_of_types):
        (size,) = _NAME.unpack_from(payload, at)
        name, at = _take(payload, at + _NAME.size, size)
        types.append(_text(name))
    return Mask(_text(rule), _text(strategy), tuple(types)), at


def _encode_completed(event: Completed, micros: int) -> bytes:
    tag = event.tag.encode("utf-8", "surrogatepass")
    code = error = b""
    if event.error_code or event.error:
        code = event.error_code.encode("utf-8", "surrogatepass")
        error = event.error.encode("utf-8", "surrogatepass")
    rows = event.rows
    record = _begin(COMPLETED, micros, _COMPLETED_SIZE + len(tag) + len(code) + len(error))
    write_i64_le(record, _check_unsigned(event.exchange))
    write_i64_le(record, -1 if rows is None else i64(rows))
    write_i64_le(record, _check_unsigned(event.micros))
    write_i32_le(record, i32(len(tag)))
    write_i32_le(record, i32(len(code)))
    write_i32_le(record, i32(len(error)))
    record.write(tag)
    if code or error:
        record.write(code)
        record.write(error)
    return _finish(record)


def _decode_completed(payload: bytes) -> Completed:
    exchange, rows, micros, tag_size, code_size, error_size = _COMPLETED.unpack_from(payload)
    tag, at = _take(payload, _COMPLETED.size, tag_size)
    code, at = _take(payload, at, code_size)
    error, _ = _take(payload, at, error_size)
    return Completed(exchange, _text(tag), None if rows < 0 else rows, _text(code), _text(error), micros)


def _encode_refusal(event: Refusal, micros: int) -> bytes:
    rule, message = (text.encode("utf-8", "surrogatepass") for text in (event.rule, event.message))
    return _record(REFUSAL, micros, _REFUSAL.pack(event.exchange, len(rule), len(message)) + rule + message)


def _decode_refusal(payload: bytes) -> Refusal:
    exchange, rule_size, message_size = _REFUSAL.unpack_from(payload)
    rule, at = _take(payload, _REFUSAL.size, rule_size)
    message, _ = _take(payload, at, message_size)
    return Refusal(exchange, _text(rule), _text(message))


def _encode_note(event: Note, micros: int) -> bytes:
    return _record(NOTE, micros, json.dumps({"text": event.text, "details": event.details}).encode())


def _decode_note(payload: bytes) -> Note:
    values = json.loads(payload)
    return Note(str(values["text"]), {str(key): str(value) for key, value in values["details"].items()})


def _decode_resized(payload: bytes) -> Resized:
    columns, rows = _RESIZED.unpack(payload)
    return Resized(columns, rows)


def _encode_end(event: End, micros: int) -> bytes:
    return _record(END, micros, json.dumps({"reason": event.reason, "goes_on": event.continues}).encode())


def _decode_end(payload: bytes) -> End:
    values = json.loads(payload)
    return End(str(values["reason"]), bool(values["goes_on"]))


def _begin(kind: int, micros: int, size: i64) -> BytesWriter:
    """Return the beginning of a record with a payload of `size` bytes. Raises ValueError for one that is too large."""
    if size > MAX_PAYLOAD:
        raise ValueError(f"it is larger than {MAX_PAYLOAD} bytes")
    record = BytesWriter()
    write_i32_le(record, i32(size))
    record.append(kind)
    write_i64_le(record, _check_unsigned(micros))
    return record


def _finish(record: BytesWriter) -> bytes:
    """Return a record with its checksum."""
    crc: i64 = _crc32(record.getvalue())
    write_i32_le(record, i32(crc if crc < 1 << 31 else crc - (1 << 32)))
    return record.getvalue()


def _check_unsigned(number: int) -> i64:
    if number < 0:
        raise ValueError(f"{number} is negative")
    return i64(number)


def _record(kind: int, micros: int, payload: bytes) -> bytes:
    data = PREFIX.pack(len(payload), kind, micros) + payload
    return data + CRC.pack(crc32(data))


def _take(payload: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(payload):
        raise ValueError("it ends early")
    return payload[at:end], end


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


_DECODERS: dict[int, Callable[[bytes], Event]] = {
    OPERATION: _decode_operation,
    SHOWN: ClientOutput,
    COMPLETED: _decode_completed,
    REFUSAL: _decode_refusal,
    NOTE: _decode_note,
    END: _decode_end,
    RESIZED: _decode_resized,
    MASKED: _decode_masked,
}
