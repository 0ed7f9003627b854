"""The frame reader finds the same frames however its input is split."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.transport import frames
from postern.transport.frames import TunnelFrameReader, header


class Reader(TunnelFrameReader):
    """Joins the slices of DATA that follow each other."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, int, bytes]] = []
        self.stop_at = 0

    def on_data(self, stream: int, payload: bytes) -> None:
        assert payload
        self.found.append((frames.DATA, stream, payload))

    def on_frame(self, kind: int, stream: int, payload: bytes) -> None:
        self.found.append((kind, stream, payload))
        if len(self.found) == self.stop_at:
            self.stop()

    def joined(self) -> list[tuple[int, int, bytes]]:
        joined: list[tuple[int, int, bytes]] = []
        for kind, stream, payload in self.found:
            if kind == frames.DATA and joined and joined[-1][:2] == (kind, stream):
                joined[-1] = (kind, stream, joined[-1][2] + payload)
            else:
                joined.append((kind, stream, payload))
        return joined


_FRAMES = st.tuples(st.integers(1, 12), st.integers(0, (1 << 32) - 1), st.binary(max_size=300))


@given(st.lists(_FRAMES, max_size=20), st.lists(st.integers(1, 400), min_size=1, max_size=20), st.booleans())
def test_reader_finds_the_same_frames_however_the_input_is_split(
    sent: list[tuple[int, int, bytes]], sizes: list[int], views: bool
) -> None:
    whole = b"".join(header(kind, stream, len(payload)) + payload for kind, stream, payload in sent)
    straight, cut = Reader(), Reader()
    straight.feed(whole)
    at = turn = 0
    while at < len(whole):
        piece = whole[at : at + sizes[turn % len(sizes)]]
        cut.feed(memoryview(bytearray(piece)) if views else piece)
        at += len(piece)
        turn += 1
    assert straight.joined() == cut.joined()
    assert b"".join(payload for _, _, payload in straight.found) == b"".join(payload for _, _, payload in sent)
    controls = [one for one in sent if one[0] != frames.DATA]
    assert [one for one in straight.found if one[0] != frames.DATA] == controls


def test_stopped_reader_finds_no_more_frames() -> None:
    reader = Reader()
    reader.stop_at = 2
    reader.feed(header(frames.PING, 0, 0) * 5)
    reader.feed(header(frames.PING, 0, 0))
    assert len(reader.found) == 2


def test_control_frame_received_byte_by_byte_takes_linear_time() -> None:
    reader = Reader()
    frame = header(frames.HELLO, 0, frames.MAX_CONTROL) + bytes(frames.MAX_CONTROL)
    started = time.process_time()
    for at in range(len(frame)):
        reader.feed(frame[at : at + 1])
    assert len(reader.found) == 1
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("kind", "length"),
    [(0, 0), (13, 0), (255, 0), (frames.DATA, (1 << 20) + 1), (frames.OPEN, frames.MAX_CONTROL + 1)],
)
@pytest.mark.parametrize("chunk", [1, 8])
def test_unknown_kind_or_excessive_length_is_a_protocol_violation(kind: int, length: int, chunk: int) -> None:
    start = header(kind, 1, length)
    reader = Reader()
    for at in range(0, 8 - chunk, chunk):
        reader.feed(start[at : at + chunk])
    with pytest.raises(ProtocolViolation):
        reader.feed(start[8 - chunk :])
