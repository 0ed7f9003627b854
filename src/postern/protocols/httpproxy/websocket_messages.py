"""Messages of WebSocket, judged one by one.

A message in several frames is judged as a whole, and forwarded as it came. A masked one is sent in one frame. Control
frames pass at once, also between the frames of a message.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Channel, Operation, Output, Rows, TextKind
from postern.interception.verdicts import Refuse
from postern.protocols.http.content.content_types import BodyKind, is_textual
from postern.protocols.http.content.websocket_frames import (
    CONTINUATION,
    TEXT,
    WebsocketFrame,
    WebsocketFrames,
    close_frame,
    websocket_frame,
)
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.http_redaction import redact_url
from postern.protocols.http.wire.http_dialect import ClientMessage, UpgradedReader
from postern.protocols.httpproxy.encoded_texts import EncodedTexts, encoded_texts
from postern.protocols.httpproxy.request_texts import BodyText, decoded_texts, redact_body
from postern.protocols.wire_base import Wants

LONGEST_MESSAGE: Final = 8 << 20  # bytes


class Message:
    """A complete message: the bytes of its frames, and what they contain."""

    def __init__(self, opcode: int, raw: bytes, content: bytes) -> None:
        self.opcode = opcode
        self.raw = raw
        self.content = content

    @property
    def is_text(self) -> bool:
        return self.opcode == TEXT or is_textual(self.content)


class _Messages:
    """Frames of one direction, put together."""

    def __init__(self, limit: int, *, masked: bool) -> None:
        self._frames = WebsocketFrames(limit, masked=masked)
        self._limit = limit
        self._parts: list[WebsocketFrame] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Message]:
        messages: list[Message] = []
        for frame in self._frames.feed(data):
            if frame.is_control:
                messages.append(Message(frame.opcode, frame.raw, b""))
                continue
            if (frame.opcode == CONTINUATION) is not bool(self._parts):
                raise ProtocolViolation("a WebSocket message begins before the end of the last one")
            self._parts.append(frame)
            self._size += len(frame.raw)
            if self._size > self._limit:
                raise ProtocolViolation(f"a WebSocket message exceeds the {self._limit} bytes that can be inspected")
            if frame.is_last:
                messages.append(self._join())
        return messages

    def _join(self) -> Message:
        parts, self._parts, self._size = self._parts, [], 0
        raw = b"".join([part.raw for part in parts])
        return Message(parts[0].opcode, raw, b"".join([part.payload for part in parts]))


class WebsocketMessage(Output):
    """A message for the client."""

    def __init__(self, exchange: int, message: Message) -> None:
        self.exchange = exchange
        self.channel = Channel.STDOUT
        self._message = message
        self._content = message.content
        self._encoded: EncodedTexts | None = None

    @property
    def text_kind(self) -> TextKind:
        return TextKind.JSON if self._content.lstrip()[:1] in (b"{", b"[") else TextKind.TEXT

    @property
    def has_columns(self) -> bool:
        return True

    @property
    def unreadable(self) -> str:
        return "" if self._message.is_text else "a binary WebSocket message"

    def texts(self) -> list[bytes]:
        return [self._content] if self._message.is_text else []

    def replace(self, texts: list[bytes]) -> None:
        (self._content,) = texts

    def rendered_texts(self) -> list[bytes]:
        is_json = self.text_kind is TextKind.JSON
        self._encoded = encoded_texts(self._content, is_json=is_json) if self._message.is_text else None
        return [] if self._encoded is None else self._encoded.texts

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        assert self._encoded is not None
        self._content = self._encoded.replace(texts)

    def encode(self) -> bytes:
        message = self._message
        if self._content == message.content:
            return message.raw
        return websocket_frame(message.opcode, self._content)


class WebsocketReader(UpgradedReader):
    """Reads the messages of both sides that rules ask for; the other side's bytes pass as they are."""

    def __init__(self, exchange: int, head: RequestHead, wants: Wants, limit: int) -> None:
        self._exchange = exchange
        self._head = head
        self._wants = wants
        limit = min(limit, LONGEST_MESSAGE)
        self._from_client = _Messages(limit, masked=True) if wants.operations else None
        self._from_target = _Messages(limit, masked=False) if wants.output or wants.rows else None

    def feed_client(self, data: bytes) -> list[ClientMessage]:
        if self._from_client is None:
            return [ClientMessage(data)]
        return [self._client_message(message) for message in self._from_client.feed(data)]

    def _client_message(self, message: Message) -> ClientMessage:
        if not message.content:
            return ClientMessage(message.raw)
        body = self._body_of(message)
        text = f"WEBSOCKET {redact_url(self._head.target)}\n\n{redact_body(body)}"
        values = decoded_texts(RequestHead("WEBSOCKET", "/", ""), body)
        return ClientMessage(message.raw, Operation(self._exchange, text, values=values))

    def _body_of(self, message: Message) -> BodyText:
        if not message.is_text:
            return BodyText(f"[{len(message.content)} bytes of a binary message]", BodyKind.UNREADABLE)
        try:
            return BodyText(message.content.decode("utf-8"))
        except UnicodeDecodeError:
            return BodyText(message.content.decode("latin-1"))

    def feed_target(self, data: bytes) -> list[bytes | Output | Rows]:
        if self._from_target is None:
            return [data]
        return [
            WebsocketMessage(self._exchange, message) if message.content else message.raw
            for message in self._from_target.feed(data)
        ]

    def close_for(self, refusal: Refuse) -> tuple[bytes, bytes]:
        return close_frame(refusal.message), close_frame(refusal.message, masked=True)
