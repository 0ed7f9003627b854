"""The client's half of the wire: requests, one message at a time.

                       ┌── attention ──▶ forward, with a pending acknowledgement
    (between) ── message complete? ── batch, call, transaction ──▶ request to judge
        │            └── cancelled by the client itself ──▶ dropped, and answered
        ├── message larger than `max_message` ──▶ dropped up to its end, and refused
        └── rows of a bulk load ──▶ packets stream, if the target waits for them

Packets of a message are kept as they came, and forwarded so: only the bits of a reset can move to another request.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Operation
from postern.interception.verdicts import Refuse
from postern.protocols.framing import Intake
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_bulk_rows import BulkRows
from postern.protocols.mssql.wire.mssql_call_texts import CallReading, quote_name, read_call
from postern.protocols.mssql.wire.mssql_response_queue import (
    ATTENTION,
    REFUSED,
    REQUEST,
    MssqlPendingResponse,
    MssqlResponseQueue,
)
from postern.protocols.mssql.wire.mssql_session_texts import use_of
from postern.protocols.mssql.wire.mssql_types import UTF16, uint16
from postern.protocols.wire_base import Request, Wants

# Bytes of a message that is too large, which are recorded as evidence
EVIDENCE: Final = 64 * 1024

_RESETS: Final = p.RESET | p.RESET_KEEP
_NAMES: Final = {p.BATCH: "a batch", p.RPC: "a call", p.TRANSACTION: "a request about a transaction"}
_TRANSACTIONS: Final = {
    r.TM_BEGIN: "BEGIN TRANSACTION",
    r.TM_COMMIT: "COMMIT TRANSACTION",
    r.TM_ROLLBACK: "ROLLBACK TRANSACTION",
    r.TM_SAVE: "SAVE TRANSACTION",
}
_BULK: Final = "INSERT BULK"
_PATIENT: Final = "Send less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."


class MssqlRequest(Request):
    """One request. `raw` are its packets. `is_login`: it stands for the database of the login, and has none. `bound`
    are the bind values of its operations, with the text that declares them."""

    __slots__ = ("batch", "bound", "called", "is_login", "payload", "raw", "resets", "slot")

    def __init__(self, raw: bytes, slot: MssqlPendingResponse, resets: int) -> None:
        super().__init__()
        self.raw = raw
        self.slot = slot
        self.resets = resets
        self.is_login = False
        self.batch = ""  # its text
        self.called: list[str] = []  # procedures that it calls by name
        self.payload = b""  # that `bound` points into
        self.bound: list[tuple[list[r.RpcParameter], str] | None] = []

    def bound_values(self, place: int) -> bytes:
        bound = self.bound[place] if place < len(self.bound) else None
        return b"" if bound is None else r.encode_bound(self.payload, bound[1], bound[0])


class MssqlFrontend:
    """The client's half of the wire. `poll` returns bytes to forward, or a request to judge.

    `database` is the one of the login, if that is judged: the first request is a USE without bytes. `refusal` is the
    answer to every request, if it was refused.
    """

    def __init__(self, queue: MssqlResponseQueue, wants: Wants, max_message: int, database: str = "") -> None:
        self.queue = queue
        self.wants = wants
        self.max_message = max_message
        self.refusal: Refuse | None = None
        self._database = database
        self.has_forwarded_part = False  # a bulk load's message is forwarded in part
        self._intake = Intake()
        self._kind: i64 = 0  # of the message that is read; 0 between messages
        self._status = 0  # of its first packet
        self._raw: list[bytes] = []
        self._parts: list[bytes] = []
        self._size: i64 = 0
        self._is_dropping = False
        self._bulk: BulkRows | None = None

    @property
    def position(self) -> str:
        intake = self._intake
        kind = f"in a message of type {int(self._kind):#04x} " if self._kind else ""
        return f"{kind}at byte {intake.first + int(intake.pos)}"

    @property
    def begins_with_attention(self) -> bool:
        """Return True if the client's next packet, which has not been read, is an attention."""
        intake = self._intake
        return not self._kind and len(intake.buf) > intake.pos and intake.buf[intake.pos] == p.ATTENTION

    def feed(self, data: bytes) -> None:
        self._intake.feed(data)

    def poll(self) -> bytes | MssqlRequest | None:
        if self._database and len(self._intake.buf) > self._intake.pos:
            return self._open_database()
        while True:
            packet = self._next_packet()
            if packet is None:
                return None
            output = self._take(packet)
            if output is not None:
                return output

    def _open_database(self) -> MssqlRequest:
        """Return the request that stands for the database of the login."""
        name = self._database
        self._database = ""
        request = MssqlRequest(b"", MssqlPendingResponse(REQUEST, self.queue.next_exchange()), 0)
        request.is_login = True
        self._ask(request, f"USE {quote_name(name)}")
        return request

    def _next_packet(self) -> bytes | None:
        intake = self._intake
        buf = intake.buf
        pos: i64 = intake.pos
        available: i64 = len(buf) - pos
        if available and not self._kind and buf[pos] not in _FIRST_TYPES:
            raise ProtocolViolation(f"the client sent a packet of type {buf[pos]:#04x}, which no request has")
        if available < p.HEAD:
            return None
        size = p.packet_size(buf, pos)
        if available < size:
            intake.wait(size)
            return None
        intake.pos = pos + size
        return buf[pos : pos + size]

    def _take(self, packet: bytes) -> bytes | MssqlRequest | None:
        """Process a packet. Return bytes to forward, or the request that it completes."""
        kind = packet[0]
        status = packet[1]
        if not self._kind:
            if kind == p.ATTENTION:
                return self._attend(packet)
            self._kind = kind
            self._status = status
            self._begin(kind)
        elif kind != self._kind:
            raise ProtocolViolation(f"the client sent a packet of type {kind:#04x} inside another message")
        if status & p.IGNORE and not status & p.EOM:
            raise ProtocolViolation("the client cancelled a message, and did not end it")
        if self._bulk is not None:
            return self._stream(self._bulk, packet)
        self._size += len(packet)
        if self._size <= self.max_message:
            self._raw.append(packet)
            self._parts.append(packet[p.HEAD :])
        elif not self._is_dropping:
            self._is_dropping = True
            self._parts = [b"".join(self._parts)[:EVIDENCE]]
            self._raw = []
        return self._complete(status) if status & p.EOM else None

    def _begin(self, kind: int) -> None:
        """Start a message."""
        if self._status & _RESETS:
            self.queue.reset_status = self._status & _RESETS
            self.queue.reset()
        if kind == p.BULK and self.queue.bulk_allowed and not self._status & _RESETS:
            self.queue.bulk_allowed = False
            self._bulk = BulkRows(self.queue.wide)
            slot = MssqlPendingResponse(REQUEST, self.queue.exchange)
            self.queue.owe(slot)

    def _attend(self, packet: bytes) -> bytes:
        """Forward an attention, which ends the running request."""
        if len(packet) != p.HEAD or not packet[1] & p.EOM:
            raise ProtocolViolation("the client sent an attention that is not an empty message")
        self.queue.owe(MssqlPendingResponse(ATTENTION))
        return packet

    def _stream(self, bulk: BulkRows, packet: bytes) -> bytes:
        """Forward a packet with rows of a bulk load."""
        status = packet[1]
        self.has_forwarded_part = not status & p.EOM
        bulk.feed(packet[p.HEAD :])
        if status & p.EOM:
            if not status & p.IGNORE:
                bulk.finish()
            self._bulk = None
            self._kind = 0
        return packet

    def _complete(self, status: int) -> MssqlRequest | None:
        """Process a complete message."""
        kind = int(self._kind)
        raw = self._raw[0] if len(self._raw) == 1 else b"".join(self._raw)
        payload = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        is_dropped = self._is_dropping
        self._kind = self._size = 0
        self._raw, self._parts, self._is_dropping = [], [], False
        if status & p.IGNORE:
            self._answer_cancelled()
            return None
        request = MssqlRequest(raw, MssqlPendingResponse(REQUEST, self.queue.next_exchange()), self.queue.reset_status)
        if is_dropped:
            self._refuse_large(request, kind, payload)
        elif kind == p.BATCH:
            self._read_batch(request, payload)
        elif kind == p.RPC:
            self._read_calls(request, payload)
        elif kind == p.TRANSACTION:
            self._read_transaction(request, payload)
        else:
            self._ask(request, "rows of a bulk load")
            request.forced = Refuse("protocol", "no INSERT BULK statement was allowed before these rows")
        if self.refusal is not None:
            request.forced = self.refusal
        return request

    def _answer_cancelled(self) -> None:
        """Answer a message that the client cancelled while it sent it. The target never gets it."""
        slot = MssqlPendingResponse(REFUSED)
        slot.data = k.encode_done(k.DONE_ERROR, self.queue.wide)
        self.queue.owe(slot)

    def _refuse_large(self, request: MssqlRequest, kind: int, payload: bytes) -> None:
        text = payload.decode(UTF16, "replace") if kind == p.BATCH else _NAMES.get(kind, "a bulk load")
        self._ask(request, text, truncated=True)
        message = f"a request of more than {self.max_message} bytes is too large to be evaluated"
        request.forced = Refuse("size", message, _PATIENT)

    def _read_batch(self, request: MssqlRequest, payload: bytes) -> None:
        start = r.after_headers(payload, self.queue.wide)
        if (len(payload) - start) % 2:
            raise ProtocolViolation("the client sent a batch that is not in UTF-16")
        text = payload[start:].decode(UTF16, "replace")
        self._ask(request, text)
        request.batch = text
        request.slot.use = use_of(text)
        request.slot.is_bulk_begin = " ".join(text[:200].split()[:2]).upper() == _BULK

    def _read_calls(self, request: MssqlRequest, payload: bytes) -> None:
        slot = request.slot
        calls = r.read_calls(payload, r.after_headers(payload, self.queue.wide), self.queue.wide)
        runs_texts = True
        request.payload = payload
        for call in calls:
            if call.flags & r.UNDESCRIBED:
                request.raw = _described(request.raw, call)
            reading = read_call(call, slot, self.queue)
            if not call.number:
                request.called.append(call.name)
            if reading is None:
                runs_texts = False
                continue
            runs_texts = runs_texts and reading.variables is not None
            slot.variables = reading.variables
            if len(calls) > 1 and not reading.problem and any(slot.outputs):
                reading.problem = "this procedure is called together with others, so its result cannot be recognised"
                reading.hint = "Send it in a message of its own."
            slot.use = max(slot.use, use_of(reading.text))
            self._ask_call(request, reading, call)
        if len(calls) > 1:  # an output parameter can be of any of them
            slot.variables = {} if runs_texts else None

    def _ask_call(self, request: MssqlRequest, reading: CallReading, call: r.RpcCall) -> None:
        if reading.text or reading.problem:
            slot = request.slot
            request.operations.append(
                Operation(slot.exchange, reading.text, reading.phase, reading.values, pipelined=bool(self.queue.slots))
            )
            bound = None if reading.first < 0 else (call.parameters[reading.first :], reading.declaration)
            request.bound.append(bound)
        if reading.problem and request.forced is None:
            request.forced = Refuse("protocol", reading.problem, reading.hint)

    def _read_transaction(self, request: MssqlRequest, payload: bytes) -> None:
        start = r.after_headers(payload, True)
        if len(payload) - start < 2:
            raise ProtocolViolation("a request about a transaction has no type")
        number = int(uint16(payload, start))
        text = _TRANSACTIONS.get(number)
        if text is None:
            self._ask(request, "BEGIN DISTRIBUTED TRANSACTION")
            message = "distributed transactions are not supported by Postern"
            request.forced = Refuse("protocol", message, "Use a transaction of this connection alone.")
            return
        self._ask(request, text + _isolation(number, payload, start + 2))

    def _ask(self, request: MssqlRequest, text: str, *, truncated: bool = False) -> None:
        request.operations.append(
            Operation(request.slot.exchange, text, truncated=truncated, pipelined=bool(self.queue.slots))
        )


def _described(raw: bytes, call: r.RpcCall) -> bytes:
    """Return packets in which a call asks for a description of its columns: without it, rows cannot be read."""
    left = call.flags_at
    pos = 0
    while left >= int(p.packet_size(raw, pos)) - p.HEAD:
        left -= int(p.packet_size(raw, pos)) - p.HEAD
        pos += int(p.packet_size(raw, pos))
    pos += p.HEAD + left
    return raw[:pos] + bytes((raw[pos] & ~r.UNDESCRIBED,)) + raw[pos + 1 :]


_FIRST_TYPES: Final = frozenset({p.BATCH, p.RPC, p.ATTENTION, p.BULK, p.TRANSACTION})
_LEVELS: Final = ("", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT")


def _isolation(number: int, payload: bytes, pos: int) -> str:
    """Return the isolation level that a transaction begins with, as a comment."""
    level = payload[pos] if number == r.TM_BEGIN and pos < len(payload) else 0
    return f" /* {_LEVELS[level]} */" if 0 < level < len(_LEVELS) else ""
