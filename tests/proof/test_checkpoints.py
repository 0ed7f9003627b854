from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.support.proofs import BEGIN, ORG

from postern.domain.sessions.ledger import LedgerHead
from postern.errors import Malformed
from postern.proof.proof_checkpoints import (
    format_line,
    is_good,
    new_key,
    public_pem,
    read_line,
    read_pem,
    sign_checkpoint,
)


def test_checkpoint_is_read_as_written_and_verified_only_by_its_key() -> None:
    key, next_key = new_key(ORG, BEGIN), new_key(ORG, BEGIN)
    for introduces in (None, next_key.public):
        made = sign_checkpoint(key, LedgerHead(7, bytes(32)), BEGIN, introduces)
        assert read_line(format_line(made)) == made
        assert is_good(made, key.public)
        assert not is_good(made, next_key.public)


def test_signature_is_invalid_for_a_checkpoint_with_any_changed_field() -> None:
    key = new_key(ORG, BEGIN)
    made = sign_checkpoint(key, LedgerHead(7, bytes(32)), BEGIN)
    for other in (
        replace(made, number=8),
        replace(made, hash=b"\1" * 32),
        replace(made, org_id=UUID(int=8)),
        replace(made, at=BEGIN.replace(year=2027)),
        replace(made, introduces=key.public),
        replace(made, key="0" * 64),
    ):
        assert not is_good(other, key.public)


@pytest.mark.parametrize("line", [b"{}", b"[]", b'{"organisation":1}', b"x"])
def test_line_that_is_not_a_checkpoint_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        read_line(line)


def test_public_keys_are_read_from_pem_and_other_text_is_malformed() -> None:
    first, second = new_key(ORG, BEGIN), new_key(ORG, BEGIN)
    both = (public_pem(first.public) + public_pem(second.public)).encode()
    assert read_pem(both) == [first.public, second.public]
    other = generate_private_key(SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for bad in (b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", pem):
        with pytest.raises(Malformed):
            read_pem(bad)


def test_private_key_is_not_in_the_repr_of_a_key() -> None:
    key = new_key(ORG, BEGIN)
    assert key.private.hex() not in repr(key)
    assert repr(key.private) not in repr(key)
