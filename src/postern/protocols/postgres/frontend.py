"""What the client sends, cut into batches that are judged whole.

                 ┌───────────── any of P B D E C ─────────────┐
                 ▼                                            │
    (between) ── Q or F ──▶ batch   (open batch) ── S, Q, F, H, or too much held ──▶ batch
        │                               ▲
        ├── d c f ──▶ pass on           └── skipping after a refusal in front of Flush: drop until S
        └── X ──────▶ pass on

A batch ends at Sync, Query, FunctionCall or Flush: up to there the backend may run it, so up to there
it is judged before any of it is forwarded. A batch that holds more than `max_batch` bytes is judged in
parts, as if a Flush stood there. Messages larger than `max_message` are refused, because they cannot
be judged and recorded whole, except COPY data and, where no rule looks at values, Bind: those stream.
"""

from __future__ import annotations

import struct

from postern.errors import ProtocolViolation
from postern.interception.events import Operation, Phase
from postern.interception.verdicts import Refuse
from postern.protocols.base import Request, Wants
from postern.protocols.framing import Intake, uint32
from postern.protocols.postgres import messages as m
from postern.protocols.postgres import types
from postern.protocols.postgres.ledger import (
    BIND,
    CLOSE,
    DESCRIBE,
    EXECUTE,
    FUNCTION,
    PARSE,
    QUERY,
    SYNC,
    Ledger,
    Portal,
    Slot,
    Statement,
)

_COPY_TAGS = frozenset({m.COPY_DATA, m.COPY_DONE, m.COPY_FAIL})
_BATCH_TAGS = frozenset({m.PARSE, m.BIND, m.DESCRIBE, m.EXECUTE, m.CLOSE})
_ENDS = frozenset({m.SYNC, m.QUERY, m.FUNCTION_CALL, m.FLUSH})
_KNOWN = _COPY_TAGS | _BATCH_TAGS | _ENDS | {m.TERMINATE}

# The longest message that the backend itself accepts (PQ_LARGE_MESSAGE_LIMIT).
MAX_LENGTH = 0x3FFFFFFF
# The head of an oversized message: enough for its names, and kept as evidence when it is refused.
HEAD = 64 * 1024


class Batch(Request):
    """Messages up to a boundary. `end` is the tag of the last one; FLUSH also stands for "held too much"."""

    __slots__ = ("end", "held", "inserts", "raw", "slots")

    def __init__(self) -> None:
        super().__init__()
        self.raw: list[bytes] = []
        self.held = 0
        self.end = m.FLUSH
        self.slots: list[Slot] = []
        # (index into raw, slot) of each Execute: a Describe may have to go in front of it
        self.inserts: list[tuple[int, Slot]] = []

    @property
    def runs(self) -> bool:
        return bool(self.inserts)


