"""The queue of replies that the target owes, and the transactions that the client has opened.

Theory. A MongoDB server reads one request of a connection, replies, and reads the next one. A client can still send
several at once. So every request with a reply adds an entry to a queue, and every reply must name the request at its
head. A refused request adds an entry as well: its error is sent once it reaches the head. So does a `hello`, which the
gateway answers, and a write without acknowledgement (`w: 0`), which completes without a reply.

    entries:    find        REFUSED       insert w: 0     hello         (a refused write without acknowledgement: none)
    replies:    document    ours, ok: 0   none            ours, ok: 1

A transaction belongs to a session (`lsid`) of the client, and not to the connection. A driver that uses the gateway as
a load balancer stays on one connection with it; others can change. So this is what this connection knows.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from postern.errors import ProtocolViolation

# Kinds of entries
FORWARDED: Final = 0  # the target replies
ANSWERED: Final = 1  # the gateway replies: `data`
SILENT: Final = 2  # no reply

# What a request does to the transaction of its session
NO_TRANSACTION: Final = 0
IN_TRANSACTION: Final = 1
ENDS_TRANSACTION: Final = 2

MAX_OWED: Final = 65_536  # requests that wait for their replies, including refused ones, which the target never gets
MAX_TEXTS: Final = 16 << 20  # characters of the texts of waiting requests that can open a cursor
MAX_TRANSACTIONS: Final = 1024
MAX_CURSORS: Final = 10_000  # whose first exchange is known


class MongodbPendingReply:
    """One owed reply. `name` is the command's, `text` what getMore shows of it if it can open a cursor."""

    __slots__ = (
        "cursor",
        "data",
        "exchange",
        "hidden",
        "key",
        "kind",
        "name",
        "opened",
        "request_id",
        "session",
        "text",
        "transaction",
    )

    def __init__(self, kind: int, request_id: int, exchange: int = 0, name: bytes = b"") -> None:
        self.kind = kind
        self.request_id = request_id
        self.exchange = exchange
        self.name = name
        self.data = b""
        self.hidden = False  # the gateway's own request: the client never sees its reply
        self.text = ""
        self.cursor = 0  # getMore: the cursor that it reads
        self.opened = exchange  # the exchange that opened this cursor
        self.key = b""  # distinct: the path of its values
        self.session = b""  # the client's session, if it is in a transaction
        self.transaction = NO_TRANSACTION

    @property
    def tag(self) -> str:
        return self.name.decode("utf-8", "replace")


class MongodbResponseQueue:
    """The state that both directions of one link share."""

    __slots__ = ("exchange", "opened", "slots", "texts", "transactions")

    def __init__(self) -> None:
        self.slots: deque[MongodbPendingReply] = deque()
        self.exchange = 0
        self.texts = 0
        self.transactions: dict[bytes, bool] = {}
        self.opened: dict[int, int] = {}  # the exchange that opened each cursor of this link

    def next_exchange(self) -> int:
        self.exchange += 1
        return self.exchange

    def owe(self, slot: MongodbPendingReply) -> None:
        """Add an owed reply to the queue."""
        if len(self.slots) >= MAX_OWED:
            raise ProtocolViolation(f"more than {MAX_OWED} requests wait for their replies")
        if self.texts + len(slot.text) > MAX_TEXTS:
            slot.text = ""  # a getMore of its cursor is then judged as one of an unknown cursor
        self.texts += len(slot.text)
        self.slots.append(slot)
        if slot.transaction == IN_TRANSACTION and slot.kind == FORWARDED:
            if len(self.transactions) >= MAX_TRANSACTIONS:
                del self.transactions[next(iter(self.transactions))]
            self.transactions[slot.session] = True

    def over(self) -> None:
        """Remove the reply at the head."""
        self.texts -= len(self.slots.popleft().text)

    def note_cursor(self, slot: MongodbPendingReply, cursor: int) -> None:
        """Store the exchange that opened the cursor of a reply. The oldest are forgotten when there are too many."""
        self.opened.pop(cursor, None)
        self.opened[cursor] = slot.opened
        if len(self.opened) > MAX_CURSORS:
            del self.opened[next(iter(self.opened))]

    def settle_transaction(self, slot: MongodbPendingReply, succeeded: bool) -> None:
        """Forget the transaction of a request that has ended it. A server also aborts one if a part of it fails."""
        if slot.transaction == ENDS_TRANSACTION or (slot.transaction == IN_TRANSACTION and not succeeded):
            self.transactions.pop(slot.session, None)

    @property
    def owes(self) -> bool:
        """Return True if the target itself owes a reply."""
        return any(slot.kind == FORWARDED for slot in self.slots)
