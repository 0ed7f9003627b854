"""Encrypts the packets for a target, and opens those of the target. Above are packets in clear text.

    content ─▶ content + checksum ─▶ zeros up to a block ─▶ AES in CBC mode ─▶ + padding (1 byte) ─▶ + folding (1 byte)

Only the content of DATA packets is encrypted. Markers, control packets, the heads of packets and the flags of DATA are
in clear text. After a RESET its sender uses the next stream of checksums; the target answers each RESET with one.
Every packet is encrypted on its own, with the same vector: equal beginnings of packets can be seen to be equal.
"""

from __future__ import annotations

import hmac
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.native_encryption.native_algorithms import KEY_SIZES, NONE, NativeChoice
from postern.protocols.oracledb.native_encryption.native_checksums import FROM_CLIENT, FROM_TARGET, ChecksumStream
from postern.protocols.oracledb.native_encryption.native_failures import NativeFailure, failure_packet
from postern.protocols.oracledb.native_encryption.native_keys import NativeKeys
from postern.protocols.oracledb.wire import tns_packets as tns

_BLOCK: Final = 16
_NOT_FOLDED, _FOLDED = 0, 1
_CONTROLS: Final = (tns.IN_BAND_NOTIFICATION, tns.RESET_OUT_OF_BAND)


class NativeMismatch(Exception):
    """A packet of the target that does not fit."""

    def __init__(self, failure: NativeFailure) -> None:
        super().__init__(failure)
        self.failure = failure


class PacketSealer:
    """Seals the content of one packet after the other, and opens those of the target."""

    def __init__(self, choice: NativeChoice, keys: NativeKeys, folding: int = _NOT_FOLDED) -> None:
        self._folding = bytes((folding,))
        self._cipher: Cipher[modes.CBC] | None = None
        self._sending: ChecksumStream | None = None
        self._receiving: ChecksumStream | None = None
        if choice.encryption != NONE:
            key = keys.cipher_key(KEY_SIZES[choice.encryption])
            vector = keys.cipher_vector(renewed=choice.renewed_encryption)
            self._cipher = Cipher(algorithms.AES(key), modes.CBC(vector))
        if choice.checksum != NONE:
            renewed = choice.renewed_checksum
            self._sending = ChecksumStream(choice.checksum, keys, FROM_CLIENT, renewed=renewed)
            self._receiving = ChecksumStream(choice.checksum, keys, FROM_TARGET, renewed=renewed)

    @property
    def overhead(self) -> int:
        """Return the most bytes that sealing adds."""
        checksum = 0 if self._sending is None else self._sending.size
        return checksum + (0 if self._cipher is None else _BLOCK) + 1

    def restart_sending(self) -> None:
        if self._sending is not None:
            self._sending.restart()

    def restart_receiving(self) -> None:
        if self._receiving is not None:
            self._receiving.restart()

    def seal(self, content: bytes) -> bytes:
        if self._sending is not None:
            content += self._sending.next_checksum(content)
        if self._cipher is not None:
            padding = -len(content) % _BLOCK
            content = self._cipher.encryptor().update(content + bytes(padding)) + bytes((padding + 1,))
        return content + self._folding

    def open(self, body: bytes) -> bytes:
        """Return the content of a packet. Raises NativeMismatch."""
        if not body or body[-1] not in (_NOT_FOLDED, _FOLDED):
            raise NativeMismatch(NativeFailure.FORM)
        content = body[:-1] if self._cipher is None else _decrypt(self._cipher, body)
        checksums = self._receiving
        if checksums is None:
            return content
        size = len(content) - checksums.size
        if size < 0:
            raise NativeMismatch(NativeFailure.FORM)
        content, checksum = content[:size], content[size:]
        if not hmac.compare_digest(checksums.next_checksum(content), checksum):
            raise NativeMismatch(NativeFailure.CHECKSUM)
        return content


