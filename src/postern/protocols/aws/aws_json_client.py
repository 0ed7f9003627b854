"""Requests of the gateway's own as frames, and responses out of frames: for scripts, catalogue queries and recordings.

A recording has the frames of exchanges that ran at the same time, so responses are put together by exchange.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from postern.errors import ProtocolViolation
from postern.protocols.aws.aws_json import read_error
from postern.protocols.aws.sigv4_verification import digest_of
from postern.protocols.http.http_frames import (
    FAILED,
    HEADER,
    MAX_FRAME,
    REQUEST_DATA,
    REQUEST_END,
    RESPONSE,
    RESPONSE_DATA,
    RESPONSE_END,
    HttpFrame,
    HttpFrameReader,
    data_frames,
    end_frame,
    read_failure,
    read_response,
    request_frame,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead, first_value

MAX_BODY: Final = 32 << 20  # bytes of all responses that are incomplete
MAX_OPEN: Final = 1024  # exchanges
_AUTHORITY: Final = "localhost"  # the agent replaces it


@dataclass(frozen=True, slots=True)
class AwsJsonResponse:
    """A response. `content` is the parsed body, None if it is not JSON. `code` is the error's, empty for success."""

    exchange: int
    status: int
    content: Any
    code: str = ""
    message: str = ""
    content_type: str = ""

    @property
    def error_text(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


def request_frames(exchange: int, target: str, body: bytes, *, content_type: str) -> bytes:
    """Return a request as frames. `target` is service and operation, as in `X-Amz-Target`."""
    headers = (
        (b"content-type", content_type.encode()),
        (b"x-amz-target", target.encode("latin-1", "replace")),
        (b"accept-encoding", b"identity"),
    )
    head = RequestHead("POST", "/", _AUTHORITY, headers, len(body), "", digest_of(body))
    return request_frame(exchange, head) + data_frames(REQUEST_DATA, exchange, body) + end_frame(REQUEST_END, exchange)


class _OpenResponse:
    def __init__(self, head: ResponseHead) -> None:
        self.head = head
        self.parts: list[bytes] = []
        self.size = 0


class AwsJsonResponses:
    """Puts responses together: `feed` takes the stream in chunks of any size.

    `is_eager`: a response is complete with the last byte of its body, if its head says how many there are. Readers of
    recordings need this, since the marks of masked values are about the frames of a body.
    """

    def __init__(self, *, is_eager: bool = False) -> None:
        self._is_eager = is_eager
        self._frames = HttpFrameReader()
        self._start = b""  # the header of the frame that is incomplete, as far as it was fed
        self._missing = 0  # bytes of its payload
        self._open: dict[int, _OpenResponse] = {}
        self._size = 0

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next: the rest of a frame, or of its header."""
        return self._missing or HEADER - len(self._start)

    @property
    def waiting(self) -> int:
        """Return the number of bytes of incomplete responses."""
        return self._frames.waiting + self._size

    def feed(self, data: bytes) -> list[AwsJsonResponse]:
        """Return the responses that are complete now. Raises ProtocolViolation."""
        self._follow(data)
        responses: list[AwsJsonResponse] = []
        for frame in self._frames.feed(data):
            response = self._take(frame)
            if response is not None:
                responses.append(response)
        return responses

    def _follow(self, data: bytes) -> None:
        """Find how much of the last frame is missing."""
        at = 0
        while at < len(data):
            if self._missing:
                step = min(self._missing, len(data) - at)
                self._missing -= step
                at += step
                continue
            step = min(HEADER - len(self._start), len(data) - at)
            self._start += data[at : at + step]
            at += step
            if len(self._start) == HEADER:
                self._missing = int.from_bytes(self._start[5:HEADER], "big")
                self._start = b""
                if self._missing > MAX_FRAME:
                    raise ProtocolViolation(f"a frame of {self._missing} bytes, where at most {MAX_FRAME} are allowed")

    def _take(self, frame: HttpFrame) -> AwsJsonResponse | None:
        if frame.kind == RESPONSE:
            if len(self._open) >= MAX_OPEN:
                raise ProtocolViolation(f"more than {MAX_OPEN} responses at the same time")
            self._open[frame.exchange] = _OpenResponse(read_response(frame.payload))
        elif frame.kind == RESPONSE_DATA:
            self._add(frame)
            response = self._open.get(frame.exchange)
            if self._is_eager and response is not None and response.head.length == response.size:
                return self._finish(frame.exchange)
        elif frame.kind == RESPONSE_END:
            return self._finish(frame.exchange)
        elif frame.kind == FAILED:
            self._size -= self._open.pop(frame.exchange, _OpenResponse(ResponseHead(502))).size
            failure = read_failure(frame.payload)
            return AwsJsonResponse(frame.exchange, 502, None, failure.code or "unavailable", failure.message)
        return None

    def _finish(self, exchange: int) -> AwsJsonResponse | None:
        response = self._open.pop(exchange, None)
        if response is None:
            return None
        self._size -= response.size
        return _response_of(exchange, response.head, b"".join(response.parts))

    def _add(self, frame: HttpFrame) -> None:
        response = self._open.get(frame.exchange)
        if response is None:  # its beginning is in an earlier part of the recording
            return
        response.parts.append(frame.payload)
        response.size += len(frame.payload)
        self._size += len(frame.payload)
        if self._size > MAX_BODY:
            raise ProtocolViolation(f"responses of more than {MAX_BODY >> 20} MiB")


def _response_of(exchange: int, head: ResponseHead, body: bytes) -> AwsJsonResponse:
    try:
        content = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        content = None
    code = message = ""
    if head.status >= 400:
        code, message = read_error(body, head.headers)
        code = code or str(head.status)
    kind = first_value(head.headers, b"content-type").decode("latin-1")
    return AwsJsonResponse(exchange, head.status, content, code, message, kind)
