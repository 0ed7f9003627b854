"""Reads the body of a response, and encodes it again once its values were judged.

    whole body ─▶ tree ─▶ one event: AnswerRows, or CloudwatchErrorOutput ─▶ judged ─▶ frames of the body
    live tail:  frame by frame of the event stream, each of which is such a body, with checksums computed anew

A body that nothing has changed is sent as it came.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from zlib import crc32

from postern.interception.events import Channel, Output, Rows
from postern.protocols.cloudwatch.cloudwatch_endpoints import RequestForm
from postern.protocols.cloudwatch.wire.answer_columns import (
    collect_leaves,
    collect_object,
    collect_tail,
    collect_texts,
)
from postern.protocols.cloudwatch.wire.answer_rows import AnswerRows, LeafCollector
from postern.protocols.cloudwatch.wire.cloudwatch_codecs import Tree, read_cbor, read_json, write_cbor, write_json
from postern.protocols.cloudwatch.wire.event_stream import EVENT_STREAM, EventStreamReader, StreamFrame
from postern.protocols.cloudwatch.wire.xml_texts import XmlTexts
from postern.protocols.http.http_frames import RESPONSE_DATA, RESPONSE_END, data_frames, end_frame
from postern.protocols.http.http_heads import Headers, ResponseHead, first_value, without
from postern.protocols.http.wire.http_dialect import ResponseBodyReader
from postern.protocols.wire_base import Piece, Wants

MAX_ANSWER: Final = 32 << 20  # bytes of a body that is read as a whole; answers of AWS have at most 10 MiB
_CHECKSUM: Final = b"x-amz-crc32"
_OF_BODY: Final = frozenset({_CHECKSUM, b"content-md5", b"etag", b"digest"})
_MESSAGE: Final = "message"
_CODE: Final = "code"
_MESSAGE_KEYS: Final = frozenset({"message", "Message"})
_CODE_KEYS: Final = frozenset({"__type", "code", "Code"})
_QUIET_KEYS: Final = frozenset({"RequestId", "requestId", "Type"})


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """What is known of a response before it comes. `started` is told the id of a query that the request starts."""

    exchange: int
    form: RequestForm
    operation: str
    started: Callable[[str], None] | None = None


class CloudwatchErrorOutput(Output):
    """The texts of an error: its message, its code, and what else it has."""

    def __init__(self, exchange: int, places: list[tuple[str, Any, Any]], write: Callable[[bool], bytes]) -> None:
        """`places` are a label and where a text is: `holder[key]`."""
        self.exchange = exchange
        self.channel = Channel.ERROR
        self._places = places
        self._write = write
        self._is_changed = False

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for label, _, _ in self._places)

    def texts(self) -> list[bytes]:
        return [holder[key].encode("utf-8", "surrogatepass") for _, holder, key in self._places]

    def replace(self, texts: list[bytes]) -> None:
        for (label, holder, key), text in zip(self._places, texts, strict=True):
            new = text.decode("utf-8", "replace")
            if label != _CODE and new != holder[key]:  # SDKs decide by the code
                holder[key] = new
                self._is_changed = True

    def encode(self) -> bytes:
        """Return the frames of the body."""
        return self._write(self._is_changed)


class WholeAnswerReader(ResponseBodyReader):
    """Reader of a response whose body is judged as a whole. The wire sends `head` before the first frames."""

    def __init__(self, answer: ExpectedAnswer, head: ResponseHead, wants: Wants) -> None:
        self.head: ResponseHead | None = head
        self._answer = answer
        self._wants = wants
        self._status = head.status
        self._body = bytearray()

    def begin(self) -> list[Piece]:
        head = self.head
        assert head is not None
        coding = first_value(head.headers, b"content-encoding").strip().lower()
        if coding not in (b"", b"identity"):
            raise ValueError(f"the body is compressed ({coding.decode('latin-1')[:32]}), so it cannot be inspected")
        if head.length is not None and head.length > MAX_ANSWER:
            raise ValueError(f"the body has more than {MAX_ANSWER} bytes, so it cannot be inspected")
        return []

    def feed(self, data: bytes) -> list[Piece]:
        if len(self._body) + len(data) > MAX_ANSWER:
            raise ValueError(f"the body has more than {MAX_ANSWER} bytes, so it cannot be inspected")
        self._body += data
        return []

    def finish(self, trailers: Headers) -> list[Piece]:
        body = bytes(self._body)
        end = end_frame(RESPONSE_END, self._answer.exchange, trailers)
        event = self._event(body)
        if event is None:
            return [self._frames(body, False), end]
        return [event, end]

    def _event(self, body: bytes) -> Rows | Output | None:
        """Return what is judged, or None if there is nothing."""
        answer = self._answer
        if not body:
            return None
        is_error = not 200 <= self._status < 300
        if answer.form is RequestForm.QUERY:
            return self._xml_event(body, is_error)
        if is_error:
            return self._error_event(body) if self._wants.output else None
        tree = read_json(body) if answer.form is RequestForm.JSON else read_cbor(body)
        if answer.started is not None and isinstance(tree.get("queryId"), str):
            answer.started(tree["queryId"])
        if not self._wants.rows:
            return None
        return _rows(answer.exchange, tree, partial(collect_leaves, answer.operation), self._writer(tree, body))

    def _error_event(self, body: bytes) -> Output | None:
        try:
            tree = read_json(body) if self._answer.form is RequestForm.JSON else read_cbor(body)
        except ValueError:  # of a load balancer in front of the service
            tree = {_MESSAGE: body.decode("utf-8", "replace")}
            return CloudwatchErrorOutput(
                self._answer.exchange, [(_MESSAGE, tree, _MESSAGE)], lambda changed: self._text(tree, body, changed)
            )
        places = error_places(tree)
        if not places:
            return None
        return CloudwatchErrorOutput(self._answer.exchange, places, self._writer(tree, body))

    def _xml_event(self, body: bytes, is_error: bool) -> Rows | Output | None:
        answer = self._answer
        if not (self._wants.output if is_error else self._wants.rows):
            return None
        xml = XmlTexts(body)

        def write(changed: bool) -> bytes:
            return self._frames(xml.encode() if changed else body, changed)

        if not is_error:
            collect = partial(collect_texts, answer.operation, xml.paths)
            return _rows(answer.exchange, xml.texts, collect, write)
        places = [
            (label, xml.texts, number) for number, path in enumerate(xml.paths) if (label := _label(path[-1])) != ""
        ]
        return CloudwatchErrorOutput(answer.exchange, places, write) if places else None

    def _writer(self, tree: Tree, body: bytes) -> Callable[[bool], bytes]:
        write = write_json if self._answer.form is RequestForm.JSON else write_cbor
        return lambda changed: self._frames(write(tree) if changed else body, changed)

    def _text(self, tree: Tree, body: bytes, changed: bool) -> bytes:
        return self._frames(str(tree[_MESSAGE]).encode() if changed else body, changed)

    def _frames(self, body: bytes, changed: bool) -> bytes:
        """Return the frames of the body, and let the head say what it is now."""
        head = self.head
        if head is not None:
            headers = head.headers
            if changed:
                headers = without(headers, _OF_BODY)
                if first_value(head.headers, _CHECKSUM):
                    headers = (*headers, (_CHECKSUM, b"%d" % crc32(body)))
            self.head = replace(head, headers=headers, length=len(body))
        return data_frames(RESPONSE_DATA, self._answer.exchange, body)


class EventStreamAnswerReader(ResponseBodyReader):
    """Reader of a response that is an event stream: each frame is judged as it comes."""

    def __init__(self, answer: ExpectedAnswer, head: ResponseHead, wants: Wants) -> None:
        self.head: ResponseHead | None = replace(head, length=None)
        self._answer = answer
        self._wants = wants
        self._frames = EventStreamReader()

    def begin(self) -> list[Piece]:
        return []

    def feed(self, data: bytes) -> list[Piece]:
        return [self._piece(frame) for frame in self._frames.feed(data)]

    def finish(self, trailers: Headers) -> list[Piece]:
        if self._frames.waiting:
            raise ValueError("the stream of events ends in the middle of a frame")
        return [end_frame(RESPONSE_END, self._answer.exchange, trailers)]

    def _piece(self, frame: StreamFrame) -> Piece:
        event = self._event(frame)
        return event if event is not None else self._encode(frame)

    def _event(self, frame: StreamFrame) -> Rows | Output | None:
        if not frame.payload:
            return None
        is_error = frame.kind != "event"
        if not (self._wants.output if is_error else self._wants.rows):
            return None
        tree = read_json(frame.payload)
        exchange = self._answer.exchange
        if is_error:
            places = error_places(tree)
            return CloudwatchErrorOutput(exchange, places, self._writer(frame, tree, "")) if places else None
        collector = LeafCollector()
        binary = ""
        if self._answer.operation == "GetLogObject" and "data" in tree:
            binary = collect_object(tree, collector)
        else:
            collect_tail(frame.event_type, tree, collector)
        rows = AnswerRows(exchange, collector, self._writer(frame, tree, binary))
        return rows if rows.columns else None

    def _writer(self, frame: StreamFrame, tree: Tree, binary: str) -> Callable[[bool], bytes]:
        """Return what encodes a frame. `binary` is the key of a value that is in base64, where there is one."""

        def write(changed: bool) -> bytes:
            if not changed:
                return self._encode(frame)
            content = tree
            if binary:
                content = {**tree, binary: base64.b64encode(str(tree[binary] or "").encode()).decode()}
            return self._encode(replace(frame, payload=write_json(content)))

        return write

    def _encode(self, frame: StreamFrame) -> bytes:
        return data_frames(RESPONSE_DATA, self._answer.exchange, frame.encode())


def make_reader(answer: ExpectedAnswer, head: ResponseHead, wants: Wants) -> ResponseBodyReader | None:
    """Return the reader of a response, or None if nothing asks for what is in it."""
    if not (wants.rows or wants.output or answer.started is not None) or not head.has_body:
        return None
    kind = first_value(head.headers, b"content-type").partition(b";")[0].strip().lower()
    if kind == EVENT_STREAM:
        return EventStreamAnswerReader(answer, head, wants)
    return WholeAnswerReader(answer, head, wants)


def _rows(
    exchange: int, tree: Any, collect: Callable[[Any, LeafCollector], None], write: Callable[[bool], bytes]
) -> Rows | None:
    collector = LeafCollector()
    collect(tree, collector)
    rows = AnswerRows(exchange, collector, write)
    return rows if rows.columns else None


def error_places(tree: Tree) -> list[tuple[str, Any, Any]]:
    """Return the texts of an error with their labels."""
    places: list[tuple[str, Any, Any]] = []
    _add_places(tree, places, 0)
    return places


def _add_places(value: Any, places: list[tuple[str, Any, Any]], depth: int, name: str = "") -> None:
    if depth > 32:
        raise ValueError("an error is nested too deeply")
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        label = _label(key if isinstance(key, str) else name)
        if isinstance(inner, str) and label:
            places.append((label, value, key))
        elif isinstance(inner, dict | list):
            _add_places(inner, places, depth + 1, key if isinstance(key, str) else name)


def _label(name: str) -> str:
    if name in _QUIET_KEYS:
        return ""
    return _MESSAGE if name in _MESSAGE_KEYS else _CODE if name in _CODE_KEYS else "detail"
