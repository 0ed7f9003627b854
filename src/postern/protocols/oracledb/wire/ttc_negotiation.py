"""PROTOCOL and DATA_TYPES: what both sides can do, and the lowering that makes the rest of TTC finite.

The layout of later messages depends on bytes of *capabilities*, and on the representation of data types. The gateway
answers a client before the target is known. So it offers a fixed set of capabilities, which every target from Oracle
Database 19c on has, and it takes away from a client's own what it did not offer:

    field version 19.1      no fast authentication      no end of response      no pipelining      no tokens
    no vectors              no sessionless transactions      no out-of-band breaks

The target receives the client's DATA_TYPES with those capabilities. So it formats its answers for that very client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader, pack_clr

FIELD_VERSION: Final = 12  # 19.1
LOWEST_FIELD_VERSION: Final = 8  # 12.2
FIELD_VERSION_12_2_EXT: Final = 9

# Places of compile-time capabilities
SQL_VERSION: Final = 0
LOGON_TYPES: Final = 4
FEATURES: Final = 5
AT_FIELD_VERSION: Final = 7
TTC1: Final = 15
LOB: Final = 23
UB2_DATA_TYPES: Final = 27
TTC3: Final = 37
TTC4: Final = 40
TTC5: Final = 44
FEATURES2: Final = 45
VECTORS: Final = 52
_MOST_CAPABILITIES: Final = 64
# … and of run-time capabilities
RUNTIME_TIME_ZONE: Final = 1
RUNTIME_TTC: Final = 6

# Bits of TTC1 without which an answer has another layout: the status at the end of calls, indicators, bit vectors.
COUNTED_TEXTS: Final = 0x02  # of the flags of DATA_TYPES
_TTC1_NEEDED: Final = 0x29
BIG_CHUNKS: Final = 0x20  # of TTC3
TIME_ZONE_VERSION: Final = 0x02
_LTXID: Final = 0x08
# What is left of the bytes that announce features: a client's other bits are taken away.
_KEPT: Final = {
    FEATURES: 0x01,
    TTC4: 0x04,  # notifications in band; not the end of a response, nor explicit boundaries of requests
    TTC5: 0x00,
    FEATURES2: 0x00,
    VECTORS: 0x00,
}
# Texts of more than 4,000 bytes (0x04) are not among them: a client orders its binds by what it was offered, and the
# target by what the client announces.
_RUNTIME_KEPT: Final = {RUNTIME_TTC: 0x02 | 0x01}

_BANNER: Final = b"x86_64/Linux 2.4.xx"
_FLAGS: Final = 1
_MOST_BANNER: Final = 256
_MOST_TYPES: Final = 1_024
_HIGHEST_TYPE: Final = 1_023

# The representations of a data type
NATIVE: Final = 0
UNIVERSAL: Final = 1
ORACLE: Final = 10
# Types of numbers within messages. Others than these representations are not read.
_UB2, _UB4, _SB1, _SB2, _SB4, _SWORD, _UWORD = 25, 26, 27, 28, 29, 30, 31
_READ_NUMBERS: Final = {_UB2: 1, _UB4: 1, _SB2: 1, _SB4: 1, _SWORD: 1, _UWORD: 1}

TIME_ZONE: Final = 11  # bytes
UTC: Final = bytes((128, 0, 0, 0, 60, 60, 60, 128, 0, 0, 0))
_TIME_ZONE_FILE: Final = (32).to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class TtcLayout:
    """What the layout of messages on a link depends on, as its client negotiated.

    `packed_sb1`: signed bytes have the form of larger numbers, as the client wants them in universal representation.
    `counts_texts`: texts whose length comes before other fields have it once more in front of them.
    """

    field_version: int = FIELD_VERSION
    packed_sb1: bool = False
    counts_texts: bool = True


def _make_offer() -> tuple[bytes, bytes]:
    # Long texts are not among the run-time capabilities, because not every target has them. Clients then send texts of
    # more than 4,000 bytes as LONG, which every target accepts.
    compile_time = bytearray(45)
    values: Mapping[int, int] = {
        SQL_VERSION: 6,
        1: 1,
        2: 1,
        3: 1,
        LOGON_TYPES: 0x6F,
        FEATURES: 1,
        6: 1,
        AT_FIELD_VERSION: FIELD_VERSION,
        **dict.fromkeys(range(8, 15), 1),
        TTC1: 0x29,
        16: 0x91,
        17: 3,
        18: 7,
        19: 3,
        21: 1,
        LOB: 0xEB | 0x04,
        24: 1,
        25: 0x37,
        26: 4,
        UB2_DATA_TYPES: 1,
        31: 0x08,
        34: 11,
        TTC3: 0xBA & ~_LTXID,
        39: 8,
        TTC4: 0x04,
        42: 5,
    }
    for place, value in values.items():
        compile_time[place] = value
    return bytes(compile_time), bytes((2, 1, 0, 0, 0, 0, 0))


OFFERED, OFFERED_RUNTIME = _make_offer()


@dataclass(frozen=True, slots=True)
class ServerProtocol:
    """A server's answer to PROTOCOL."""

    version: int
    banner: bytes
    charset: int
    national_charset: int
    flags: int
    capabilities: bytes
    runtime: bytes

    @property
    def has_time_zone(self) -> bool:
        """Return whether the server's DATA_TYPES has the time zone of the database."""
        return len(self.runtime) > RUNTIME_TIME_ZONE and bool(self.runtime[RUNTIME_TIME_ZONE] & 1)

    @property
    def field_version(self) -> int:
        return self.capabilities[AT_FIELD_VERSION] if len(self.capabilities) > AT_FIELD_VERSION else 0


