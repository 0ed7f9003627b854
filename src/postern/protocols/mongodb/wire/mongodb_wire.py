"""The steady state of a MongoDB link: the client's half, the target's half, and refusals between them.

A refusal is an error document in its turn, with `ok: 0`. The target never gets the refused command. A write without
acknowledgement gets no reply at all, so its refusal is only recorded. The protocol has no message that can be sent
between two replies, so the client does not get warnings; they are in the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from postern.interception.events import Output, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.mongodb_backend import MongodbBackend
from postern.protocols.mongodb.wire.mongodb_commands import MongodbCommand
from postern.protocols.mongodb.wire.mongodb_cursors import CursorRegistry, Cursors
from postern.protocols.mongodb.wire.mongodb_frontend import MongodbFrontend
from postern.protocols.mongodb.wire.mongodb_response_queue import (
    ANSWERED,
    FORWARDED,
    MongodbPendingReply,
    MongodbResponseQueue,
)
from postern.protocols.wire_base import TARGET_GONE, Request, Side, TransactionState, Wants

Hello = Callable[[bytes], bytes]
"""Returns the reply to a hello, both as documents."""


def plain_hello(request: bytes) -> bytes:
    """Reply to a hello without any facts."""
    return m.ok_document()


class MongodbWire(MongodbBackend):
    """Both halves, and the decisions between them.

    `parameters` are those of the target's login: if its `kind` is "standalone", it cannot retry writes. `hello` answers
    a hello after the login. `cursors` are the open cursors of the client's principal on this connection.
    """

    def __init__(
        self,
        *,
        max_message: int = 32 << 20,
        parameters: Mapping[str, str] | None = None,
        hello: Hello = plain_hello,
        cursors: Cursors | None = None,
    ) -> None:
        ledger = MongodbResponseQueue()
        cursors = CursorRegistry().of("", "") if cursors is None else cursors
        super().__init__(ledger, Wants(), max_message, cursors)
        is_standalone = parameters is not None and parameters.get("kind") == "standalone"
        self._frontend = MongodbFrontend(ledger, self.wants, max_message, hello, cursors, is_standalone=is_standalone)

    def feed_client(self, data: bytes) -> None:
        self._frontend.feed(data)

    def poll_client(self) -> Request | None:
        return self._frontend.poll()

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, MongodbCommand)
        self._frontend.undecided = None
        self.ledger.owe(request.pending)
        for cursor in request.killed:
            self._cursors.discard(cursor)
        return request.raw

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, MongodbCommand)
        self._frontend.undecided = None
        if request.silent:
            return b""
        pending = request.pending
        slot = MongodbPendingReply(ANSWERED, pending.request_id, pending.exchange, pending.name)
        code = request.code if request.code is not None and refusal is request.forced else m.UNAUTHORIZED
        slot.data = m.encode_reply(slot.request_id, m.error_document(refusal.message, code, refusal.hint))
        self.ledger.owe(slot)
        return b""

    def warning_bytes(self, warning: Warn) -> bytes:
        """Return nothing: the protocol has no message for a warning."""
        return b""

    def queue_warning(self, warning: Warn) -> None:
        """Do nothing; see `warning_bytes`."""

    @property
    def has_pending_output(self) -> bool:
        slots = self.ledger.slots
        return bool(slots) and slots[0].kind != FORWARDED

    def render(self, event: Rows | Output) -> bytes:
        reply = self._reply
        assert reply is not None
        return reply.render()

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        reply = self._reply
        assert reply is not None
        return reply.refuse(refusal)

    @property
    def transaction_state(self) -> TransactionState:
        ledger = self.ledger
        return TransactionState(bool(ledger.transactions), ledger.owes)

    def position(self, side: Side) -> str:
        return self._frontend.position if side is Side.CLIENT else self._target_position

    @property
    def awaiting_response(self) -> bool:
        return bool(self.ledger.slots)

    def client_finished(self) -> bytes:
        """Return nothing: a client ends a connection by closing it."""
        return b""

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        """Encode an error that replies to the pending request. Without one, the client expects no message.

        The end of the target's connection is reported by the end of the stream alone, as a server does: drivers then
        know that they must reconnect, and retry what can be retried.
        """
        if code == TARGET_GONE:
            return b""
        waiting = self._waiting_request
        if waiting is None:
            return b""
        return m.encode_reply(waiting, m.error_document(message, _FAREWELLS.get(code, m.UNKNOWN_ERROR), hint))

    @property
    def _waiting_request(self) -> int | None:
        """Return the id of the request whose reply the client waits for next."""
        is_begun = bool(self._passing or self._dropping)  # the client has a part of it, or an error instead
        for slot in self.ledger.slots:
            if is_begun:
                is_begun = False
            elif slot.kind in (FORWARDED, ANSWERED) and not slot.hidden:
                return slot.request_id
        undecided = self._frontend.undecided
        return None if undecided is None or undecided.silent else undecided.pending.request_id

    @property
    def client_terminated(self) -> bool:
        return False

    @property
    def needs_fatal_error(self) -> bool:
        return True


# The SQLSTATE of a fatal error, and the error of a server instead of it.
_FAREWELLS = {
    "57P01": m.INTERRUPTED,
    "08P01": m.PROTOCOL_ERROR,
}
