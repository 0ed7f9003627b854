"""The target's half of the wire: matches replies with the requests that wait for them.

                        ┌── interceptors read replies ─▶ buffered until it is whole, cut into events, encoded
    header of a reply ──┼── no interceptor does, and it is small ──▶ passes whole
                        └── no interceptor does, and it is large ──▶ passes in pieces, read on the way

Every reply must name the request at the head of the queue. Its id, its cursor and its errors are read in any case: the
recording needs them, and so do later getMores.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Completed
from postern.interception.verdicts import Refuse
from postern.protocols.framing import Intake
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.bson_documents import int32_at
from postern.protocols.mongodb.wire.mongodb_cursors import Cursors
from postern.protocols.mongodb.wire.mongodb_output import (
    MongodbReply,
    ReplyFacts,
    make_completed_event,
)
from postern.protocols.mongodb.wire.mongodb_reply_scanner import ReplyScanner
from postern.protocols.mongodb.wire.mongodb_response_queue import (
    FORWARDED,
    SILENT,
    MongodbPendingReply,
    MongodbResponseQueue,
)
from postern.protocols.mongodb.wire.mongodb_rows import DocumentPaths, TooManyFields
from postern.protocols.wire_base import Piece, Reply, Wants, Wire

_OWN_REQUEST: Final = 0x7FFFFF00  # the id of the gateway's own requests

# Bytes of a reply that is always buffered.
SMALL: Final = 64 * 1024
_BODY_AT: Final = m.HEAD + 5

_TOO_MANY_FIELDS: Final = Refuse(
    "size", "this reply has too many different fields to be inspected", "Select fields with a projection."
)


class MongodbBackend(Wire):
    """The target's half of the wire."""

    def __init__(self, ledger: MongodbResponseQueue, wants: Wants, max_message: int, cursors: Cursors) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self._cursors = cursors
        self._paths = DocumentPaths()
        self._intake = Intake()
        self._reply: MongodbReply | None = None  # the reply that is judged
        self._passing: i64 = 0  # remaining bytes of a reply that passes in pieces
        self._scanner: ReplyScanner | None = None
        self._checksum: i64 = 0  # bytes after the document of that reply
        self._dropping: i64 = 0  # remaining bytes of a reply that is dropped
        self._violation: ProtocolViolation | None = None

    @property
    def _target_position(self) -> str:
        buf, at = self._intake.buf, int(self._intake.pos)
        where = f"message of {int(int32_at(buf, at))} bytes " if len(buf) - at >= m.HEAD else ""
        slots = self.ledger.slots
        if not slots:
            return f"{where}at byte {self._intake.first + at}, with no pending reply"
        return f"{where}at byte {self._intake.first + at}, with {len(slots)} pending replies"

    def feed_target(self, data: bytes) -> None:
        self._intake.feed(data)

    @property
    def partial_message_bytes(self) -> int:
        return int(self._passing)

    def poll_target(self) -> list[Piece]:
        if self._violation is not None:
            raise self._violation
        pieces: list[Piece] = []
        reply = self._reply
        if reply is not None:
            event = reply.next_event()
            if event is not None:
                return [event]
            self._reply = None
            self._close_cursor(pieces, reply)
            self._finish(pieces, reply.make_completed_event())
        self._speak(pieces)
        try:
            self._scan(pieces)
        except ProtocolViolation as error:
            # Everything before the violation was valid and is forwarded first.
            if not pieces:
                raise
            self._violation = error
        return pieces

    def _speak(self, pieces: list[Piece]) -> None:
        """Add the gateway's own replies whose turn has come, and the ends of requests without one."""
        ledger = self.ledger
        slots = ledger.slots
        while slots and slots[0].kind != FORWARDED:
            slot = slots[0]
            if slot.kind == SILENT:
                pieces.append(Completed(slot.exchange, slot.tag))
            else:
                pieces.append(slot.data)
            ledger.over()

    def _finish(self, pieces: list[Piece], completed: Completed) -> None:
        """End the reply at the head."""
        pieces.append(completed)
        self.ledger.over()
        self._speak(pieces)

    def _close_cursor(self, pieces: list[Piece], reply: MongodbReply) -> None:
        """Close the cursor of a reply that was refused: the client does not know it, and the target would keep it open
        for minutes."""
        facts = reply.facts
        database, point, collection = facts.namespace.partition(b".")
        if not reply.is_refused or not facts.cursor or not point or reply.slot.session:
            return
        self._cursors.discard(facts.cursor)
        slot = MongodbPendingReply(FORWARDED, _OWN_REQUEST, 0, b"killCursors")
        slot.hidden = True
        self.ledger.owe(slot)
        document = m.kill_cursor_document(database, collection, facts.cursor)
        pieces.append(Reply(m.encode_message(_OWN_REQUEST, 0, document)))

    def _scan(self, pieces: list[Piece]) -> None:
        """Process replies, up to the first that must be judged."""
        intake = self._intake
        while True:
            buf = intake.buf
            pos: i64 = intake.pos
            available: i64 = len(buf) - pos
            if self._passing or self._dropping:
                if not available:
                    return
                self._pass(pieces, buf, pos, available)
                continue
            if available < m.HEAD:
                return
            size = self._check_head(buf, pos)
            is_hidden = self.ledger.slots[0].hidden
            is_judged = (self.wants.rows or self.wants.output) and not is_hidden
            if is_hidden and size > SMALL:
                raise ProtocolViolation("the target sent a large reply to killCursors")
            if is_judged and size > self.max_message:
                self._drop(pieces, size)
                continue
            if not is_judged and size > SMALL:
                if available < _BODY_AT:
                    intake.wait(_BODY_AT)
                    return
                self._begin_passing(pieces, buf, pos, size)
                continue
            if available < size:
                intake.wait(size)
                return
            raw = buf if not pos and available == size else buf[pos : pos + size]
            if self._take(pieces, raw, is_judged=is_judged):
                intake.pos = pos + size
                return
            intake.pos = pos + size

    def _check_head(self, buf: bytes, pos: i64) -> i64:
        """Check the header of a reply against the request that waits for it. Return its size."""
        size = m.read_size(buf, pos)
        m.check_kind(buf, pos)
        slots = self.ledger.slots
        if not slots:
            raise ProtocolViolation("the target sent a reply that no request waits for")
        if int32_at(buf, pos + 8) != slots[0].request_id:
            raise ProtocolViolation("the target sent a reply to another request than the pending one")
        return size

    def _take(self, pieces: list[Piece], raw: bytes, *, is_judged: bool) -> bool:
        """Process a whole reply. Return True if it has an event to judge, which is then the last piece."""
        slot = self.ledger.slots[0]
        reply = MongodbReply(raw, slot)
        if slot.hidden:
            self.ledger.over()
            self._speak(pieces)
            return False
        self._settle(reply.facts)
        if is_judged:
            try:
                has_events = reply.inspect(self._paths, wants_rows=self.wants.rows, wants_output=self.wants.output)
            except TooManyFields:
                pieces.append(reply.refuse(_TOO_MANY_FIELDS))
                self._close_cursor(pieces, reply)
                self._finish(pieces, reply.make_completed_event())
                return False
            if has_events:
                event = reply.next_event()
                assert event is not None
                self._reply = reply
                pieces.append(event)
                return True
        pieces.append(raw)
        self._finish(pieces, reply.make_completed_event())
        return False

    def _settle(self, facts: ReplyFacts) -> None:
        """Follow what a reply says of cursors and transactions."""
        slot = self.ledger.slots[0]
        self.ledger.settle_transaction(slot, facts.succeeded)
        # A failed getMore can leave its cursor open.
        if slot.cursor and facts.succeeded and facts.cursor != slot.cursor:
            self._cursors.discard(slot.cursor)
            self.ledger.opened.pop(slot.cursor, None)
        if facts.has_cursor and facts.cursor:
            self.ledger.note_cursor(slot, facts.cursor)
        if facts.has_cursor and facts.cursor and slot.text:
            self._cursors.store(facts.cursor, slot.text)

    def _drop(self, pieces: list[Piece], size: i64) -> None:
        """Send an error instead of a reply that is too large to be inspected."""
        slot = self.ledger.slots[0]
        text = f"this reply is larger than the {self.max_message} bytes that can be inspected"
        hint = "Request less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."
        pieces.append(m.encode_reply(slot.request_id, m.error_document(text, m.TOO_LARGE, hint)))
        pieces.append(Completed(slot.exchange, slot.tag, None, str(m.TOO_LARGE[0]), text))
        self._dropping = size

    def _begin_passing(self, pieces: list[Piece], buf: bytes, pos: i64, size: i64) -> None:
        flags = m.check_reply_flags(buf, pos)
        if buf[pos + m.HEAD + 4] != 0:
            raise ProtocolViolation("a reply is not exactly one document")
        self._checksum = 4 if flags & m.CHECKSUM_PRESENT else 0
        self._scanner = ReplyScanner(size - _BODY_AT - self._checksum)
        pieces.append(buf[pos : pos + _BODY_AT])
        self._passing = size - _BODY_AT
        self._intake.pos = pos + _BODY_AT

    def _pass(self, pieces: list[Piece], buf: bytes, pos: i64, available: i64) -> None:
        """Pass or drop the rest of a reply, as far as it has arrived."""
        if self._dropping:
            size: i64 = min(self._dropping, available)
            self._dropping -= size
            self._intake.pos = pos + size
            if not self._dropping:
                self.ledger.over()
                self._speak(pieces)
            return
        size = min(self._passing, available)
        scanner = self._scanner
        assert scanner is not None
        read: i64 = min(size, self._passing - self._checksum)
        if read > 0:
            scanner.feed(buf[pos : pos + read])
        pieces.append(buf[pos : pos + size])
        self._passing -= size
        self._intake.pos = pos + size
        if self._passing:
            return
        self._scanner = None
        if not scanner.is_complete:
            raise ProtocolViolation("a reply is not exactly one document")
        self._settle(scanner.facts)
        self._finish(pieces, make_completed_event(self.ledger.slots[0], scanner.facts))
