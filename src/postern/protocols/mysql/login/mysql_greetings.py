"""Messages before the first command, named as in the manual's "Connection Phase"."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mysql.wire import mysql_messages as m

# Capabilities
LONG_PASSWORD: Final = 1 << 0
FOUND_ROWS: Final = 1 << 1
LONG_FLAG: Final = 1 << 2
CONNECT_WITH_DB: Final = 1 << 3
NO_SCHEMA: Final = 1 << 4
COMPRESS: Final = 1 << 5
ODBC: Final = 1 << 6
LOCAL_FILES: Final = 1 << 7
IGNORE_SPACE: Final = 1 << 8
PROTOCOL_41: Final = 1 << 9
INTERACTIVE: Final = 1 << 10
SSL: Final = 1 << 11
IGNORE_SIGPIPE: Final = 1 << 12
TRANSACTIONS: Final = 1 << 13
RESERVED: Final = 1 << 14
SECURE_CONNECTION: Final = 1 << 15
MULTI_STATEMENTS: Final = 1 << 16
MULTI_RESULTS: Final = 1 << 17
PS_MULTI_RESULTS: Final = 1 << 18
PLUGIN_AUTH: Final = 1 << 19
CONNECT_ATTRS: Final = 1 << 20
PLUGIN_AUTH_LENENC: Final = 1 << 21
SESSION_TRACK: Final = 1 << 23
DEPRECATE_EOF: Final = 1 << 24
# MariaDB's own capabilities are in four further bytes, which are read if LONG_PASSWORD is not set.
EXTENDED_METADATA: Final = 1 << 35  # column definitions have a format or type beyond MySQL's: JSON, UUID, …

# Required of every peer: the layout of all messages depends on them. LONG_PASSWORD tells MariaDB that its extended
# capabilities are not used.
NEEDED: Final = LONG_PASSWORD | PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH
# Supported by every target from MySQL 5.7 and MariaDB 10.2 on, and by the wire. SSL is offered besides.
OFFERED: Final = (
    NEEDED
    | FOUND_ROWS
    | LONG_FLAG
    | CONNECT_WITH_DB
    | NO_SCHEMA
    | ODBC
    | LOCAL_FILES
    | IGNORE_SPACE
    | INTERACTIVE
    | TRANSACTIONS
    | RESERVED
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | CONNECT_ATTRS
    | PLUGIN_AUTH_LENENC
)
# Optional at a target: they concern one side of a connection only.
_OWN: Final = SSL | CONNECT_WITH_DB | CONNECT_ATTRS | PLUGIN_AUTH_LENENC | IGNORE_SIGPIPE
# Offered to clients besides. For a target without extended metadata, the wire sends empty metadata.
CLIENTS: Final = OFFERED & ~LONG_PASSWORD | EXTENDED_METADATA
# If a client chose one, the target must have it, or the client would misread the target.
SHARED: Final = OFFERED & ~_OWN

# Prefix of MariaDB's version for its oldest replicas; the real version follows it.
_MARIADB_MARK: Final = "5.5.5-"

SALT: Final = 20  # bytes
UTF8MB4: Final = 45  # utf8mb4_general_ci, the same number in MySQL and MariaDB
UTF8MB4_0900: Final = 255  # utf8mb4_0900_ai_ci, of MySQL 8 and newer
MAX_ATTRIBUTES: Final = 64 * 1024

_RESPONSE: Final = struct.Struct("<IIB19xI")


@dataclass(frozen=True, slots=True)
class Greeting:
    """The server's first message. `thread` is its id of this connection, `salt` is 20 bytes without NUL."""

    version: str
    thread: int
    salt: bytes
    capabilities: int
    plugin: str
    collation: int = UTF8MB4
    status: int = m.AUTOCOMMIT

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.version.lower()

    @property
    def shown_version(self) -> str:
        """Return the version as users know it."""
        return self.version.removeprefix(_MARIADB_MARK)


