"""The steady state of an SQL Server link: the client's half, the target's half, and refusals between them.

A refusal is an ERROR with a DONE in its turn: the connection stays usable. A warning is an INFO, as PRINT sends it. The
target never gets a refused request.
"""

from __future__ import annotations

from collections.abc import Mapping

from postern.interception.events import Completed, Output, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_backend import MssqlBackend
from postern.protocols.mssql.wire.mssql_frontend import MssqlFrontend, MssqlRequest
from postern.protocols.mssql.wire.mssql_headings import MssqlHeading
from postern.protocols.mssql.wire.mssql_output import (
    FATAL_SEVERITY,
    MssqlOutput,
    error_tokens,
    refusal_tokens,
    warning_token,
)
from postern.protocols.mssql.wire.mssql_response_queue import REFUSED, MssqlPendingResponse, MssqlResponseQueue
from postern.protocols.mssql.wire.mssql_rows import MssqlRows
from postern.protocols.wire_base import TARGET_GONE, Piece, Request, Side, TransactionState, Wants


class MssqlWire(MssqlBackend):
    """Both halves, and the decisions between them.

    `parameters` are those of the target's login: `version` of TDS, and `packet_size`, both numbers. Sizes are in bytes.
    `database` is one that the client has logged in to, although it is not the connection's: that is judged as a USE.
    """

    def __init__(
        self, *, max_message: int = 32 << 20, parameters: Mapping[str, str] | None = None, database: str = ""
    ) -> None:
        parameters = parameters or {}
        version = _number(parameters.get("tds_version", ""), k.TDS_74)
        size = _number(parameters.get("packet_size", ""), p.DEFAULT_SIZE)
        queue = MssqlResponseQueue(k.is_wide(version))
        super().__init__(queue, Wants(), max_message, min(max(size, p.MIN_SIZE), p.MAX_SIZE))
        self._frontend = MssqlFrontend(queue, self.wants, max_message, database)
        self._warnings = b""  # tokens for the response to the next request
        self._opened: list[Piece] = []  # the end of the exchange that stands for the login's database

    def feed_client(self, data: bytes) -> None:
        self._frontend.feed(data)

    def poll_client(self) -> bytes | Request | None:
        return self._frontend.poll()

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, MssqlRequest)
        if request.is_login:
            self._opened = [Completed(request.slot.exchange, "OK")]
            return b""
        slot = request.slot
        if request.batch:
            slot.is_setting = self.queue.session.record_batch(request.batch)
        for name in request.called:
            self.queue.session.record_call(name)
        for role, number in slot.ended_handles:
            self.queue.forget(role, number)
        self._owe(slot)
        raw = request.raw
        if request.resets:
            slot.resets = True
            raw = raw[:1] + bytes((raw[1] | request.resets,)) + raw[2:]
            self.queue.reset_status = 0
        return raw

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, MssqlRequest)
        if request.is_login:  # the client has asked for nothing yet: whatever it asks for is refused
            self._frontend.refusal = refusal
            return b""
        slot = MssqlPendingResponse(REFUSED, request.slot.exchange)
        slot.data = refusal_tokens(refusal, self.queue.wide)
        self._owe(slot)
        return b""

    def _owe(self, slot: MssqlPendingResponse) -> None:
        slot.prefix = self._warnings
        self._warnings = b""
        self.queue.owe(slot)

    def warning_bytes(self, warning: Warn) -> bytes:
        return self.frame(warning_token(warning, self.queue.wide))

    def queue_warning(self, warning: Warn) -> None:
        self._warnings += warning_token(warning, self.queue.wide)

    @property
    def has_pending_output(self) -> bool:
        slots = self.queue.slots
        if self._opened:
            return True
        if not slots:
            return bool(self._warnings)
        return slots[0].kind == REFUSED or bool(slots[0].prefix)

    def poll_target(self) -> list[Piece]:
        if self._opened:
            opened = self._opened
            self._opened = []
            return opened
        if not self._warnings or self.queue.slots:
            return super().poll_target()
        # The client waits for its request, which is held: the response begins with the warning.
        data = self.frame(self._warnings)
        self._warnings = b""
        return [data]

    def render(self, event: Rows | Output) -> bytes:
        assert isinstance(event, MssqlRows | MssqlHeading | MssqlOutput)
        if not event.is_changed:
            return b""  # its bytes follow with the packets that they came in
        self._keep_back()
        self._sent = self._pos
        return self.frame(event.encode())

    def _keep_back(self) -> None:
        """Put what was read before the event, and not forwarded yet, before it."""
        before: list[Piece] = []
        self._emit(before, self._event_at)
        self._preface = b"".join([piece for piece in before if isinstance(piece, bytes)])

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        self._keep_back()
        data = self.frame(refusal_tokens(refusal, self.queue.wide), p.EOM)
        self.cut()
        return data

    @property
    def is_interrupted(self) -> bool:
        return self._frontend.begins_with_attention

    @property
    def discarding_response(self) -> bool:
        return False  # a server is stopped by an attention only, whose acknowledgement the client must not get

    @property
    def transaction_state(self) -> TransactionState:
        queue = self.queue
        session = queue.session
        reported = {"database": session.database, "switched": "yes" if session.is_switched else ""}
        return TransactionState(queue.in_transaction, queue.owes, reported, session.texts)

    def position(self, side: Side) -> str:
        return self._frontend.position if side is Side.CLIENT else self._target_position

    @property
    def awaiting_response(self) -> bool:
        return bool(self.queue.slots)

    def client_finished(self) -> bytes:
        """Return nothing: a client ends a connection by closing it."""
        return b""

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        """Encode an error after which clients close the connection: the end of the pending response, or the response to
        the next request.

        The end of the target's connection is reported by the end of the stream alone, as a server does.
        """
        if code == TARGET_GONE:
            return b""
        text = f"{message}. {hint}" if hint else message
        return self.frame(error_tokens(text, self.queue.wide, severity=FATAL_SEVERITY), p.EOM)

    @property
    def client_terminated(self) -> bool:
        return False

    @property
    def needs_fatal_error(self) -> bool:
        return not self.fatal


def _number(text: str, default: int) -> int:
    return int(text) if text.isdecimal() else default
