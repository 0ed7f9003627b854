"""Responses of several parts, read part by part.

bytes ─▶ decoded ─▶ cut at the boundary ─▶ head of a part ─▶ its lines as texts
                                        └▶ its content    ─▶ a reader by the part's own type

Clients find parts in different ways, so a boundary counts wherever it is. A part that is no text is told to rules as
unreadable, unless it is an image or other media.
"""

from __future__ import annotations

import re
from typing import Final

from postern.interception.events import Channel, Output
from postern.protocols.http.content.content_codings import ContentDecoder, can_decode
from postern.protocols.http.content.content_types import content_type_of, encodings_of
from postern.protocols.http.http_heads import Headers, ResponseHead, first_value
from postern.protocols.httpproxy.body_events import Finish, UnreadableBody, end_pieces, part_frames
from postern.protocols.httpproxy.body_slices import SliceError
from postern.protocols.httpproxy.encoded_texts import EncodedTexts, encoded_texts
from postern.protocols.httpproxy.multipart_bodies import AS_IS_TRANSFERS, boundary_of
from postern.protocols.httpproxy.response_readers import BodyReader, HeadReader, without_bytes
from postern.protocols.wire_base import Piece

_LONGEST_HEAD: Final = 64 * 1024  # bytes of a part's head
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_FIELD: Final = re.compile(
    rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([^\r\n]*(?:\r?\n[ \t][^\r\n]*)*)", re.MULTILINE
)
# Lines of a head that describe bytes which rules may change.
_OF_BYTES: Final = re.compile(rb"(?im)^(?:content-length|content-md5|digest)[ \t]*:[^\n]*\n")
_LINE_END: Final = re.compile(rb"(\r?\n)")
_FORBIDDEN: Final = re.compile(rb"[\0\r\n]")
_TRANSFER: Final = b"content-transfer-encoding"


def is_readable_multipart(head: ResponseHead) -> bool:
    """Return whether a response has parts that can be told apart."""
    content_type = content_type_of(head.headers)
    is_one = content_type.type.startswith("multipart/") and can_decode(encodings_of(head.headers))
    return is_one and bool(boundary_of(first_value(head.headers, b"content-type").decode("latin-1")))


class PartHead(Output):
    """The head of a part: its lines, without the boundary before them."""

    def __init__(self, exchange: int, boundary: bytes, head: bytes, frames_of: Finish) -> None:
        self.exchange = exchange
        self.channel = Channel.STDOUT
        self._boundary = boundary
        self._pieces = _LINE_END.split(head)  # lines, and their ends in between
        self._frames_of = frames_of
        self._encoded: EncodedTexts | None = None

    def texts(self) -> list[bytes]:
        return self._pieces[::2]

    def replace(self, texts: list[bytes]) -> None:
        old = self._pieces[::2]
        self._pieces[::2] = [
            new if new == line else _FORBIDDEN.sub(b" ", new) for line, new in zip(old, texts, strict=True)
        ]

    def rendered_texts(self) -> list[bytes]:
        self._encoded = encoded_texts(b"".join(self._pieces))
        return [] if self._encoded is None else self._encoded.texts

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        assert self._encoded is not None
        self._pieces = _LINE_END.split(self._encoded.replace(texts))

    def encode(self) -> bytes:
        return self._frames_of(self._boundary + b"".join(self._pieces))


