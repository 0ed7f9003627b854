"""The steady state of a PostgreSQL link: the client's half, the target's half, and refusals between them.

A refusal is never inserted out of order. It is an entry in the response queue, and it must leave the backend's
transaction as an error would have:

    refused batch ends with    backend has unsynced messages   what happens
    Sync, Query, FunctionCall  no                              error + our own ReadyForQuery; the backend
                                                               sees nothing of the batch
    Sync                       yes                             error; the backend gets a Sync, and its
                                                               ReadyForQuery reaches the client
    Query, FunctionCall        yes                             error; the backend gets a query that fails,
                                                               and its ReadyForQuery reaches the client
    Flush, or a part           any                             error; the client's messages are dropped
                                                               up to its Sync, then as above

If an Execute of the same batch has already run, the Sync would commit it. Then the backend gets a statement that cannot
be parsed: it rolls back as after any error, and its response is discarded. The statement is sent before the Sync, or at
once if the Sync is still to come. A query that fails does the same in one message. If the backend skips to the next
Sync, that query is skipped, as the refused one would have been.
"""

from __future__ import annotations

from collections.abc import Mapping

from postern.interception.events import Output, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_backend import PostgresBackend
from postern.protocols.postgres.wire.postgres_frontend import MessageBatch, PostgresFrontend
from postern.protocols.postgres.wire.postgres_output import (
    INSUFFICIENT_PRIVILEGE,
    CopiedLines,
    PostgresText,
    refusal_response,
    warning_response,
)
from postern.protocols.postgres.wire.postgres_response_queue import (
    DESCRIBE,
    POISON,
    QUERY,
    REFUSED,
    REPORTED,
    SYNC,
    PostgresPendingResponse,
    PostgresResponseQueue,
)
from postern.protocols.postgres.wire.postgres_rows import PostgresRows
from postern.protocols.wire_base import Request, Side, TransactionState, Wants

_POISON_TEXT = b"denied by the gateway"
_POISON_PARSE = m.parse(b"", _POISON_TEXT)
_POISON_QUERY = m.query(_POISON_TEXT)


