"""Reads the whole body of an AWS JSON response, and encodes it again once its events were judged.

    head, pieces ─▶ whole body ─▶ parsed ─▶ events: rows, error texts ─▶ judged one after another ─▶ encoded once

The checksum `X-Amz-Crc32` is over the body as it is sent, so the head waits for the body. SDKs check it, and repeat the
request ten times if it is wrong; some do so if it is missing. A body that nothing has changed is sent as it came.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from postern.interception.events import Channel, Output, Rows
from postern.protocols.aws.aws_json import CHECKSUM, json_response, read_error
from postern.protocols.http.http_frames import RESPONSE_DATA, RESPONSE_END, data_frames, end_frame
from postern.protocols.http.http_heads import Headers, ResponseHead, first_value
from postern.protocols.http.wire.http_dialect import ResponseBodyReader
from postern.protocols.wire_base import Piece

MAX_RESPONSE: Final = 32 << 20  # bytes; responses of AWS JSON services have at most 16 MiB


class AwsJsonAnswer:
    """The parsed body of one response.

    Its events set `is_changed` if they change `content` in place, and call `finish_event` when they are encoded; the
    last one returns the frames.
    """

    def __init__(self, exchange: int, head: ResponseHead, body: bytes, content: Any) -> None:
        self.exchange = exchange
        self.head = head
        self.body = body
        self.content = content
        self.is_changed = False
        self._waiting = 0
        self.set_head: Callable[[ResponseHead], None] = lambda head: None
        self.before_encoding: list[Callable[[], None]] = []

    def expect(self, events: int) -> None:
        """Set how many events are judged before the body is encoded."""
        self._waiting = events

    def finish_event(self) -> bytes:
        """Return the frames of the body after the last event, and nothing before."""
        self._waiting -= 1
        return b"" if self._waiting > 0 else self.encode()

    def encode(self) -> bytes:
        """Return the frames of the body, and set the head that belongs to it."""
        for finish in self.before_encoding:
            finish()
        self.before_encoding = []
        if self.is_changed:
            self.body = json.dumps(self.content, ensure_ascii=False, separators=(",", ":")).encode(
                "utf-8", "surrogatepass"
            )
            self.head = json_response(self.head.status, self.head.headers, self.body)
        elif self.head.length is None:
            self.head = ResponseHead(self.head.status, self.head.headers, len(self.body), self.head.has_body)
        self.set_head(self.head)
        return data_frames(RESPONSE_DATA, self.exchange, self.body)


class AwsJsonRows(Rows):
    """Rows in the body of a response."""

    answer: AwsJsonAnswer

    def encode(self) -> bytes:
        return self.answer.finish_event()


class AwsErrorTexts(Output):
    """The texts of an error. `places` are the objects of the body that have them, and the names of the fields."""

    def __init__(self, answer: AwsJsonAnswer, places: Sequence[tuple[dict[str, Any], str]]) -> None:
        self.exchange = answer.exchange
        self.channel = Channel.ERROR
        self.answer = answer
        self._places = [(holder, name) for holder, name in places if isinstance(holder.get(name), str)]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("message",) if len(self._places) == 1 else ()

    def texts(self) -> list[bytes]:
        return [str(holder[name]).encode("utf-8", "surrogatepass") for holder, name in self._places]

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != len(self._places):
            raise ValueError(f"{len(texts)} texts given for an error that has {len(self._places)}")
        for (holder, name), text in zip(self._places, texts, strict=True):
            new = text.decode("utf-8", "replace")
            if new != holder[name]:
                holder[name] = new
                self.answer.is_changed = True

    def encode(self) -> bytes:
        return self.answer.finish_event()


class AwsUnreadBody(Output):
    """A body that nothing can be found in: the operation is not known."""

    def __init__(self, answer: AwsJsonAnswer, reason: str) -> None:
        self.exchange = answer.exchange
        self.channel = Channel.FUNCTION
        self.answer = answer
        self._reason = reason

    @property
    def unreadable(self) -> str:
        """Return why nothing in it can be read."""
        return self._reason

    def texts(self) -> list[bytes]:
        return []

    def replace(self, texts: list[bytes]) -> None: ...

    def encode(self) -> bytes:
        return self.answer.finish_event()


AwsEvent = AwsJsonRows | AwsErrorTexts | AwsUnreadBody


class AwsJsonReader(ResponseBodyReader):
    """Reads one response. `find` returns the events in a parsed body."""

    def __init__(self, exchange: int, head: ResponseHead, find: Callable[[AwsJsonAnswer], Sequence[AwsEvent]]) -> None:
        self.head: ResponseHead | None = head
        self._exchange = exchange
        self._received = head
        self._find = find
        self._parts: list[bytes] = []
        self._size = 0

    def begin(self) -> list[Piece]:
        encoding = first_value(self._received.headers, b"content-encoding")
        if encoding.strip().lower() not in (b"", b"identity"):
            raise ValueError("the target has compressed its response, although it was asked not to")
        return []

    def feed(self, data: bytes) -> list[Piece]:
        self._size += len(data)
        if self._size > MAX_RESPONSE:
            raise ValueError(f"the response is longer than {MAX_RESPONSE >> 20} MiB")
        self._parts.append(data)
        return []

    def finish(self, trailers: Headers) -> list[Piece]:
        body = b"".join(self._parts)
        self._parts = []
        answer = AwsJsonAnswer(self._exchange, self._received, body, _parse(body))
        answer.set_head = self._set_head
        events = list(self._find(answer))
        end = end_frame(RESPONSE_END, self._exchange, trailers)
        if not events:
            return [answer.encode() + end]
        answer.expect(len(events))
        return [*events, end]

    def _set_head(self, head: ResponseHead) -> None:
        self.head = head


def _parse(body: bytes) -> Any:
    if not body:
        return {}
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("the response is not JSON") from None


def has_checksum(head: ResponseHead) -> bool:
    return bool(first_value(head.headers, CHECKSUM))


def error_code(answer: AwsJsonAnswer) -> str:
    """Return the code of an error response; empty for a response without an error."""
    if answer.head.status < 400:
        return ""
    return read_error(answer.body, answer.head.headers)[0] or str(answer.head.status)
