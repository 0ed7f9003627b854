"""What happens on a link, in words that hold for every protocol.

Three of these are judged on their way (`Operation`, `Rows`, `Output`); the rest are told to the
recorder. Bytes are in the client's encoding, which for every supported protocol is a superset of
ASCII in the characters that patterns look for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from mypy_extensions import mypyc_attr

MAX_ROWS: Final = (1 << 63) - 1  # that a recording can hold; a target may count further, and say what it likes


class Event:
    """Anything an interceptor may want to see.

    No class of this file is an abstract base class in Python's sense: compiled ones would share one cache of
    instance checks, and a row would pass for an output once it has passed for a row.
    """

    __slots__ = ()


class Phase(Enum):
    PREPARE = "prepare"  # the target would parse it; nothing runs yet
    RUN = "run"


RUN: Final = Phase.RUN  # found without a look into the class, which each exchange would take several times


# The events of every exchange have a plain __init__, which compiles to plain stores.
@dataclass(init=False)
class Operation(Event):
    """What is asked: a statement, a command, a request.

    `values` are the bind values as text, None for NULL; `truncated` says that some were too large
    to be kept whole. `exchange` counts the requests of a link, from 1. `unread` names the encoding that the client
    speaks, where the target may read a text in it in another way than it is read here; `behind` tells that the target
    has not answered all that was asked before, which may change the encoding. `unsure` are the numbers, from 1, of
    values that are bytes of a type which is not known, and may not mean to the target what they are as text. `types`
    are the target's own numbers of the types of values, 0 where it finds that out itself; `encoding` is Python's name
    of the encoding of values, or what the protocol calls one that converts nothing.
    """

    exchange: int
    text: str
    phase: Phase
    values: tuple[bytes | None, ...]
    truncated: bool
    unread: str = field(compare=False)
    behind: bool = field(compare=False)
    unsure: tuple[int, ...] = field(compare=False)
    types: tuple[int, ...] = field(compare=False)
    encoding: str = field(compare=False)

    def __init__(
        self,
        exchange: int,
        text: str,
        phase: Phase = RUN,
        values: tuple[bytes | None, ...] = (),
        truncated: bool = False,
        unread: str = "",
        *,
        behind: bool = False,
        unsure: tuple[int, ...] = (),
        types: tuple[int, ...] = (),
        encoding: str = "utf-8",
    ) -> None:
        self.types = types
        self.encoding = encoding
        self.unsure = unsure
        self.unread = unread
        self.behind = behind
        self.exchange = exchange
        self.text = text
        self.phase = phase
        self.values = values
        self.truncated = truncated


class TextKind(Enum):
    """What the texts of a column are, so that a replacement stays valid for its reader."""

    TEXT = "text"
    JSON = "json"  # a replacement must keep the document valid
    NUMBER = "number"  # decimal digits, sign, point; a replacement must be a number again
    ADDRESS = "address"  # a network address type; a replacement must be an address again
    OPAQUE = "opaque"  # cannot hold searchable text (booleans, dates, floats, …)


@dataclass(frozen=True, slots=True)
class Column:
    """`table` and `place` are the target's own numbers of the table and of the column in it, from 1, where the answer
    tells that it is one as it stands there; otherwise `table` is 0. A whole row has the
    place 0, what the system adds to each row one below. `origin` is what an answer says in names: schema, table and
    column, each as the target spells it and empty where it says none. These may be names of a view, of an alias or of a
    query in the place of a table."""

    name: str
    kind: TextKind
    table: int = 0
    place: int = 0
    origin: tuple[str, str, str] | None = None


class Scalar(Enum):
    """What one value is, and so how it is written in plain text, whichever way it came: `Change` is given that, and
    answers in the same way."""

    TEXT = "text"
    JSON = "json"  # one document
    SMALLINT = "smallint"  # whole numbers of 2, 4 and 8 bytes: digits and a sign
    INTEGER = "integer"
    BIGINT = "bigint"
    DECIMAL = "decimal"  # digits, sign, point
    REAL = "real"  # as Python writes a float, of 4 and of 8 bytes
    DOUBLE = "double"
    BOOLEAN = "boolean"  # t or f
    DATE = "date"  # 2001-02-03
    TIME = "time"  # 04:05:06, with microseconds where there are some
    TIMESTAMP = "timestamp"  # 2001-02-03 04:05:06
    MOMENT = "moment"  # the same, in UTC
    INTERVAL = "interval"  # months, days and microseconds: three whole numbers
    MONEY = "money"  # a whole number of its smallest coins
    UUID = "uuid"
    BYTES = "bytes"  # raw
    ADDRESS = "address"  # of a network, without a prefix length
    HARDWARE = "hardware"  # an address of a network card: 12 or 16 hexadecimal digits
    BITS = "bits"  # zeros and ones
    # Ranges, shapes, words of a text search: given as it came; whatever is answered, it becomes what has nothing in it.
    EMPTY = "empty"
    OTHER = "other"  # given as it came: it stays so, or becomes NULL


# None is NULL. What cannot be read as one of its kind becomes NULL as well.
Change = Callable[[Scalar, bytes], bytes | None]


@mypyc_attr(allow_interpreted_subclasses=True)
class KindChange:
    """A `Change` that can be asked about all values of a kind at once."""

    def __call__(self, scalar: Scalar, value: bytes) -> bytes | None:
        raise NotImplementedError

    def of(self, scalar: Scalar) -> Callable[[bytes], bytes | None]:
        """The same for values of one kind."""
        raise NotImplementedError

    def constant(self, scalar: Scalar) -> tuple[bytes | None] | None:
        """What every value of a kind becomes, where that is the same for all."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Fill(KindChange):
    """A `Change` by which every cell of a column becomes one and the same: NULL too, and whatever the shape of an array
    or a document is. `constant` tells that value for each kind; None in it, and a kind that has none, are NULL."""