class PostgresWire(PostgresBackend):
    """Both halves, and the decisions between them. `parameters` are the target's at login; they may change later. Sizes
    are in bytes."""

    def __init__(
        self,
        *,
        max_message: int = 32 << 20,
        max_batch: int = 16 << 20,
        client_encoding: str = "UTF8",
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(PostgresResponseQueue(), Wants(), max_message)
        self.ledger.encode(client_encoding)
        self.ledger.reported = {name: value for name, value in (parameters or {}).items() if name in REPORTED}
        self._frontend = PostgresFrontend(self.ledger, self.wants, max_message, max_batch)

    def feed_client(self, data: bytes) -> None:
        self._frontend.feed(data)

    def poll_client(self) -> bytes | Request | None:
        return self._frontend.poll()

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, MessageBatch)
        ledger = self.ledger
        if self._frontend.skipping:
            # The Sync that ends a batch which was refused before its Flush.
            self._frontend.skipping = False
            return self._resync(m.SYNC)
        raw = request.raw
        slots = request.slots
        if self.wants.rows and request.inserts:
            raw, slots = _with_describes(request)
        for slot in slots:
            ledger.add(slot)
        if request.end == m.FLUSH:
            ledger.unsynced = True
            ledger.ran = ledger.ran or request.runs
        else:
            ledger.unsynced = ledger.ran = False
        if request.flushes:
            raw = [*raw, m.FLUSH_MESSAGE]
        return raw[0] if len(raw) == 1 else b"".join(raw)

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, MessageBatch)
        slot = PostgresPendingResponse(REFUSED, request.operations[0].exchange if request.operations else 0)
        slot.data = refusal_response(refusal)
        if request.end != m.FLUSH:
            self.ledger.add(slot)
            return self._resync(request.end)
        self._frontend.skipping = True
        return self._fail_part(slot)

    def _fail_part(self, slot: PostgresPendingResponse) -> bytes:
        """Refuse a part of a batch whose end is still to come.

        The backend fails at once what it has run of the batch, and does not keep it open until the client sends its
        Sync. The client gets the refusal at once, too, after responses that the backend has not flushed yet.
        """
        ledger = self.ledger
        answers_due = ledger.slots.head is not None
        ledger.add(slot)
        if ledger.skipping:
            ledger.ran = False  # it has failed already
            return b""
        if not ledger.ran:
            return m.FLUSH_MESSAGE if answers_due else b""
        ledger.add(PostgresPendingResponse(POISON))
        ledger.ran = False
        return _POISON_PARSE

    def _resync(self, end: int) -> bytes:
        """End a batch of which a part was refused. Return what replaces its last message, whose tag is `end`."""
        ledger = self.ledger
        if not (ledger.unsynced or ledger.skipping):
            slot = PostgresPendingResponse(REFUSED)
            slot.ready = True
            ledger.add(slot)
            return b""
        if end != m.SYNC:
            ledger.add(PostgresPendingResponse(POISON))
            ledger.add(PostgresPendingResponse(QUERY, ledger.exchange))
            raw = _POISON_QUERY
        elif ledger.ran:
            ledger.add(PostgresPendingResponse(POISON))
            ledger.add(PostgresPendingResponse(SYNC, ledger.exchange))
            raw = _POISON_PARSE + m.SYNC_MESSAGE
        else:
            ledger.add(PostgresPendingResponse(SYNC, ledger.exchange))
            raw = m.SYNC_MESSAGE
        ledger.unsynced = ledger.ran = False
        return raw

    def warning_bytes(self, warning: Warn) -> bytes:
        return warning_response(warning)

    def queue_warning(self, warning: Warn) -> None:
        """Queue a warning among the responses: if an error skips its request, the warning is skipped as well."""
        slot = PostgresPendingResponse(REFUSED, self.ledger.exchange)
        slot.data = warning_response(warning)
        self.ledger.add(slot)

    @property
    def has_pending_output(self) -> bool:
        head = self.ledger.slots.head
        return head is not None and head.kind == REFUSED

    def render(self, event: Rows | Output) -> bytes:
        assert isinstance(event, PostgresRows | PostgresText | CopiedLines)
        return event.encode()

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        if isinstance(event, PostgresText) and event.aside:
            # Not a response: only this message is withheld.
            return m.report(b"N", "WARNING", INSUFFICIENT_PRIVILEGE, refusal.message, hint=refusal.hint)
        self.cutting = True
        if isinstance(event, PostgresText):
            event.become(refusal)
            return event.encode()
        return refusal_response(refusal)

    @property
    def open_batch(self) -> int:
        return self._frontend.open_batch

    @property
    def batch_has_run(self) -> bool:
        """Return True also for a failed batch: the target skips its rest, so no review is needed."""
        return self.ledger.ran or self.ledger.skipping

    def flush(self) -> None:
        self._frontend.release()

    @property
    def discarding_response(self) -> bool:
        slots = self.ledger.slots
        return self.cutting and slots.head is not None and all(slot.kind == SYNC for slot in slots.behind_head())

    @property
    def transaction_state(self) -> TransactionState:
        ledger = self.ledger
        head = ledger.slots.head
        owed = head is not None and any(slot.kind != REFUSED for slot in (head, *ledger.slots.behind_head()))
        return TransactionState(ledger.status != b"I" or ledger.unsynced, owed or ledger.ran, dict(ledger.reported))

    def position(self, side: Side) -> str:
        where = self._frontend.position if side is Side.CLIENT else self._target_position
        return f"{where}, {self.ledger.state}"

    @property
    def awaiting_response(self) -> bool:
        return self.ledger.slots.head is not None

    def client_finished(self) -> bytes:
        if self._frontend.terminated:
            return b""
        self._frontend.terminated = True
        # In the middle of a message, the Terminate would be read as a part of it.
        return b"" if self._frontend.midway else m.TERMINATE_MESSAGE

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        return m.error_response(code, message, severity="FATAL", hint=hint)

    @property
    def client_terminated(self) -> bool:
        return self._frontend.terminated

    @property
    def needs_fatal_error(self) -> bool:
        return not (self._frontend.terminated or self.fatal)


def _with_describes(batch: MessageBatch) -> tuple[list[bytes], list[PostgresPendingResponse]]:
    """Ask the backend for the columns of each Execute whose rows need a description."""
    whole = b"".join(batch.raw)
    raw: list[bytes] = []
    slots: list[PostgresPendingResponse] = []
    bytes_done = slots_done = 0
    for offset, place in batch.inserts:
        execute = batch.slots[place]
        hidden = PostgresPendingResponse(DESCRIBE, execute.exchange, execute.name)
        hidden.informs = execute
        hidden.hidden = True
        raw.append(whole[bytes_done:offset])
        raw.append(m.describe_portal(execute.name))
        slots += batch.slots[slots_done:place]
        slots.append(hidden)
        bytes_done, slots_done = offset, place
    raw.append(whole[bytes_done:])
    return raw, slots + batch.slots[slots_done:]
