"""The format of encrypted segments, and the detection of every change to one."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher as Primitive
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postern.errors import Malformed
from postern.recording.cipher import (
    CHUNK,
    PREAMBLE,
    STEP,
    TAG,
    Cipher,
    Preamble,
    content_size,
    count_chunks,
    encrypt_blob,
    encrypted_size,
    key_info,
    offset,
)

KEY = bytes(range(32))
DATA_KEY = UUID("00112233-4455-6677-8899-aabbccddeeff")
OWN = Preamble(DATA_KEY, b"s" * 32)
SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17]


def content_of(size: int) -> bytes:
    return hashlib.shake_256(b"content").digest(size)


def blob_of(content: bytes) -> bytes:
    return b"".join(encrypt_blob(KEY, OWN, [content]))


def cut(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def opened(blob: bytes, key: bytes = KEY) -> bytes:
    """All of it, as a reader that knows only its size."""
    cipher = Cipher(key, Preamble.decode(blob))
    last = count_chunks(len(blob)) - 1
    return b"".join(
        cipher.decrypt(index, blob[offset(index) : offset(index + 1)], last=index == last) for index in range(last + 1)
    )


def by_hand(data_key: bytes, salt: bytes, bound: bytes, content: bytes) -> bytes:
    """A blob by the format's description, from HMAC and AES alone."""
    extracted = hmac.digest(salt, data_key, "sha256")
    key = hmac.digest(extracted, bound + b"\x01", "sha256")
    preamble = b"PSTN" + b"\x01" + DATA_KEY.bytes + salt
    parts = [content[at : at + 65536] for at in range(0, len(content), 65536)] or [b""]
    blob = preamble
    for number, part in enumerate(parts):
        nonce = bytes(3) + number.to_bytes(8, "big") + (b"\x01" if number == len(parts) - 1 else b"\x00")
        sealing = Primitive(AES(key), GCM(nonce)).encryptor()
        sealing.authenticate_additional_data(preamble)
        blob += sealing.update(part) + sealing.finalize() + sealing.tag
    return blob


@pytest.mark.parametrize("size", SIZES)
def test_blob_matches_the_documented_construction(size: int) -> None:
    organisation, session = UUID(int=1), UUID(int=2)
    data_key, salt = os.urandom(32), os.urandom(32)
    bound = b"postern: segment" + organisation.bytes + session.bytes + (3).to_bytes(8, "big")
    assert key_info(organisation, session, 3) == bound
    key = HKDF(SHA256(), 32, salt=salt, info=bound).derive(data_key)
    content = content_of(size)
    made = b"".join(encrypt_blob(key, Preamble(DATA_KEY, salt), [content]))
    assert made == by_hand(data_key, salt, bound, content)
    assert opened(made, key) == content


def test_format_of_encrypted_segments_does_not_change() -> None:
    """Later versions must read what is stored today."""
    digest = hashlib.sha256(blob_of(content_of(CHUNK + 100))).hexdigest()
    assert digest == "42a90ee9bf716ccda424816c9fab86ef2b2b92ee2ab1419fdeade5b6b958c8a2"


@given(st.integers(0, 3 * CHUNK + 5), st.integers(1, 2 * CHUNK))
@example(0, 1)
@example(CHUNK, CHUNK)
@example(2 * CHUNK, 7 * CHUNK)
@settings(max_examples=60, deadline=None)
def test_encryption_round_trips_for_any_piece_size(size: int, piece: int) -> None:
    content = content_of(size)
    blob = b"".join(encrypt_blob(KEY, OWN, cut(content, piece)))
    assert blob == blob_of(content)
    assert len(blob) == encrypted_size(size)
    assert content_size(len(blob)) == size
    assert opened(blob) == content


@pytest.mark.parametrize("size", SIZES)
def test_each_chunk_decrypts_alone(size: int) -> None:
    blob, content = blob_of(content_of(size)), content_of(size)
    last = count_chunks(len(blob)) - 1
    cipher = Cipher(KEY, OWN)
    for index in reversed(range(last + 1)):
        chunk = blob[offset(index) : offset(index + 1)]
        assert cipher.decrypt(index, chunk, last=index == last) == content[index * CHUNK : (index + 1) * CHUNK]