def _decrypt(cipher: Cipher[modes.CBC], body: bytes) -> bytes:
    size = len(body) - 2
    if size < _BLOCK or size % _BLOCK or not 1 <= body[-2] <= _BLOCK:
        raise NativeMismatch(NativeFailure.FORM)
    return cipher.decryptor().update(body[:size])[: size + 1 - body[-2]]


class NativeCipher:
    """Native encryption of one connection, from the agreement on. Implements `StreamCipher`.

    `sdu` is the size of the largest packet that the target accepts. A packet of the target that does not fit is
    replaced by one of `native_failures.py`, and is the last one.
    """

    ssl_object: Final = None

    def __init__(self, choice: NativeChoice, keys: NativeKeys, sdu: int) -> None:
        self._choice = choice
        self._keys = keys
        self._sealer = PacketSealer(choice, keys)
        self._room = sdu - tns.DATA_HEAD - self._sealer.overhead
        self._above = tns.TnsReader("gateway", True, tns.MAX_SDU)
        self._below = tns.TnsReader("target", True, tns.MAX_SDU)
        self._resets_owed = 0  # by the target
        self.has_ended = False

    @property
    def overhead(self) -> int:
        return self._sealer.overhead

    def fold(self, login_key: bytes) -> None:
        """Mix the key of the login into the keys. Call it when the login is done."""
        self._sealer = PacketSealer(self._choice, self._keys.fold(login_key), _FOLDED)

    def take_pending(self) -> bytes:
        return b""

    def close(self) -> bytes:
        return b""

    def encrypt(self, data: bytes) -> bytes:
        """Take packets in clear text, or parts of them, and return those that are whole, for the target."""
        self._above.feed(data)
        out: list[bytes] = []
        while (packet := self._above.read()) is not None:
            if packet.type == tns.DATA:
                self._seal(packet, out)
                continue
            out.append(tns.packet(packet.type, packet.body, large=True, flags=packet.flags))
            if packet.type == tns.MARKER and packet.marker == tns.RESET:
                self._sealer.restart_sending()
                self._resets_owed += 1
        return b"".join(out)

    def _seal(self, packet: tns.TnsPacket, out: list[bytes]) -> None:
        flags = packet.data_flags.to_bytes(2, "big")
        body, room = packet.body, self._room
        if not body:  # the end of the session
            out.append(tns.packet(tns.DATA, flags, large=True))
        parts = [body[start : start + room] for start in range(0, len(body), room)]
        out += [tns.packet(tns.DATA, flags + self._sealer.seal(part), large=True) for part in parts]

    def decrypt(self, data: bytes) -> bytes:
        """Take packets of the target, or parts of them, and return those that are whole in clear text."""
        if self.has_ended:
            return b""
        out: list[bytes] = []
        try:
            self._below.feed(data)
            while (packet := self._below.read()) is not None:
                out.append(self._open(packet))
        except NativeMismatch as mismatch:
            self.has_ended = True
            out.append(failure_packet(mismatch.failure))
        except ProtocolViolation:  # a head of a packet
            self.has_ended = True
            out.append(failure_packet(NativeFailure.PACKET))
        return b"".join(out)

    def _open(self, packet: tns.TnsPacket) -> bytes:
        if packet.type == tns.DATA:
            ending = packet.data_flags & tns.END_OF_FILE
            content = b"" if ending and not packet.body else self._sealer.open(packet.body)
            return tns.packet(tns.DATA, ending.to_bytes(2, "big") + content, large=True)
        if packet.type == tns.MARKER and packet.marker:
            if packet.marker == tns.RESET and self._resets_owed:
                self._resets_owed -= 1
                self._sealer.restart_receiving()
        elif packet.type != tns.CONTROL or int.from_bytes(packet.body[:2], "big") not in _CONTROLS:
            raise NativeMismatch(NativeFailure.PACKET)
        return tns.packet(packet.type, packet.body, large=True, flags=packet.flags)
