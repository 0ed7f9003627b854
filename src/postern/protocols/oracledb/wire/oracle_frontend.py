"""The client's half of the wire: calls, one at a time, and markers.

    DATA …  ── call complete? ── needs evaluation ──▶ request to evaluate
                    │             └── never allowed ──▶ request that is refused
                    └── needs no evaluation ──▶ forward
    MARKER ── the target owes an answer ──▶ forward, otherwise discard
    DATA with the flag END_OF_FILE ──▶ the client has ended the session

A call is judged by the text of its statement, which the client sends or which its cursor stands for, and by the values
of its binds. A change of the current schema comes as a piggyback of any call, and is judged on its own before it.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import RUN, Completed, Operation, Phase
from postern.interception.verdicts import Refuse
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_backend import OracleBackend
from postern.protocols.oracledb.wire.oracle_lobs import as_text, codec_of_lob
from postern.protocols.oracledb.wire.oracle_output import encode_error
from postern.protocols.oracledb.wire.ttc_buffers import TtcIncomplete
from postern.protocols.oracledb.wire.ttc_calls import CallReader, LobCall, OracleCall
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Wants

_FLUSHED: Final = bytes((c.FLUSH_OUT_BINDS,))
_MAX_DEFERRED: Final = 256 * 1024  # bytes of piggybacks that wait for a call
_INVALID_CURSOR: Final = 1001
_UNIMPLEMENTED: Final = 3001
_CANCELLED: Final = "ORA-01013: user requested cancel of current operation\n"
_PREPARED: Final = frozenset({"SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "DECLARE", "BEGIN", "CALL"})
# Requests that no call stands for: a piggyback that changes the schema, and a login to another database.
SCHEMA: Final = -c.SET_SCHEMA
CONNECT: Final = -1

_LOB_TEXTS: Final = {
    c.LOB_WRITE: "CALL DBMS_LOB.WRITE(:1)",
    c.LOB_TRIM: "CALL DBMS_LOB.TRIM(:1)",
    c.LOB_READ: "CALL DBMS_LOB.READ(:1)",
    c.LOB_GET_LENGTH: "CALL DBMS_LOB.GETLENGTH(:1)",
}
_NOT_SUPPORTED: Final = {
    c.AUTH_PHASE_ONE: "a session cannot authenticate again through Postern",
    c.AUTH_PHASE_TWO: "the password of the target's account cannot be changed through Postern",
    **dict.fromkeys((103, 104), "distributed and sessionless transactions are not supported through Postern"),
    **dict.fromkeys((121, 122, 145), "Advanced Queuing is not supported through Postern"),
    **dict.fromkeys((125, 187), "notifications are not supported through Postern"),
    **dict.fromkeys((128, 129, 130), "direct path loads are not supported through Postern"),
    **dict.fromkeys((162, 163), "pools of sessions at the target are not supported through Postern"),
}


class OracleFrontend(OracleBackend):
    """The client's half, on top of the target's: both know the same cursors."""

    def __init__(self, layout: TtcLayout, wants: Wants, max_message: int, sdu: int, connects: str = "") -> None:
        """`connects` is the statement that the login counts as, if it is judged."""
        super().__init__(layout, wants, max_message, sdu)
        self.terminated = False
        self.session_refusal: Refuse | None = None  # of the login: the answer to every call
        self._connects = connects
        self.logging_off = False
        self.own_resets = 0  # breaks that the gateway has answered itself, and the client confirms
        self.deferred = b""  # piggybacks of calls that were refused, for the next one that is forwarded
        self._client = tns.TnsReader("client", True, tns.MAX_SDU)
        self._calls = CallReader(self.layout, self.cursors, self.locators)
        self._parts: list[bytes] = []
        self._have = 0
        self._lacks = 1  # bytes without which the call cannot be complete
        self._behind: tns.TnsPacket | None = None
        self._calls_behind: list[OracleCall] = []  # calls before which something else is judged
        self._exchange = 0
        self._ended: Completed | None = None  # the end of a result that the client does not read on
        self._ready: bytes | OracleCall | None = None  # what follows it

    def feed_client(self, data: bytes) -> None:
        self._client.feed(data)

    @property
    def client_position(self) -> str:
        return f"{self._client.position}, {self._have} bytes of a call"

    @property
    def midway(self) -> bool:
        """Return True if a call has arrived in part."""
        return self._have > 0

    @property
    def begins_with_break(self) -> bool:
        """Return whether the next packet of the client is a break."""
        if self._behind is not None:
            return self._behind.type == tns.MARKER
        return self._client.next_type == tns.MARKER

    def next_exchange(self) -> int:
        """Return the number of a new exchange, which ends the result that the client could read on."""
        self._ended = self.results.close() or self._ended
        self._exchange += 1
        return self._exchange

    def poll_client(self) -> bytes | OracleCall | Completed | None:
        piece, self._ready = self._ready, None
        if piece is None:
            piece = self._poll()
        ended = self._ended
        if ended is not None:
            self._ended = None
            self._ready = piece
            return ended
        return piece

    def _poll(self) -> bytes | OracleCall | None:
        while True:
            if self._calls_behind:
                return self._judgeable(self._calls_behind.pop(0))
            packet = self._behind or self._client.read()
            self._behind = None
            if packet is not None and packet.type == tns.DATA and not packet.data_flags & tns.END_OF_FILE:
                self._take_data(packet)
                continue
            call_or_data = self._complete()
            if call_or_data is not None:
                self._behind = packet
                return call_or_data
            if packet is None:
                return None
            data = self._take_signal(packet)
            if data:
                return data

    def _take_data(self, packet: tns.TnsPacket) -> None:
        if self.terminated:
            raise ProtocolViolation("the client sent data after the end of its session")
        if packet.data_flags & tns.BEGIN_PIPELINE:
            raise ProtocolViolation("the client sends calls ahead, which was not offered")
        self._parts.append(packet.body)
        self._have += len(packet.body)
        if self._have > self.max_message:
            raise ProtocolViolation(
                f"the client sent a call of more than {self.max_message} bytes, which is too large to be evaluated; "
                "an administrator can raise POSTERN_MAX_STATEMENT"
            )

    def _take_signal(self, packet: tns.TnsPacket) -> bytes:
        """Process a packet other than DATA, or the one that ends the session. Return bytes for the target."""
        if packet.type == tns.DATA:
            if packet.body or self._have:
                raise ProtocolViolation("the client ended its session in the middle of a call")
            self.terminated = True
            return tns.end_of_file()
        if packet.type != tns.MARKER or not packet.marker:
            raise ProtocolViolation(f"the client sent a packet of type {packet.type} in the middle of a session")
        if packet.marker == tns.RESET:
            if self.resets_owed:
                self.resets_owed -= 1
                return tns.marker(tns.RESET)
            if self.own_resets:
                self.own_resets -= 1
                error = encode_error(c.USER_CANCEL, _CANCELLED, self.sequence, self.status)
                self.pieces.append(tns.marker(tns.RESET) + tns.data_packets(error, self.sdu))
            return b""
        if self.answer is None:
            # The answer has been sent meanwhile, or its call was refused. The client waits for an answer to the break.
            self.own_resets += 1
            self.pieces.append(tns.marker(tns.BREAK))
            return b""
        self.interrupts += 1
        return tns.marker(packet.marker)

    def _complete(self) -> bytes | OracleCall | None:
        """Return the call if it has arrived as a whole."""
        if self._have < self._lacks:
            return None
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        answer = self.answer
        if answer is not None:
            if not (answer.flushing and data == _FLUSHED):
                raise ProtocolViolation("the client sent a call before it had the answer to the last one")
            answer.flushing = False
            self._forget()
            return tns.data_packets(data, self.sdu)
        try:
            call = self._calls.read(data)
        except TtcIncomplete as missing:
            self._lacks = max(missing.size, self._have + 1)
            self._parts = [data]
            return None
        self._forget()
        if self.logging_off:
            raise ProtocolViolation("the client sent a call after its logoff")
        schema, self._calls.schema = self._calls.schema, ""
        if schema:
            self._calls_behind.append(self._schema_call(schema, call))
        if self._connects:
            self._calls_behind.insert(0, self._connect_call(call))
        self._calls_behind.append(call)
        return self._judgeable(self._calls_behind.pop(0))

    def _forget(self) -> None:
        self._parts = []
        self._have = 0
        self._lacks = 1

    def _schema_call(self, schema: str, call: OracleCall) -> OracleCall:
        """Return the change of the schema as a request of its own. It has the piggybacks of the call."""
        change = OracleCall(SCHEMA)
        change.piggybacks, call.piggybacks = call.piggybacks, b""
        change.sequence = call.sequence
        quoted = schema.replace('"', '""')
        change.text = f'ALTER SESSION SET CURRENT_SCHEMA = "{quoted}"'
        return change

    def _connect_call(self, call: OracleCall) -> OracleCall:
        """Return the request that stands for the login to another database."""
        login = OracleCall(CONNECT)
        login.sequence = call.sequence
        login.text, self._connects = self._connects, ""
        return login

    def _judgeable(self, call: OracleCall) -> bytes | OracleCall:
        """Return the call as a request to evaluate, or its bytes if it needs no evaluation."""
        function = call.function
        if self.session_refusal is not None and function != c.LOGOFF:
            call.forced = self.session_refusal
            return call
        if call.text:
            call.exchange = self.next_exchange()
            call.operations.append(Operation(call.exchange, call.text))
            return call
        if call.is_unknown or call.unnamed:
            return self._refuse_unsupported(call)
        if call.executes or function == c.FETCH:
            self._ask_statement(call)
            return call
        if function in (c.COMMIT, c.ROLLBACK):
            call.exchange = self.next_exchange()
            call.operations.append(Operation(call.exchange, c.FUNCTION_NAMES[function].upper()))
            return call
        lob = call.lob
        if lob is not None and lob.operation not in c.LOB_OPERATIONS:
            return self._refuse_unsupported(call)
        if lob is not None and lob.operation in _LOB_TEXTS:
            self._ask_lob(call, lob)
            return call
        if function == c.LOGOFF:
            self.logging_off = True
        self.expect_answer(call)
        return self.bytes_of(call)

    def _begin_exchange(self, call: OracleCall, began: int) -> None:
        """Give a call its exchange: that of the open result, if it reads on a result that began there."""
        call.continues = began > 0 and self.results.is_open(began)
        call.exchange = began if call.continues else self.next_exchange()

    def _ask_statement(self, call: OracleCall) -> None:
        statement = call.statement
        assert statement is not None
        runs = call.function in (c.REEXECUTE, c.REEXECUTE_AND_FETCH) or bool(call.options & c.OPTION_EXECUTE)
        phase = RUN
        continues = 0
        if call.function == c.FETCH or not (runs or call.options & c.OPTION_PARSE):
            continues = statement.began
        elif not runs and statement.form.word in _PREPARED:
            phase = Phase.PREPARE
        self._begin_exchange(call, continues)
        types = tuple([bind.type for bind in call.binds or ()]) if call.rows == 1 else ()
        values = call.all_values
        operation = Operation(
            call.exchange,
            statement.text,
            phase,
            values,
            types=types if len(types) == len(values) else (),
            continues=continues,
        )
        call.operations.append(operation)

    def _ask_lob(self, call: OracleCall, lob: LobCall) -> None:
        """Ask about an operation on a LOB. Reading one continues the statement that its locator came from."""
        is_read = lob.operation in (c.LOB_READ, c.LOB_GET_LENGTH)
        origin = self.locators.find(lob.source) if is_read else None
        self._begin_exchange(call, 0 if origin is None else origin.began)
        text = _LOB_TEXTS[lob.operation]
        if origin is None:
            values = () if lob.data is None else (as_text(lob.data, codec_of_lob(lob.source)),)
            call.operations.append(Operation(call.exchange, text, RUN, values))
        elif call.continues:
            call.operations.append(Operation(call.exchange, origin.text, continues=origin.began))
        else:
            operation = Operation(call.exchange, text, continues=origin.began, result_of=origin.text)
            call.operations.append(operation)

    def _refuse_unsupported(self, call: OracleCall) -> OracleCall:
        call.exchange = self.next_exchange()
        if call.unnamed:
            call.forced = Refuse("cursor", f"cursor {call.cursor} is not open", "Execute its statement again.")
        else:
            reason = _NOT_SUPPORTED.get(call.function)
            if call.lob is not None:
                reason = f"operation {call.lob.operation:#x} on large objects is not supported through Postern"
            reason = reason or f"function {call.function} of the protocol is not supported through Postern"
            call.forced = Refuse("protocol", reason)
        return call

    def bytes_of(self, call: OracleCall) -> bytes:
        """Return the packets of the call for the target, with the piggybacks that wait."""
        data = b"".join([self.deferred, call.piggybacks, call.raw])
        self.deferred = b""
        return tns.data_packets(data, self.sdu)

    def defer(self, piggybacks: bytes) -> None:
        """Store piggybacks for the next call that is forwarded."""
        if len(self.deferred) + len(piggybacks) > _MAX_DEFERRED:
            raise ProtocolViolation(f"the client sent more than {_MAX_DEFERRED} bytes of piggybacks of refused calls")
        self.deferred += piggybacks

    def drop_call(self) -> None:
        """Discard the call whose piggyback was refused: it expects its effect."""
        self._calls_behind.clear()


def error_number(call: OracleCall) -> int:
    """Return the number of the error for a call that the protocol itself refuses."""
    return _INVALID_CURSOR if call.unnamed else _UNIMPLEMENTED
