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


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    key, next_key = new_key(ORG, BEGIN), new_key(ORG, BEGIN)
    for introduces in (None, next_key.public):
        made = sign_checkpoint(key, LedgerHead(7, bytes(32)), BEGIN, introduces)
        assert read_line(format_line(made)) == made
        assert is_good(made, key.public)
        assert not is_good(made, next_key.public)


def test_a_signature_is_good_for_nothing_else() -> None:
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
def test_something_else_is_no_checkpoint(line: bytes) -> None:
    with pytest.raises(Malformed):
        read_line(line)


def test_keys_are_kept_as_pem_one_or_several() -> None:
    first, second = new_key(ORG, BEGIN), new_key(ORG, BEGIN)
    both = (public_pem(first.public) + public_pem(second.public)).encode()
    assert read_pem(both) == [first.public, second.public]
    other = generate_private_key(SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for bad in (b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", pem):
        with pytest.raises(Malformed):
            read_pem(bad)


def test_the_private_half_is_not_in_the_text_of_a_key() -> None:
    key = new_key(ORG, BEGIN)
    assert key.private.hex() not in repr(key)
    assert repr(key.private) not in repr(key)