class Rows(Event):
    """A block of tabular answer: all complete rows of one read. Mutable by `replace` and `change` only.

    `texts(i)` are the searchable texts of column i over all rows, NULLs and unsearchable leaves left
    out; an array yields one text per element. `replace(i, new)` takes as many texts, in that order.
    `change(i, by)` asks about every value of column i, of whatever type, the elements of arrays and the fields of
    records one by one, and tells how many cells became others and how many bytes those had. Values of one text get
    one answer.
    """

    __slots__ = ()
    exchange: int
    columns: tuple[Column, ...]
    count: int

    @property
    def began(self) -> int:
        """The exchange in which rows of this statement began to come: it may take several to fetch them all."""
        return self.exchange

    def expect(self, columns: list[bool]) -> None:
        """Tells before anything else which columns will be asked about, so that the others need not be looked at."""

    def texts(self, column: int) -> list[bytes]:
        raise NotImplementedError

    def replace(self, column: int, texts: list[bytes]) -> None:
        raise NotImplementedError

    def change(self, column: int, by: Change) -> tuple[int, int]:
        raise NotImplementedError


class Heading(Rows):
    """The columns of a result before the client receives their description. It holds no rows.

    Only interceptors that declare this class see it. A refusal takes the place of the whole result, description
    included. `prepared` is the text of a statement that is described and has not run; empty for a result. `may_fetch`:
    the rows may come in later exchanges, see `Rows.began`.
    """

    __slots__ = ()
    prepared: str
    may_fetch: bool

    def texts(self, column: int) -> list[bytes]:
        return []

    def replace(self, column: int, texts: list[bytes]) -> None: ...

    def change(self, column: int, by: Change) -> tuple[int, int]:
        return 0, 0

    def describe_as_text(self, column: int, *, with_name: bool = True) -> None:
        """Describe the column as a text of a fixed length. All its values become the constant for texts."""
        raise NotImplementedError