def greeting(content: Greeting) -> bytes:
    if len(content.salt) != SALT or b"\0" in content.salt:
        raise ValueError("a salt must have 20 bytes without NUL")
    low, high = content.capabilities & 0xFFFF, content.capabilities >> 16 & 0xFFFF
    extended = 0 if content.capabilities & LONG_PASSWORD else content.capabilities >> 32
    return m.packet(
        0,
        b"\x0a",
        m.cstring(content.version.encode()),
        m.packed32(content.thread),
        content.salt[:8] + b"\0",
        struct.pack("<HBHHB6xI", low, content.collation & 0xFF, content.status, high, SALT + 1, extended),
        content.salt[8:] + b"\0",
        m.cstring(content.plugin.encode()),
    )


def parse_greeting(payload: bytes) -> Greeting:
    """Parse a greeting of protocol 10 with the required capabilities. Raises ProtocolViolation."""
    if payload[:1] != b"\x0a":
        raise ProtocolViolation("the target does not speak the MySQL protocol, version 10")
    end = len(payload)
    version, pos = m.read_cstring(payload, 1, end)
    start = int(pos)
    if end - start < 31:
        raise ProtocolViolation("the target's greeting is too short")
    thread = int(m.uint32(payload, start))
    salt = payload[start + 4 : start + 12]
    low, collation, status, high, size = struct.unpack_from("<HBHHB", payload, start + 13)
    capabilities = low | high << 16
    if not low & LONG_PASSWORD:
        capabilities |= int(m.uint32(payload, start + 27)) << 32
    if capabilities & NEEDED & ~LONG_PASSWORD != NEEDED & ~LONG_PASSWORD:
        raise ProtocolViolation("the target is too old: MySQL 5.7 or MariaDB 10.2 is required")
    start += 31
    rest = max(13, size - 8)
    if end - start < rest:
        raise ProtocolViolation("the target's greeting is too short")
    # The salt: 20 bytes without the NUL after them; plug-ins with another length get all of it.
    salt += payload[start : start + rest - 1] if payload[start + rest - 1] == 0 else payload[start : start + rest]
    plugin = payload[start + rest :].split(b"\0")[0]
    return Greeting(
        version.decode("utf-8", "replace"),
        thread,
        salt,
        capabilities,
        plugin.decode("ascii", "replace"),
        collation,
        status,
    )


@dataclass(frozen=True, slots=True)
class Response:
    """A HandshakeResponse41: the client's identity and options. `proof` belongs to the plug-in."""

    user: bytes
    proof: bytes
    capabilities: int
    database: bytes | None = None
    plugin: str = ""
    attributes: Mapping[bytes, bytes] = field(default_factory=dict)
    collation: int = UTF8MB4
    max_packet: int = 1 << 30


def _head(answer: Response, others: int = 0) -> bytes:
    """Encode the common part of an SSLRequest and a HandshakeResponse41: MariaDB uses the capabilities of the first.
    `CONNECT_WITH_DB` and other layout flags follow from the content."""
    capabilities = answer.capabilities & ~(CONNECT_WITH_DB | CONNECT_ATTRS | SSL) | NEEDED | others
    capabilities |= CONNECT_WITH_DB if answer.database is not None else 0
    capabilities |= CONNECT_ATTRS if answer.attributes else 0
    extended = capabilities >> 32
    if extended:
        capabilities &= ~LONG_PASSWORD
    return _RESPONSE.pack(capabilities & 0xFFFFFFFF, answer.max_packet, answer.collation & 0xFF, extended)


def ssl_request(sequence: int, answer: Response) -> bytes:
    """Encode the SSLRequest that precedes the response."""
    return m.packet(sequence, _head(answer, SSL))


