"""The packets that open a TNS connection: CONNECT, ACCEPT, REFUSE and REDIRECT. Their lengths have two bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire.tns_descriptors import MAX_DESCRIPTOR

# Versions of TNS. From LARGE on, lengths have four bytes; version 318 adds breaks out of band and 319 the end of a
# response. Neither passes through the gateway, so it speaks 317 with both sides.
LARGE: Final = 315
SPOKEN: Final = 317
LOWEST: Final = 300

_CONNECT_HEAD: Final = 74  # bytes before the descriptor, as thin clients send it
_LEAST_HEAD: Final = 34
_INLINE: Final = 230  # a longer descriptor follows in a DATA packet
_ACCEPT: Final = 41

_CHARACTERISTICS: Final = 0x4F98
_DONT_CARE: Final = 1  # service options
# Flags about native encryption, in two bytes: 1 wanted, 4 disabled, 8 no services (second byte), 16 required, 128 can
# renegotiate.
_NO_SERVICES: Final = 0x0C
_NO_NATIVE: Final = 0x84
WANTED: Final = 0x01
DISABLED: Final = 0x04
NO_LINKS: Final = 0x08
REQUIRED: Final = 0x10
_EARLY_SDU: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class TnsConnect:
    """A CONNECT. `length` is that of its descriptor; `descriptor` is None if it follows in a DATA packet."""

    version: int
    lowest: int
    sdu: int
    length: int
    descriptor: bytes | None


def parse_connect(body: bytes) -> TnsConnect:
    """Read a CONNECT. Raises ProtocolViolation."""
    if len(body) < _LEAST_HEAD - tns.HEAD:
        raise ProtocolViolation("the client sent a CONNECT that is too short")
    length, offset = _short(body, 16), _short(body, 18)
    if length > MAX_DESCRIPTOR or not length:
        raise ProtocolViolation(f"the client sent a CONNECT with a descriptor of {length} bytes")
    sdu = _short(body, 6)
    head = offset - tns.HEAD
    if offset >= 66 and len(body) >= 54:
        sdu = int.from_bytes(body[50:54], "big") or sdu
    descriptor: bytes | None = None
    if length > _INLINE and len(body) <= head:
        descriptor = None
    elif head >= _LEAST_HEAD - tns.HEAD and len(body) == head + length:
        descriptor = body[head:]
    else:
        raise ProtocolViolation("the client sent a CONNECT whose descriptor does not fit into it")
    return TnsConnect(_short(body, 0), _short(body, 2), sdu, length, descriptor)


def connect(descriptor: bytes, sdu: int, *, redirected: bool = False, native: bool = False) -> bytes:
    """Encode a CONNECT, with a DATA packet behind it if the descriptor is too long for it. `native`: native encryption
    will be negotiated."""
    early = min(sdu, _EARLY_SDU)
    services = WANTED if native else _NO_NATIVE
    head = b"".join(
        [
            *[_pack(value) for value in (SPOKEN, LOWEST, _DONT_CARE, early, early, _CHARACTERISTICS, 0, 1)],
            *[_pack(value) for value in (len(descriptor), _CONNECT_HEAD)],
            bytes(4),
            bytes((services, services)),
            bytes(24),
            sdu.to_bytes(4, "big") * 2,
            bytes(8),
        ]
    )
    flags = 4 if redirected else 0
    if len(descriptor) <= _INLINE:
        return tns.packet(tns.CONNECT, head + descriptor, large=False, flags=flags)
    return tns.packet(tns.CONNECT, head, large=False, flags=flags) + tns.packet(
        tns.DATA, bytes(2) + descriptor, large=False
    )


@dataclass(frozen=True, slots=True)
class TnsAccept:
    """A target's ACCEPT. `negotiates`: it takes part in the negotiation of native encryption if the client does."""

    version: int
    sdu: int
    encryption_required: bool
    negotiates: bool = False


def accept(sdu: int, version: int = SPOKEN) -> bytes:
    """Encode the ACCEPT for a client: no breaks out of band, and no native encryption."""
    early = min(sdu, _EARLY_SDU)
    body = b"".join(
        [
            *[_pack(value) for value in (version, _DONT_CARE, early, early, 1, 0, _ACCEPT)],
            bytes((_NO_SERVICES, _NO_SERVICES)),
            bytes(8),
            sdu.to_bytes(4, "big") * 2,
            bytes(1),
        ]
    )
    return tns.packet(tns.ACCEPT, body, large=False)


def parse_accept(body: bytes) -> TnsAccept:
    """Read a target's ACCEPT. Raises ProtocolViolation."""
    if len(body) < 16:
        raise ProtocolViolation("the target sent an ACCEPT that is too short")
    version = _short(body, 0)
    required = bool(body[14] & REQUIRED)
    refuses = body[14] & DISABLED or body[15] & NO_LINKS
    negotiates = bool(body[14] & (WANTED | REQUIRED)) and not refuses
    if version < LARGE:
        return TnsAccept(version, _short(body, 4), required, negotiates)
    if len(body) < 28:
        raise ProtocolViolation("the target sent an ACCEPT that is too short")
    sdu = int.from_bytes(body[24:28], "big")
    if not tns.MIN_SDU <= sdu <= tns.MAX_SDU:
        raise ProtocolViolation(f"the target accepts packets of {sdu} bytes only")
    return TnsAccept(version, sdu, required, negotiates)


def refuse(reason: bytes) -> bytes:
    """Encode a REFUSE, with a reason that `refusal_descriptor` makes."""
    return tns.packet(tns.REFUSE, bytes(2) + _pack(len(reason)) + reason, large=False)


def parse_refuse(body: bytes) -> bytes:
    """Return the reason in a REFUSE."""
    return body[4 : 4 + _short(body, 2)] if len(body) >= 4 else b""


def parse_redirect_length(body: bytes) -> tuple[int, bytes | None]:
    """Return the length of the data of a REDIRECT, and the data itself unless it follows in a DATA packet."""
    if len(body) < 2:
        raise ProtocolViolation("the target sent a REDIRECT that is too short")
    length = _short(body, 0)
    if not 0 < length <= MAX_DESCRIPTOR:
        raise ProtocolViolation(f"the target sent a REDIRECT of {length} bytes")
    return length, body[2 : 2 + length] if len(body) >= 2 + length else None


def _short(body: bytes, pos: int) -> int:
    return int.from_bytes(body[pos : pos + 2], "big")


def _pack(value: int) -> bytes:
    return value.to_bytes(2, "big")