@given(st.sampled_from(SIZES), st.data())
@settings(max_examples=150, deadline=None)
def test_attack_flipped_bit_is_detected(size: int, data: st.DataObject) -> None:
    blob = bytearray(blob_of(content_of(size)))
    at = data.draw(st.integers(0, len(blob) - 1) | st.integers(0, PREAMBLE))
    blob[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Malformed):
        opened(bytes(blob))


def test_attack_each_changed_byte_of_a_small_blob_is_detected() -> None:
    blob = blob_of(b"short")
    for at in range(len(blob)):
        changed = bytearray(blob)
        changed[at] ^= 0x80
        with pytest.raises(Malformed):
            opened(bytes(changed))


@given(st.sampled_from(SIZES), st.data())
@settings(max_examples=150, deadline=None)
def test_attack_truncation_is_detected(size: int, data: st.DataObject) -> None:
    blob = blob_of(content_of(size))
    borders = [offset(index) for index in range(count_chunks(len(blob)))]
    length = data.draw(st.integers(0, len(blob) - 1) | st.sampled_from(borders))
    with pytest.raises(Malformed):
        opened(blob[:length])


@given(st.binary(min_size=1, max_size=2 * TAG) | st.just(bytes(STEP)))
@settings(max_examples=60, deadline=None)
def test_attack_data_after_the_end_is_detected(more: bytes) -> None:
    for size in SIZES:
        with pytest.raises(Malformed):
            opened(blob_of(content_of(size)) + more)


@given(st.permutations(range(4)))
def test_attack_reordered_chunks_are_detected(order: list[int]) -> None:
    blob = blob_of(content_of(4 * CHUNK))
    chunks = [blob[offset(index) : offset(index + 1)] for index in order]
    changed = blob[:PREAMBLE] + b"".join(chunks)
    if changed == blob:
        assert opened(changed) == content_of(4 * CHUNK)
    else:
        with pytest.raises(Malformed):
            opened(changed)


def test_attack_missing_or_repeated_chunk_is_detected() -> None:
    blob = blob_of(content_of(4 * CHUNK))
    first, second = blob[PREAMBLE : offset(1)], blob[offset(1) : offset(2)]
    for changed in (blob[:PREAMBLE] + blob[offset(1) :], blob[: offset(1)] + first + blob[offset(2) :], blob + second):
        with pytest.raises(Malformed):
            opened(changed)


def test_attack_chunk_of_another_blob_with_the_same_data_key_is_detected() -> None:
    """The preamble of a blob is associated data of each chunk, and its salt is in the key."""
    content = content_of(2 * CHUNK)
    one, other = blob_of(content), b"".join(encrypt_blob(KEY, Preamble(DATA_KEY, b"t" * 32), [content]))
    with pytest.raises(Malformed):
        opened(one[: offset(1)] + other[offset(1) :])
    with pytest.raises(Malformed):
        opened(one[:PREAMBLE] + other[PREAMBLE:])


def test_wrong_key_decrypts_nothing_and_reports_the_position() -> None:
    with pytest.raises(Malformed, match=f"cannot be decrypted from byte {PREAMBLE} on: it was changed or cut, or is"):
        opened(blob_of(b"content"), os.urandom(32))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it was cut"),
        (b"PST", "it was cut"),
        (OWN.encode()[:-1], "it was cut"),
        (b"\x28\xb5\x2f\xfd" + bytes(100), "is not encrypted"),
        (b"POSTREC\n" + bytes(100), "is not encrypted"),
        (b"PSTN\x02" + bytes(100), "format 2"),
    ],
)
def test_invalid_preamble_is_malformed(data: bytes, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        Preamble.decode(data)


@pytest.mark.parametrize("size", [0, PREAMBLE, PREAMBLE + TAG - 1, offset(1) + 1, offset(1) + TAG, offset(2) + TAG - 1])
def test_impossible_blob_sizes_are_malformed(size: int) -> None:
    with pytest.raises(Malformed, match=f"{size} bytes"):
        count_chunks(size)


def test_blobs_of_equal_content_differ() -> None:
    content = b"select 'secret'" * 1000
    one, other = (b"".join(encrypt_blob(KEY, Preamble(DATA_KEY, os.urandom(32)), [content])) for _ in range(2))
    assert one[PREAMBLE:] != other[PREAMBLE:]
    assert b"secret" not in one