def client_protocol(name: bytes) -> bytes:
    """Encode a client's PROTOCOL."""
    return bytes((c.PROTOCOL, 6, 0)) + name + b"\0"


def read_client_protocol(reader: TtcReader) -> bytes:
    """Read a client's PROTOCOL after its type. Return the client's name."""
    versions = reader.null_terminated(16)
    if 6 not in versions:
        raise ProtocolViolation("the client is older than Oracle 8.1")
    return reader.null_terminated(_MOST_BANNER)


def server_protocol(protocol: ServerProtocol) -> bytes:
    """Encode a server's PROTOCOL."""
    fdo = bytes(11) + protocol.national_charset.to_bytes(2, "big")
    fdo = fdo[:5] + b"\1\1" + fdo[7:8] + bytes(3) + fdo[11:]
    return b"".join(
        [
            bytes((c.PROTOCOL, protocol.version, 0)),
            protocol.banner + b"\0",
            protocol.charset.to_bytes(2, "little"),
            bytes((protocol.flags,)),
            bytes(2),
            len(fdo).to_bytes(2, "big") + fdo,
            pack_clr(protocol.capabilities),
            pack_clr(protocol.runtime),
        ]
    )


def gateway_protocol() -> bytes:
    """Encode the gateway's own answer to PROTOCOL."""
    return server_protocol(ServerProtocol(6, _BANNER, c.AL32UTF8, c.AL16UTF16, _FLAGS, OFFERED, OFFERED_RUNTIME))


def read_server_protocol(reader: TtcReader) -> ServerProtocol:
    """Read a server's PROTOCOL after its type."""
    version = reader.ub1()
    reader.ub1()
    banner = reader.null_terminated(_MOST_BANNER)
    charset = int.from_bytes(reader.raw(2), "little")
    flags = reader.ub1()
    reader.skip(5 * int.from_bytes(reader.raw(2), "little"))
    fdo = reader.raw(int.from_bytes(reader.raw(2), "big"))
    if len(fdo) < 7:
        raise ProtocolViolation("the target sent its character sets in an unknown form")
    at = 6 + fdo[5] + fdo[6]
    if len(fdo) < at + 5:
        raise ProtocolViolation("the target sent its character sets in an unknown form")
    national = int.from_bytes(fdo[at + 3 : at + 5], "big")
    return ServerProtocol(version, banner, charset, national, flags, reader.clr() or b"", reader.clr() or b"")


