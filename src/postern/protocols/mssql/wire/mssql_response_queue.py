"""The queue of responses that the target owes, and the meaning of the handles of prepared statements and cursors.

Theory. A server answers each request with one message, in order. So each request adds an entry to a queue, and each
message of the target belongs to the entry at its head. A refused request adds an entry as well: its error is sent once
it reaches the head.

An attention asks for the end of the running request. The server acknowledges it with a bit in the last DONE of that
request's message, or, if that message was complete already, with a message of its own:

    entries:   REQUEST  ATTENTION        REQUEST  ATTENTION
    messages:  … DONE(attention)         … DONE   DONE(attention)

Handles are numbers in the responses of the procedures that prepare statements and open cursors. A client cannot know
one earlier, so a request with an unknown handle is refused, and every execution is judged by its own text.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mssql.wire.mssql_session_texts import NO_USE, MssqlSessionTexts

# Kinds of entries
REQUEST: Final = 0
ATTENTION: Final = 1
REFUSED: Final = 2  # the gateway answers

# What an output parameter is, in the order of a request's output parameters
NO_HANDLE: Final = 0
STATEMENT_HANDLE: Final = 1
CURSOR_HANDLE: Final = 2
OWN_NUMBER: Final = 3  # a number about a cursor, which the server chooses

MAX_HANDLES: Final = 65_536
MAX_TEXTS: Final = 64 << 20  # characters of prepared statements
MAX_OWED: Final = 65_536


# The variables of a text that are output parameters, by their places in the call
Variables = dict[int, str]


class MssqlHandle:
    """A prepared statement, or a cursor. `began`: the exchange that opened the cursor. `declaration` is the text that
    declares the statement's parameters."""

    __slots__ = ("began", "declaration", "text")

    def __init__(self, text: str, began: int = 0, declaration: str = "") -> None:
        self.text = text
        self.began = began
        self.declaration = declaration

    @property
    def size(self) -> int:
        return len(self.text) + len(self.declaration)


class MssqlPendingResponse:
    """One owed response."""

    __slots__ = (
        "began",
        "data",
        "declaration",
        "ended_handles",
        "epoch",
        "exchange",
        "is_bulk_begin",
        "is_setting",
        "kind",
        "outputs",
        "prefix",
        "prepared",
        "resets",
        "text",
        "use",
        "variables",
    )

    def __init__(self, kind: int, exchange: int = 0) -> None:
        self.kind = kind
        self.exchange = exchange
        self.began = exchange
        self.text = ""  # of the statement, if the request prepares one or opens a cursor
        self.declaration = ""  # of its parameters
        self.prepared = False  # the statement is described, and does not run
        self.outputs: tuple[int, ...] = ()  # what the output parameters are
        # The output parameters that are variables of the text that runs; None if code of the target runs. If one is not
        # listed, it can be any variable.
        self.variables: Variables | None = None
        self.epoch = 0
        self.prefix = b""  # tokens for the client before the response
        self.data = b""  # REFUSED: the tokens of the response
        self.is_bulk_begin = False  # if it succeeds, the client sends rows
        self.ended_handles: list[tuple[int, int]] = []  # role and number of each handle that it ends, once it runs
        self.is_setting = False  # the request may set options of the session
        self.resets = False  # the request begins with a reset of the session
        self.use: int = NO_USE  # what the request does with the session's database


class MssqlResponseQueue:
    """The state that both directions of one link share. `wide`: the layout of TDS 7.2 and later."""

    __slots__ = (
        "bulk_allowed",
        "cursors",
        "epoch",
        "exchange",
        "in_transaction",
        "reset_status",
        "session",
        "slots",
        "statements",
        "texts",
        "wide",
    )

    def __init__(self, wide: bool) -> None:
        self.wide = wide
        self.slots: deque[MssqlPendingResponse] = deque()
        self.statements: dict[int, MssqlHandle] = {}
        self.cursors: dict[int, MssqlHandle] = {}
        self.texts = 0
        self.epoch = 0  # counts resets: later requests cannot use the handles of earlier ones
        self.exchange = 0
        self.in_transaction = False
        self.bulk_allowed = False  # the target waits for the rows of a bulk load
        self.session = MssqlSessionTexts()
        self.reset_status = 0  # bits of a reset that the next forwarded request has to bring

    def next_exchange(self) -> int:
        self.exchange += 1
        return self.exchange

    def owe(self, slot: MssqlPendingResponse) -> None:
        """Add an owed response to the queue."""
        if len(self.slots) >= MAX_OWED:
            raise ProtocolViolation(f"more than {MAX_OWED} requests wait for their responses")
        slot.epoch = self.epoch
        self.slots.append(slot)

    def remember(self, role: int, number: int, handle: MssqlHandle) -> None:
        """Store the meaning of a handle."""
        handles = self.cursors if role == CURSOR_HANDLE else self.statements
        if len(self.statements) + len(self.cursors) >= MAX_HANDLES:
            raise ProtocolViolation(f"more than {MAX_HANDLES} prepared statements and cursors on one connection")
        self.forget(role, number)
        self.texts += handle.size
        if self.texts > MAX_TEXTS:
            raise ProtocolViolation(f"prepared statements of more than {MAX_TEXTS} characters on one connection")
        handles[number] = handle

    def forget(self, role: int, number: int) -> None:
        handle = (self.cursors if role == CURSOR_HANDLE else self.statements).pop(number, None)
        if handle is not None:
            self.texts -= handle.size

    def reset(self) -> None:
        """The session is reset to its state at login: no handle is valid any more."""
        self.epoch += 1
        self.statements.clear()
        self.cursors.clear()
        self.texts = 0
        self.bulk_allowed = False
        self.session.reset()

    @property
    def owes(self) -> bool:
        """Return True if the target itself owes a response."""
        return any(slot.kind != REFUSED for slot in self.slots)
