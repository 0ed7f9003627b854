"""The steady state of a MySQL link: the client's half, the target's half, and refusals between them.

A refusal is an ERR packet in its turn. The target never gets the refused command, except for values that were sent
ahead of an EXECUTE: it is told to reset those. The protocol has no message that can be sent between two others, so the
client does not get warnings; they are in the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from postern.interception.events import Output, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_backend import MysqlBackend
from postern.protocols.mysql.wire.mysql_commands import Command
from postern.protocols.mysql.wire.mysql_frontend import MysqlFrontend
from postern.protocols.mysql.wire.mysql_headings import ColumnHeading
from postern.protocols.mysql.wire.mysql_output import ErrorText, StatementSummary, refusal_packet
from postern.protocols.mysql.wire.mysql_response_queue import (
    EXECUTE,
    REFUSED,
    SIMPLE,
    MysqlPendingResponse,
    MysqlResponseQueue,
)
from postern.protocols.mysql.wire.mysql_rows import MysqlRows
from postern.protocols.wire_base import TARGET_GONE, Request, Side, TransactionState, Wants

Kill = Callable[[int, bool], None]


def ignore_kill(thread: int, only_query: bool) -> None: ...


class MysqlWire(MysqlBackend):
    """Both halves, and the decisions between them.

    `capabilities`, `collation` and `user` are those of the client's login, `parameters` those of the target's: `status`
    is a number. `local_files`: the target can request files from clients (LOAD DATA LOCAL). Sizes are in bytes.

    `kill` is called with connections of the gateway to end, or whose running statement is to be ended. The link calls
    it in the middle of its work, so it must not touch links until that has returned.
    """

    def __init__(
        self,
        *,
        max_message: int = 32 << 20,
        capabilities: int = g.OFFERED,
        collation: int = g.UTF8MB4,
        user: str = "",
        parameters: Mapping[str, str] | None = None,
        local_files: bool = False,
        kill: Kill = ignore_kill,
    ) -> None:
        parameters = parameters or {}
        status = parameters.get("status", "")
        ledger = MysqlResponseQueue(collation, int(status) if status.isdecimal() else m.AUTOCOMMIT)
        super().__init__(ledger, Wants(), max_message, local_files and bool(capabilities & g.LOCAL_FILES))
        self._frontend = MysqlFrontend(ledger, self.wants, max_message, user)
        self._kill = kill
        has_metadata = parameters.get("extended_metadata") == "yes"
        self.adds_metadata = bool(capabilities & g.EXTENDED_METADATA) and not has_metadata

    def feed_client(self, data: bytes) -> None:
        self._frontend.feed(data)

    def poll_client(self) -> bytes | Request | None:
        return self._frontend.poll()

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, Command)
        ledger = self.ledger
        if request.owner:
            slot = MysqlPendingResponse(REFUSED, request.slot.exchange)
            slot.first = request.slot.first
            slot.data = m.ok(slot.first, m.Done(status=ledger.status & (m.IN_TRANSACTION | m.AUTOCOMMIT)))
            ledger.owe(slot)
            self._kill(request.owner, request.stops_query)
            return b""
        if request.code == m.COM_CHANGE_USER:
            self._reset(request)
        elif request.code == m.COM_STMT_EXECUTE and request.slot.statement is not None:
            ledger.forget_long(request.slot.statement)
        ledger.owe(request.slot)
        return request.raw

    def _reset(self, request: Command) -> None:
        """Encode a change of user as a reset, and a change of the database if there is one: two commands, one
        response."""
        self.ledger.forget_statements()
        if len(request.raw) > len(_RESET):
            hidden = MysqlPendingResponse(SIMPLE)
            hidden.hidden = True
            hidden.resets = True
            self.ledger.owe(hidden)
        else:
            request.slot.resets = True

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, Command)
        ledger = self.ledger
        slot = MysqlPendingResponse(REFUSED, request.slot.exchange)
        slot.first = request.slot.first
        if request.dead is None or refusal is not request.forced:
            slot.data = refusal_packet(request.slot.first, refusal)
        else:
            code, state = request.dead
            slot.data = m.err(request.slot.first, code, state, refusal.message, refusal.hint)
        ledger.owe(slot)
        statement = request.slot.statement
        if request.slot.kind != EXECUTE or statement is None or not (statement.long or statement.truncated):
            return b""
        ledger.forget_long(statement)
        hidden = MysqlPendingResponse(SIMPLE)
        hidden.hidden = True
        ledger.owe(hidden)
        return m.command(m.COM_STMT_RESET, m.packed32(statement.id))

    def warning_bytes(self, warning: Warn) -> bytes:
        """Return nothing: the protocol has no message for a warning, neither before a response nor within."""
        return b""

    def queue_warning(self, warning: Warn) -> None:
        """Do nothing; see `warning_bytes`."""

    @property
    def has_pending_output(self) -> bool:
        slots = self.ledger.slots
        return bool(slots) and (slots[0].kind == REFUSED or bool(slots[0].data))

    def render(self, event: Rows | Output) -> bytes:
        if isinstance(event, MysqlRows):
            data, packets = event.encode()
            self.ledger.shift += packets - event.packets
            return data
        assert isinstance(event, ErrorText | ColumnHeading | StatementSummary)
        return event.encode()

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        if isinstance(event, MysqlRows):
            self.cutting = True
            return refusal_packet(event.sequence, refusal)
        if isinstance(event, ColumnHeading):
            self.cutting = True
            return refusal_packet(event.sequence, refusal)
        assert isinstance(event, ErrorText | StatementSummary)
        if isinstance(event, StatementSummary) and not event.is_last:
            self.cutting = True
        event.become(refusal)
        return event.encode()

    @property
    def discarding_response(self) -> bool:
        return self.cutting and not self.lets_end and len(self.ledger.slots) == 1

    @property
    def transaction_state(self) -> TransactionState:
        ledger = self.ledger
        return TransactionState(ledger.in_transaction, ledger.owes)

    def position(self, side: Side) -> str:
        return self._frontend.position if side is Side.CLIENT else self._target_position

    @property
    def awaiting_response(self) -> bool:
        return bool(self.ledger.slots)

    def client_finished(self) -> bytes:
        if self._frontend.terminated:
            return b""
        self._frontend.terminated = True
        # In the middle of a packet or a file, the COM_QUIT would be read as a part of it.
        return b"" if self._frontend.midway or self.ledger.file_wanted else m.QUIT

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        """Encode an error that responds to the client's pending or next command.

        The end of the target's connection is reported by the end of the stream alone, as a server does. Client
        libraries turn it into 2013 (lost connection) or 2006 (gone away), by which pools and programs know that they
        must reconnect. No server sends those two numbers.
        """
        if code == TARGET_GONE:
            return b""
        number, state = _FAREWELLS.get(code, (m.ER_UNKNOWN, "HY000"))
        return m.err(self.next_sequence, number, state, message, hint)

    @property
    def client_terminated(self) -> bool:
        return self._frontend.terminated

    @property
    def needs_fatal_error(self) -> bool:
        return not (self._frontend.terminated or self.fatal)


_RESET = m.command(m.COM_RESET_CONNECTION)
# The SQLSTATE of a fatal error, and the error of a server instead of it ("Server Error Message Reference"). Clients
# read the first one as the end of the connection.
_FAREWELLS = {
    "57P01": (m.ER_CONNECTION_KILLED, "70100"),
    "08P01": (m.ER_MALFORMED_PACKET, "08S01"),
}