@dataclass(frozen=True, slots=True)
class ClientTypes:
    """A client's DATA_TYPES. `types` has (type, converted type, representation); a converted type of 0 is none."""

    flags: int
    capabilities: bytes
    runtime: bytes
    time_zone: bytes
    national_charset: int | None
    types: tuple[tuple[int, int, int], ...]

    @property
    def layout(self) -> TtcLayout:
        """Return the layout of messages that the client expects. Raises ProtocolViolation for one that is not read."""
        capabilities = self.capabilities
        if len(capabilities) <= TTC3:
            raise ProtocolViolation("the client is older than Oracle Database 12.2")
        version = min(capabilities[AT_FIELD_VERSION], FIELD_VERSION)
        if version < LOWEST_FIELD_VERSION:
            raise ProtocolViolation("the client is older than Oracle Database 12.2")
        if capabilities[TTC1] & _TTC1_NEEDED != _TTC1_NEEDED or not capabilities[TTC3] & BIG_CHUNKS:
            raise ProtocolViolation("the client lacks capabilities of Oracle Database 12.2")
        representations = {kind: representation for kind, _, representation in self.types}
        for kind, expected in _READ_NUMBERS.items():
            if representations.get(kind, expected) != expected:
                raise ProtocolViolation("the client wants numbers in the format of its machine; use a thin client")
        scale = representations.get(_SB1, ORACLE)
        if scale not in (UNIVERSAL, ORACLE):
            raise ProtocolViolation("the client wants numbers in the format of its machine; use a thin client")
        return TtcLayout(version, scale == UNIVERSAL, bool(self.flags & COUNTED_TEXTS))

    def lower(self) -> ClientTypes:
        """Return this without the capabilities that the gateway did not offer."""
        capabilities = bytearray(self.capabilities)
        capabilities[AT_FIELD_VERSION] = min(capabilities[AT_FIELD_VERSION], FIELD_VERSION)
        for place, kept in _KEPT.items():
            if place < len(capabilities):
                capabilities[place] &= kept
        capabilities[TTC3] &= ~_LTXID
        runtime = bytearray(self.runtime)
        for place, kept in _RUNTIME_KEPT.items():
            if place < len(runtime):
                runtime[place] &= kept
        return ClientTypes(
            self.flags, bytes(capabilities), bytes(runtime), self.time_zone, self.national_charset, self.types
        )

    def without_time_zone(self) -> ClientTypes:
        """Return this for a target that has no time zones in its DATA_TYPES."""
        capabilities, runtime = bytearray(self.capabilities), bytearray(self.runtime)
        capabilities[TTC3] &= ~TIME_ZONE_VERSION
        if len(runtime) > RUNTIME_TIME_ZONE:
            runtime[RUNTIME_TIME_ZONE] &= ~1
        return ClientTypes(self.flags, bytes(capabilities), bytes(runtime), b"", self.national_charset, self.types)

    def encode(self) -> bytes:
        """Encode the message. Texts are in UTF-8 on the link, whatever the target's own character set is."""
        national = b"" if self.national_charset is None else self.national_charset.to_bytes(2, "little")
        return b"".join(
            [
                bytes((c.DATA_TYPES,)),
                c.AL32UTF8.to_bytes(2, "little") * 2,
                bytes((self.flags,)),
                pack_clr(self.capabilities),
                pack_clr(self.runtime),
                self.time_zone,
                national,
                encode_types(self.types),
            ]
        )


def encode_types(types: tuple[tuple[int, int, int], ...]) -> bytes:
    """Encode a list of data types with its end."""
    out: list[bytes] = []
    for kind, converted, representation in types:
        out.append(kind.to_bytes(2, "big") + converted.to_bytes(2, "big"))
        if converted:
            out.append(representation.to_bytes(2, "big") + b"\0\0")
    return b"".join(out) + b"\0\0"


def read_types(reader: TtcReader) -> tuple[tuple[int, int, int], ...]:
    """Read a list of data types up to its end."""
    types: list[tuple[int, int, int]] = []
    while True:
        kind = int.from_bytes(reader.raw(2), "big")
        if not kind:
            return tuple(types)
        converted = int.from_bytes(reader.raw(2), "big")
        representation = int.from_bytes(reader.raw(4)[:2], "big") if converted else 0
        types.append((kind, converted, representation))
        if len(types) > _MOST_TYPES:
            raise ProtocolViolation(f"more than {_MOST_TYPES} data types in the negotiation")


