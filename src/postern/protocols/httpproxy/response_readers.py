"""Readers of response bodies that rules inspect.

first bytes ─▶ kind of content ─▶ decoded ─▶ converted to UTF-8 ─▶ cut ─▶ events ─▶ judged, masked ─▶ frames

The head waits for the first events. A body that is one event keeps its `ETag` and length if nothing in it was changed.
Otherwise the head loses what no longer holds: length, tag, digests and coding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from postern.protocols.http import http_frames as f
from postern.protocols.http.content.charsets import Transcoder, codec_of
from postern.protocols.http.content.content_codings import ContentDecoder, can_decode
from postern.protocols.http.content.content_types import (
    SNIFFED,
    BodyKind,
    ContentType,
    content_type_of,
    encodings_of,
    is_media,
    is_textual,
)
from postern.protocols.http.http_heads import Headers, ResponseHead, without
from postern.protocols.http.wire.http_dialect import ResponseBodyReader
from postern.protocols.httpproxy.body_events import (
    BodyPart,
    CodePart,
    EventFields,
    Finish,
    FormPart,
    HeaderValues,
    StreamEvents,
    UnreadableBody,
    data_of,
    end_pieces,
    event_data,
    part_frames,
)
from postern.protocols.httpproxy.body_slices import (
    WHOLE,
    EventSlicer,
    JsonSlicer,
    LineSlicer,
    PassingSlicer,
    Slicer,
    TextSlicer,
    WholeSlicer,
)
from postern.protocols.httpproxy.encoded_texts import declares_entities
from postern.protocols.httpproxy.json_parts import DataOfEvent, JsonLines, JsonPart
from postern.protocols.httpproxy.json_rows import JsonError, rows_maker
from postern.protocols.wire_base import Piece

# Headers that describe bytes which are sent otherwise than the target sent them.
_OF_BYTES: Final = frozenset(
    {
        *(b"etag", b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges", b"content-range"),
        *(b"signature", b"signature-input", b"content-encoding", b"x-goog-hash", b"x-content-duration"),
        *(b"x-amz-checksum-crc32", b"x-amz-checksum-crc32c", b"x-amz-checksum-sha1", b"x-amz-checksum-sha256"),
    }
)
_MARK: Final = 4  # bytes of a byte order mark
_JSON_STARTS: Final = (b"{", b"[")
_PARTS: Final = {
    BodyKind.JSON: JsonPart,
    BodyKind.JSON_LINES: JsonLines,
    BodyKind.FORM: FormPart,
    BodyKind.CODE: CodePart,
}


class HeadReader(ResponseBodyReader):
    """Reader of a response without a body, or whose body passes as it is."""

    def __init__(self, exchange: int, head: ResponseHead) -> None:
        self.head: ResponseHead | None = head
        self.exchange = exchange
        self._headers = HeaderValues(exchange, head.headers, self._set_headers)

    def _set_headers(self, headers: Headers) -> None:
        assert self.head is not None
        self.head = self.head.with_headers(headers)

    def begin(self) -> list[Piece]:
        return [] if self._headers.is_empty else [self._headers]

    def feed(self, data: bytes) -> list[Piece]:
        return [f.data_frames(f.RESPONSE_DATA, self.exchange, data)]

    def finish(self, trailers: Headers) -> list[Piece]:
        return end_pieces(self.exchange, trailers)


class EmptyReader(HeadReader):
    """Reader of a response that has no body, but whose head can describe one that would be inspected."""

    def __init__(self, exchange: int, head: ResponseHead) -> None:
        super().__init__(exchange, without_bytes(head))


class BodyReader(HeadReader):
    """Reader of a body. `limit` is the maximum size of a part that cannot be cut. With `columns`, JSON becomes rows."""

    def __init__(self, exchange: int, head: ResponseHead, limit: int, *, columns: bool) -> None:
        super().__init__(exchange, head)
        self._limit = limit
        self._type = content_type_of(head.headers)
        are_lines = self._type.kind is BodyKind.JSON_LINES
        self._make_rows = rows_maker(are_lines=are_lines) if columns else None
        codings = encodings_of(head.headers)
        self._coding = "" if can_decode(codings) else ", ".join(codings)  # one that cannot be decoded
        self._decoder = ContentDecoder(codings) if codings and not self._coding else None
        self._first = b""  # bytes that the kind of content is told by
        self._slicer: Slicer | None = None
        self._transcoder: Transcoder | None = None
        self._passes = bool(self._coding)
        self._parts = 0
        self._frames = part_frames(exchange)

    def begin(self) -> list[Piece]:
        pieces = super().begin()
        if self._coding:
            pieces.append(UnreadableBody(self.exchange, f"content compressed as {self._coding!r}"))
        return pieces

    def feed(self, data: bytes) -> list[Piece]:
        if self._passes:
            return super().feed(data)
        pieces: list[Piece] = []
        for decoded in [data] if self._decoder is None else self._decoder.decode(data):
            pieces += self._feed_decoded(decoded)
        return pieces

    def finish(self, trailers: Headers) -> list[Piece]:
        return self.finish_content() + super().finish(trailers)

    def finish_content(self) -> list[Piece]:
        """Return what is left of the body."""
        if self._passes:
            return []
        pieces: list[Piece] = []
        if self._decoder is not None:
            self._decoder.finish()
        if self._slicer is None:
            pieces += self._begin_content()
            if self._passes:
                return pieces
        slicer = self._slicer
        assert slicer is not None
        rest = b""
        if self._transcoder is not None:
            rest = self._transcoder.feed(b"", final=True)
        for part in slicer.feed(rest) if rest else []:
            pieces += self._events(part)
        last = slicer.rest()
        if last and not self._parts and self._transcoder is None:
            pieces += self._only_event(last)
        elif last:
            pieces += self._events(last)
        return pieces

    def _feed_decoded(self, data: bytes) -> list[Piece]:
        if self._slicer is not None:
            return self._slice(data)
        self._first += data
        if len(self._first) < self._needed:
            return []
        return self._begin_content()

    @property
    def _needed(self) -> int:
        """Return how many of the first bytes are waited for. Of a stream with a declared form these are few."""
        kind = self._type.kind
        is_stream = self._length is None and kind not in (BodyKind.UNKNOWN, BodyKind.MEDIA)
        return _MARK if is_stream or kind is BodyKind.EVENTS else SNIFFED

    @property
    def _length(self) -> int | None:
        return None if self.head is None else self.head.length

    def _begin_content(self) -> list[Piece]:
        """Choose how the content is read, by its type and its first bytes."""
        first, self._first = self._first, b""
        kind = self._kind_of(first)
        if kind in (BodyKind.MEDIA, BodyKind.UNREADABLE):
            return self._pass(kind, first)
        codec = codec_of(self._type.charset, first, is_json=kind in (BodyKind.JSON, BodyKind.JSON_LINES))
        if codec:
            self._use_codec(codec)
        self._slicer = self._make_slicer(kind)
        self._type = ContentType(self._type.type, self._type.charset, kind)
        return self._slice(first)

    def _kind_of(self, first: bytes) -> BodyKind:
        kind = self._type.kind
        if kind is BodyKind.MEDIA:
            return kind if is_media(first) or not first else BodyKind.UNREADABLE
        if kind is not BodyKind.UNKNOWN:
            return kind
        if is_textual(first):
            return BodyKind.JSON if first.lstrip()[:1] in _JSON_STARTS else BodyKind.TEXT
        return BodyKind.MEDIA if is_media(first) else BodyKind.UNREADABLE

    def _pass(self, kind: BodyKind, first: bytes) -> list[Piece]:
        if self._decoder is not None and kind is BodyKind.MEDIA:
            kind = BodyKind.UNREADABLE
        self._passes = True
        pieces: list[Piece] = []
        if kind is BodyKind.UNREADABLE:
            pieces.append(UnreadableBody(self.exchange, self._type.name))
        if self._decoder is not None:
            self._passes = False
            self._slicer = PassingSlicer()
            self._scrub()
        if first:
            pieces.append(self._frames(first))
        return pieces

    def _make_slicer(self, kind: BodyKind) -> Slicer:
        length = self._length
        is_short = length is not None and length <= WHOLE and self._decoder is None
        if kind is BodyKind.JSON:
            return JsonSlicer(self._limit, streams=length is None)
        if kind is BodyKind.JSON_LINES:
            return WholeSlicer(self._limit) if is_short else LineSlicer(self._limit)
        if kind is BodyKind.EVENTS:
            return EventSlicer(WHOLE)
        if kind is BodyKind.FORM or is_short:
            return WholeSlicer(WHOLE)
        return TextSlicer(self._limit)

    def _slice(self, data: bytes) -> list[Piece]:
        assert self._slicer is not None
        if isinstance(self._slicer, PassingSlicer):
            return [self._frames(data)] if data else []
        if self._transcoder is not None:
            data = self._transcoder.feed(data)
        pieces: list[Piece] = []
        for part in self._slicer.feed(data) if data else []:
            pieces += self._events(part)
        return pieces

    def _events(self, part: bytes) -> list[Piece]:
        if not self._parts:
            self._scrub()
        self._parts += 1
        if self._type.kind is BodyKind.EVENTS:
            return self._stream_events(part)
        return [*self._find_entities(part), self._part(part, self._frames)]

    def _find_entities(self, part: bytes) -> list[Piece]:
        """Tell rules about a document that declares its own references, by which it can write any text."""
        if "xml" not in self._type.type or not declares_entities(part):
            return []
        return [UnreadableBody(self.exchange, "a document that declares entities")]

    def _part(self, data: bytes, frames_of: Finish) -> Piece:
        kind = self._type.kind
        if self._make_rows is not None and kind in (BodyKind.JSON, BodyKind.JSON_LINES):
            return self._make_rows(self.exchange, data, frames_of)
        return _PARTS.get(kind, BodyPart)(self.exchange, data, frames_of)

    def _only_event(self, body: bytes) -> list[Piece]:
        """Return the whole body as one event, which decides what the head says of it."""
        if self._type.kind is BodyKind.EVENTS:
            return self._events(body)
        self._parts += 1
        is_decoded = self._decoder is not None
        original = self.head

        def frames_of(data: bytes) -> bytes:
            if data != body or is_decoded or original is None:
                self._scrub()
                assert self.head is not None
                self.head = replace(self.head, length=len(data))
            return self._frames(data)

        return [*self._find_entities(body), self._part(body, frames_of)]

    def _stream_events(self, part: bytes) -> list[Piece]:
        pieces: list[Piece] = []
        for event in _split_events(part):
            others, data = data_of(event)
            if data.lstrip()[:1] not in _JSON_STARTS or not data:
                kind = StreamEvents if data else EventFields
                pieces.append(kind(self.exchange, event, self._frames))
                continue
            if others:
                pieces.append(EventFields(self.exchange, others, self._frames))
            pieces.append(self._data_of_event(data))
        return pieces

    def _data_of_event(self, data: bytes) -> Piece:
        if self._make_rows is None:
            return DataOfEvent(self.exchange, data, self._frames)
        frames = self._frames
        try:
            return rows_maker()(self.exchange, data, lambda new: frames(event_data(new)))
        except JsonError:
            return DataOfEvent(self.exchange, data, frames)

    def _scrub(self) -> None:
        assert self.head is not None
        self.head = without_bytes(self.head)

    def _use_codec(self, codec: str) -> None:
        """Convert the content to UTF-8, and say so."""
        self._transcoder = Transcoder(codec)
        assert self.head is not None
        headers = [(name, _with_utf8(value) if name == b"content-type" else value) for name, value in self.head.headers]
        self.head = self.head.with_headers(tuple(headers))


def _split_events(part: bytes) -> list[bytes]:
    """Return the events of a part, each with the blank line that ends it."""
    events: list[bytes] = []
    slicer = EventSlicer(len(part) + 1)
    for line in part.splitlines(keepends=True):
        events += slicer.feed(line)
    last = slicer.rest()
    return [*events, last] if last else events


def without_bytes(head: ResponseHead) -> ResponseHead:
    """Return the head without what describes the bytes of the body."""
    return replace(head, headers=without(head.headers, _OF_BYTES), length=None)


def _with_utf8(content_type: bytes) -> bytes:
    parts = [part for part in content_type.split(b";") if not part.strip().lower().startswith(b"charset")]
    return b";".join(parts) + b"; charset=utf-8"
