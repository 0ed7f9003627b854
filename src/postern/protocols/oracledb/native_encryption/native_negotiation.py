"""The negotiation of native encryption with a target, after ACCEPT.

    agent                                                         target
      ├─ its algorithms for encryption and for checksums ───────────▶ │
      │ ◀── one of each; a group of Diffie-Hellman, a public value ───│
      ├─ its own public value ──────────────────────────────────────▶ │
      │    from here on both sides encrypt                            │

The target decides. It chooses nothing where its own settings say so, or where it knows none of the algorithms; then
nothing is encrypted, and there is no public value.
"""

from __future__ import annotations

import secrets
from typing import Final

from postern.errors import ProtocolViolation, Unavailable
from postern.protocols.oracledb.native_encryption import native_messages as m
from postern.protocols.oracledb.native_encryption.native_algorithms import (
    CHECKSUM_NAMES,
    ENCRYPTION_NAMES,
    HASHES,
    KEY_SIZES,
    NONE,
    NativeChoice,
    NativeMode,
    offer,
)
from postern.protocols.oracledb.native_encryption.native_cipher import NativeCipher
from postern.protocols.oracledb.native_encryption.native_keys import STRONG_GROUP, VECTOR, NativeGroup, agree

# The version of native services that this is, and the first ones with the renewed derivation of keys.
_VERSION: Final = 0x17_00_00_00
_RENEWED_MAJOR: Final = 23
_DRIVER: Final = 1
_ANY_AUTHENTICATION: Final = 0xE0E1
_NO_ADAPTER, _ADAPTER = b"\xfc\xff", b"\xfa\xff"  # of authentication, such as Kerberos
_SERVICES: Final = (m.SUPERVISOR, m.AUTHENTICATION, m.ENCRYPTION, m.INTEGRITY)
_WITH_GROUP: Final = 8  # fields

_NO_COMMON: Final = frozenset({12_649, 12_650, 12_660})
_WEAK_CLIENT: Final = 12_269
_HINT: Final = (
    "allow AES256 in SQLNET.ENCRYPTION_TYPES_SERVER and SHA256 in SQLNET.CRYPTO_CHECKSUM_TYPES_SERVER there, or use "
    "TLS (TCPS)"
)


class NativeNegotiation:
    """The client's side: `request`, then `read_answer`, then `agree` unless the answer is that nothing is encrypted."""

    def __init__(self, mode: NativeMode) -> None:
        self._mode = mode
        self._group: NativeGroup | None = None

    def request(self) -> bytes:
        version = m.NativeField(m.VERSION, _VERSION.to_bytes(4, "big"))
        identity = m.NativeField(m.RAW, bytes(2) + secrets.token_bytes(6))
        known = m.NativeField(m.RAW, _list_services())
        encryptions = m.NativeField(m.RAW, offer(tuple(KEY_SIZES), self._mode))
        checksums = m.NativeField(m.RAW, offer(tuple(HASHES), self._mode))
        adapters = (m.ub2(_ANY_AUTHENTICATION), m.NativeField(m.STATUS, _NO_ADAPTER))
        return m.encode_message(
            [
                m.NativeService(m.SUPERVISOR, (version, identity, known)),
                m.NativeService(m.AUTHENTICATION, (version, *adapters)),
                m.NativeService(m.ENCRYPTION, (version, encryptions, m.ub1(_DRIVER))),
                m.NativeService(m.INTEGRITY, (version, checksums)),
            ],
            _VERSION,
        )

    def read_answer(self, services: tuple[m.NativeService, ...]) -> NativeChoice:
        """Return what the target has chosen. Raises Unavailable and ProtocolViolation."""
        by_number = {service.number: service for service in services}
        for service in services:
            if service.error:
                raise _refusal(service.error)
        if len(by_number) != len(services) or not by_number.keys() >= {m.ENCRYPTION, m.INTEGRITY}:
            raise ProtocolViolation("the target's answer about native encryption lacks a service, or has one twice")
        _require_no_adapter(by_number.get(m.AUTHENTICATION))
        encryption, integrity = by_number[m.ENCRYPTION], by_number[m.INTEGRITY]
        choice = NativeChoice(
            encryption.field(1, m.UB1, 1)[0],
            integrity.field(1, m.UB1, 1)[0],
            renewed_encryption=_is_renewed(encryption),
            renewed_checksum=_is_renewed(integrity),
        )
        _require_known(choice)
        if choice.is_clear:
            self._require_nothing()
            return choice
        self._group = _read_group(integrity)
        if choice.checksum != NONE and not choice.renewed_checksum and len(self._group.vector) < VECTOR:
            raise ProtocolViolation("the target's vector for native encryption is too short")
        self._require_strong(choice, self._group)
        return choice

    def agree(self, choice: NativeChoice, sdu: int) -> tuple[bytes, NativeCipher]:
        """Return the answer to the target, and the cipher. Takes milliseconds. Raises ProtocolViolation and
        Unavailable."""
        assert self._group is not None
        public, keys = agree(self._group)
        answer = m.NativeService(m.INTEGRITY, (m.NativeField(m.RAW, public),))
        return m.encode_message([answer], _VERSION), NativeCipher(choice, keys, sdu)

    def _require_nothing(self) -> None:
        if self._mode is NativeMode.REQUIRE:
            raise Unavailable(absent("the target chose neither encryption nor checksums"))

    def _require_strong(self, choice: NativeChoice, group: NativeGroup) -> None:
        if self._mode is not NativeMode.REQUIRE:
            return
        if choice.encryption == NONE or choice.checksum == NONE:
            missing = "encryption" if choice.encryption == NONE else "checksums"
            raise Unavailable(absent(f"the target chose no {missing}"))
        if not (choice.renewed_encryption and choice.renewed_checksum) or group.bits < STRONG_GROUP:
            raise Unavailable(
                "the target derives the keys of native encryption as before July 2021 (CVE-2021-2351), and the "
                "connection's NATIVE_ENCRYPTION is require; update the target, use TLS (TCPS), or set it to prefer"
            )


