"""Native network encryption and data integrity, as the server's side of a connection.

    client ── its algorithms for each service ──▶ server
    client ◀── the chosen ones, and a group of Diffie-Hellman with a public value ── server
    client ── its public value ──▶ server

Then each body of a data packet is its content, a checksum, zeros up to a block, the number of these plus one, and a
byte that says whether the key of the login is part of the keys. Versions since July 2021 ("renewed") take other bytes
of the secret as initialization vectors, and 15 instead of 5 bytes as the key of checksums.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from tests.support.oracledb.ttc_fields import BadMessage

MAGIC = 0xDEADBEEF
AUTHENTICATION, ENCRYPTION, INTEGRITY, SUPERVISOR = 1, 2, 3, 4  # services
TEXT, RAW, ONE_BYTE, TWO_BYTES, FOUR_BYTES, VERSION, STATUS = range(7)  # types of fields
ENCRYPTIONS = {"RC4_40": 1, "DES56C": 2, "RC4_256": 6, "3DES168": 12, "AES128": 15, "AES192": 16, "AES256": 17}
CHECKSUMS = {"MD5": 1, "SHA1": 3, "SHA512": 4, "SHA256": 5, "SHA384": 6}
REJECTED, ACCEPTED, REQUESTED, REQUIRED = "REJECTED", "ACCEPTED", "REQUESTED", "REQUIRED"
ORACLE_23, ORACLE_19_RENEWED, ORACLE_19 = 0x17000000, 0x13001000, 0x13000000
NO_COMMON_ALGORITHM, WEAK_CLIENT = 12650, 12269
# The group of 2048 bits of RFC 3526.
PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B"
    "302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"
    "49286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D"
    "670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
GENERATOR = 2
HASHES: dict[int, Callable[[bytes], bytes]] = {
    4: lambda data: hashlib.sha512(data).digest(),
    5: lambda data: hashlib.sha256(data).digest(),
    6: lambda data: hashlib.sha384(data).digest(),
}
LIST_OF_SERVICES = struct.pack(">IHI2H", MAGIC, 3, 2, ENCRYPTION, INTEGRITY)
CLIENT_MARK, SERVER_MARK = 90, 180


@dataclass(frozen=True)
class NativeOptions:
    """What SQLNET.ORA of the server says, with the best algorithm first, and the version of its services."""

    encryption: str = REQUIRED
    encryption_types: tuple[str, ...] = ("AES256", "AES192", "AES128")
    checksum: str = REQUIRED
    checksum_types: tuple[str, ...] = ("SHA256", "SHA384", "SHA512")
    version: int = ORACLE_23
    allows_weak_clients: bool = True
    prime: int = PRIME

    @property
    def is_required(self) -> bool:
        return REQUIRED in (self.encryption, self.checksum)


@dataclass
class Service:
    """One service in a message: the types of its fields, and what they contain."""

    number: int
    fields: list[tuple[int, bytes]]
    error: int = 0


def read_services(message: bytes) -> list[Service]:
    """Read a whole message. Raises BadMessage."""
    magic, length, _version, count, _flags = struct.unpack_from(">IHIHB", message)
    if magic != MAGIC or length != len(message):
        raise BadMessage("a negotiation of native services with a wrong head")
    found, at = [], 13
    for _ in range(count):
        number, fields, error = struct.unpack_from(">HHI", message, at)
        at += 8
        service = Service(number, [], error)
        for _ in range(fields):
            size, kind = struct.unpack_from(">HH", message, at)
            service.fields.append((kind, message[at + 4 : at + 4 + size]))
            at += 4 + size
        found.append(service)
    if at != len(message):
        raise BadMessage("a negotiation of native services of a wrong length")
    return found


def write_services(services: list[Service], version: int) -> bytes:
    parts = []
    for service in services:
        parts.append(struct.pack(">HHI", service.number, len(service.fields), service.error))
        parts += [struct.pack(">HH", len(content), kind) + content for kind, content in service.fields]
    body = b"".join(parts)
    return struct.pack(">IHIHB", MAGIC, 13 + len(body), version, len(services), 0) + body


def is_whole(message: bytes) -> bool:
    return len(message) >= 6 and len(message) >= int.from_bytes(message[4:6], "big")


def is_renewed(version: int) -> bool:
    return version >> 24 >= 23 or bool(version >> 12 & 0xFF)


def choose(level: str, types: tuple[str, ...], numbers: dict[str, int], offered: bytes) -> tuple[int, int]:
    """Return the number of the chosen algorithm, 0 for none, and the number of an error."""
    position = offered.find(0)
    client = REQUIRED
    if position >= 0:
        client = REJECTED if len(offered) == 1 else ACCEPTED if position == 0 else REQUESTED
    if REJECTED in (level, client):
        return 0, NO_COMMON_ALGORITHM if REQUIRED in (level, client) else 0
    if level == client == ACCEPTED:
        return 0, 0
    common = [numbers[name] for name in types if numbers[name] in offered]
    if common:
        return common[0], 0
    return 0, NO_COMMON_ALGORITHM if REQUIRED in (level, client) else 0


class Checksums:
    """The keystream of one direction's checksums."""

    def __init__(self, number: int, secret: bytes, vector: bytes, renewed: bool, mark: int) -> None:
        self._digest = HASHES[number]
        self._size = len(self._digest(b""))
        self._place, self._mark = (15 if renewed else 5), mark
        key = secret[: self._place] + b"\xff" + bytes(15 - self._place)
        self._generator, self._block = chain(key, vector[:16]), bytes(32)
        self._state = bytes(self._size)
        self.restart()

    def restart(self) -> None:
        self._block = self._generator.update(self._block)
        key, vector = bytearray(self._block[:16]), self._block[16:]
        self._generator = chain(bytes(key), vector)
        key[self._place] = self._mark
        self._stream = chain(bytes(key), vector)  # the state of the last packet stays

    def add(self, data: bytes) -> bytes:
        self._state = self._stream.update(self._state)
        return data + self._digest(data + self._state)

    def remove(self, data: bytes) -> bytes:
        content = data[: -self._size]
        if len(data) < self._size or self.add(content) != data:
            raise BadMessage("a packet with a wrong checksum")
        return content


