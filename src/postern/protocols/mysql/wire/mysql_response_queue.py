"""What the target still owes, in order, and what the numbers of prepared statements stand for.

Theory. A MySQL server reads one command, answers it, and reads the next one; a client may send several at once all the
same. So every command that is answered takes a slot in a queue, and every answer belongs to the slot at its head. A
refused command takes a slot as well: its error comes out when it has reached the head.

    slots:    QUERY       PREPARE     REFUSED    SIMPLE      (CLOSE and SEND_LONG_DATA have no answer: no slot)
    answers:  result(s)   OK …        ERR (ours) OK

Statements are known by the number that the target gives with the answer to PREPARE. A client cannot know it before, so
an EXECUTE of a number that is not known yet is refused, and what runs is always judged by its own text.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_charsets import Spoken, charset_of, codec_of
from postern.protocols.refusal_texts import SQL_ASCII

# Kinds of slots
QUERY: Final = 0  # OK, an error, a request for a file, or results
EXECUTE: Final = 1  # the same of a prepared statement, whose rows are binary
FETCH: Final = 2  # rows of a cursor
PREPARE: Final = 3
FIELDS: Final = 4  # column definitions
SIMPLE: Final = 5  # OK, EOF or an error
STATISTICS: Final = 6  # one text
REFUSED: Final = 7  # nothing: we speak

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
MAX_TEXTS: Final = 64 << 20  # characters of what is prepared
MAX_DESCRIBED: Final = 64 << 20  # bytes that describe the rows of open cursors
_PLACE: Final = 64  # bytes that are counted for each value that is sent ahead, besides its own
MAX_OWED: Final = 65_536  # commands that wait for their answers: refused ones wait without the target's hearing of them


class MysqlStatement:
    """A prepared statement. `types` are those of its parameters, as the last EXECUTE gave them, and `sure` once the
    target has them for certain; `speaks`: it may set a character set. `long` is what was sent ahead of values;
    `definitions` are the payloads that describe the rows of its cursor, and `as_text` the places of those that the
    client has as texts."""

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
        self.described = 0  # bytes of these, where they are counted
        self.began = 0  # the exchange of the EXECUTE whose rows are fetched


class MysqlPendingResponse:
    """One owed answer. `hidden` answers are ours: the client never sees them."""

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
        self.first = 1  # the number of the answer's first packet: how many packets the command took
        self.hidden = False
        self.cursor = False  # EXECUTE: a cursor was asked for
        self.resets = False  # the session is as at login once this has gone well
        self.charset = ""  # what the client speaks once this has gone well
        self.several = False  # … and that may be told of only the first of several statements
        self.keeps = ""  # the variable that then holds what it speaks
        self.data = b""  # what the client is told in front of the answer, or in place of it
        self.shift = 0  # how many packets that is, where it stands in front
        self.failed = b""  # the payload of an error that takes the place of the answer
        self.began = exchange
        self.types: tuple[int, ...] = ()  # EXECUTE: those that it brings


class MysqlResponseQueue:
    """State that both directions of one link share."""

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
        self.status = status  # the flags that the target last told
        self.exchange = 0
        self.texts = 0  # characters of the statements
        self.held = 0  # bytes of values that were sent ahead
        self.described = 0  # bytes of definitions of the statements
        self.resets = 0  # owed answers after which the session is as at login
        self.file_wanted = False  # the target reads a file of the client, up to an empty packet
        self.behind_file = 0  # the number behind the last packet of that file, as the target counts
        self.shift = 0  # by how much sequence ids to the client are ahead of the target's, in the answer under way
        self.spoken = Spoken(charset_of(collation) or "utf8mb4")
        self.encoding = "utf-8"
        self.unread = ""  # see Operation
        self.speak(self.spoken.first)

    def next_exchange(self) -> int:
        self.exchange += 1
        return self.exchange

    def owe(self, slot: MysqlPendingResponse) -> None:
        """Its turn comes behind all others."""
        if len(self.slots) >= MAX_OWED:
            raise ProtocolViolation(f"more than {MAX_OWED} commands wait for their answers")
        self.slots.append(slot)
        self.resets += slot.resets

    def over(self) -> None:
        """The answer at the head was given."""
        self.resets -= self.slots.popleft().resets

    def speak(self, charset: str) -> None:
        """What is asked and answered from now on is in that character set; it may be one that is not known."""
        self.spoken.now = charset
        codec = codec_of(charset)
        self.encoding = codec or SQL_ASCII
        self.unread = "" if codec else "a character set that is not known"

    @property
    def codec(self) -> str:
        """For what the target says: names of columns, errors."""
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
        """It was closed, or another one takes its number."""
        statement = self.statements.pop(number, None)
        if statement is not None:
            self.forget_long(statement)
            self.texts -= len(statement.text)
            self.described -= statement.described

    def describe(self, statement: MysqlStatement, definitions: tuple[bytes, ...]) -> None:
        """A cursor of the statement is open, whose rows are described so."""
        statement.definitions = definitions
        if self.statements.get(statement.id) is not statement:
            return  # it was closed meanwhile
        size = sum([len(one) for one in definitions])
        self.described += size - statement.described
        statement.described = size
        if self.described > MAX_DESCRIBED:
            raise ProtocolViolation(f"cursors whose columns take more than {MAX_DESCRIBED} bytes on one connection")

    def ahead(self, statement: MysqlStatement, place: int, most: int) -> bytearray | None:
        """Where a value that is sent ahead is kept; None where that would be more than `most` bytes of them all."""
        kept = statement.long.get(place)
        if kept is None:
            if self.held + _PLACE > most:
                return None
            self.held += _PLACE
            kept = statement.long[place] = bytearray()
        return kept

    def forget_long(self, statement: MysqlStatement) -> None:
        """What was sent ahead of an EXECUTE is used up, or thrown away."""
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
        """The same of what was asked behind the head."""
        return any(slot.kind != REFUSED for slot in islice(self.slots, 1, None))

    @property
    def owes(self) -> bool:
        """Whether the target itself has something to answer."""
        return any(slot.kind != REFUSED for slot in self.slots)
