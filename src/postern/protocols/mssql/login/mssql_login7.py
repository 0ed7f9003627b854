"""LOGIN7: a client's request to log in (MS-TDS 2.2.6.4), and which parts of it a target gets.

A head of fixed length, with offsets and lengths of texts behind it. The password is only obfuscated, so it is readable
to the gateway. Extensions ask for features: the target gets those that change nothing in what the wire reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from postern.domain.secret import Secret
from postern.errors import Denied, ProtocolViolation, Unauthenticated
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_types import UTF16

_HEAD: Final = 94
_HEAD_71: Final = 86
MAX_TEXT: Final = 128  # characters of a text; a password can have as many

# Option flags
_FOREIGN_NUMBERS: Final = 0x0F  # the client's bytes, letters or floats have another order than ours
_INTEGRATED: Final = 0x80
_USER_TYPE: Final = 0x70
_CHANGE_PASSWORD: Final = 0x01
_BINARY_XML: Final = 0x02
_USER_INSTANCE: Final = 0x04
_EXTENSION: Final = 0x10
_PASSED_FLAGS: Final = (0xE0, 0x07, 0x3F, 0x08)

# Features that pass: they change no layout that the wire does not know
FEDERATED: Final = 0x02
_UTF8: Final = 0x0A
_AZURE: Final = 0x08
_JSON: Final = 0x0D
_VECTOR: Final = 0x0E
PASSED_FEATURES: Final = frozenset({_AZURE, _UTF8, _JSON, _VECTOR})
MAX_FEATURES: Final = 4096  # bytes

# Offsets of pairs of offset and length
_TEXTS: Final = {
    "host": 36,
    "user": 40,
    "password": 44,
    "application": 48,
    "server": 52,
    "library": 60,
    "language": 64,
    "database": 68,
}
_EXTENSION_AT: Final = 56
_SSPI_AT: Final = 78
_NEW_PASSWORD_AT: Final = 86


@dataclass(frozen=True, slots=True)
class MssqlClientOptions:
    """What shapes a session: the target gets it as the client sent it. `flags` are those of the four bytes."""

    version: int = k.TDS_74
    packet_size: int = p.DEFAULT_SIZE
    flags: tuple[int, int, int, int] = (0xE0, 0x03, 0, 0)
    time_zone: int = 0
    locale: int = 0x0409
    program_version: int = 0
    host: str = "postern"
    application: str = ""
    library: str = "Postern"
    language: str = ""
    features: bytes = b""

    def texts(self) -> dict[str, str]:
        """Return the options as texts."""
        return {
            "version": str(self.version),
            "packet_size": str(self.packet_size),
            "flags": bytes(self.flags).hex(),
            "time_zone": str(self.time_zone),
            "locale": str(self.locale),
            "program_version": str(self.program_version),
            "host": self.host,
            "application": self.application,
            "library": self.library,
            "language": self.language,
            "features": self.features.hex(),
        }

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> MssqlClientOptions:
        """Parse the options. Missing ones are those of the gateway's own logins."""
        own = cls()
        flags = bytes.fromhex(texts.get("flags", "")) if "flags" in texts else bytes(own.flags)
        return cls(
            _number(texts, "version", own.version),
            _number(texts, "packet_size", own.packet_size),
            (flags[0], flags[1], flags[2], flags[3]) if len(flags) == 4 else own.flags,
            _number(texts, "time_zone", own.time_zone),
            _number(texts, "locale", own.locale),
            _number(texts, "program_version", own.program_version),
            texts.get("host", own.host),
            texts.get("application", own.application),
            texts.get("library", own.library),
            texts.get("language", own.language),
            bytes.fromhex(texts.get("features", "")),
        )


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, "")
    return int(text) if text.lstrip("-").isdecimal() else default


def own_options(name: str) -> Mapping[str, str]:
    """Return the options of the gateway's own login under that program name."""
    return MssqlClientOptions(application=name).texts()


@dataclass(frozen=True, slots=True)
class MssqlStartup:
    """A client's request to log in."""

    user: str
    password: Secret
    database: str
    options: MssqlClientOptions = field(default_factory=MssqlClientOptions)


def parse_login7(data: bytes) -> MssqlStartup:
    """Read a LOGIN7. Raises ProtocolViolation, and Denied or Unauthenticated for a login that is not supported."""
    version = int.from_bytes(data[4:8], "little") if len(data) >= _HEAD_71 else 0
    if version < 0x71000000 and version != k.TDS_80:
        raise Denied("this client is too old: it does not speak TDS 7.1 (SQL Server 2000) or later")
    head = _HEAD if k.is_wide(version) else _HEAD_71
    if len(data) < head or int.from_bytes(data[:4], "little") != len(data):
        raise ProtocolViolation("the client sent a login of another length than it claims")
    flags = (data[24], data[25], data[26], data[27])
    features = _read_features(data) if flags[3] & _EXTENSION else {}
    _check_method(data, flags, features)
    texts = {name: _text(data, at, name) for name, at in _TEXTS.items()}
    if not texts["user"]:
        raise Unauthenticated("no user name was given; use the one of your connection credential")
    passed = [flag & mask for flag, mask in zip(flags, _PASSED_FLAGS, strict=True)]
    options = MssqlClientOptions(
        version,
        _packet_size(int.from_bytes(data[8:12], "little")),
        (passed[0], passed[1], passed[2], passed[3]),
        int.from_bytes(data[28:32], "little", signed=True),
        int.from_bytes(data[32:36], "little"),
        int.from_bytes(data[12:16], "little"),
        texts["host"],
        texts["application"],
        texts["library"],
        texts["language"],
        _encode_features({number: value for number, value in features.items() if number in PASSED_FEATURES}),
    )
    return MssqlStartup(texts["user"], Secret(texts["password"]), texts["database"], options)


