"""Recorded frames as responses. Frames of several exchanges can take turns: links of one session run at once.

Reading can begin in the middle of a response, so data without a head is a body of unknown type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.http import http_frames as f
from postern.protocols.http.content.charsets import Transcoder, codec_of
from postern.protocols.http.content.content_codings import ContentDecoder, can_decode
from postern.protocols.http.content.content_types import (
    BodyKind,
    ContentType,
    content_type_of,
    encodings_of,
    is_textual,
)
from postern.protocols.http.content.websocket_frames import TEXT, WebsocketFrames
from postern.protocols.http.http_heads import Headers, ResponseHead

_MOST: Final = 1000  # responses at once
_OPAQUE: Final = frozenset({BodyKind.MEDIA, BodyKind.UNREADABLE})
_LONGEST_MESSAGE: Final = 8 << 20
_BEGINNING: Final = 8  # bytes


class RecordedBody:
    """Decoder of a body: to text in UTF-8, or to a note about its size."""

    def __init__(self, head: ResponseHead | None) -> None:
        self.size = 0
        self.type = ContentType("", "", BodyKind.UNKNOWN) if head is None else content_type_of(head.headers)
        codings = [] if head is None else encodings_of(head.headers)
        self._is_known = can_decode(codings)
        self._decoder = ContentDecoder(codings) if codings and self._is_known else None
        self._transcoder: Transcoder | None = None
        self._is_text: bool | None = None
        is_websocket = head is not None and head.status == HTTPStatus.SWITCHING_PROTOCOLS
        self._messages = WebsocketFrames(_LONGEST_MESSAGE, masked=False) if is_websocket else None

    @property
    def is_text(self) -> bool:
        return self._is_text is not False

    def feed(self, data: bytes) -> bytes:
        """Return the text of the next bytes; nothing for a body that is no text."""
        self.size += len(data)
        if self._is_text is False:
            return b""
        try:
            if self._messages is not None:
                return b"".join(_lines_of(self._messages, data))
            decoded = data if self._decoder is None else b"".join(self._decoder.decode(data))
            return self._read(decoded)
        except (ValueError, ProtocolViolation):
            self._is_text = False
            return b""

    def _read(self, data: bytes) -> bytes:
        if self._is_text is None and data:
            self._is_text = self._is_known and self._starts_as_text(data)
            if not self._is_text:
                return b""
            codec = codec_of(self.type.charset, data[:_BEGINNING], is_json=self.type.kind is BodyKind.JSON)
            self._transcoder = Transcoder(codec) if codec else None
        return data if self._transcoder is None else self._transcoder.feed(data)

    def _starts_as_text(self, data: bytes) -> bool:
        return self.type.kind not in _OPAQUE and (self.type.kind is not BodyKind.UNKNOWN or is_textual(data))

    def finish(self) -> bytes:
        """Return the note about a body that is no text."""
        if self._is_text is False and self.size:
            return f"[{self.size} bytes of {self.type.name}]".encode()
        return b""


def _lines_of(messages: WebsocketFrames, data: bytes) -> Iterator[bytes]:
    for frame in messages.feed(data):
        if frame.opcode == TEXT or (not frame.is_control and is_textual(frame.payload)):
            yield frame.payload + b"\n"
        elif not frame.is_control:
            yield b"[%d bytes of a binary message]\n" % len(frame.payload)


@dataclass(slots=True)
class RecordedResponse:
    """A response, as far as it was read. `text` is the new text of its body since the last part."""

    exchange: int
    head: ResponseHead | None
    body: RecordedBody
    parts: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """A part of a response: its beginning (`begins`), text of its body, its end with a note, or a failure."""

    response: RecordedResponse
    begins: bool = False
    text: bytes = b""
    ends: bool = False
    trailers: Headers = ()
    failure: f.TargetFailure | None = None


class RecordedResponses:
    """Reader of the recorded stream, in chunks of any size. Raises ProtocolViolation for bytes that are no frames."""

    def __init__(self) -> None:
        self._frames = f.HttpFrameReader()
        self._open: dict[int, RecordedResponse] = {}

    @property
    def waiting(self) -> int:
        """Return the number of bytes of an incomplete frame."""
        return self._frames.waiting

    def feed(self, data: bytes) -> list[RecordedPart]:
        return [self._read(frame) for frame in self._frames.feed(data)]

    def _read(self, frame: f.HttpFrame) -> RecordedPart:
        if frame.kind == f.RESPONSE:
            head = f.read_response(frame.payload)
            response = RecordedResponse(frame.exchange, head, RecordedBody(head))
            while len(self._open) >= _MOST:
                del self._open[next(iter(self._open))]
            self._open[frame.exchange] = response
            return RecordedPart(response, begins=True)
        found = self._open.get(frame.exchange)
        if found is None:
            found = self._open[frame.exchange] = RecordedResponse(frame.exchange, None, RecordedBody(None))
        if frame.kind == f.RESPONSE_DATA:
            return RecordedPart(found, text=found.body.feed(frame.payload))
        del self._open[frame.exchange]
        if frame.kind == f.RESPONSE_END:
            return RecordedPart(found, text=found.body.finish(), ends=True, trailers=f.read_trailers(frame.payload))
        if frame.kind == f.FAILED:
            return RecordedPart(found, ends=True, failure=f.read_failure(frame.payload))
        raise ProtocolViolation(f"a frame of kind {frame.kind} is not of a response")


def status_line(head: ResponseHead) -> str:
    try:
        return f"{head.status} {HTTPStatus(head.status).phrase}"
    except ValueError:
        return str(head.status)
