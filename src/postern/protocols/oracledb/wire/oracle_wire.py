"""The steady state of a link to Oracle Database: the client's half, the target's half, and refusals between them.

A refusal is an ERROR message in place of the answer, which keeps the connection. The target never gets the refused
call. The protocol has no message for a warning between two others, so the client does not get warnings; they are in the
recording.
"""

from __future__ import annotations

from typing import Final

from postern.interception.events import Completed, Output, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_frontend import CONNECT, SCHEMA, OracleFrontend, error_number
from postern.protocols.oracledb.wire.oracle_headings import OracleHeading
from postern.protocols.oracledb.wire.oracle_lobs import HIDDEN, LobRows
from postern.protocols.oracledb.wire.oracle_output import (
    LobText,
    OracleErrorText,
    OracleWarning,
    encode_error,
    refusal_error,
    refusal_text,
)
from postern.protocols.oracledb.wire.oracle_rows import OracleRows
from postern.protocols.oracledb.wire.ttc_calls import OracleCall
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import TARGET_GONE, Request, Side, TransactionState, Wants

_KILLED, _ACCESS_ENDED, _SHUTDOWN, _VIOLATION = "57014", "28000", "57P01", "08P01"
# The SQLSTATE of a fatal error, and the error of Oracle Database instead of it. Clients read these as the end of the
# session: 28 killed, 1012 not logged on, 1089 shutdown in progress, 3106 fatal communication error.
_FAREWELLS = {_KILLED: 28, _ACCESS_ENDED: 1012, _SHUTDOWN: 1089, _VIOLATION: 3106}


_HIDDEN: Final = Refuse(
    "masking",
    "the columns of this result depend on values that are masked, so they are not shown",
    "Select from the tables in a statement of its own.",
)


class OracleWire(OracleFrontend):
    """Both halves, and the decisions between them.

    `layout` is what the client negotiated. `sdu` is the largest packet that both sides accept. Sizes are in bytes.
    `connects` is the statement that the login counts as, if it is to another database than the connection's.
    """

    def __init__(self, *, layout: TtcLayout, max_message: int = 32 << 20, sdu: int = 8192, connects: str = "") -> None:
        super().__init__(layout, Wants(), max_message, sdu, connects)

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, OracleCall)
        if request.text:
            self.defer(request.piggybacks)
            self.pieces.append(Completed(request.exchange, request.text.partition(" ")[0]))
            return b""
        self.expect_answer(request)
        return self.bytes_of(request)

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, OracleCall)
        if request.function == CONNECT:  # the client has asked for nothing yet: whatever it asks for is refused
            self.session_refusal = refusal
            return b""
        if request.function == SCHEMA:
            self.drop_call()
        else:
            self.defer(request.piggybacks)
        if refusal is request.forced and refusal is not self.session_refusal:
            number = error_number(request)
            text = refusal_text(number, refusal.message, refusal.hint)
            data = encode_error(number, text, request.sequence, self.status)
        else:
            data = refusal_error(refusal, request.sequence, self.status)
        self.sequence = request.sequence
        self.pieces.append(tns.data_packets(data, self.sdu))
        return b""

    def warning_bytes(self, warning: Warn) -> bytes:
        """Return nothing: the protocol has no message for a warning within an answer."""
        return b""

    def queue_warning(self, warning: Warn) -> None:
        """Do nothing; see `warning_bytes`."""

    @property
    def has_pending_output(self) -> bool:
        return bool(self.pieces)

    def render(self, event: Rows | Output) -> bytes:
        if isinstance(event, OracleHeading):
            return self._hide(event, _HIDDEN) if event.is_hidden else b""  # the message passes next
        if isinstance(event, LobRows) and event.is_hidden:
            return self._hide(event, HIDDEN)
        if isinstance(event, LobRows | LobText) and event.is_length:
            return b""
        assert isinstance(event, OracleRows | OracleErrorText | OracleWarning | LobText | LobRows)
        return tns.data_packets(event.encode(), self.sdu)

    def _hide(self, event: Rows | Output, refusal: Refuse) -> bytes:
        """Refuse an answer that may not be shown, and cannot be changed."""
        tag = "" if self.answer is None else self.answer.tag
        code = f"ORA-{c.INSUFFICIENT_PRIVILEGES:05d}"
        self.pieces.append(Completed(event.exchange, tag, None, code, refusal.message))
        return self.abort_response(event, refusal)

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        if isinstance(event, OracleErrorText):
            event.become(refusal)
            return self.render(event)
        if isinstance(event, OracleWarning):
            event.become(refusal)
            return self.render(event)
        self.cut(refusal)
        return b""

    def unfinished_exchanges(self) -> list[Completed]:
        completed = self.results.close()
        return [] if completed is None else [completed]

    @property
    def is_interrupted(self) -> bool:
        return self.begins_with_break

    @property
    def discarding_response(self) -> bool:
        return self.cutting

    @property
    def transaction_state(self) -> TransactionState:
        return TransactionState(bool(self.status & c.IN_TRANSACTION), self.answer is not None)

    @property
    def awaiting_response(self) -> bool:
        return self.answer is not None

    def position(self, side: Side) -> str:
        return self.client_position if side is Side.CLIENT else self.target_position

    def client_finished(self) -> bytes:
        if self.terminated:
            return b""
        self.terminated = True
        # In the middle of a call it would be read as a part of it.
        return b"" if self.midway else tns.end_of_file()

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        """Encode an error that answers the client's pending or next call, and the end of the session.

        The end of the target's connection is reported by the end of the stream alone, as a server does.
        """
        if code == TARGET_GONE:
            return b""
        number = _FAREWELLS.get(code, 3106)
        error = encode_error(number, refusal_text(number, message, hint), self.next_sequence)
        return tns.data_packets(error, self.sdu) + tns.end_of_file()

    @property
    def client_terminated(self) -> bool:
        return self.terminated or self.logging_off

    @property
    def needs_fatal_error(self) -> bool:
        return not self.client_terminated
