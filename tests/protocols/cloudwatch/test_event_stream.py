"""Frames of event streams, compared with those of botocore."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.cloudwatch.wire.event_stream import EventStreamReader, StreamFrame, encode_frame, encode_texts

_TEXTS = {":message-type": "event", ":event-type": "sessionUpdate", ":content-type": "application/json"}
_NAMES = st.text("abcdefghij:-", min_size=1, max_size=20)


def _read(data: bytes, size: int) -> list[StreamFrame]:
    reader = EventStreamReader()
    frames = [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]
    assert reader.waiting == 0
    return frames


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_frames_are_read_in_chunks_of_any_size(size: int) -> None:
    data = b"".join(encode_frame(encode_texts(_TEXTS), b"x" * length) for length in (0, 1, 500))
    frames = _read(data, size)
    assert [len(frame.payload) for frame in frames] == [0, 1, 500]
    assert {frame.event_type for frame in frames} == {"sessionUpdate"}
    assert b"".join(frame.encode() for frame in frames) == data


@given(st.lists(st.tuples(st.dictionaries(_NAMES, st.text(max_size=30), max_size=5), st.binary(max_size=200))))
def test_botocore_reads_what_is_written(frames: list[tuple[dict[str, str], bytes]]) -> None:
    data = b"".join(encode_frame(encode_texts(texts), payload) for texts, payload in frames)
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    assert [(event.headers, event.payload) for event in buffer] == frames
    assert [(frame.texts, frame.payload) for frame in _read(data, 50)] == frames


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_frames_or_refused(data: bytes, size: int) -> None:
    reader = EventStreamReader(1000)
    try:
        for at in range(0, len(data), size):
            reader.feed(data[at : at + size])
    except ValueError:
        return
    assert reader.waiting <= 1000


def _with_checksums(head: bytes, payload: bytes = b"", *, headers: int | None = None) -> bytes:
    lengths = struct.pack(">II", 16 + len(head) + len(payload), len(head) if headers is None else headers)
    data = lengths + struct.pack(">I", crc32(lengths)) + head + payload
    return data + struct.pack(">I", crc32(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0" * 12, "checksum of a frame's lengths"),
        (encode_frame(b"", b"abc")[:-1] + b"\0", "checksum of a frame is"),
        (_with_checksums(b"", headers=5), "length"),
        (_with_checksums(b"\x01a\x07\x00\x05ab"), "cut"),
        (_with_checksums(b"\x01a\x0b"), "not valid"),
        (_with_checksums(b"\x09a"), "not valid"),
        (_with_checksums(b"\x01a\x00\x01a\x01"), "twice"),
        (struct.pack(">III", 1 << 30, 0, crc32(struct.pack(">II", 1 << 30, 0))), "length"),
    ],
)
def test_invalid_frames_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        EventStreamReader().feed(data)