def absent(reason: str) -> str:
    """Return the error of a target without native encryption that the connection requires."""
    return (
        f"{reason}, and the connection's NATIVE_ENCRYPTION is require; set SQLNET.ENCRYPTION_SERVER and "
        "SQLNET.CRYPTO_CHECKSUM_SERVER to REQUIRED at the target, or use TLS (TCPS)"
    )


def _list_services() -> bytes:
    head = b"\xde\xad\xbe\xef" + (3).to_bytes(2, "big") + len(_SERVICES).to_bytes(4, "big")
    return head + b"".join([number.to_bytes(2, "big") for number in _SERVICES])


def _refusal(error: int) -> Unavailable:
    if error in _NO_COMMON:
        return Unavailable(
            f"the target has no algorithm of native encryption in common with Postern (ORA-{error}), which has "
            f"{_names()}; {_HINT}"
        )
    if error == _WEAK_CLIENT:
        return Unavailable(
            f"the target refuses Postern's version of native encryption (ORA-{error}); use TLS (TCPS), or set "
            "SQLNET.ALLOW_WEAK_CRYPTO_CLIENTS to TRUE there"
        )
    return Unavailable(f"the target refuses native encryption (ORA-{error:05d}); set NATIVE_ENCRYPTION to disable")


def _names() -> str:
    encryptions = ", ".join([ENCRYPTION_NAMES[number] for number in KEY_SIZES])
    return f"{encryptions} and {', '.join([CHECKSUM_NAMES[number] for number in HASHES])}"


def _require_no_adapter(service: m.NativeService | None) -> None:
    if service is None or len(service.fields) < 2 or service.field(1, m.STATUS, 2) != _ADAPTER:
        return
    if len(service.fields) > 2:
        name = service.fields[3].content.decode("ascii", "replace") if len(service.fields) > 3 else "an adapter"
        raise Unavailable(
            f"the target wants to authenticate by {name[:32]!r}; only logins with a user name and a password are "
            "supported"
        )


def _require_known(choice: NativeChoice) -> None:
    """Raise Unavailable for an algorithm that was not offered."""
    if choice.encryption not in (*KEY_SIZES, NONE):
        name = ENCRYPTION_NAMES.get(choice.encryption, f"number {choice.encryption}")
        raise Unavailable(f"the target chose the encryption {name}, which is too weak or unknown; {_HINT}")
    if choice.checksum not in (*HASHES, NONE):
        name = CHECKSUM_NAMES.get(choice.checksum, f"number {choice.checksum}")
        raise Unavailable(f"the target chose the checksum {name}, which is too weak or unknown; {_HINT}")


def _is_renewed(service: m.NativeService) -> bool:
    version = int.from_bytes(service.field(0, m.VERSION, 4), "big")
    return version >> 24 >= _RENEWED_MAJOR or version >> 12 & 0xFF > 0


def _read_group(service: m.NativeService) -> NativeGroup:
    if len(service.fields) < _WITH_GROUP:
        raise ProtocolViolation("the target chose native encryption without a group to agree on keys")
    return NativeGroup(
        int.from_bytes(service.field(2, m.UB2, 2), "big"),
        service.field(4, m.RAW),
        service.field(5, m.RAW),
        service.field(6, m.RAW),
        service.field(7, m.RAW),
    )