class Channel(Enum):
    COPY = "copy"  # bulk data to the client
    NOTICE = "notice"
    ERROR = "error"
    NOTIFICATION = "notification"
    FUNCTION = "function"
    PARAMETER = "parameter"  # a setting of the session that the target reports
    STDOUT = "stdout"  # what a program prints
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """How copied data is written: `kind` is text, csv or binary; signs are one byte each."""

    kind: str = "text"
    header: bool = False
    delimiter: bytes = b"\t"
    null: bytes = rb"\N"
    quote: bytes = b'"'
    escape: bytes = b'"'
    encoding: str = ""  # that of the client, if it is not told


class Output(Event):
    """Any other answer that holds text. Same contract as one column of `Rows`.

    `change(form, columns)` is for copied data: of each column the target's number of its type (0: not known) and what
    is asked about each of its values, or None for one that stays. It tells for each column how many values became
    others and how many bytes those had, and raises ValueError for data that is not of that format.
    """

    __slots__ = ()
    exchange: int
    channel: Channel

    @property
    def labels(self) -> tuple[str, ...]:
        """What each of `texts` is, where that is known: of a message message, detail, hint, position, query (one within
        the target), context, schema, table, column, type and constraint; of a setting its name; or nothing at all."""
        return ()

    @property
    def rows(self) -> int:
        """How many rows of data it is, in protocols that send some outside of `Rows` (COPY)."""
        return 0

    def texts(self) -> list[bytes]:
        raise NotImplementedError

    def replace(self, texts: list[bytes]) -> None:
        raise NotImplementedError

    def rendered(self) -> list[bytes]:
        """What the client's terminal shows of it, where that is more than `texts`; after `replace`, of what is left.
        Empty for what is no terminal's."""
        return []

    def replace_rendered(self, texts: list[bytes]) -> None:
        """Takes as many texts as `rendered` gave, in that order; what has changed is sent as this text."""
        raise NotImplementedError

    def change(self, form: CopyFormat, columns: Sequence[tuple[int, Change] | None]) -> list[tuple[int, int]]:
        raise NotImplementedError


class Summary(Output):
    """What the target reports about a statement beside rows and messages.

    Only interceptors that declare this class see it, and only if there is something to hide. `insert_id` is the number
    that the statement generated or chose, 0 for none.
    """

    __slots__ = ()
    insert_id: int

    def texts(self) -> list[bytes]:
        return []

    def replace(self, texts: list[bytes]) -> None: ...

    def hide_warnings(self) -> None:
        """Report no warnings, and nothing about how the statement was executed."""
        raise NotImplementedError

    def hide_insert_id(self) -> None:
        """Report that no number was generated."""
        raise NotImplementedError


@dataclass(init=False)
class ClientOutput(Event):
    """Wire bytes that are about to reach the client, after masking. Told to the recorder."""

    data: bytes

    def __init__(self, data: bytes) -> None:
        self.data = data


@dataclass(init=False)
class Completed(Event):
    """The end of an exchange. `rows` as the target counted them; times in microseconds."""

    exchange: int
    tag: str
    rows: int | None
    error_code: str
    error: str
    micros: int

    def __init__(
        self,
        exchange: int,
        tag: str = "",
        rows: int | None = None,
        error_code: str = "",
        error: str = "",
        micros: int = 0,
    ) -> None:
        self.exchange = exchange
        self.tag = tag
        self.rows = rows
        self.error_code = error_code
        self.error = error
        self.micros = micros


@dataclass(slots=True)
class Refusal(Event):
    """An exchange that was not let through, and the rule that said so."""

    exchange: int
    rule: str
    message: str


@dataclass(slots=True)
class Note(Event):
    """A marker in the recording: a cut, a kill, a crash."""

    text: str
    details: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Resized(Event):
    """The client's terminal has this size from now on, in characters: what replaying its output needs."""

    columns: int
    rows: int


@dataclass(slots=True)
class End(Event):
    """The last record of a segment: why the session ended, or that the recording goes on in the next one."""

    reason: str
    goes_on: bool = False


RECORDED: tuple[type[Event], ...] = (Operation, ClientOutput, Completed, Refusal, Note, Resized, End)