def _packet_size(asked: int) -> int:
    """Return the packet size that the target is asked for; 0 leaves it to the server."""
    return p.DEFAULT_SIZE if not asked else min(max(asked, p.MIN_SIZE), p.MAX_SIZE)


def _check_method(data: bytes, flags: tuple[int, int, int, int], features: Mapping[int, bytes]) -> None:
    """Only SQL authentication can work: other proofs are made for the target's own name. Raises Denied."""
    if flags[1] & _INTEGRATED or _pair(data, _SSPI_AT)[1]:
        raise Denied(
            "Windows authentication (SSPI, Kerberos, NTLM) does not work through Postern, because its tickets are made "
            "for the database server itself; log in with the user name and password of your connection credential"
        )
    if FEDERATED in features:
        raise Denied(
            "Microsoft Entra authentication does not work through Postern, because its tokens are made for the "
            "database server itself; log in with the user name and password of your connection credential"
        )
    if flags[3] & _CHANGE_PASSWORD:
        raise Denied("a password cannot be changed by a login through Postern; create a new connection credential")
    if flags[0] & _FOREIGN_NUMBERS:
        raise Denied("this client sends numbers or letters in another format than Postern reads (not little-endian)")
    if flags[1] & _USER_TYPE:
        raise Denied("logins of servers and of replication are not supported by Postern")


def _pair(data: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + 2], "little"), int.from_bytes(data[at + 2 : at + 4], "little")


def _text(data: bytes, at: int, name: str) -> str:
    start, size = _pair(data, at)
    if size > MAX_TEXT and name != "application":
        raise ProtocolViolation(f"the client sent a {name} of {size} characters at login")
    raw = data[start : start + 2 * size]
    if len(raw) != 2 * size:
        raise ProtocolViolation("the client sent a login that is shorter than its texts")
    if name == "password":
        raw = clear_password(raw)
    return raw.decode(UTF16, "replace")


def clear_password(data: bytes) -> bytes:
    """Return an obfuscated password in clear text: each byte is XORed with 0xA5, and its halves are swapped."""
    return bytes([((byte ^ 0xA5) << 4 & 0xF0) | ((byte ^ 0xA5) >> 4) for byte in data])


def obfuscate_password(data: bytes) -> bytes:
    return bytes([((byte << 4 & 0xF0) | (byte >> 4)) ^ 0xA5 for byte in data])


def _read_features(data: bytes) -> dict[int, bytes]:
    at, size = _pair(data, _EXTENSION_AT)
    pos = int.from_bytes(data[at : at + 4], "little") if size >= 4 else len(data)
    features: dict[int, bytes] = {}
    while pos < len(data) and data[pos] != 0xFF:
        stop = pos + 5 + int.from_bytes(data[pos + 1 : pos + 5], "little")
        if len(data) - pos < 5 or stop > len(data):
            raise ProtocolViolation("the client asks for features in a login that is shorter than they are")
        features[data[pos]] = data[pos + 5 : stop]
        pos = stop
    if pos >= len(data):
        raise ProtocolViolation("the client asks for features without an end")
    return features


def _encode_features(features: Mapping[int, bytes]) -> bytes:
    parts = [bytes((number,)) + len(value).to_bytes(4, "little") + value for number, value in features.items()]
    data = b"".join(parts)
    return data if len(data) <= MAX_FEATURES else b""


def encode_login7(startup: MssqlStartup, server: str) -> bytes:
    """Encode a LOGIN7. Texts are cut to the length that servers accept."""
    options = startup.options
    head = _HEAD if k.is_wide(options.version) else _HEAD_71
    fields: list[tuple[int, bytes, int]] = []
    for name, text in (
        ("host", options.host),
        ("user", startup.user),
        ("password", startup.password.reveal()),
        ("application", options.application),
        ("server", server),
        ("library", options.library),
        ("language", options.language),
        ("database", startup.database),
    ):
        raw = text.encode(UTF16, "surrogatepass")[: 2 * MAX_TEXT]
        fields.append((_TEXTS[name], obfuscate_password(raw) if name == "password" else raw, len(raw) // 2))
    table = bytearray(head - 36)
    tail = bytearray()
    for at, raw, size in fields:
        table[at - 36 : at - 32] = (head + len(tail)).to_bytes(2, "little") + size.to_bytes(2, "little")
        tail += raw
    for at in (_SSPI_AT, 82, *((_NEW_PASSWORD_AT,) if head == _HEAD else ())):
        table[at - 36 : at - 34] = (head + len(tail)).to_bytes(2, "little")
    flags = options.flags
    if options.features and head == _HEAD:
        flags = (flags[0], flags[1], flags[2], flags[3] | _EXTENSION)
        at = head + len(tail)
        table[_EXTENSION_AT - 36 : _EXTENSION_AT - 32] = at.to_bytes(2, "little") + (4).to_bytes(2, "little")
        tail += (at + 4).to_bytes(4, "little") + options.features + b"\xff"
    numbers = b"".join(
        [
            (head + len(tail)).to_bytes(4, "little"),
            options.version.to_bytes(4, "little"),
            options.packet_size.to_bytes(4, "little"),
            options.program_version.to_bytes(4, "little"),
            bytes(8),  # process and connection of the client
            bytes(flags),
            options.time_zone.to_bytes(4, "little", signed=True),
            options.locale.to_bytes(4, "little"),
        ]
    )
    return numbers + bytes(table) + bytes(tail)
