"""The client's half of the wire: cuts its messages into batches that are evaluated together.

                 ┌───────────── any of P B D E C ─────────────┐
                 ▼                                            │
    (between) ── Q or F ──▶ batch   (open batch) ── S, Q, F, H, too many bytes, or a pause ──▶ batch
        │                               ▲
        ├── d c f ──▶ forward           └── skipping after a refusal of a part: drop until S
        └── X ──────▶ forward, and drop whatever follows

A batch ends at Sync, Query, FunctionCall or Flush. Parts of it are forwarded earlier, as if a Flush was there:

- at the end of each read, if no interceptor needs whole batches;
- when the client pauses (`release`), because it may wait for an error before it sends its Sync (decision 0071);
- when more than `max_batch` bytes are held.

Cutting a batch at a pause changes neither the record of an Execute nor the bytes for the backend: the numbers of
exchanges and the meaning of names continue as if the batch were whole.

Messages larger than `max_message` are refused, because they cannot be evaluated and recorded whole. COPY data streams,
and so does Bind if no rule needs its values.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import RUN, Operation, Phase
from postern.interception.verdicts import Refuse
from postern.protocols.framing import Intake, uint32
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_bind_values import parameters
from postern.protocols.postgres.wire.postgres_name_references import LENGTH, MOST, may_run_by_name, names_in
from postern.protocols.postgres.wire.postgres_response_queue import (
    BIND,
    CLOSE,
    DESCRIBE,
    EXECUTE,
    FUNCTION,
    MAX_NAMES,
    PARSE,
    QUERY,
    SYNC,
    Portal,
    PostgresPendingResponse,
    PostgresResponseQueue,
    PostgresStatement,
)
from postern.protocols.refusal_texts import text_of
from postern.protocols.wire_base import Request, Wants

# Properties of a message, as bits, since every message is checked several times.
_BATCHED: Final = 1  # part of a batch
_ENDS: Final = 2  # … and its end
_EMPTY: Final = 4  # has no body
_COPY: Final = 8  # forwarded as it comes
_DURING_COPY: Final = 16  # the backend processes it while it reads CopyData; it ignores a Sync and a Flush there
_TRAITS = {
    m.PARSE: _BATCHED,
    m.BIND: _BATCHED,
    m.DESCRIBE: _BATCHED,
    m.EXECUTE: _BATCHED,
    m.CLOSE: _BATCHED,
    m.QUERY: _BATCHED | _ENDS,
    m.FUNCTION_CALL: _BATCHED | _ENDS,
    m.SYNC: _BATCHED | _ENDS | _EMPTY | _DURING_COPY,
    m.FLUSH: _BATCHED | _ENDS | _EMPTY | _DURING_COPY,
    m.COPY_DATA: _COPY | _DURING_COPY,
    m.COPY_FAIL: _COPY | _DURING_COPY,
    m.COPY_DONE: _COPY | _EMPTY | _DURING_COPY,
    m.TERMINATE: _COPY | _EMPTY | _DURING_COPY,
}
_KNOWN: Final = bytes([_TRAITS.get(tag, 0) for tag in range(256)])

# The longest message that the backend itself accepts (PQ_LARGE_MESSAGE_LIMIT).
MAX_LENGTH: Final = 0x3FFFFFFF
# Bytes of an oversized message's head: enough for its names, and recorded as evidence when it is refused.
HEAD = 64 * 1024


class MessageBatch(Request):
    """Messages up to a boundary. `end` is the tag of the last one; FLUSH also stands for a part that is forwarded
    before its batch is complete. `flushes`: the client pauses, so the backend is asked for its responses."""

    __slots__ = ("end", "flushes", "held", "inserts", "raw", "runs", "slots")

    def __init__(self) -> None:
        super().__init__()
        self.raw: list[bytes] = []
        self.held = 0
        self.end = m.FLUSH
        self.slots: list[PostgresPendingResponse] = []
        self.runs = False  # contains an Execute
        self.flushes = False
        # (offset in bytes, index into slots) of each Execute without a Describe of the client before it
        self.inserts: list[tuple[int, int]] = []


class PostgresFrontend:
    """The client's half of the wire. `poll` returns bytes to forward, or a batch to evaluate."""

    def __init__(self, ledger: PostgresResponseQueue, wants: Wants, max_message: int, max_batch: int) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self.max_batch = max_batch
        self.skipping = False
        self.terminated = False
        self._intake = Intake()
        self._at: i64 = 0  # start of the message in the buffer that is read
        self._batch: MessageBatch | None = None
        self._passing = 0
        self._dropping = 0
        # The names that the open batch has prepared and bound. They have no other meaning until its end: if a Parse or
        # a Bind fails, the backend skips what follows.
        self._statements: dict[bytes, PostgresStatement] = {}
        self._portals: dict[bytes, Portal] = {}
        self._described: PostgresPendingResponse | None = None  # the last message, if it was the Describe of a portal
        self._rejected = b""  # sent instead of the last message, so that the target itself rejects it
        self._number = 0  # of the open batch
        self._released = False  # the open batch has waited long enough
        self._asked = 0  # the exchange of the last operation

    @property
    def midway(self) -> bool:
        """Return True if a message was forwarded in part."""
        return self._passing > 0

    @property
    def position(self) -> str:
        return m.position(self._intake, self._at)

    @property
    def open_batch(self) -> int:
        """Return the number of the batch that is buffered until it is complete, or 0."""
        return 0 if self._batch is None else self._number

    def release(self) -> None:
        """End the wait for the rest of the open batch: `poll` returns the part that has arrived."""
        self._released = self._batch is not None

    def feed(self, data: bytes) -> None:
        self._intake.feed(data)

    def poll(self) -> bytes | MessageBatch | None:
        intake = self._intake
        run: i64 = -1  # start of messages that are not yet added to the open batch
        while True:
            buf, pos = intake.buf, intake.pos
            available = len(buf) - pos
            if self._dropping:
                count = min(self._dropping, available)
                self._dropping -= count
                intake.pos = pos + count
                if self._dropping:
                    return None
                continue
            if self._passing:
                return self._pass() if available else None
            if self.terminated:
                intake.pos = len(buf)
                return None
            if available < 5:
                return self._pause(buf, run, pos)
            self._at = pos
            tag = buf[pos]
            traits: i64 = _KNOWN[tag]
            length = uint32(buf, pos + 1)
            self._check(tag, traits, length)
            size = length + 1
            if self.skipping and tag != m.SYNC and tag != m.TERMINATE:
                self._dropping = size
                continue
            if traits & _COPY or (traits & _DURING_COPY and self.ledger.copy_in):
                self._keep(buf, run, pos)
                return self._aside(tag, size)
            if size > self.max_message:
                self._keep(buf, run, pos)
                return self._handle_oversized(tag, size)
            if available < size:
                part = self._pause(buf, run, pos)
                intake.wait(size)
                return part
            intake.pos = pos + size
            if tag == m.QUERY and self._batch is None:
                return self._query(buf[pos : pos + size])
            batch = self._batch
            if batch is None:
                batch = self._batch = MessageBatch()
                self._number += 1
            if run < 0:
                run = pos
            self._take(batch, tag, buf, pos + 5, pos + size)
            if self._rejected:
                self._keep(buf, run, pos)
                run = -1
                batch.raw.append(self._rejected)
                batch.held += len(self._rejected)
                self._rejected = b""
            else:
                batch.held += size
            if traits & _ENDS:
                batch.end = tag
                self._keep(buf, run, pos + size)
                return self._finish()
            if batch.held > self.max_batch:
                self._keep(buf, run, pos + size)
                return self._take_part(batch)

    def _keep(self, buf: bytes, start: i64, end: i64) -> None:
        """Add these messages to the open batch; none if `start` is negative."""
        if start >= 0 and self._batch is not None:
            self._batch.raw.append(buf[start:end])

    def _pause(self, buf: bytes, start: i64, end: i64) -> MessageBatch | None:
        """All complete messages were read: return the part of the open batch that can be forwarded, if any."""
        self._keep(buf, start, end)
        batch = self._batch
        if batch is None or (self.wants.batches and not self._released):
            return None
        return self._take_part(batch)

    def _take_part(self, batch: MessageBatch) -> MessageBatch:
        """Return the current part of the open batch, to be forwarded before its end."""
        if len(self._statements) > MAX_NAMES or len(self._portals) > MAX_NAMES:
            raise ProtocolViolation(f"more than {MAX_NAMES} prepared statements or portals in one batch")
        batch.flushes = self._released
        self._batch = None
        self._released = False
        return batch

    def _check(self, tag: int, traits: i64, length: i64) -> None:
        """Reject a message that a client must not send, or not now, before its body is buffered."""
        if not traits or length < 4 or length > MAX_LENGTH or (length != 4 and traits & _EMPTY):
            raise ProtocolViolation(f"the client sent a message of type {tag:#04x} and length {length}")
        if self.ledger.copy_in and (not traits & _DURING_COPY or (self.skipping and tag != m.TERMINATE)):
            raise ProtocolViolation(f"the client sent a message of type {tag:#04x} instead of COPY data")

    def _query(self, raw: bytes) -> MessageBatch:
        """Return a Query as a batch; by far the most frequent batch."""
        end = len(raw) - 1
        if raw.find(b"\0", 5) != end:
            raise ProtocolViolation("a Query message has bytes after its text")
        ledger = self.ledger
        exchange = ledger.next_exchange()
        batch = MessageBatch()
        batch.end = m.QUERY
        batch.raw.append(raw)
        batch.slots.append(PostgresPendingResponse(QUERY, exchange))
        text = text_of(raw[5:end], ledger.encoding)
        self._asks(batch, exchange, text)
        if (ledger.portals or ledger.statements) and may_run_by_name(text):
            self._run_by_name(batch, exchange, text)
        self._forget_names()
        return batch

    def _asks(
        self,
        batch: MessageBatch,
        exchange: int,
        text: str,
        phase: Phase = RUN,
        values: tuple[bytes | None, ...] = (),
        truncated: bool = False,
        unsure: tuple[int, ...] = (),
        oids: tuple[int, ...] = (),
    ) -> None:
        ledger = self.ledger
        self._asked = exchange
        behind = ledger.slots.head is not None or ledger.unsynced or bool(batch.operations)
        batch.operations.append(
            Operation(
                exchange,
                text,
                phase,
                values,
                truncated,
                ledger.unread,
                pipelined=behind,
                unsure=unsure,
                types=oids,
                encoding=ledger.encoding,
            )
        )

    def _finish(self) -> MessageBatch:
        batch = self._batch
        assert batch is not None
        self._batch = None
        self._released = False
        self._end_batch()
        return batch

    def _end_batch(self) -> None:
        """Close the batch, even if parts of it were forwarded before."""
        self._forget_names()
        # A batch that only prepares is an exchange of its own.
        self.ledger.exchange = max(self.ledger.exchange, self._asked)

    def _forget_names(self) -> None:
        if self._statements:
            self._statements.clear()
        if self._portals:
            self._portals.clear()
        self._described = None

    def _aside(self, tag: int, size: int) -> bytes | MessageBatch:
        """Handle messages outside of batches: they are forwarded as they come, in order."""
        if self._batch is not None:
            return self._finish()
        self._end_batch()
        if tag in (m.COPY_DONE, m.COPY_FAIL):
            self.ledger.end_copy_in()
        elif tag == m.TERMINATE:
            self.terminated = True
        self._passing = size
        return self._pass()

    def _pass(self) -> bytes:
        """Return the arrived part of a passing message, and all CopyData after it."""
        intake = self._intake
        buf, start = intake.buf, intake.pos
        end = len(buf)
        pos = start + self._passing
        while end - pos >= 5 and buf[pos] == m.COPY_DATA:
            length = uint32(buf, pos + 1)
            if not 4 <= length <= MAX_LENGTH:
                break  # the next poll reports what is wrong with it
            pos += 1 + length
        stop = min(pos, end)
        self._passing = pos - stop
        intake.pos = stop
        return buf[start:stop]

    def _handle_oversized(self, tag: int, size: int) -> bytes | MessageBatch | None:
        if self._batch is not None:
            return self._finish()
        self._end_batch()
        intake = self._intake
        needed = min(size, HEAD)
        if len(intake.buf) - intake.pos < needed:
            intake.wait(needed)
            return None
        head = intake.buf[intake.pos + 5 : intake.pos + needed]
        if tag == m.BIND and not self.wants.operations:
            self.ledger.add(self._streamed_bind(_bind_head(head)))
            self.ledger.unsynced = True
            self._passing = size
            return self._pass()
        batch = self._batch = MessageBatch()
        batch.end = tag if tag in (m.QUERY, m.FUNCTION_CALL) else m.FLUSH
        text = text_of(head.replace(b"\0", b" "), self.ledger.encoding)
        self._asks(batch, self.ledger.next_exchange(), text, RUN, (), True)
        batch.forced = Refuse(
            rule="size",
            message=f"a message of {size} bytes is larger than the {self.max_message} bytes that can be evaluated",
            hint="Send less at once, use COPY, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
        )
        self._dropping = size
        return self._finish()

    def _take(self, batch: MessageBatch, tag: int, buf: bytes, pos: int, end: int) -> None:
        """Process one complete message of a batch: add its pending response, and its operation if it has one."""
        ledger = self.ledger
        described = self._described
        self._described = None
        if tag == m.QUERY:
            text = text_of(m.last_cstring(buf, pos, end), ledger.encoding)
            slot = PostgresPendingResponse(QUERY, ledger.next_exchange())
            self._asks(batch, slot.exchange, text)
            if may_run_by_name(text):
                self._run_by_name(batch, slot.exchange, text)
        elif tag == m.PARSE:
            slot = self._parse(batch, buf, pos, end)
        elif tag == m.BIND:
            slot = self._bind_of(buf, pos, end)
        elif tag == m.EXECUTE:
            slot = self._execute(batch, buf, pos, end, described)
        elif tag in (m.DESCRIBE, m.CLOSE):
            slot = self._describe_or_close(tag, buf, pos, end)
        elif tag == m.SYNC:
            slot = PostgresPendingResponse(SYNC, ledger.exchange)
        elif tag == m.FUNCTION_CALL:
            slot = PostgresPendingResponse(FUNCTION, ledger.next_exchange())
            oid, values = m.parse_function_call(buf, pos, end)
            self._asks(batch, slot.exchange, f"function call {oid}", RUN, values)
        else:
            return
        batch.slots.append(slot)

    def _parse(self, batch: MessageBatch, buf: bytes, pos: int, end: int) -> PostgresPendingResponse:
        start = pos
        name, pos = m.read_cstring(buf, pos, end)
        text, pos = m.read_cstring(buf, pos, end)
        try:
            oids = m.parse_oids(buf, pos, end)
        except ProtocolViolation:
            self._rejected = m.rejected_parse(buf, start, end)
            oids = ()
        slot = PostgresPendingResponse(PARSE, self.ledger.exchange + 1, name[:LENGTH])
        slot.statement = PostgresStatement(text_of(text, self.ledger.encoding), oids)
        self._statements[slot.name] = slot.statement
        self._asks(batch, slot.exchange, slot.statement.text, Phase.PREPARE)
        return slot

    def _bind_of(self, buf: bytes, pos: int, end: int) -> PostgresPendingResponse:
        try:
            return self._bind(m.parse_bind(buf, pos, end))
        except ProtocolViolation:
            self._rejected, body = m.rejected_bind(buf, pos, end)
        slot = self._bind(body)
        assert slot.portal is not None
        slot.portal.truncated = True  # the values are incomplete
        return slot

    def _bind(self, body: m.BindBody) -> PostgresPendingResponse:
        slot = PostgresPendingResponse(BIND, self.ledger.exchange + 1, body.portal[:LENGTH])
        named = body.statement[:LENGTH]
        statement = self._statements.get(named)
        statements = [statement] if statement is not None else self.ledger.statements.candidates(named).copy()
        if not statements:
            name = text_of(body.statement, self.ledger.encoding, "replace")
            statements = [PostgresStatement(f"execute prepared statement {name!r}")]
        values, unsure = parameters(body.values, body.formats, statements[-1].types)
        slot.portal = Portal(statements, values, unsure, statements[-1].types)
        self._portals[slot.name] = slot.portal
        return slot

    def _streamed_bind(self, body: m.BindBody) -> PostgresPendingResponse:
        """Process an oversized Bind that streams: its values are not stored."""
        slot = self._bind(body)
        assert slot.portal is not None
        slot.portal.truncated = True
        self._portals.clear()
        return slot

    def _execute(
        self, batch: MessageBatch, buf: bytes, pos: int, end: int, described: PostgresPendingResponse | None
    ) -> PostgresPendingResponse:
        name, after = m.read_cstring(buf, pos, end)
        if end - after != 4:
            raise ProtocolViolation("an Execute message has the wrong length")
        name = name[:LENGTH]
        slot = PostgresPendingResponse(EXECUTE, self.ledger.next_exchange(), name)
        own_portal = self._portals.get(name)
        portals = [own_portal] if own_portal is not None else self.ledger.portals.candidates(name)
        if not portals:
            portals = [
                Portal([PostgresStatement(f"execute portal {text_of(name, self.ledger.encoding, 'replace')!r}")])
            ]
        batch.runs = True
        if described is not None and described.name == name:
            if described.described is not None:  # it is answered already: they arrived in two parts
                slot.described = described.described
            described.informs = slot
        else:
            batch.inserts.append((batch.held, len(batch.slots)))
        slot.began = slot.exchange
        for portal in portals:
            portal.began = portal.began or slot.exchange
            slot.began = min(slot.began, portal.began)
        for portal in portals:
            self._run(batch, slot.exchange, portal)
            for statement in portal.statements:
                if statement.runs_by_name:
                    self._run_by_name(batch, slot.exchange, statement.text)
        return slot

    def _run(self, batch: MessageBatch, exchange: int, portal: Portal) -> None:
        for statement in portal.statements:
            self._asks(
                batch, exchange, statement.text, RUN, portal.values, portal.truncated, portal.unsure, portal.types
            )

    def _run_by_name(self, batch: MessageBatch, exchange: int, text: str) -> None:
        """Record the prepared statements and portals that the text may run, each as if it were executed here."""
        ledger = self.ledger
        known_names = {*self._portals, *self._statements, *ledger.portals.names(), *ledger.statements.names()} - {b""}
        texts = [text]
        while texts and known_names:
            names = names_in(texts.pop(), known_names, ledger.encoding)
            known_names.difference_update(names)
            if len(names) > MOST:
                why = f"this statement can run any of {len(names)} prepared statements, too many to be evaluated"
                hint = "Close some, or use only letters, digits and underscores in their names."
                batch.forced = Refuse("size", why, hint)
                return
            first = len(batch.operations)
            for name in names:
                for portal in ledger.portals.candidates_including_batch(name, self._portals):
                    self._run(batch, exchange, portal)
                for statement in ledger.statements.candidates_including_batch(name, self._statements):
                    self._asks(batch, exchange, statement.text)
            texts += [operation.text for operation in batch.operations[first:] if may_run_by_name(operation.text)]

    def _describe_or_close(self, tag: int, buf: bytes, pos: int, end: int) -> PostgresPendingResponse:
        """Process Describe or Close of a statement ('S') or portal ('P')."""
        if pos >= end or buf[pos] not in b"SP":
            raise ProtocolViolation("a Describe or Close message names neither a statement nor a portal")
        name = m.last_cstring(buf, pos + 1, end)[:LENGTH]
        slot = PostgresPendingResponse(DESCRIBE if tag == m.DESCRIBE else CLOSE, self.ledger.exchange + 1, name)
        if buf[pos] == ord("S"):
            new_statement = self._statements.get(name)
            statements = [new_statement] if new_statement is not None else self.ledger.statements.candidates(name)
            slot.statement = statements[0] if len(statements) == 1 else None
        elif tag == m.DESCRIBE:
            self._described = slot
        else:
            new_portal = self._portals.get(name)
            portals = [new_portal] if new_portal is not None else self.ledger.portals.candidates(name)
            slot.portal = portals[0] if len(portals) == 1 else None
        return slot


def _bind_head(head: bytes) -> m.BindBody:
    """Return the names of a Bind whose head alone has arrived. Its result formats are at its end, and unknown."""
    portal, pos = m.read_cstring(head, 0, len(head))
    statement, _ = m.read_cstring(head, pos, len(head))
    return m.BindBody(portal, statement, (), (), ())
