"""Requests of the gateway's own clients as frames, and responses of whole bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from postern.errors import ProtocolViolation
from postern.protocols.cloudwatch.cloudwatch_endpoints import LOGS_TARGET, METRICS_TARGET
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService
from postern.protocols.cloudwatch.wire.event_stream import EVENT_STREAM, EventStreamReader
from postern.protocols.http.http_frames import (
    FAILED,
    HEADER,
    MAX_FRAME,
    REQUEST_DATA,
    REQUEST_END,
    RESPONSE,
    RESPONSE_DATA,
    RESPONSE_END,
    data_frames,
    end_frame,
    read_failure,
    read_response,
    request_frame,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead, first_value

MAX_BODY: Final = 32 << 20
_MAX_OPEN: Final = 256  # responses that come at the same time
_TARGETS: Final = {CloudwatchService.LOGS: LOGS_TARGET, CloudwatchService.METRICS: METRICS_TARGET}
_TYPES: Final = {
    CloudwatchService.LOGS: b"application/x-amz-json-1.1",
    CloudwatchService.METRICS: b"application/x-amz-json-1.0",
}


def encode_request(exchange: int, service: CloudwatchService, operation: str, parameters: Mapping[str, Any]) -> bytes:
    """Return the frames of a request in AWS JSON. Raises ValueError for parameters that are not JSON."""
    body = json.dumps(parameters, ensure_ascii=False, allow_nan=False).encode()
    headers = (
        (b"content-type", _TYPES[service]),
        (b"x-amz-target", f"{_TARGETS[service]}.{operation}".encode()),
    )
    head = RequestHead("POST", "/", "", headers, len(body), digest=sha256(body).hexdigest())
    frames = request_frame(exchange, head) + data_frames(REQUEST_DATA, exchange, body)
    return frames + end_frame(REQUEST_END, exchange)


@dataclass(slots=True)
class WholeResponse:
    """A response with its body. `failure` is why there is none, or not all of it.

    `is_part`: it is one event of a stream, and others follow; the last one has no body.
    """

    exchange: int
    head: ResponseHead | None = None
    body: bytes = b""
    failure: str = ""
    is_part: bool = False

    @property
    def succeeded(self) -> bool:
        return not self.failure and self.head is not None and 200 <= self.head.status < 300


class ResponseFrames:
    """Reads frames of responses: `feed` takes the stream in chunks of any size. Responses can be interleaved.

    `is_eager`: a response is complete with the last byte of its body, if its head says how many there are. Readers of
    recordings need this, since the marks of masked values are about the frames of a body.
    """

    def __init__(self, max_body: int = MAX_BODY, *, is_eager: bool = False) -> None:
        self._is_eager = is_eager
        self._buffer = bytearray()
        self._open: dict[int, tuple[WholeResponse, bytearray]] = {}
        self._streams: dict[int, EventStreamReader] = {}
        self._max_body = max_body

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next: the rest of a frame, or of its header."""
        if len(self._buffer) < HEADER:
            return HEADER - len(self._buffer)
        return max(1, HEADER + int.from_bytes(self._buffer[5:HEADER], "big") - len(self._buffer))

    @property
    def waiting(self) -> int:
        """Return the number of bytes that were read of incomplete responses."""
        return len(self._buffer) + sum(len(body) for _, body in self._open.values())

    def feed(self, data: bytes) -> list[WholeResponse]:
        """Return the responses that are complete now. Raises ProtocolViolation."""
        self._buffer += data
        done: list[WholeResponse] = []
        pos = 0
        while len(self._buffer) - pos >= HEADER:
            exchange = int.from_bytes(self._buffer[pos + 1 : pos + 5], "big")
            size = int.from_bytes(self._buffer[pos + 5 : pos + HEADER], "big")
            if size > MAX_FRAME or self._buffer[pos] not in _KINDS:
                raise ProtocolViolation("the gateway's stream of responses is not valid")
            end = pos + HEADER + size
            if len(self._buffer) < end:
                break
            self._take(self._buffer[pos], exchange, bytes(self._buffer[pos + HEADER : end]), done)
            pos = end
        del self._buffer[:pos]
        return done

    def _take(self, kind: int, exchange: int, payload: bytes, done: list[WholeResponse]) -> None:
        response, body = self._open.setdefault(exchange, (WholeResponse(exchange), bytearray()))
        if len(self._open) > _MAX_OPEN:
            raise ProtocolViolation("too many responses come at the same time")
        if kind == RESPONSE:
            response.head = read_response(payload)
            if first_value(response.head.headers, b"content-type").startswith(EVENT_STREAM):
                self._streams[exchange] = EventStreamReader()
        elif kind == RESPONSE_DATA and exchange in self._streams:
            self._take_events(response, payload, done)
        elif kind == RESPONSE_DATA:
            if len(body) + len(payload) > self._max_body:
                raise ProtocolViolation(f"a response has more than {self._max_body} bytes")
            body += payload
            if self._is_eager and response.head is not None and response.head.length == len(body):
                response.body = bytes(body)
                done.append(response)
        else:
            if kind == FAILED:
                response.failure = read_failure(payload).message
            del self._open[exchange]
            self._streams.pop(exchange, None)
            if not response.body or response.failure:
                response.body = bytes(body)
                done.append(response)

    def _take_events(self, response: WholeResponse, payload: bytes, done: list[WholeResponse]) -> None:
        try:
            frames = self._streams[response.exchange].feed(payload)
        except ValueError as error:
            raise ProtocolViolation(f"a stream of events is not valid: {error}") from None
        for frame in frames:
            failure = "" if frame.kind == "event" else frame.event_type
            done.append(WholeResponse(response.exchange, response.head, frame.payload, failure, is_part=True))


_KINDS: Final = frozenset({RESPONSE, RESPONSE_DATA, RESPONSE_END, FAILED})