def response(sequence: int, answer: Response, *, encrypted: bool = False) -> bytes:
    """Encode a response. `encrypted`: an SSLRequest was sent before it."""
    if answer.capabilities & PLUGIN_AUTH_LENENC:
        proof = m.lenenc_text(answer.proof)
    else:
        proof = len(answer.proof).to_bytes(1, "little") + answer.proof
    pairs = b"".join([m.lenenc_text(key) + m.lenenc_text(value) for key, value in answer.attributes.items()])
    return m.packet(
        sequence,
        _head(answer, SSL if encrypted else 0),
        m.cstring(answer.user),
        proof,
        b"" if answer.database is None else m.cstring(answer.database),
        m.cstring(answer.plugin.encode()),
        m.lenenc_text(pairs) if answer.attributes else b"",
    )


def is_ssl_request(payload: bytes) -> bool:
    return len(payload) == _RESPONSE.size and bool(int.from_bytes(payload[:4], "little") & SSL)


def parse_response(payload: bytes, offered: int) -> Response:
    """Parse a response. `offered` are the greeting's capabilities: others that the client sets are ignored, also for
    the layout. Raises ProtocolViolation."""
    if len(payload) < _RESPONSE.size:
        raise ProtocolViolation("the client's response to the greeting is too short")
    capabilities, max_packet, collation, extended = _RESPONSE.unpack_from(payload, 0)
    if not capabilities & LONG_PASSWORD:
        capabilities |= extended << 32
    capabilities &= offered
    if not capabilities & PROTOCOL_41 or not capabilities & SECURE_CONNECTION:
        raise ProtocolViolation("the client is too old: it does not support the protocol of MySQL 4.1")
    end = len(payload)
    user, pos = m.read_cstring(payload, _RESPONSE.size, end)
    if capabilities & PLUGIN_AUTH_LENENC:
        proof, pos = m.read_text(payload, pos, end)
    elif pos < end:
        stop = pos + 1 + payload[pos]
        if stop > end:
            raise ProtocolViolation("the client's response to the greeting is shorter than its fields")
        proof, pos = payload[pos + 1 : stop], stop
    else:
        proof = b""
    database: bytes | None = None
    # Some clients set the flag and send nothing.
    if capabilities & CONNECT_WITH_DB and pos < end:
        database, pos = m.read_cstring(payload, pos, end)
    plugin = b""
    if capabilities & PLUGIN_AUTH and pos < end:
        stop = payload.find(b"\0", pos)
        plugin = payload[pos : stop if stop >= 0 else end]
        pos = stop + 1 if stop >= 0 else end
    attributes: dict[bytes, bytes] = {}
    if capabilities & CONNECT_ATTRS and pos < end:
        attributes, pos = read_attributes(payload, int(pos), end)
    return Response(
        user,
        proof,
        capabilities,
        database or None,
        plugin.decode("ascii", "replace"),
        attributes,
        collation or UTF8MB4,
        max_packet,
    )


def read_attributes(payload: bytes, pos: int, end: int) -> tuple[dict[bytes, bytes], int]:
    """Parse connection attributes: a length, then pairs of strings. Return them and where they end."""
    size, start = m.read_lenenc(payload, pos, end)
    stop = int(start) + int(size)
    if stop > end or size > MAX_ATTRIBUTES:
        raise ProtocolViolation("the client's connection attributes are too long")
    attributes: dict[bytes, bytes] = {}
    while start < stop:
        key, start = m.read_text(payload, start, stop)
        value, start = m.read_text(payload, start, stop)
        attributes[key] = value
    return attributes, stop


def auth_switch(sequence: int, plugin: str, salt: bytes) -> bytes:
    return m.packet(sequence, b"\xfe", m.cstring(plugin.encode()), salt + b"\0")


def parse_auth_switch(payload: bytes) -> tuple[str, bytes]:
    """Return (plug-in, its data): usually a salt with a NUL after it, for client_ed25519 without."""
    if len(payload) == 1:
        raise ProtocolViolation("the target requests the insecure password hash from before MySQL 4.1")
    plugin, pos = m.read_cstring(payload, 1, len(payload))
    return plugin.decode("ascii", "replace"), payload[pos:]


def auth_more(sequence: int, data: bytes) -> bytes:
    return m.packet(sequence, b"\x01", data)
