"""A peer of HTTP/2 connections that sends any frames, also wrong ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
Fields = Sequence[tuple[str | bytes, str | bytes]]
GET: Fields = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]
POST: Fields = [(":method", "POST"), *GET[1:]]


def raw(kind: int, stream_id: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return a frame of any kind, whatever its payload."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big") + payload


class Http2Peer:
    """Encodes frames; HPACK's state is that of one connection."""

    def __init__(self) -> None:
        self.encoder = Encoder()

    def block(self, fields: Fields) -> bytes:
        return self.encoder.encode(list(fields))

    def headers(self, stream_id: int, fields: Fields = GET, *, end: bool = True, pieces: int = 1, **more: Any) -> bytes:
        """Return a head: HEADERS, and CONTINUATION frames where `pieces` is more than one."""
        block = self.block(fields)
        size = -(-len(block) // pieces)
        parts = [block[at : at + size] for at in range(0, len(block), size)]
        frames: list[Frame] = [HeadersFrame(stream_id, parts[0], **more)]
        frames += [ContinuationFrame(stream_id, part) for part in parts[1:]]
        if end:
            frames[0].flags.add("END_STREAM")
        if "PRIORITY" not in frames[0].flags and more:
            frames[0].flags.add("PRIORITY")
        frames[-1].flags.add("END_HEADERS")
        return b"".join([frame.serialize() for frame in frames])


def data(stream_id: int, content: bytes = b"", *, end: bool = False) -> bytes:
    return DataFrame(stream_id, content, flags=["END_STREAM"] if end else []).serialize()


def settings(values: dict[int, int] | None = None) -> bytes:
    return SettingsFrame(0, values or {}).serialize()


def ping() -> bytes:
    return PingFrame(0, b"12345678").serialize()


def reset(stream_id: int, code: int = 8) -> bytes:
    return RstStreamFrame(stream_id, code).serialize()


def window_update(stream_id: int, increment: int) -> bytes:
    return WindowUpdateFrame(stream_id, increment).serialize()


def go_away(last_stream_id: int, code: int = 0) -> bytes:
    return GoAwayFrame(0, last_stream_id, code).serialize()


def frames_of(content: bytes) -> list[Frame]:
    """Return the frames in what a connection sends, without a client's preface."""
    content = content.removeprefix(PREFACE)
    frames = []
    while content:
        frame, length = Frame.parse_frame_header(memoryview(content[:9]))
        frame.parse_body(memoryview(content[9 : 9 + length]))
        frames.append(frame)
        content = content[9 + length :]
    return frames


def goaway_codes(frames: Iterable[Frame]) -> list[int]:
    return [frame.error_code for frame in frames if isinstance(frame, GoAwayFrame)]


def reset_codes(frames: Iterable[Frame]) -> list[tuple[int, int]]:
    """Return the streams that were reset, with the codes."""
    return [(frame.stream_id, frame.error_code) for frame in frames if isinstance(frame, RstStreamFrame)]
