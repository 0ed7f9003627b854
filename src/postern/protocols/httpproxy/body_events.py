"""Events of response bodies, as rules see them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote_plus, unquote_to_bytes

from postern.interception.events import Channel, Output, TextKind
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import Headers
from postern.protocols.httpproxy.encoded_texts import EncodedTexts, encoded_texts
from postern.protocols.wire_base import Piece

Finish = Callable[[bytes], bytes]
"""Returns the frames of a part of a body."""

# Headers that describe the content or the connection, and are secrets or chosen by the server alone.
_STRUCTURAL: Final = frozenset(
    {
        *(
            b"content-type",
            b"content-encoding",
            b"content-language",
            b"content-range",
            b"date",
            b"server",
            b"cache-control",
        ),
        *(b"vary", b"age", b"expires", b"etag", b"last-modified", b"accept-ranges", b"allow", b"via", b"alt-svc"),
        *(b"strict-transport-security", b"x-content-type-options", b"x-frame-options", b"x-xss-protection"),
        *(b"content-security-policy", b"permissions-policy", b"referrer-policy", b"set-cookie", b"pragma"),
        *(b"www-authenticate", b"access-control-allow-origin", b"access-control-allow-credentials"),
        *(b"access-control-allow-methods", b"access-control-allow-headers", b"access-control-max-age"),
        *(b"access-control-expose-headers", b"sec-websocket-accept", b"sec-websocket-protocol", b"retry-after"),
        *(b"cross-origin-opener-policy", b"cross-origin-embedder-policy", b"cross-origin-resource-policy"),
        *(b"x-request-id", b"x-trace-id", b"traceparent", b"server-timing", b"grpc-status", b"timing-allow-origin"),
    }
)
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_FORBIDDEN: Final = re.compile(rb"[\0\r\n]")


class BodyPart(Output):
    """A part of a body. `frames_of` encodes it."""

    def __init__(self, exchange: int, data: bytes, frames_of: Finish) -> None:
        self.exchange = exchange
        self.channel = Channel.STDOUT
        self._data = data
        self._frames_of = frames_of
        self._encoded: EncodedTexts | None = None

    @property
    def has_columns(self) -> bool:
        return True

    def texts(self) -> list[bytes]:
        return [self._data]

    def replace(self, texts: list[bytes]) -> None:
        (self._data,) = texts

    def rendered_texts(self) -> list[bytes]:
        self._encoded = encoded_texts(self._data, is_json=self.text_kind is TextKind.JSON)
        return [] if self._encoded is None else self._encoded.texts

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        assert self._encoded is not None
        self._data = self._encoded.replace(texts)

    def encode(self) -> bytes:
        return self._frames_of(self._data)


class CodePart(BodyPart):
    """A part of a script or a style sheet."""

    @property
    def has_columns(self) -> bool:
        return False


class FormPart(BodyPart):
    """Names and values of a form, decoded."""

    def texts(self) -> list[bytes]:
        return [unquote_to_bytes(part.replace(b"+", b" ")) for part in self._parts()]

    def replace(self, texts: list[bytes]) -> None:
        old = self.texts()
        parts = self._parts()
        for place, (before, after) in enumerate(zip(old, texts, strict=True)):
            if before != after:
                parts[place] = quote_plus(after).encode()
        separators = re.findall(rb"[&=]", self._data)
        joined = b"".join([part + separator for part, separator in zip(parts, separators, strict=False)])
        self._data = joined + (parts[-1] if parts else b"")

    def rendered_texts(self) -> list[bytes]:
        return []

    def _parts(self) -> list[bytes]:
        return re.split(rb"[&=]", self._data)


class StreamEvents(BodyPart):
    """Events of an event stream with data that is not JSON."""


class EventFields(StreamEvents):
    """Lines of an event besides its data: a comment, its name, its number."""

    @property
    def has_columns(self) -> bool:
        return False


class HeaderValues(Output):
    """The values of headers that an application sets as it likes. `settle` takes the headers after the verdict."""

    def __init__(self, exchange: int, headers: Headers, settle: Callable[[Headers], None]) -> None:
        self.exchange = exchange
        self.channel = Channel.STDOUT
        self._headers = headers
        self._places = [place for place, (name, _) in enumerate(headers) if name not in _STRUCTURAL]
        self._settle = settle
        self._encoded: EncodedTexts | None = None

    @property
    def is_empty(self) -> bool:
        return not self._places

    def texts(self) -> list[bytes]:
        return [self._headers[place][1] for place in self._places]

    def replace(self, texts: list[bytes]) -> None:
        headers = list(self._headers)
        for place, text in zip(self._places, texts, strict=True):
            headers[place] = (headers[place][0], _FORBIDDEN.sub(b" ", text))
        self._headers = tuple(headers)

    def rendered_texts(self) -> list[bytes]:
        self._encoded = encoded_texts(b"\n".join(self.texts()))
        return [] if self._encoded is None else self._encoded.texts

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        assert self._encoded is not None
        self.replace(self._encoded.replace(texts).split(b"\n"))

    def encode(self) -> bytes:
        self._settle(self._headers)
        return b""


class TrailerValues(HeaderValues):
    """The trailers of a response, with its end."""

    def __init__(self, exchange: int, trailers: Headers) -> None:
        super().__init__(exchange, trailers, lambda _: None)

    def encode(self) -> bytes:
        return f.end_frame(f.RESPONSE_END, self.exchange, self._headers)


class UnreadableBody(Output):
    """A body in which nothing can be found. It comes before the bytes, which then pass as they are."""

    def __init__(self, exchange: int, what: str) -> None:
        self.exchange = exchange
        self.channel = Channel.STDOUT
        self._what = what

    @property
    def unreadable(self) -> str:
        return self._what

    def texts(self) -> list[bytes]:
        return []

    def replace(self, texts: list[bytes]) -> None: ...

    def encode(self) -> bytes:
        return b""


def data_of(event: bytes) -> tuple[bytes, bytes]:
    """Return the other lines of an event of a stream, and its data."""
    others: list[bytes] = []
    data: list[bytes] = []
    for line in _LINE_END.split(event):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif line:
            others.append(line + b"\n")
    return b"".join(others), b"\n".join(data)


def event_data(data: bytes) -> bytes:
    """Return data as lines of an event, with the blank line that ends it."""
    return b"".join([b"data: " + line + b"\n" for line in _LINE_END.split(data)]) + b"\n"


def end_pieces(exchange: int, trailers: Headers) -> list[Piece]:
    """Return the end of a response, as an event if it has trailers to judge."""
    values = TrailerValues(exchange, trailers)
    return [f.end_frame(f.RESPONSE_END, exchange, trailers)] if values.is_empty else [values]


def part_frames(exchange: int) -> Finish:
    """Return a function that encodes bytes of a response as frames."""
    return lambda data: f.data_frames(f.RESPONSE_DATA, exchange, data)
