"""The queue of responses that the target owes, and the meanings of the numbers of prepared statements.

Theory. A MySQL server reads one command, responds, and reads the next one. A client can still send several at once. So
every command with a response adds an entry to a queue, and every response belongs to the entry at its head. A refused
command adds an entry as well: its error is sent once it reaches the head.

    entries:    QUERY       PREPARE     REFUSED    SIMPLE      (CLOSE and SEND_LONG_DATA have no response: no entry)
    responses:  result(s)   OK …        ERR (ours) OK

A statement is identified by the number in the response to PREPARE. A client cannot know it earlier, so an EXECUTE of an
unknown number is refused, and every execution is evaluated by its own text.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_charsets import CharsetState, charset_of, codec_of
from postern.protocols.refusal_texts import SQL_ASCII

# Kinds of entries
QUERY: Final = 0  # OK, an error, a request for a file, or results
EXECUTE: Final = 1  # the same for a prepared statement, whose rows are binary
FETCH: Final = 2  # rows of a cursor
PREPARE: Final = 3
FIELDS: Final = 4  # column definitions
SIMPLE: Final = 5  # OK, EOF or an error
STATISTICS: Final = 6  # one text
REFUSED: Final = 7  # none: we respond

NAMES: Final = (
    "a query",
    "an execute",
    "a fetch",
    "a prepare",
    "a list of fields",
    "a command",
    "statistics",
    "nothing",
)

MAX_STATEMENTS: Final = 65_536
MAX_TEXTS: Final = 64 << 20  # characters of prepared statements
MAX_DESCRIBED: Final = 64 << 20  # bytes of column definitions of open cursors
_PLACE: Final = 64  # overhead in bytes of each value that is sent ahead
MAX_OWED: Final = 65_536  # commands that wait for their responses, including refused ones, which the target never gets


class MysqlStatement:
    """A prepared statement.

    `types` are those of its parameters in the last EXECUTE, `sure` if the target certainly has them. `speaks`: it may
    set a character set. `long` are values that were sent ahead. `definitions` are the payloads that describe the rows
    of its cursor, and `as_text` the indexes of columns that the client gets as texts.
    """

    __slots__ = (
        "as_text",
        "began",
        "count",
        "definitions",
        "described",
        "id",
        "long",
        "speaks",
        "sure",
        "text",
        "truncated",
        "types",
    )

    def __init__(self, text: str, number: int = 0, count: int = 0) -> None:
        self.text = text
        self.id = number
        self.count = count
        self.types: tuple[int, ...] = ()
        self.sure = False
        self.speaks = False
        self.long: dict[int, bytearray] = {}
        self.truncated = False
        self.definitions: tuple[bytes, ...] = ()
        self.as_text: frozenset[int] = frozenset()
        self.described = 0  # bytes of these, if they are counted
        self.began = 0  # the exchange of the EXECUTE whose rows are fetched


class MysqlPendingResponse:
    """One owed response. `hidden` ones are for the gateway: the client never sees them."""

    __slots__ = (
        "began",
        "charset",
        "cursor",
        "data",
        "exchange",
        "failed",
        "first",
        "hidden",
        "keeps",
        "kind",
        "resets",
        "several",
        "shift",
        "statement",
        "types",
    )

    def __init__(self, kind: int, exchange: int = 0, statement: MysqlStatement | None = None) -> None:
        self.kind = kind
        self.exchange = exchange
        self.statement = statement
        self.first = 1  # the sequence id of the response's first packet: the number of packets of the command
        self.hidden = False
        self.cursor = False  # EXECUTE: a cursor was requested
        self.resets = False  # on success, the session is reset to its state at login
        self.charset = ""  # the client's character set on success
        self.several = False  # … which may be only that of the first of several statements
        self.keeps = ""  # the variable that then stores its character set
        self.data = b""  # sent to the client before the response, or instead of it
        self.shift = 0  # number of packets in `data`, if sent before
        self.failed = b""  # the payload of an error that replaces the response
        self.began = exchange
        self.types: tuple[int, ...] = ()  # EXECUTE: the types that it contains


class MysqlResponseQueue:
    """The state that both directions of one link share."""

    __slots__ = (
        "behind_file",
        "described",
        "encoding",
        "exchange",
        "file_wanted",
        "held",
        "resets",
        "shift",
        "slots",
        "spoken",
        "statements",
        "status",
        "texts",
        "unread",
    )

    def __init__(self, collation: int, status: int) -> None:
        self.slots: deque[MysqlPendingResponse] = deque()
        self.statements: dict[int, MysqlStatement] = {}
        self.status = status  # the flags that the target last reported
        self.exchange = 0
        self.texts = 0  # characters of the statements
        self.held = 0  # bytes of values that were sent ahead
        self.described = 0  # bytes of definitions of the statements
        self.resets = 0  # owed responses after which the session is reset
        self.file_wanted = False  # the target reads a file of the client, up to an empty packet
        self.behind_file = 0  # the id after the last packet of that file, as the target counts
        self.shift = 0  # difference of sequence ids to the client and from the target, in the current response
        self.spoken = CharsetState(charset_of(collation) or "utf8mb4")
        self.encoding = "utf-8"
        self.unread = ""  # see Operation
        self.speak(self.spoken.first)

    def next_exchange(self) -> int:
        self.exchange += 1
        return self.exchange

    def owe(self, slot: MysqlPendingResponse) -> None:
        """Add an owed response to the queue."""
        if len(self.slots) >= MAX_OWED:
            raise ProtocolViolation(f"more than {MAX_OWED} commands wait for their responses")
        self.slots.append(slot)
        self.resets += slot.resets

    def over(self) -> None:
        """Remove the response at the head."""
        self.resets -= self.slots.popleft().resets

    def speak(self, charset: str) -> None:
        """Use this character set, possibly an unknown one, for all further messages."""
        self.spoken.now = charset
        codec = codec_of(charset)
        self.encoding = codec or SQL_ASCII
        self.unread = "" if codec else "an unknown character set"

    @property
    def codec(self) -> str:
        """Return the codec of the target's texts: names of columns, errors."""
        return "utf-8" if self.encoding == SQL_ASCII else self.encoding

    def remember(self, number: int, statement: MysqlStatement) -> None:
        if len(self.statements) >= MAX_STATEMENTS:
            raise ProtocolViolation(f"more than {MAX_STATEMENTS} prepared statements on one connection")
        self.forget(number)
        self.texts += len(statement.text)
        if self.texts > MAX_TEXTS:
            raise ProtocolViolation(f"prepared statements of more than {MAX_TEXTS} characters on one connection")
        statement.id = number
        self.statements[number] = statement

    def forget(self, number: int) -> None:
        """Forget a statement: it was closed, or its number is reused."""
        statement = self.statements.pop(number, None)
        if statement is not None:
            self.forget_long(statement)
            self.texts -= len(statement.text)
            self.described -= statement.described

    def describe(self, statement: MysqlStatement, definitions: tuple[bytes, ...]) -> None:
        """Store the description of the rows of the statement's open cursor."""
        statement.definitions = definitions
        if self.statements.get(statement.id) is not statement:
            return  # it was closed meanwhile
        size = sum([len(definition) for definition in definitions])
        self.described += size - statement.described
        statement.described = size
        if self.described > MAX_DESCRIBED:
            raise ProtocolViolation(f"cursors whose columns take more than {MAX_DESCRIBED} bytes on one connection")

    def ahead(self, statement: MysqlStatement, place: int, most: int) -> bytearray | None:
        """Return the buffer of a value that is sent ahead; None if it would exceed `most` bytes in total."""
        data = statement.long.get(place)
        if data is None:
            if self.held + _PLACE > most:
                return None
            self.held += _PLACE
            data = statement.long[place] = bytearray()
        return data

    def forget_long(self, statement: MysqlStatement) -> None:
        """Forget the values sent ahead of an EXECUTE: they were used, or discarded."""
        for value in statement.long.values():
            self.held -= len(value) + _PLACE
        statement.long = {}
        statement.truncated = False

    def forget_statements(self) -> None:
        self.statements.clear()
        self.held = self.texts = self.described = 0

    @property
    def in_transaction(self) -> bool:
        return bool(self.status & m.IN_TRANSACTION)

    @property
    def owes_behind(self) -> bool:
        """Return True if the target owes responses after the head."""
        return any(slot.kind != REFUSED for slot in islice(self.slots, 1, None))

    @property
    def owes(self) -> bool:
        """Return True if the target itself owes a response."""
        return any(slot.kind != REFUSED for slot in self.slots)