class Frontend:
    """The client's half of the wire. `poll` yields bytes to pass on, or a batch to judge."""

    def __init__(self, ledger: Ledger, wants: Wants, max_message: int, max_batch: int) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self.max_batch = max_batch
        self.skipping = False
        self.terminated = False
        self._intake = Intake()
        self._batch: Batch | None = None
        self._passing = 0
        self._dropping = 0
        # Binds of the open batch, which no slot has proposed yet
        self._statements: dict[bytes, Statement] = {}
        self._portals: dict[bytes, Portal] = {}

    def feed(self, data: bytes) -> None:
        self._intake.feed(data)

    def poll(self) -> bytes | Batch | None:
        intake = self._intake
        while True:
            buf, pos = intake.buf, intake.pos
            available = len(buf) - pos
            if self._dropping:
                taken = min(self._dropping, available)
                self._dropping -= taken
                intake.pos = pos + taken
                if self._dropping:
                    return None
                continue
            if self._passing:
                return self._pass() if available else None
            if available < 5:
                return None
            tag = buf[pos]
            length = uint32(buf, pos + 1)
            if tag not in _KNOWN or not 4 <= length <= MAX_LENGTH:
                raise ProtocolViolation(f"the client sent a message of type {tag:#04x} and length {length}")
            size = length + 1
            if tag in _COPY_TAGS or tag == m.TERMINATE or (tag in (m.SYNC, m.FLUSH) and self.ledger.copy_in):
                return self._aside(tag, size)
            if self.skipping and tag != m.SYNC:
                self._dropping = size
                continue
            if size > self.max_message:
                return self._oversized(tag, size)
            if available < size:
                intake.wait(size)
                return None
            intake.pos = pos + size
            if tag == m.QUERY and self._batch is None:
                return self._query(buf[pos : pos + size])
            batch = self._batch
            if batch is None:
                batch = self._batch = Batch()
            batch.raw.append(buf[pos : pos + size])
            batch.held += size
            self._take(batch, tag, buf, pos + 5, pos + size)
            if tag in _ENDS or batch.held > self.max_batch:
                batch.end = tag if tag in _ENDS else m.FLUSH
                return self._finish()

    def _query(self, raw: bytes) -> Batch:
        """A Query that stands alone, by far the most frequent batch."""
        end = raw.find(b"\0", 5)
        if end < 0:
            raise ProtocolViolation("a string in a message has no end")
        ledger = self.ledger
        exchange = ledger.next_exchange()
        batch = Batch()
        batch.end = m.QUERY
        batch.raw.append(raw)
        batch.slots.append(Slot(QUERY, exchange))
        batch.operations.append(Operation(exchange, raw[5:end].decode(ledger.encoding, "replace")))
        return batch

    def _finish(self) -> Batch:
        batch = self._batch
        assert batch is not None
        self._batch = None
        if self._statements:
            self._statements.clear()
        if self._portals:
            self._portals.clear()
        return batch

    def _aside(self, tag: int, size: int) -> bytes | Batch:
        """Messages outside of batches: they are passed on as they come, in order."""
        if self._batch is not None:
            return self._finish()
        if tag in (m.COPY_DONE, m.COPY_FAIL):
            self.ledger.copy_in = False
        elif tag == m.TERMINATE:
            self.terminated = True
        self._passing = size
        return self._pass()

    def _pass(self) -> bytes:
        """The part of a passing message that is here, and all of further CopyData behind it."""
        intake = self._intake
        buf, start = intake.buf, intake.pos
        end = len(buf)
        pos = start + self._passing
        while end - pos >= 5 and buf[pos] == m.COPY_DATA:
            pos += 1 + uint32(buf, pos + 1)
        stop = min(pos, end)
        self._passing = pos - stop
        intake.pos = stop
        return buf[start:stop]

    def _oversized(self, tag: int, size: int) -> bytes | Batch | None:
        if self._batch is not None:
            return self._finish()
        intake = self._intake
        if len(intake.buf) - intake.pos < HEAD:
            intake.wait(HEAD)
            return None
        head = intake.buf[intake.pos + 5 : intake.pos + HEAD]
        if tag == m.BIND and not self.wants.operations:
            slot = self._propose_bind(_bind_head(head))
            self.ledger.slots.append(slot)
            self.ledger.unsynced = True
            self._passing = size
            return self._pass()
        batch = self._batch = Batch()
        batch.end = tag if tag == m.QUERY else m.FLUSH
        text = head.replace(b"\0", b" ").decode(self.ledger.encoding, "replace")
        batch.operations.append(Operation(self.ledger.next_exchange(), text, Phase.RUN, (), True))
        batch.forced = Refuse(
            rule="size",
            message=f"a message of {size} bytes is larger than the {self.max_message} bytes that can be judged",
            hint="Send less at once, use COPY, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
        )
        self._dropping = size
        return self._finish()

    def _take(self, batch: Batch, tag: int, buf: bytes, pos: int, end: int) -> None:
        """One complete message of a batch: its slot, and its operation where it has one."""
        ledger = self.ledger
        if tag == m.QUERY:
            text, _ = m.read_cstring(buf, pos, end)
            slot = Slot(QUERY, ledger.next_exchange())
            batch.operations.append(Operation(slot.exchange, text.decode(ledger.encoding, "replace")))
        elif tag == m.PARSE:
            slot = self._parse(batch, buf, pos, end)
        elif tag == m.BIND:
            slot = self._bind(m.parse_bind(buf, pos, end))
        elif tag == m.EXECUTE:
            slot = self._execute(batch, buf, pos, end)
        elif tag in (m.DESCRIBE, m.CLOSE):
            slot = self._named(tag, buf, pos, end)
        elif tag == m.SYNC:
            slot = Slot(SYNC)
        elif tag == m.FUNCTION_CALL:
            slot = Slot(FUNCTION, ledger.next_exchange())
            if end - pos < 4:
                raise ProtocolViolation("a FunctionCall message is shorter than it says")
            (oid,) = m.UINT32.unpack_from(buf, pos)
            batch.operations.append(Operation(slot.exchange, f"function call {oid}", Phase.RUN, (buf[pos + 4 : end],)))
        else:
            return
        batch.slots.append(slot)

    def _parse(self, batch: Batch, buf: bytes, pos: int, end: int) -> Slot:
        name, pos = m.read_cstring(buf, pos, end)
        text, pos = m.read_cstring(buf, pos, end)
        count = int.from_bytes(buf[pos : pos + 2], "big")
        if pos + 2 + 4 * count != end:
            raise ProtocolViolation("a Parse message has another length than its parameters need")
        oids = struct.unpack_from(f"!{count}I", buf, pos + 2)
        slot = Slot(PARSE, self.ledger.exchange + 1, name)
        slot.statement = Statement(text.decode(self.ledger.encoding, "replace"), oids)
        self._statements[name] = slot.statement
        batch.operations.append(Operation(slot.exchange, slot.statement.text, Phase.PREPARE))
        return slot

    def _bind(self, body: m.BindBody) -> Slot:
        slot = Slot(BIND, 0, body.portal)
        own = self._statements.get(body.statement)
        statements = [own] if own is not None else list(self.ledger.statements.candidates(body.statement))
        if not statements:
            name = body.statement.decode(self.ledger.encoding, "replace")
            statements = [Statement(f"execute prepared statement {name!r}")]
        values = types.parameters(body.values, body.formats, statements[-1].types)
        slot.portal = Portal(statements, values, body.result_formats)
        self._portals[body.portal] = slot.portal
        return slot

    def _propose_bind(self, body: m.BindBody) -> Slot:
        """An oversized Bind that streams: its values are not kept."""
        slot = self._bind(body)
        assert slot.portal is not None
        slot.portal.truncated = True
        self._portals.clear()
        self.ledger.portals.propose(slot.name, slot.portal)
        return slot

    def _execute(self, batch: Batch, buf: bytes, pos: int, end: int) -> Slot:
        name, _ = m.read_cstring(buf, pos, end)
        slot = Slot(EXECUTE, self.ledger.next_exchange(), name)
        own = self._portals.get(name)
        portals = [own] if own is not None else list(self.ledger.portals.candidates(name))
        if not portals:
            portals = [Portal([Statement(f"execute portal {name.decode(self.ledger.encoding, 'replace')!r}")])]
        slot.portal = portals[0] if len(portals) == 1 else Portal([])
        batch.inserts.append((len(batch.raw) - 1, slot))
        for portal in portals:
            for statement in portal.statements:
                operation = Operation(slot.exchange, statement.text, Phase.RUN, portal.values, portal.truncated)
                batch.operations.append(operation)
        return slot

    def _named(self, tag: int, buf: bytes, pos: int, end: int) -> Slot:
        """Describe or Close of a statement ('S') or portal ('P')."""
        if pos >= end or buf[pos] not in b"SP":
            raise ProtocolViolation("a Describe or Close message names neither a statement nor a portal")
        name, _ = m.read_cstring(buf, pos + 1, end)
        slot = Slot(DESCRIBE if tag == m.DESCRIBE else CLOSE, 0, name)
        if buf[pos] == ord("S"):
            own = self._statements.get(name)
            statements = [own] if own is not None else self.ledger.statements.candidates(name)
            slot.statement = statements[0] if len(statements) == 1 else None
        else:
            mine = self._portals.get(name)
            portals = [mine] if mine is not None else self.ledger.portals.candidates(name)
            slot.portal = portals[0] if len(portals) == 1 else None
        return slot


def _bind_head(head: bytes) -> m.BindBody:
    """Names of a Bind of which only the head is there. Its result formats stand at the far end: unknown."""
    portal, pos = m.read_cstring(head, 0, len(head))
    statement, _ = m.read_cstring(head, pos, len(head))
    return m.BindBody(portal, statement, (), (), ())
