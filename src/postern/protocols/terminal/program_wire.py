"""The common part of all program wires: frames, queues in both directions, and the program's life cycle.

    NEW ──START, or the end of a script──▶ REQUESTED ──admitted──▶ RUNNING
     │                                         │refused               │exits, or is ended by the wire
     └─────────ends before it is requested─────┴──────────────────────┴──▶ ENDED

In the state ENDED the client has its exit frame; whatever either side still sends is dropped.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

from postern.interception.events import Output, Resized, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_output import ProgramOutput, gateway_message, refusal_message, warning_message
from postern.protocols.wire_base import Piece, Request, Side, Wants, Wire


class ProgramState(Enum):
    """REQUESTED: the start was passed to the pipeline, which may hold it."""

    NEW = "new"
    REQUESTED = "requested"
    RUNNING = "running"
    ENDED = "ended"


# Compiled code reads a Final name without a lookup in the class.
NEW: Final = ProgramState.NEW
REQUESTED: Final = ProgramState.REQUESTED
RUNNING: Final = ProgramState.RUNNING
ENDED: Final = ProgramState.ENDED


class ProgramWire(Wire):
    """A requested program. `is_terminal`: lines of the gateway's own end as a terminal needs it."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self.wants = Wants()
        self._is_terminal = is_terminal
        self._state: ProgramState = NEW
        self._client = m.TerminalFrameReader()
        self._target = m.TerminalFrameReader()
        self._upward: deque[bytes | Request | Resized] = deque()
        self._downward: deque[Piece] = deque()
        self._exchange = 0
        self._code: int | None = None

    def poll_client(self) -> bytes | Request | Resized | None:
        return self._upward.popleft() if self._upward else None

    def warning_bytes(self, warning: Warn) -> bytes:
        return warning_message(warning, terminal=self._is_terminal)

    def queue_warning(self, warning: Warn) -> None:
        self._downward.append(self.warning_bytes(warning))

    def client_finished(self) -> bytes:
        return b""

    @property
    def has_pending_output(self) -> bool:
        return bool(self._downward)

    def render(self, event: Rows | Output) -> bytes:
        assert isinstance(event, ProgramOutput)
        return event.encode()

    def position(self, side: Side) -> str:
        reader = self._client if side is Side.CLIENT else self._target
        state = "has ended" if self._state is ENDED else "runs" if self._state is RUNNING else "has not started"
        return f"{reader.position}, the program {state}"

    @property
    def exit_code(self) -> int | None:
        return self._code

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        text = f"{message}. {hint}" if hint else message
        return gateway_message(text, terminal=self._is_terminal) + m.exit_frame(m.ENDED)

    @property
    def client_terminated(self) -> bool:
        return self._state is ENDED

    @property
    def partial_message_bytes(self) -> int:
        return 0

    @property
    def needs_fatal_error(self) -> bool:
        return self._state is not ENDED

    # For subclasses

    def _next(self) -> int:
        self._exchange += 1
        return self._exchange

    def _run(self) -> None:
        """Mark the program as admitted."""
        if self._state is not ENDED:
            self._state = RUNNING

    def _refuse_start(self, refusal: Refuse) -> bytes:
        """Refuse the start, and drop the input that was sent for it."""
        self._downward.append(refusal_message(refusal, terminal=self._is_terminal))
        self._exit(m.REFUSED)
        self._upward.clear()
        return b""

    def _exit(self, code: int, signal: str = "") -> None:
        """Tell the client that the program has ended."""
        self._downward.append(m.exit_frame(code, signal))
        self._state = ENDED
        self._code = code
