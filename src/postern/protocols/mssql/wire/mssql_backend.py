"""The target's half of the wire: matches messages with pending requests, and cuts them into pieces for inspection and
recording. `mssql_packet_flow` has the packets around the tokens that are read here.

An event is judged before the packet with its last byte is forwarded: unless it is changed, its bytes stay where they
are. Rows that no interceptor needs are not buffered.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import MAX_ROWS, Completed
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_headings import MssqlHeading
from postern.protocols.mssql.wire.mssql_output import (
    REFUSED_NUMBER,
    MssqlOutput,
    ReturnedStatus,
    ServerMessage,
    error_tokens,
    handle_number,
    is_own_output,
    return_value_of,
)
from postern.protocols.mssql.wire.mssql_packet_flow import MssqlPacketFlow
from postern.protocols.mssql.wire.mssql_response_queue import (
    ATTENTION,
    CURSOR_HANDLE,
    NO_HANDLE,
    OWN_NUMBER,
    REFUSED,
    MssqlHandle,
    MssqlPendingResponse,
    MssqlResponseQueue,
)
from postern.protocols.mssql.wire.mssql_rows import MssqlLayout, MssqlRows
from postern.protocols.mssql.wire.mssql_session_texts import NO_USE, OTHER_USE
from postern.protocols.mssql.wire.mssql_token_skipper import RowSkipper
from postern.protocols.mssql.wire.mssql_tokens import row_end, token_end
from postern.protocols.mssql.wire.mssql_types import Truncated
from postern.protocols.wire_base import Piece, RedactedOutput, Wants

MAX_DESCRIPTION: Final = 4 << 20  # bytes of one result's columns; servers have up to 4,096 of them
_PATIENT: Final = 64 << 10  # a description of more bytes is read again only when more of it has arrived
# Within a token that is forwarded in part, the client could not be sent an error.
_ENDLESS: Final = 1 << 40
_LOGIN_ONLY: Final = frozenset({k.LOGINACK, k.SSPI, k.FEDAUTHINFO, k.SESSIONSTATE, k.FEATUREEXTACK})
_UNSOLICITED: Final = frozenset({k.ERROR, k.INFO, k.DONE, k.ENVCHANGE})
_HIDDEN_CHANGES: Final = frozenset({k.ENV_ROUTING, k.ENV_PARTNER, k.ENV_USER_INSTANCE})
_COMMANDS: Final = {0xC1: "SELECT", 0xC3: "INSERT", 0xC4: "DELETE", 0xC5: "UPDATE", 0x117: "MERGE", 0xF0: "INSERT BULK"}

MssqlEvent = MssqlRows | MssqlHeading | MssqlOutput


class MssqlBackend(MssqlPacketFlow):
    """The target's half of the wire. `packet_size` is the one that was settled at login."""

    def __init__(self, queue: MssqlResponseQueue, wants: Wants, max_message: int, packet_size: int) -> None:
        super().__init__(packet_size)
        self.queue = queue
        self.wants = wants
        self.max_message = max_message
        self.fatal = False  # the target has sent the client an error outside of any response
        self._event: MssqlEvent | None = None  # is being judged
        self._event_at: i64 = 0
        self._preface = b""
        self._violation: ProtocolViolation | None = None
        self._messages: list[ServerMessage] = []  # the first error of this response
        self._start_response()

    def _start_response(self) -> None:
        """Forget everything about the last response."""
        self._layout: MssqlLayout | None = None
        self._skipper = RowSkipper([])
        self._done_status: i64 = k.DONE_MORE  # of the last token, if it was a DONE
        self._command = 0
        self._counted = 0  # rows, as far as DONE tokens tell
        self._has_count = False
        self._output: i64 = 0  # index of the next output parameter
        self._messages = []

    @property
    def _target_position(self) -> str:
        buf, at = self._buf, int(self._pos)
        token = f"token {buf[at]:#04x} " if at < len(buf) else ""
        owed = "in a response" if self.queue.slots else "with no pending response"
        return f"{token}at byte {self._intake.first + int(self._intake.pos)} or before, {owed}"

    def feed_target(self, data: bytes) -> None:
        self._intake.feed(data)

    @property
    def partial_message_bytes(self) -> int:
        is_inside = self._skipper.is_inside and not self.cutting
        return _ENDLESS if is_inside else 0

    def poll_target(self) -> list[Piece]:
        if self._violation is not None:
            raise self._violation
        pieces: list[Piece] = []
        self._finish_event()
        self._speak(pieces)
        try:
            while self._step(pieces):
                pass
        except ProtocolViolation as error:
            # Everything before the violation was valid and is forwarded first.
            if not pieces:
                raise
            self._violation = error
        return pieces

    def take_preface(self) -> RedactedOutput | None:
        """Return what goes before the event that was just encoded: it was kept back until that was judged."""
        data = self._preface
        self._preface = b""
        return RedactedOutput(data, data) if data else None

    # Packets from the target

    def _step(self, pieces: list[Piece]) -> bool:
        """Read on. Return False if an event must be judged first, or bytes are missing."""
        end: i64 = len(self._buf)
        if self._pos < end and (end >= self._need or self._is_last) and self._scan(pieces):
            return False
        end = len(self._buf)
        if self._is_last and self._pos == end:
            self._end_message(pieces)
            self._speak(pieces)
            return True
        self._flush_packets(pieces)
        if self._is_last:
            raise ProtocolViolation("the target ended its message within a token")
        return self._take_packets()

    def _speak(self, pieces: list[Piece]) -> None:
        """Add errors of refusals whose turn has come, and what precedes the next response."""
        slots = self.queue.slots
        while slots and slots[0].kind == REFUSED:
            slot = slots.popleft()
            pieces.append(self.frame(slot.prefix + slot.data, p.EOM))
            self._start_message()
        if slots and slots[0].prefix:
            pieces.append(self.frame(slots[0].prefix))
            slots[0].prefix = b""

    # Tokens

    def _scan(self, pieces: list[Piece]) -> bool:
        """Read tokens up to the first event that must be judged, which comes last. Return False if there is none."""
        while self._pos < len(self._buf):
            if not self.queue.slots:
                self._check_unsolicited()
            code: i64 = self._buf[self._pos]
            before = self._pos
            was_cutting = self.cutting
            if self._skipper.is_inside or code == k.ROW or code == k.NBCROW:
                is_event = self._read_rows(pieces)
            elif code == k.COLMETADATA:
                is_event = self._read_columns()
            else:
                is_event = self._read_token(pieces)
            if is_event and self._event is not None:
                pieces.append(self._event)
                return True
            if self._pos == before and self.cutting == was_cutting:
                return False
        return False

    def _check_unsolicited(self) -> None:
        """A server that closes a connection can send the reason, outside of any response."""
        code = self._buf[self._pos]
        if code not in (_UNSOLICITED if self.fatal else (k.ERROR, k.INFO)):
            raise ProtocolViolation("the target sent a response without a pending request")
        self.fatal = True

    def _read_rows(self, pieces: list[Piece]) -> bool:
        """Read all complete rows. Return True if they must be judged."""
        buf = self._buf
        end: i64 = len(buf)
        layout = self._layout
        if layout is None:
            raise ProtocolViolation("the target sent rows without a description of their columns")
        self._done_status = k.DONE_MORE
        if self._skipper.is_inside or self.cutting or not (self.wants.rows or layout.as_text):
            self._pos = self._skipper.skip(buf, self._pos, end)
            self._need = 0
            return False
        pos = self._pos
        count: i64 = 0
        while pos < end and (buf[pos] == k.ROW or buf[pos] == k.NBCROW):
            after = row_end(buf, pos, end, layout.forms)
            reach: i64 = after if after > 0 else -after
            if not count and reach - pos > self.max_message:
                self._withhold(pieces, "a row")
                return False
            if after < 0:
                self._need = 0 if count else -after
                break
            count += 1
            pos = after
        if not count or (layout.is_document and not self._is_complete_document(pieces, pos)):
            return False
        slot = self.queue.slots[0]
        self._judge(MssqlRows(slot.exchange, layout, buf[self._pos : pos], int(count), slot.began), pos)
        return True

    def _is_complete_document(self, pieces: list[Piece], pos: i64) -> bool:
        """Return True if all rows of a document have arrived, of which those up to `pos` are complete."""
        size = pos - self._pos
        if size > self.max_message:
            self._withhold(pieces, "a document")
            return False
        end: i64 = len(self._buf)
        if pos < end and self._buf[pos] != k.ROW and self._buf[pos] != k.NBCROW:
            return True
        self._need = end + (1 if size < _PATIENT or self._is_last else size >> 2)
        return False

    def _judge(self, event: MssqlEvent, after: i64) -> None:
        """Let this event be judged, which ends there."""
        self._event = event
        self._event_at = self._pos
        self._pos = after
        self._need = 0

    def _finish_event(self) -> None:
        """Continue after the decision about an event."""
        event = self._event
        self._event = None
        if isinstance(event, MssqlHeading):  # also to discard the rows, if it was refused
            self._use_columns(MssqlLayout(event.layout.described, event.as_text))

    def _read_columns(self) -> bool:
        """Read a COLMETADATA. Return True if it must be judged."""
        end: i64 = len(self._buf)
        slot = self.queue.slots[0]
        try:
            columns, after = k.read_columns(self._buf, self._pos + 1, end, self.queue.wide)
        except Truncated as more:
            size = end - self._pos
            if size > MAX_DESCRIPTION:
                raise ProtocolViolation(f"the target describes columns in more than {MAX_DESCRIPTION} bytes") from None
            patient: i64 = end + (size >> 2) if size > _PATIENT and not self._is_last else 0
            self._need = max(more.need, patient)
            return False
        self._done_status = k.DONE_MORE
        if columns is None:
            self._layout = None  # rows cannot follow
            self._skipper = RowSkipper([])
            self._pos = after
            return False
        layout = MssqlLayout(columns)
        if not self.wants.headings or self.cutting or not columns:
            self._use_columns(layout)
            self._pos = after
            return False
        prepared = slot.text if slot.prepared else ""
        may_fetch = CURSOR_HANDLE in slot.outputs
        heading = MssqlHeading(
            slot.exchange, layout, prepared, may_fetch=may_fetch, wide=self.queue.wide, began=slot.began
        )
        self._judge(heading, after)
        return True

    def _use_columns(self, layout: MssqlLayout) -> None:
        self._layout = layout
        self._skipper = RowSkipper(layout.forms)

    def _read_token(self, pieces: list[Piece]) -> bool:
        """Read any other token. Return True if it must be judged."""
        buf = self._buf
        end: i64 = len(buf)
        after = token_end(buf, self._pos, end, self.queue.wide)
        if after < 0:
            if -after - self._pos > self.max_message:
                self._withhold(pieces, "a value")
                return False
            self._need = -after
            return False
        code: i64 = buf[self._pos]
        if code in _LOGIN_ONLY:
            raise ProtocolViolation(f"the target sent token {int(code):#04x}, which belongs to a login")
        self._done_status = k.DONE_MORE
        if code >= k.DONE:
            self._read_done(buf, int(after))
        elif code == k.ENVCHANGE:
            self._read_change(pieces, int(after))
        elif code == k.RETURNVALUE:
            return self._read_return_value(int(after))
        elif code == k.RETURNSTATUS:
            return self._read_status(int(after))
        elif code in (k.ERROR, k.INFO):
            return self._read_message(int(after))
        self._pos = after
        return False

    def _read_done(self, buf: bytes, after: int) -> None:
        done = k.parse_done(buf, self._pos, after)
        self._done_status = done.status
        self._command = _command_of(done, self._command)
        if done.rows is not None and done.code != k.DONEPROC:
            self._counted += done.rows
            self._has_count = True

    def _read_change(self, pieces: list[Piece], after: int) -> None:
        """Read an ENVCHANGE. The client never gets one that names another server."""
        change = k.parse_environment(self._buf, self._pos, after)
        queue = self.queue
        if change.kind == k.ENV_BEGIN or change.kind == k.ENV_ENLIST:
            queue.in_transaction = True
        elif change.kind in (k.ENV_COMMIT, k.ENV_ROLLBACK, k.ENV_TRANSACTION_ENDED):
            queue.in_transaction = False
        elif change.kind == k.ENV_DATABASE:
            self._follow_database(change.new)
        elif change.kind in _HIDDEN_CHANGES:
            self._emit(pieces, self._pos)
            self._sent = after

    def _follow_database(self, name: bytes) -> None:
        """Record the session's database. Inside of other texts, a change can be restored without a report."""
        session = self.queue.session
        session.database = name.decode("utf-8", "replace")
        slot = self.queue.slots[0] if self.queue.slots else None
        if slot is None or slot.use == OTHER_USE or (slot.use == NO_USE and not slot.resets):
            session.is_lost = True

    def _read_return_value(self, after: int) -> bool:
        """Read an output parameter: a handle, or a value to judge."""
        slot = self.queue.slots[0]
        outputs = slot.outputs
        role = outputs[self._output] if self._output < len(outputs) else NO_HANDLE
        self._output += 1
        if role != NO_HANDLE and not is_own_output(slot, self._buf, int(self._pos), after, self.queue.wide):
            role = NO_HANDLE
        if role == OWN_NUMBER or self.cutting:
            self._pos = after
            return False
        if role != NO_HANDLE:
            self._learn_handle(slot, role, after)
            self._pos = after
            return False
        if not self.wants.output:
            self._pos = after
            return False
        event = return_value_of(slot, self._buf, int(self._pos), after, self.queue.wide)
        self._judge(event, after)
        return True

    def _learn_handle(self, slot: MssqlPendingResponse, role: int, after: int) -> None:
        number = handle_number(self._buf, int(self._pos), after, self.queue.wide)
        queue = self.queue
        if not number or slot.epoch != queue.epoch:
            return
        queue.remember(role, number, MssqlHandle(slot.text, slot.exchange, slot.declaration))

    def _read_status(self, after: int) -> bool:
        """Read what a procedure returned. Return True for a number that can be a value."""
        number = int.from_bytes(self._buf[int(self._pos) + 1 : after], "little", signed=True)
        if not number or not self.wants.output or self.cutting:
            self._pos = after
            return False
        slot = self.queue.slots[0]
        self._judge(ReturnedStatus(slot.exchange, number, of_a_text=slot.variables is not None), after)
        return True

    def _read_message(self, after: int) -> bool:
        """Read an ERROR or INFO. Return True if it must be judged."""
        token = k.parse_message(self._buf, self._pos, after)
        exchange = self.queue.slots[0].exchange if self.queue.slots else 0
        message = ServerMessage(exchange, token, self.queue.wide)
        if token.code == k.ERROR and not self._messages and not self.cutting:
            self._messages.append(message)
        if not self.wants.output or self.cutting or not self.queue.slots:
            self._pos = after
            return False
        self._judge(message, after)
        return True

    # Ends

    def _withhold(self, pieces: list[Piece], what: str) -> None:
        """Send an error instead of the rest of a response that cannot be judged."""
        if self.cutting:
            raise ProtocolViolation(f"the target sent {what} of more than {self.max_message} bytes")
        self._emit(pieces, self._pos)
        text = (
            f"{what} is larger than the {self.max_message} bytes that can be inspected. "
            "Request less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."
        )
        pieces.append(self.frame(error_tokens(text, self.queue.wide), p.EOM))
        slot = self.queue.slots[0]
        pieces.append(Completed(slot.exchange, error_code=str(REFUSED_NUMBER), error=text))
        slot.exchange = 0
        self.cut()

    def cut(self) -> None:
        """Discard the rest of this response: the client has been sent its end."""
        self.cutting = True
        self._start_message()
        self._sent = max(self._sent, self._pos)

    def _end_message(self, pieces: list[Piece]) -> None:
        """The target's message has ended."""
        status = self._done_status
        if status & k.DONE_MORE or self._skipper.is_inside:
            raise ProtocolViolation("the target ended its message without a DONE")
        self._emit(pieces, len(self._buf))
        self._buf = b""
        self._pos = self._sent = self._need = 0
        self._packets, self._ends = [], []
        self._is_last = self._has_begun = False
        was_cutting = self.cutting
        self.cutting = False
        if not was_cutting:
            self._start_message()
        if self.queue.slots:
            self._end_response(pieces, bool(status & k.DONE_ATTENTION), was_cutting)
        self._start_response()

    def _end_response(self, pieces: list[Piece], is_acknowledged: bool, was_cutting: bool) -> None:
        slots = self.queue.slots
        head = slots.popleft()
        if head.kind == ATTENTION:
            if not is_acknowledged:
                raise ProtocolViolation("the target answered an attention, and did not acknowledge it")
            return
        if head.is_setting and (was_cutting or is_acknowledged or self._messages):
            self.queue.session.is_lost = True  # not all of it may have run
        if not was_cutting:
            self._complete(pieces, head)
        elif head.exchange:
            pieces.append(Completed(head.exchange, error_code=str(REFUSED_NUMBER)))
        if not is_acknowledged:
            return
        attention = next((slot for slot in slots if slot.kind == ATTENTION), None)
        if attention is None:
            raise ProtocolViolation("the target acknowledged an attention that was not sent")
        slots.remove(attention)
        if was_cutting:  # the client has got another end of this response, and still waits
            done = k.encode_done(k.DONE_ATTENTION, self.queue.wide)
            pieces.append(self.frame(done, p.EOM))
            self._start_message()

    def _complete(self, pieces: list[Piece], head: MssqlPendingResponse) -> None:
        """Record the end of an exchange."""
        error = self._messages[0] if self._messages else None
        if head.is_bulk_begin and error is None:
            self.queue.bulk_allowed = True
            return
        if not head.exchange:
            return
        rows = min(self._counted, MAX_ROWS) if self._has_count else None
        tag = _COMMANDS.get(self._command, "OK")
        if error is not None:
            pieces.append(Completed(head.exchange, "", rows, str(error.number), error.text))
        else:
            pieces.append(Completed(head.exchange, tag, rows))


def _command_of(done: k.DoneToken, before: int) -> int:
    """Return the command that a response is about: the last one that is known."""
    return done.command if done.command in _COMMANDS else before
