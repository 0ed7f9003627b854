"""MySQL authentication plug-ins, compared with other implementations and with each other."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysql import _auth as theirs
from tests.support.examples import examples

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import ProtocolViolation, Unavailable
from postern.protocols.mysql.login import mysql_auth as auth
from postern.protocols.mysql.login import mysql_ed25519 as ed25519

SALT = bytes(range(33, 53))
PASSWORDS = st.binary(max_size=60)


@pytest.fixture(scope="module")
def key() -> auth.ExchangeKey:
    return auth.ExchangeKey()


@given(PASSWORDS)
def test_scrambles_equal_those_of_pymysql(password: bytes) -> None:
    assert auth.native(password, SALT) == theirs.scramble_native_password(password, SALT)
    assert auth.caching(password, SALT) == theirs.scramble_caching_sha2(password, SALT)


@given(PASSWORDS.filter(bool), PASSWORDS)
def test_proof_is_valid_only_for_its_password_and_salt(password: bytes, other: bytes) -> None:
    proof = auth.caching(password, SALT)
    assert auth.proves(proof, SALT, auth.double(password))
    assert auth.proves(proof, SALT, auth.double(other)) == (password == other)
    assert not auth.proves(proof, SALT[::-1], auth.double(password))


def test_attack_proof_of_wrong_length_is_invalid() -> None:
    assert not auth.proves(b"", SALT, auth.double(b"secret"))
    assert not auth.proves(bytes(64), SALT, auth.double(b"secret"))


def test_stored_double_hash_does_not_suffice_to_forge_a_proof() -> None:
    kept = auth.double(b"secret")
    mask = hashlib.sha256(kept + SALT).digest()
    forged = bytes(a ^ b for a, b in zip(kept, mask, strict=True))
    assert not auth.proves(forged, SALT, kept)


def test_salts_are_characters_without_nul_and_dollar() -> None:
    salts = {auth.new_salt() for _ in range(200)}
    assert len(salts) == 200
    assert all(len(salt) == 20 and max(salt) < 128 and not set(salt) & {0, ord("$")} for salt in salts)


def test_encrypted_password_is_opened_by_its_key_only(key: auth.ExchangeKey) -> None:
    sealed = auth.encrypt_password(b"secret", SALT, key.pem)
    assert key.open(sealed, SALT) == b"secret\0"
    assert key.open(sealed[::-1], SALT) is None
    assert theirs.sha2_rsa_encrypt(b"secret", SALT, key.pem) != sealed
    assert key.open(theirs.sha2_rsa_encrypt(b"secret", SALT, key.pem), SALT) == b"secret\0"


def _pem(public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def test_attack_weak_or_malformed_key_of_a_target_is_rejected(key: auth.ExchangeKey) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.raises(Unavailable, match="1024 bits"):
        auth.encrypt_password(b"secret", SALT, _pem(weak.public_key()))
    for strange in (b"", b"no key", _pem(ec.generate_private_key(ec.SECP256R1()).public_key())):
        with pytest.raises(ProtocolViolation):
            auth.encrypt_password(b"secret", SALT, strange)
    with pytest.raises(Unavailable, match="too long"):
        auth.encrypt_password(b"x" * 300, SALT, key.pem)


def test_password_digest_is_found_by_its_verifier_only() -> None:
    digests = auth.PasswordDigests()
    one, other = Verifier(4096, b"salt", b"key", b"server"), Verifier(4096, b"salt", b"another", b"server")
    digests.keep(one, Secret("secret"))
    assert digests.find(one) == auth.double(b"secret")
    assert digests.find(other) is None


def test_least_recently_used_password_digest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_MOST", 2)
    digests = auth.PasswordDigests()
    verifiers = [Verifier(4096, b"salt", b"%d" % at, b"server") for at in range(3)]
    digests.keep(verifiers[0], Secret("0"))
    digests.keep(verifiers[1], Secret("1"))
    digests.find(verifiers[0])
    digests.keep(verifiers[2], Secret("2"))
    assert [digests.find(one) is None for one in verifiers] == [False, True, False]


# RFC 8032, section 7.1: seed, public key, message, signature
VECTORS = {
    "no message": (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    "one byte": (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
}


@pytest.mark.parametrize(("seed", "public", "message", "signature"), VECTORS.values(), ids=VECTORS)
def test_ed25519_signature_equals_the_rfc_test_vector(seed: str, public: str, message: str, signature: str) -> None:
    assert ed25519.public_key(bytes.fromhex(seed)).hex() == public
    assert ed25519.sign(bytes.fromhex(seed), bytes.fromhex(message)).hex() == signature


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=64))
@settings(max_examples=examples(10))
def test_ed25519_signature_with_a_32_byte_seed_equals_that_of_a_library(seed: bytes, message: bytes) -> None:
    assert ed25519.sign(seed, message) == Ed25519PrivateKey.from_private_bytes(seed).sign(message)


@given(PASSWORDS, st.binary(min_size=32, max_size=32))
@settings(max_examples=examples(10))
def test_ed25519_signature_with_any_password_is_verified_by_a_library(password: bytes, message: bytes) -> None:
    public = Ed25519PublicKey.from_public_bytes(ed25519.public_key(password))
    signature = ed25519.sign(password, message)
    public.verify(signature, message)
    with pytest.raises(InvalidSignature):
        public.verify(signature, message + b"!")