def chain(key: bytes, vector: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()


class NativeServices:
    """One connection's services, as the server sees them."""

    def __init__(self, options: NativeOptions, random: Callable[[int], bytes] = os.urandom) -> None:
        self._options, self._random = options, random
        self.encryption = self.checksum = 0
        self._client_version = 0
        self._private, self._vector, self._secret = 0, b"", b""
        self._folded = False
        self._from_client: Checksums | None = None
        self._to_client: Checksums | None = None
        self.offered: dict[int, bytes] = {}
        self.error = 0

    @property
    def is_active(self) -> bool:
        return bool(self._secret)

    def answer(self, message: bytes) -> bytes:
        """Answer the client's negotiation. Raises BadMessage."""
        services = {service.number: service.fields for service in read_services(message)}
        if set(services) != {AUTHENTICATION, ENCRYPTION, INTEGRITY, SUPERVISOR}:
            raise BadMessage("a negotiation without the four native services")
        self._client_version = int.from_bytes(services[ENCRYPTION][0][1], "big")
        self.offered = {number: services[number][1][1] for number in (ENCRYPTION, INTEGRITY)}
        options = self._options
        self.encryption, first = choose(
            options.encryption, options.encryption_types, ENCRYPTIONS, self.offered[ENCRYPTION]
        )
        self.checksum, second = choose(options.checksum, options.checksum_types, CHECKSUMS, self.offered[INTEGRITY])
        if not options.allows_weak_clients and not is_renewed(self._client_version):
            first = WEAK_CLIENT
        self.error = first or second
        version = (VERSION, struct.pack(">I", options.version))
        return write_services(
            [
                Service(SUPERVISOR, [version, (STATUS, b"\0\x1f"), (RAW, LIST_OF_SERVICES)]),
                Service(AUTHENTICATION, [version, (STATUS, b"\xfb\xff")]),
                Service(ENCRYPTION, [version] if first else [version, (ONE_BYTE, bytes([self.encryption]))], first),
                Service(INTEGRITY, [version, (ONE_BYTE, bytes([self.checksum])), *self._agreement()], second),
            ],
            options.version,
        )

    def _agreement(self) -> list[tuple[int, bytes]]:
        if not self.encryption and not self.checksum:
            return []
        prime = self._options.prime
        self._private, self._vector = int.from_bytes(self._random(64), "big"), self._random(32)
        bits = prime.bit_length()
        size = (bits + 7) // 8
        return [
            (TWO_BYTES, struct.pack(">H", bits)),
            (TWO_BYTES, struct.pack(">H", bits)),
            (RAW, GENERATOR.to_bytes(size, "big")),
            (RAW, prime.to_bytes(size, "big")),
            (RAW, pow(GENERATOR, self._private, prime).to_bytes(size, "big")),
            (RAW, self._vector),
        ]

    @property
    def awaits_key(self) -> bool:
        return bool(self._private)

    def take_key(self, message: bytes) -> None:
        """Take the client's public value: from now on packets are encrypted. Raises BadMessage."""
        (service,) = read_services(message)
        ((kind, value),) = service.fields
        if service.number != INTEGRITY or kind != RAW:
            raise BadMessage("a public value expected")
        prime = self._options.prime
        secret = pow(int.from_bytes(value, "big"), self._private, prime)
        self._secret = secret.to_bytes((prime.bit_length() + 7) // 8, "big")
        self._private = 0
        self._start()

    @property
    def is_renewed(self) -> bool:
        return is_renewed(self._client_version) and is_renewed(self._options.version)

    def _start(self, folded: bytes = b"") -> None:
        mixed = mix(self._secret, folded)
        vector = mix(self._secret[32:64], folded) if self.is_renewed else self._vector
        self._key, self._cipher_vector = mixed[: 8 * (self.encryption - 13)], bytes(16)
        if self.is_renewed:
            self._cipher_vector = vector[:16]
        if self.checksum:
            arguments = (self.checksum, mixed, vector, self.is_renewed)
            self._from_client = Checksums(*arguments, CLIENT_MARK)
            self._to_client = Checksums(*arguments, SERVER_MARK)

    def restart(self) -> None:
        """Both sides have sent a RESET."""
        if self._from_client is not None and self._to_client is not None:
            self._from_client.restart()
            self._to_client.restart()

    def open(self, body: bytes, login_key: bytes) -> bytes:
        """Return the content of a packet of the client. `login_key` is empty before its login. Raises BadMessage."""
        if not body:
            return body
        data, mark = body[:-1], body[-1]
        if mark not in (0, 1) or (mark and not login_key) or (self._folded and not mark):
            raise BadMessage(f"a packet whose last byte is {mark}")
        if mark and not self._folded:
            self._folded = True
            self._start(login_key)
        if self.encryption:
            data, padding = data[:-1], data[-1] - 1
            if len(data) % 16 or not 0 <= padding < 16:
                raise BadMessage("a packet with a wrong padding")
            decryptor = Cipher(algorithms.AES(self._key), modes.CBC(self._cipher_vector)).decryptor()
            data = decryptor.update(data)[: len(data) - padding]
        return data if self._from_client is None else self._from_client.remove(data)

    def seal(self, content: bytes) -> bytes:
        """Return the body of a packet for the client."""
        data = content if self._to_client is None else self._to_client.add(content)
        if self.encryption:
            padding = -len(data) % 16
            encrypted = chain(self._key, self._cipher_vector).update(data + bytes(padding))
            data = encrypted + bytes([padding + 1])
        return data + bytes([self._folded])

    @property
    def overhead(self) -> int:
        """The most bytes that `seal` adds."""
        return 64 + 16 + 2 if self.is_active else 0


def mix(one: bytes, other: bytes) -> bytes:
    """Return the first with the other one mixed into its beginning."""
    return bytes(a ^ b for a, b in zip(one, other, strict=False)) + one[len(other) :]
