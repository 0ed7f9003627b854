"""Why a terminal in a browser ends: a close code, and words for its user.

A browser shows a page nothing of a handshake that fails. So only what must not reach a page of another site fails in
the handshake; everything else is accepted first, and closed with a code: 1000 after the program has ended, else 4000
plus the HTTP status of the error.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import WebSocket

from postern import errors
from postern.api.schemas.sessions.terminal_schemas import TerminalClosed
from postern.errors import PosternError, ProtocolViolation, StepUpRequired
from postern.transport.tunnel_messages import Refused

ENDED = 1000
BASE = 4000
TOO_LATE = BASE + 408
STEP_UP = BASE + 428
INTERNAL = BASE + 500
_MALFORMED = BASE + 400
_MAX_REASON = 123  # bytes, RFC 6455 section 5.5


@dataclass(frozen=True, slots=True)
class TerminalClosing:
    code: int
    message: str

    @classmethod
    def of(cls, error: PosternError) -> TerminalClosing:
        if isinstance(error, StepUpRequired):
            return cls(STEP_UP, error.message)
        if isinstance(error, ProtocolViolation):
            return cls(_MALFORMED, f"the terminal was closed, because its page broke the protocol: {error.message}")
        if isinstance(error, Refused):  # by a worker
            kind = getattr(errors, error.code, None)
            known = kind if isinstance(kind, type) and issubclass(kind, PosternError) else PosternError
            return cls.of(known(error.message))
        return cls(BASE + errors.status_of(error), error.message)


async def close(socket: WebSocket, closing: TerminalClosing) -> None:
    """Send the browser the whole message, then the close frame."""
    await socket.send_text(TerminalClosed(code=closing.code, message=closing.message).model_dump_json())
    reason = closing.message.encode()[:_MAX_REASON].decode(errors="ignore")
    await socket.close(closing.code, reason)
