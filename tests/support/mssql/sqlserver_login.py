"""PRELOGIN and LOGIN7 (MS-TDS 2.2.6.4, 2.2.6.5)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from tests.support.mssql.sqlserver_requests import BadRequest
from tests.support.mssql.sqlserver_tokens import PROGRAM_VERSION
from tests.support.mssql.sqlserver_types import V74, has

VERSION, ENCRYPTION, INSTANCE, THREAD, MARS, TRACE, FEDERATED = range(7)
OFF, ON, NOT_SUPPORTED, REQUIRED = range(4)


def read_prelogin(body: bytes) -> dict[int, bytes]:
    """Return the options by their numbers."""
    options, pos = {}, 0
    while pos < len(body) and body[pos] != 0xFF:
        token, start, size = struct.unpack(">BHH", body[pos : pos + 5])
        if start + size > len(body):
            raise BadRequest("an option of PRELOGIN lies outside of it")
        options[token] = body[start : start + size]
        pos += 5
    if VERSION not in options:
        raise BadRequest("PRELOGIN without a version")
    return options


def write_prelogin(asked: dict[int, bytes], encryption: int) -> bytes:
    """Return the answer. There are no multiple active result sets."""
    options = {VERSION: PROGRAM_VERSION + b"\0\0", ENCRYPTION: bytes([encryption]), INSTANCE: b"\0", THREAD: b""}
    options[MARS] = b"\0"
    if FEDERATED in asked:
        options[FEDERATED] = b"\0"
    head, data = b"", b""
    for token, value in options.items():
        head += struct.pack(">BHH", token, len(options) * 5 + 1 + len(data), len(value))
        data += value
    return head + b"\xff" + data


@dataclass(frozen=True)
class TdsLogin:
    """What a client says of itself."""

    version: int
    packet_size: int
    user: str
    password: str
    host: str
    application: str
    library: str
    language: str
    database: str
    flags: tuple[int, int, int, int]
    integrated: bool
    features: dict[int, bytes] = field(default_factory=dict)


_TEXTS: Final = ("host", "user", "password", "application", "server", "extension", "library", "language", "database")


def read_login(body: bytes) -> TdsLogin:
    """Read LOGIN7. Raises BadRequest."""
    if len(body) < 86 or struct.unpack("<I", body[:4])[0] != len(body):
        raise BadRequest("LOGIN7 has another length than it says")
    version, packet_size = struct.unpack("<II", body[4:12])
    places = {name: struct.unpack("<HH", body[36 + 4 * i : 40 + 4 * i]) for i, name in enumerate(_TEXTS)}

    def text(name: str) -> str:
        start, size = places[name]
        raw = body[start : start + 2 * size]
        if len(raw) != 2 * size:
            raise BadRequest(f"the {name} lies outside of LOGIN7")
        if name == "password":
            raw = bytes(((byte ^ 0xA5) << 4 | (byte ^ 0xA5) >> 4) & 0xFF for byte in raw)
        return raw.decode("utf-16-le")

    flags = body[24], body[25], body[26], body[27]
    found = {name: text(name) for name in _TEXTS if name not in ("extension", "server")}
    features = _features(body, places["extension"]) if flags[3] & 0x10 and has(version, V74) else {}
    return TdsLogin(
        version=version,
        packet_size=packet_size,
        flags=flags,
        integrated=bool(flags[1] & 0x80),
        features=features,
        **found,
    )


def _features(body: bytes, place: tuple[int, int]) -> dict[int, bytes]:
    pos = struct.unpack("<I", body[place[0] : place[0] + 4])[0]
    found = {}
    while pos < len(body) and body[pos] != 0xFF:
        number, size = struct.unpack("<BI", body[pos : pos + 5])
        found[number] = body[pos + 5 : pos + 5 + size]
        pos += 5 + size
    if pos >= len(body):
        raise BadRequest("the features of LOGIN7 do not end")
    return found
