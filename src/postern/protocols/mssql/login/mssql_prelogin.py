"""PRELOGIN: what a client and a server agree on before the login (MS-TDS 2.2.6.5).

A list of options (UInt8 type, Int16 offset and length in big-endian order, up to 0xFF), and their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.errors import ProtocolViolation

VERSION: Final = 0
ENCRYPTION: Final = 1
INSTANCE: Final = 2
THREAD: Final = 3
MARS: Final = 4
TRACE: Final = 5
FEDERATED: Final = 6
_END: Final = 0xFF

# Values of ENCRYPTION
OFF: Final = 0  # the login alone
ON: Final = 1
NOT_SUPPORTED: Final = 2
REQUIRED: Final = 3

OWN_VERSION: Final = bytes((16, 0, 16, 0, 0, 0))  # of SQL Server 2022: drivers use no feature by it


def parse_prelogin(payload: bytes) -> dict[int, bytes]:
    """Return the options. Raises ProtocolViolation."""
    options: dict[int, bytes] = {}
    pos = 0
    while pos < len(payload) and payload[pos] != _END:
        if len(payload) - pos < 5:
            raise ProtocolViolation("a PRELOGIN message is shorter than its options")
        start = int.from_bytes(payload[pos + 1 : pos + 3], "big")
        stop = start + int.from_bytes(payload[pos + 3 : pos + 5], "big")
        if stop > len(payload):
            raise ProtocolViolation("a PRELOGIN message is shorter than its options")
        options[payload[pos]] = payload[start:stop]
        pos += 5
    if pos >= len(payload):
        raise ProtocolViolation("a PRELOGIN message has no end of its options")
    return options


def encode_prelogin(options: Mapping[int, bytes]) -> bytes:
    start = 5 * len(options) + 1
    heads: list[bytes] = []
    for kind, value in options.items():
        heads.append(bytes((kind,)) + start.to_bytes(2, "big") + len(value).to_bytes(2, "big"))
        start += len(value)
    return b"".join(heads) + bytes((_END,)) + b"".join(options.values())


def encryption_of(options: Mapping[int, bytes]) -> int:
    """Return what is said about encryption. Raises ProtocolViolation."""
    value = options.get(ENCRYPTION, bytes((NOT_SUPPORTED,)))
    if len(value) != 1 or value[0] not in (OFF, ON, NOT_SUPPORTED, REQUIRED):
        raise ProtocolViolation("a PRELOGIN message asks for an encryption that does not exist")
    return value[0]