class PartSplitter:
    """Cutter of a body into heads and content. Raises SliceError for a head that is too long."""

    def __init__(self, boundary: bytes) -> None:
        self.delimiter = b"--" + boundary
        self._data = b""
        self._is_in_head = False
        self._searched = 0  # bytes of a head in which its end was looked for
        self._starts = [self.delimiter, b"\n" + self.delimiter, b"\r\n" + self.delimiter]

    def feed(self, data: bytes) -> list[tuple[bool, bytes]]:
        """Return (whether it is a head, bytes) in order. A head begins with the boundary."""
        self._data += data
        found: list[tuple[bool, bytes]] = []
        while (piece := self._next()) is not None:
            found.append(piece)
        return found

    def rest(self) -> list[tuple[bool, bytes]]:
        data, self._data = self._data, b""
        return [(self._is_in_head, data)] if data else []

    def _next(self) -> tuple[bool, bytes] | None:
        return self._next_head() if self._is_in_head else self._next_content()

    def _next_head(self) -> tuple[bool, bytes] | None:
        """Return the boundary with the head after it. That of the last one is two hyphens."""
        data, start = self._data, self._data.find(self.delimiter) + len(self.delimiter)
        if len(data) < start + 2:
            return None
        if data.startswith(b"--", start):
            return self._take_head(start + 2)
        begin = max(start, self._searched - len(self.delimiter) - len(b"\r\n\r\n"))
        self._searched = len(data)
        end = _HEAD_END.search(data, begin)
        other = data.find(self.delimiter, begin, None if end is None else end.end())
        if other >= 0:  # a part without content
            return self._take_head(other)
        if end is not None:
            return self._take_head(end.end())
        if len(data) - start > _LONGEST_HEAD:
            raise SliceError(f"the head of a part of it is longer than {_LONGEST_HEAD} bytes")
        return None

    def _take_head(self, end: int) -> tuple[bool, bytes]:
        head, self._data = self._data[:end], self._data[end:]
        self._searched = 0
        self._is_in_head = self._data.startswith(self.delimiter)
        return True, head

    def _next_content(self) -> tuple[bool, bytes] | None:
        data = self._data
        at = data.find(self.delimiter)
        if at >= 0:
            end = at - 1 if data[:at].endswith(b"\n") else at
            end -= data[:end].endswith(b"\r") and end < at
            self._is_in_head = True
        else:
            end = len(data) - max([_overlap(data, start) for start in self._starts])
        content, self._data = data[:end], data[end:]
        return (False, content) if content or at >= 0 else None


def _overlap(data: bytes, start: bytes) -> int:
    """Return how many bytes at the end of data can be the beginning of `start`."""
    return next((size for size in range(min(len(start) - 1, len(data)), 0, -1) if data.endswith(start[:size])), 0)


class PartReader(BodyReader):
    """Reader of the content of one part."""

    def __init__(self, exchange: int, headers: Headers, limit: int, *, columns: bool) -> None:
        types = tuple(pair for pair in headers if pair[0] == b"content-type")
        super().__init__(exchange, ResponseHead(200, types, None), limit, columns=columns)
        transfer = first_value(headers, _TRANSFER).decode("latin-1").strip().lower()
        self._transfer = "" if transfer in AS_IS_TRANSFERS else transfer
        self._passes = bool(self._transfer)

    def begin(self) -> list[Piece]:
        return [UnreadableBody(self.exchange, f"a part encoded as {self._transfer!r}")] if self._transfer else []

    def _use_codec(self, codec: str) -> None:
        raise SliceError(f"a part of it is in the charset {codec!r}")


class MultipartReader(HeadReader):
    """Reader of a response with parts."""

    def __init__(self, exchange: int, head: ResponseHead, limit: int, *, columns: bool) -> None:
        super().__init__(exchange, without_bytes(head))
        boundary = boundary_of(first_value(head.headers, b"content-type").decode("latin-1"))
        codings = encodings_of(head.headers)
        self._decoder = ContentDecoder(codings) if codings else None
        self._splitter = PartSplitter(boundary)
        self._limit = limit
        self._columns = columns
        self._frames = part_frames(exchange)
        self._part = self._make_part(())

    def feed(self, data: bytes) -> list[Piece]:
        pieces: list[Piece] = []
        for decoded in [data] if self._decoder is None else self._decoder.decode(data):
            pieces += self._read(self._splitter.feed(decoded))
        return pieces

    def finish(self, trailers: Headers) -> list[Piece]:
        if self._decoder is not None:
            self._decoder.finish()
        pieces = self._read(self._splitter.rest())
        return [*pieces, *self._part.finish_content(), *end_pieces(self.exchange, trailers)]

    def _read(self, found: list[tuple[bool, bytes]]) -> list[Piece]:
        pieces: list[Piece] = []
        for is_head, data in found:
            if not is_head:
                pieces += self._part.feed(data)
                continue
            pieces += self._part.finish_content()
            start = data.find(self._splitter.delimiter) + len(self._splitter.delimiter)
            head = _OF_BYTES.sub(b"", data[start:])
            pieces.append(PartHead(self.exchange, data[:start], head, self._frames))
            self._part = self._make_part(_read_fields(head))
            pieces += self._part.begin()
        return pieces

    def _make_part(self, headers: Headers) -> PartReader:
        return PartReader(self.exchange, headers, self._limit, columns=self._columns)


def _read_fields(head: bytes) -> Headers:
    return tuple((name.lower(), value.replace(b"\r", b"").replace(b"\n", b" ")) for name, value in _FIELD.findall(head))
