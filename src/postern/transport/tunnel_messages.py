"""The JSON messages of the two sides of a tunnel, in frames other than DATA."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from postern.errors import PosternError, ProtocolViolation, Unavailable
from postern.transport.frames import MAX_CONTROL

_WORDS = 4_000  # characters of a refusal's message

Message = Mapping[str, Any]


class Refused(PosternError):
    """The other side did not accept a stream. `code` is the name of the error class (see `errors`)."""

    def __init__(self, code: str, message: str, details: Mapping[str, str]) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


def encode(message: Message) -> bytes:
    """Encode a message. Raises Unavailable when it is too large for a frame."""
    payload = json.dumps(message, separators=(",", ":")).encode()
    if len(payload) > MAX_CONTROL:
        raise Unavailable(f"a message of {len(payload)} bytes is too large for the tunnel ({MAX_CONTROL})")
    return payload


def decode(payload: bytes) -> Message:
    """Decode a message. Raises ProtocolViolation."""
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ProtocolViolation("a message on the tunnel is not a JSON object")
    return message


def encode_refusal(code: str, message: str, details: Mapping[str, str]) -> bytes:
    """Encode a refusal, without details that are too large: a refusal must always arrive."""
    words = {"code": code, "message": message[:_WORDS]}
    try:
        return encode({**words, "details": dict(details)})
    except Unavailable:
        return encode(words)


def decode_refusal(payload: bytes) -> Refused:
    """Decode a refusal. Raises ProtocolViolation."""
    message = decode(payload)
    details = message.get("details")
    texts = {str(name): str(value) for name, value in details.items()} if isinstance(details, dict) else {}
    return Refused(str(message.get("code", "")), str(message.get("message", "")), texts)
