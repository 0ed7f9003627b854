"""Checkpoints: signed statements of the ledger's newest entry (Ed25519, RFC 8032).

The signature covers "postern checkpoint", a line feed, and the canonical JSON of organisation, number, hash, at and
key. If another key takes over, its public half is in `introduces`. A line in a file of checkpoints is the same object
with its signature. A key is named by its fingerprint, the SHA-256 of its 32 bytes, so that no other key can have its
name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from postern.domain.sessions.ledger import Checkpoint, LedgerHead, LedgerKey, moment
from postern.errors import Malformed
from postern.proof.canonical import canonical, parse

_SIGNED = b"postern checkpoint\n"


def fingerprint(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()


def new_key(org_id: UUID, at: datetime) -> LedgerKey:
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    return LedgerKey(fingerprint(public), org_id, public, private.private_bytes_raw(), at)


def public_pem(public: bytes) -> str:
    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def read_pem(text: bytes) -> list[bytes]:
    """Return the public keys of a PEM file. Raises Malformed if there is anything else in it."""
    mark = b"-----BEGIN"
    keys = []
    for part in text.split(mark)[1:]:
        try:
            key = load_pem_public_key(mark + part)
        except ValueError:
            raise Malformed("it is not a public key in PEM") from None
        if not isinstance(key, Ed25519PublicKey):
            raise Malformed("it is not an Ed25519 key")
        keys.append(key.public_bytes_raw())
    if not keys:
        raise Malformed("it contains no public key in PEM")
    return keys


def sign_checkpoint(key: LedgerKey, head: LedgerHead, at: datetime, introduces: bytes | None = None) -> Checkpoint:
    """Return the signed checkpoint of a ledger up to `head`."""
    unsigned = Checkpoint(key.org_id, head.number, head.hash, at, key.id, b"", introduces)
    signature = sign(key, _SIGNED + canonical(_content(unsigned)))
    return Checkpoint(key.org_id, head.number, head.hash, at, key.id, signature, introduces)


def sign(key: LedgerKey, data: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(key.private).sign(data)


def is_signed(public: bytes, signature: bytes, data: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_good(checkpoint: Checkpoint, public: bytes) -> bool:
    """Return whether that key signed the checkpoint."""
    return is_signed(public, checkpoint.signature, _SIGNED + canonical(_content(checkpoint)))


def format_line(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint as a line without line feed."""
    return canonical({**_content(checkpoint), "signature": checkpoint.signature.hex()})


def read_line(line: bytes) -> Checkpoint:
    """Parse a line. Raises Malformed."""
    values = parse(line)
    try:
        introduces = values.get("introduces")
        checkpoint = Checkpoint(
            org_id=UUID(values["organisation"]),
            number=values["number"],
            hash=bytes.fromhex(values["hash"]),
            at=datetime.fromisoformat(values["at"]),
            key=values["key"],
            signature=bytes.fromhex(values["signature"]),
            introduces=None if introduces is None else bytes.fromhex(introduces),
        )
        is_sound = type(checkpoint.number) is int and checkpoint.number > 0 and isinstance(checkpoint.key, str)
        is_canonical = (
            is_sound and len(checkpoint.hash) == hashlib.sha256().digest_size and format_line(checkpoint) == line
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        is_canonical = False
    if not is_canonical:
        raise Malformed("it is not a checkpoint")
    return checkpoint


class Trust:
    """Trusted keys: the given ones, and those that they introduced. Takes checkpoints in order."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = {fingerprint(key): key for key in keys}
        self._replaced: dict[str, int] = {}  # last entry that a replaced key can sign

    def refusal(self, checkpoint: Checkpoint) -> str:
        """Return why the checkpoint is not trusted; empty if it is."""
        key = self._keys.get(checkpoint.key)
        if key is None:
            return f"it is signed by the key {checkpoint.key}, which is not among the given keys"
        if not is_good(checkpoint, key):
            return "its signature is wrong"
        if checkpoint.number > self._replaced.get(checkpoint.key, checkpoint.number):
            return f"it is signed by the key {checkpoint.key}, which was already replaced"
        if checkpoint.introduces is not None:
            self._keys[fingerprint(checkpoint.introduces)] = checkpoint.introduces
            self._replaced[checkpoint.key] = checkpoint.number
        return ""

    def knows(self, key: str) -> bool:
        return key in self._keys

    def verifies(self, key: str, signature: bytes, data: bytes) -> bool:
        return key in self._keys and is_signed(self._keys[key], signature, data)


def _content(checkpoint: Checkpoint) -> dict[str, Any]:
    content: dict[str, Any] = {
        "organisation": str(checkpoint.org_id),
        "number": checkpoint.number,
        "hash": checkpoint.hash.hex(),
        "at": moment(checkpoint.at),
        "key": checkpoint.key,
    }
    if checkpoint.introduces is not None:
        content["introduces"] = checkpoint.introduces.hex()
    return content
