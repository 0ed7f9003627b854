"""Decoding of compressed content: however it is cut, and never more than its size justifies."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.content_codings import CODINGS

from postern.protocols.http.content.content_codings import (
    CodedContentError,
    ContentDecoder,
    can_decode,
    decode_whole,
    zstd,
)

CODED = [name for name in CODINGS if name != "identity"]
CONTENT = b"".join(b"%d alice.miller@example.com \xc3\xa9\n" % number for number in range(2000))


def names_of(coding: str) -> list[str]:
    return CODINGS[coding][0].split(", ")


def decode(codings: list[str], data: bytes, size: int) -> bytes:
    decoder = ContentDecoder(codings)
    parts = [part for at in range(0, len(data), size) for part in decoder.decode(data[at : at + size])]
    decoder.finish()
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("coding", CODED)
def test_content_is_decoded_however_it_is_cut(coding: str, size: int) -> None:
    assert decode(names_of(coding), CODINGS[coding][1](CONTENT), size) == CONTENT


@pytest.mark.parametrize("coding", CODED)
def test_nothing_is_complete_and_empty_content_is_decoded(coding: str) -> None:
    assert decode(names_of(coding), b"", 1) == b""
    assert decode(names_of(coding), CODINGS[coding][1](b""), 1) == b""


@given(st.binary(max_size=2000), st.sampled_from(CODED), st.integers(1, 200))
def test_any_content_comes_back(content: bytes, coding: str, size: int) -> None:
    assert decode(names_of(coding), CODINGS[coding][1](content), size) == content


@given(st.binary(min_size=1, max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br"]))
def test_other_bytes_raise_one_error_only(data: bytes, coding: str) -> None:
    with suppress(CodedContentError):
        decode(coding.split(", "), data, 11)


@pytest.mark.parametrize("coding", CODED)
def test_content_that_is_cut_short_or_damaged_is_an_error(coding: str) -> None:
    data = CODINGS[coding][1](CONTENT)
    with pytest.raises(CodedContentError, match="incomplete"):
        decode(names_of(coding), data[:-1], 100)
    with pytest.raises(CodedContentError, match="damaged"):
        decode(names_of(coding), b"\xff" * 20 + data, 100)


@pytest.mark.parametrize(
    "coding", ["gzip", "deflate", "br", "zstd", "gzip, br", "br, gzip", "zstd, zstd", "gzip, gzip"]
)
def test_bomb_is_refused_before_it_is_large(coding: str) -> None:
    data = bytes(40 << 20)
    for name in coding.split(", "):
        data = CODINGS[name][1](data)
    decoder, size = ContentDecoder(coding.split(", ")), 0
    with pytest.raises(CodedContentError, match="expands too much"):  # noqa: PT012
        for part in decoder.decode(data):
            assert len(part) <= 1 << 20
            size += len(part)
    assert size <= max(17 << 20, 201 * len(data))


def test_output_that_a_further_stage_swallows_counts() -> None:
    skipped = (b"\x50\x2a\x4d\x18" + (1 << 20).to_bytes(4, "little") + bytes(1 << 20)) * 20
    with pytest.raises(CodedContentError, match="expands too much"):
        decode_whole(["zstd", "br"], brotli.compress(skipped, quality=4), 1 << 30)


@pytest.mark.parametrize(
    ("coding", "part"), [("gzip", gzip.compress(b"", mtime=0)), ("zstd", b"\x50\x2a\x4d\x18\0\0\0\0")]
)
def test_parts_without_content_are_limited(coding: str, part: bytes) -> None:
    with pytest.raises(CodedContentError, match="too many parts"):
        decode_whole([coding], part * 100_000, 1 << 20)


def test_window_beyond_what_content_may_have_is_refused() -> None:
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    data = compressor.compress(CONTENT) + compressor.flush()
    with pytest.raises(CodedContentError, match="damaged"):
        decode_whole(["zstd"], data, 1 << 20)


@pytest.mark.parametrize("codings", [["compress"], ["gzip", "dcz"], ["gzip"] * 6, ["aws-chunked"]])
def test_unknown_codings_are_an_error(codings: list[str]) -> None:
    assert not can_decode(codings)
    with pytest.raises(CodedContentError, match="cannot be inspected"):
        decode_whole(codings, zlib.compress(b"x"), 100)


def test_whole_content_has_a_limit() -> None:
    with pytest.raises(CodedContentError, match="more than 100 bytes"):
        decode_whole(["zstd"], zstd.compress(CONTENT), 100)
