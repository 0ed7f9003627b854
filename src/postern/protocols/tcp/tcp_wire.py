"""The steady state of a link whose bytes are passed on as they are.

Nothing is read, so nothing can be judged: the wire fails if an interceptor asks for any event. What either side sends
is recorded up to a limit. Each direction can end alone (`half_open`).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Note, Operation, Output, Resized, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.tcp.readable_bytes import readable
from postern.protocols.wire_base import Piece, Request, Side, Wants, Wire

INPUT_LIMIT_REACHED: Final = "input limit reached"
_OPAQUE: Final = "a rule about content applies to this session, whose bytes Postern cannot read"


class TcpWire(Wire):
    """`recorded_input` is how many of the client's bytes are recorded; the recorder limits those of the target."""

    def __init__(self, *, recorded_input: int) -> None:
        self.wants = Wants()
        self._recorded_input = recorded_input
        self._left = recorded_input
        self._is_cut = False
        self._upward: deque[bytes | Operation | Note] = deque()
        self._downward: list[Piece] = []
        self._exchange = 0
        self._from_client = self._from_target = 0  # bytes

    # The client's side

    def feed_client(self, data: bytes) -> None:
        self._require_no_rules()
        self._from_client += len(data)
        if not self._is_cut:
            self._record(data)
        self._upward.append(data)

    def poll_client(self) -> bytes | Request | Resized | Operation | Note | None:
        return self._upward.popleft() if self._upward else None

    def client_finished(self) -> bytes:
        return b""  # the end of the direction itself is passed on

    def _record(self, data: bytes) -> None:
        """Record input as text, which is what displays, searches and exports use."""
        recorded = data[: self._left]
        self._left -= len(recorded)
        if recorded:
            self._exchange += 1
            self._upward.append(Operation(self._exchange, readable(recorded)))
        if len(recorded) < len(data):
            self._is_cut = True
            self._upward.append(Note(INPUT_LIMIT_REACHED, {"limit": str(self._recorded_input)}))

    # The target's side

    def feed_target(self, data: bytes) -> None:
        self._require_no_rules()
        self._from_target += len(data)
        self._downward.append(data)

    def poll_target(self) -> list[Piece]:
        pieces, self._downward = self._downward, []
        return pieces

    @property
    def has_pending_output(self) -> bool:
        return bool(self._downward)

    # The link

    @property
    def half_open(self) -> bool:
        return True

    @property
    def awaiting_response(self) -> bool:
        return False  # requests and responses are unknown

    def unfinished_exchanges(self) -> list[Completed]:
        totals = f"{self._from_client} bytes to the target, {self._from_target} bytes from it"
        return [Completed(self._exchange, totals)]

    def position(self, side: Side) -> str:
        count = self._from_client if side is Side.CLIENT else self._from_target
        return f"after {count} bytes"

    @property
    def client_terminated(self) -> bool:
        return False

    @property
    def partial_message_bytes(self) -> int:
        return 0

    @property
    def needs_fatal_error(self) -> bool:
        return False

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        return b""

    # What needs an event, of which there are none

    def _require_no_rules(self) -> None:
        """Fail closed. Admission rejects such rules before: services/admission.py."""
        wants = self.wants
        if wants.operations or wants.output or wants.rows or wants.headings or wants.summaries:
            raise ProtocolViolation(_OPAQUE)

    def forward(self, request: Request) -> bytes:
        raise ProtocolViolation(_OPAQUE)

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        raise ProtocolViolation(_OPAQUE)

    def render(self, event: Rows | Output) -> bytes:
        raise ProtocolViolation(_OPAQUE)

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        raise ProtocolViolation(_OPAQUE)

    def warning_bytes(self, warning: Warn) -> bytes:
        return b""

    def queue_warning(self, warning: Warn) -> None: ...
