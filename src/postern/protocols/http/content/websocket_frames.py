"""Frames of WebSocket (RFC 6455), read without extensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
_CONTROL: Final = 8  # opcodes from here on
_KNOWN: Final = frozenset({0, 1, 2, 8, 9, 10})
_LONGEST_CONTROL: Final = 125
_MASK: Final = 0x80
_POLICY_VIOLATION: Final = 1008
_LONGEST_REASON: Final = 120  # bytes


@dataclass(frozen=True, slots=True)
class WebsocketFrame:
    """A frame: its bytes as they came, and its payload without the mask."""

    raw: bytes
    opcode: int
    is_last: bool
    payload: bytes

    @property
    def is_control(self) -> bool:
        return self.opcode >= _CONTROL


class WebsocketFrames:
    """Reader of one direction. Raises ProtocolViolation for what the protocol forbids, and frames beyond `limit`."""

    def __init__(self, limit: int, *, masked: bool) -> None:
        self._limit = limit
        self._masked = masked
        self._data = bytearray()

    def feed(self, data: bytes) -> list[WebsocketFrame]:
        self._data += data
        frames: list[WebsocketFrame] = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> WebsocketFrame | None:
        data = self._data
        if len(data) < 2:
            return None
        opcode, first_length = data[0] & 15, data[1] & 127
        if data[0] & 0x70:
            raise ProtocolViolation("a WebSocket frame uses an extension that was not agreed")
        if opcode not in _KNOWN:
            raise ProtocolViolation(f"a WebSocket frame has the unknown opcode {opcode}")
        if bool(data[1] & _MASK) is not self._masked:
            raise ProtocolViolation("a WebSocket frame is masked, or not masked, on the wrong side")
        is_last = bool(data[0] & 0x80)
        if opcode >= _CONTROL and (first_length > _LONGEST_CONTROL or not is_last):
            raise ProtocolViolation("a control frame of WebSocket is too long, or in parts")
        start = 2 + {126: 2, 127: 8}.get(first_length, 0)
        if len(data) < start:
            return None
        length = first_length if start == 2 else int.from_bytes(data[2:start], "big")
        if length > self._limit:
            raise ProtocolViolation(f"a WebSocket frame has {length} bytes, where {self._limit} can be inspected")
        key_end = start + (4 if self._masked else 0)
        end = key_end + length
        if len(data) < end:
            return None
        payload = bytes(data[key_end:end])
        if self._masked:
            payload = unmask(payload, bytes(data[start:key_end]))
        raw = bytes(data[:end])
        del data[:end]
        return WebsocketFrame(raw, opcode, is_last, payload)


def unmask(payload: bytes, key: bytes) -> bytes:
    """Return the payload combined with the key by exclusive or."""
    size = len(payload)
    repeated = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")


def websocket_frame(opcode: int, payload: bytes, *, masked: bool = False) -> bytes:
    """Encode a frame. The mask of the gateway's own frames is zero: it has no secret to protect."""
    flag = _MASK if masked else 0
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, flag | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, flag | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, flag | 127)) + size.to_bytes(8, "big")
    return head + (b"\0\0\0\0" if masked else b"") + payload


def close_frame(reason: str, *, masked: bool = False) -> bytes:
    """Encode the end of a connection because of a rule."""
    text = reason.encode("utf-8", "replace")[:_LONGEST_REASON].decode("utf-8", "ignore")
    return websocket_frame(CLOSE, _POLICY_VIOLATION.to_bytes(2, "big") + text.encode(), masked=masked)