def read_client_types(reader: TtcReader) -> ClientTypes:
    """Read a client's DATA_TYPES after its type."""
    charsets = reader.raw(4)
    if charsets != c.AL32UTF8.to_bytes(2, "little") * 2:
        raise ProtocolViolation("the client does not use the character set AL32UTF8, which the gateway offers")
    flags = reader.ub1()
    capabilities = reader.clr() or b""
    runtime = reader.clr() or b""
    if len(capabilities) > _MOST_CAPABILITIES or len(runtime) > _MOST_CAPABILITIES:
        raise ProtocolViolation("the client has more capabilities than any known one")
    if len(capabilities) <= UB2_DATA_TYPES or not capabilities[UB2_DATA_TYPES]:
        raise ProtocolViolation("the client is older than Oracle Database 12.2")
    time_zone = reader.raw(_time_zone_size(capabilities, runtime))
    first = int.from_bytes(reader.raw(2), "big")
    national: int | None = None
    if first > _HIGHEST_TYPE:
        # Some clients send the national character set here. Its number, low byte first, is never that of a type.
        national = int.from_bytes(first.to_bytes(2, "big"), "little")
    else:
        reader.pos -= 2
    return ClientTypes(flags, capabilities, runtime, time_zone, national, read_types(reader))


def _time_zone_size(capabilities: bytes, runtime: bytes) -> int:
    if len(runtime) <= RUNTIME_TIME_ZONE or not runtime[RUNTIME_TIME_ZONE] & 1:
        return 0
    return TIME_ZONE + (4 if len(capabilities) > TTC3 and capabilities[TTC3] & TIME_ZONE_VERSION else 0)


def gateway_types(client: ClientTypes) -> bytes:
    """Encode the gateway's answer to DATA_TYPES: it agrees to all of them.

    The time zone of the database is not known yet. Clients are told that it is UTC.
    """
    size = len(client.time_zone)
    zone = b"" if not size else UTC + (_TIME_ZONE_FILE if size > TIME_ZONE else b"")
    return bytes((c.DATA_TYPES,)) + zone + encode_types(client.types)


def read_server_types(reader: TtcReader, client: ClientTypes) -> tuple[tuple[int, int, int], ...]:
    """Read a server's DATA_TYPES after its type; the target answers `client`."""
    reader.skip(_time_zone_size(client.capabilities, client.runtime))
    return read_types(reader)


def _own_types() -> tuple[tuple[int, int, int], ...]:
    same = (
        *((1, 1), (8, 8), (10, 11), (23, 26), (28, 33), (39, 41), (96, 96), (102, 102), (106, 106), (109, 109)),
        *((111, 115), (117, 117), (119, 120), (146, 146), (178, 180), (185, 190), (198, 198), (208, 208), (233, 233)),
        *((252, 252), (290, 294), (298, 313), (315, 323), (327, 329), (331, 331), (333, 346), (348, 349), (354, 355)),
        *((359, 359), (363, 363), (380, 391), (393, 401), (404, 407), (413, 427), (429, 433), (449, 450), (454, 463)),
        *((466, 486), (490, 496), (498, 502), (509, 510), (513, 514), (516, 543), (560, 560), (563, 565), (572, 576)),
        *((578, 585), (590, 605), (611, 616), (622, 632), (636, 640), (646, 647), (652, 652), (660, 661)),
    )
    universal = ((5, 1), (9, 1), (15, 1), (94, 1), (95, 23), (97, 96), (104, 11), (108, 109), (110, 111), (116, 102))
    more = ((155, 1), (195, 112), (196, 113), (197, 114), (232, 231), (241, 109))
    oracle = ((2, 2), (12, 12), (_SB1, _SB1), (3, 2), (4, 2), (6, 2), (7, 2), (68, 2), (91, 2), (152, 2), (153, 2))
    dates = ((154, 2), (156, 12), (172, 2), (184, 12))
    types = [(kind, kind, UNIVERSAL) for first, last in same for kind in range(first, last + 1)]
    types += [(kind, converted, UNIVERSAL) for kind, converted in (*universal, *more)]
    types += [(kind, converted, ORACLE) for kind, converted in (*oracle, *dates)]
    return tuple(types)


def own_types() -> ClientTypes:
    """Return the DATA_TYPES of the gateway's own sessions at targets."""
    return ClientTypes(0x03, OFFERED, bytes((2, 0, 0, 0, 0, 0, 0)), b"", None, _own_types())
