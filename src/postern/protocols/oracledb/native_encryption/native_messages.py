"""The messages that negotiate native encryption. All numbers are big-endian.

message    0xDEADBEEF   length (2 bytes, of the whole)   version (4)   number of services (2)   flags (1)
service    its number (2)   number of fields (2)   error (4)
field      length (2)   type (2)   content
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire.ttc_buffers import TtcIncomplete, TtcReader

# Services
AUTHENTICATION: Final = 1
ENCRYPTION: Final = 2
INTEGRITY: Final = 3
SUPERVISOR: Final = 4

# Types of fields
TEXT: Final = 0
RAW: Final = 1
UB1: Final = 2
UB2: Final = 3
VERSION: Final = 5
STATUS: Final = 6

_MAGIC: Final = b"\xde\xad\xbe\xef"
_HEAD: Final = 13
_MAX_SERVICES: Final = 16
_MAX_FIELDS: Final = 32


@dataclass(frozen=True, slots=True)
class NativeField:
    kind: int
    content: bytes


@dataclass(frozen=True, slots=True)
class NativeService:
    """One service of a message. `error` is the number of an error of Oracle Net, 0 for none."""

    number: int
    fields: tuple[NativeField, ...]
    error: int = 0

    def field(self, place: int, kind: int, size: int = 0) -> bytes:
        """Return the content of a field. `size` is the one that it must have, 0 for any. Raises ProtocolViolation."""
        if place >= len(self.fields):
            raise ProtocolViolation(f"the target's answer about native encryption lacks field {self.number}.{place}")
        field = self.fields[place]
        if field.kind != kind or (size and len(field.content) != size):
            raise ProtocolViolation(
                f"the target's answer about native encryption has a field of type {field.kind} with "
                f"{len(field.content)} bytes ({self.number}.{place})"
            )
        return field.content


def ub1(value: int) -> NativeField:
    return NativeField(UB1, bytes((value,)))


def ub2(value: int) -> NativeField:
    return NativeField(UB2, value.to_bytes(2, "big"))


def encode_message(services: Sequence[NativeService], version: int) -> bytes:
    body = b"".join([_encode_service(service) for service in services])
    numbers = (_HEAD + len(body)).to_bytes(2, "big") + version.to_bytes(4, "big") + len(services).to_bytes(2, "big")
    return _MAGIC + numbers + b"\0" + body


def _encode_service(service: NativeService) -> bytes:
    head = b"".join(
        [
            service.number.to_bytes(2, "big"),
            len(service.fields).to_bytes(2, "big"),
            service.error.to_bytes(4, "big"),
        ]
    )
    fields = [
        len(field.content).to_bytes(2, "big") + field.kind.to_bytes(2, "big") + field.content
        for field in service.fields
    ]
    return head + b"".join(fields)


def read_message(reader: TtcReader) -> tuple[NativeService, ...]:
    """Read a whole message. Raises TtcIncomplete and ProtocolViolation."""
    start = int(reader.pos)
    head = reader.raw(6)
    if head[:4] != _MAGIC:
        raise ProtocolViolation("the target's answer about native encryption is of an unknown form")
    size = int.from_bytes(head[4:], "big")
    if size < _HEAD:
        raise ProtocolViolation(f"the target's answer about native encryption has a length of {size} bytes")
    if int(reader.end) - start < size:
        raise TtcIncomplete(start + size)
    body = TtcReader(head + reader.raw(size - len(head)), len(head))
    try:
        services = _read_services(body)
    except TtcIncomplete:
        raise ProtocolViolation("the target's answer about native encryption is shorter than its fields") from None
    if body.pos != body.end:
        raise ProtocolViolation("the target's answer about native encryption is longer than its fields")
    return services


def _read_services(reader: TtcReader) -> tuple[NativeService, ...]:
    reader.skip(4)
    count = _number(reader, 2)
    reader.skip(1)
    if count > _MAX_SERVICES:
        raise ProtocolViolation(f"the target's answer about native encryption has {count} services")
    return tuple([_read_service(reader) for _ in range(count)])


def _read_service(reader: TtcReader) -> NativeService:
    number, count, error = _number(reader, 2), _number(reader, 2), _number(reader, 4)
    if count > _MAX_FIELDS:
        raise ProtocolViolation(f"the target's answer about native encryption has {count} fields in a service")
    return NativeService(number, tuple([_read_field(reader) for _ in range(count)]), error)


def _read_field(reader: TtcReader) -> NativeField:
    size, kind = _number(reader, 2), _number(reader, 2)
    return NativeField(kind, reader.raw(size))


def _number(reader: TtcReader, size: int) -> int:
    return int.from_bytes(reader.raw(size), "big")
