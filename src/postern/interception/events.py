"""Events on a link, in terms that hold for every protocol.

A wire parses bytes into these events, and the pipeline judges three kinds of them on their way: `Operation` from the
client, `Rows` and `Output` from the target. The others only go to the recorder. Events that are judged can be changed
in place, through their own methods; the wire then encodes the changed texts.

Bytes are in the client's encoding. For every supported protocol this is a superset of ASCII in the characters that
patterns look for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import ne
from typing import Final

from mypy_extensions import mypyc_attr

from postern.domain.sessions.results import Mask

MAX_ROWS: Final = (1 << 63) - 1  # the most a recording can hold; a target can report any number


class Event:
    """Base of all events.

    No class of this file is an abstract base class (`abc.ABC`). Compiled ones would share one cache of instance checks,
    so that rows would pass as output after a first check as rows.
    """

    __slots__ = ()


class Phase(Enum):
    PREPARE = "prepare"  # the target parses it; nothing runs yet
    RUN = "run"


RUN: Final = Phase.RUN  # saves an attribute look-up, which each exchange would do several times


# Events of every exchange have a hand-written __init__, which compiles to plain stores.
@dataclass(init=False)
class Operation(Event):
    """Request from a client: a statement or a command.

    - `exchange`: number of the request on its link, from 1.
    - `values`: bind values as text; None is NULL.
    - `truncated`: some values were too large to be held whole.
    - `unread`: the client's encoding, if the target can read the text differently than the gateway does.
    - `pipelined`: earlier requests are still unanswered; their effect can change the encoding.
    - `unsure`: numbers, from 1, of values of unknown type, whose bytes can mean something else to the target.
    - `types`: the target's own numbers of the values' types; 0 where the target infers the type.
    - `encoding`: Python's name of the values' encoding, or the protocol's name of one that converts nothing.
    - `continues`: the exchange on this link whose result this request reads on, which was allowed then; 0 is none.
    - `result_of`: the statement of that result, if `text` is not it.
    """

    exchange: int
    text: str
    phase: Phase
    values: tuple[bytes | None, ...]
    truncated: bool
    unread: str = field(compare=False)
    pipelined: bool = field(compare=False)
    unsure: tuple[int, ...] = field(compare=False)
    types: tuple[int, ...] = field(compare=False)
    encoding: str = field(compare=False)
    continues: int = field(compare=False)
    result_of: str = field(compare=False)

    def __init__(
        self,
        exchange: int,
        text: str,
        phase: Phase = RUN,
        values: tuple[bytes | None, ...] = (),
        truncated: bool = False,
        unread: str = "",
        *,
        pipelined: bool = False,
        unsure: tuple[int, ...] = (),
        types: tuple[int, ...] = (),
        encoding: str = "utf-8",
        continues: int = 0,
        result_of: str = "",
    ) -> None:
        self.result_of = result_of
        self.types = types
        self.continues = continues
        self.encoding = encoding
        self.unsure = unsure
        self.unread = unread
        self.pipelined = pipelined
        self.exchange = exchange
        self.text = text
        self.phase = phase
        self.values = values
        self.truncated = truncated


class TextKind(Enum):
    """Kind of a column's texts, which a replacement must keep valid."""

    TEXT = "text"
    JSON = "json"  # a replacement keeps the document valid
    NUMBER = "number"  # decimal digits, sign, point; a replacement is a number again
    ADDRESS = "address"  # a network address type; a replacement is an address again
    OPAQUE = "opaque"  # cannot hold searchable text (booleans, dates, floats, …)


@dataclass(frozen=True, slots=True)
class Column:
    """Column of an answer, and where it comes from as far as the answer says.

    - `table` and `position`: the target's own numbers of the table and of the column in it, from 1, if the column comes
      from a table unchanged; otherwise `table` is 0. A whole row has the position 0; system columns, and what is no
      column of a result, have negative ones.
    - `origin`: schema, table and column by name, as the target spells them, empty where unknown. They can be names of a
      view, an alias or a subquery.
    """

    name: str
    kind: TextKind
    table: int = 0
    position: int = 0
    origin: tuple[str, str, str] | None = None


class Scalar(Enum):
    """Type of one value, and thereby its plain-text form. A `Change` receives that form, and returns it."""

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
    MONEY = "money"  # an integer number of the smallest unit
    UUID = "uuid"
    BYTES = "bytes"  # raw
    ADDRESS = "address"  # of a network, without prefix length
    HARDWARE = "hardware"  # MAC address: 12 or 16 hexadecimal digits
    BITS = "bits"  # zeros and ones
    # Ranges, geometric types, text search types: passed as received. Any replacement becomes the empty value of its
    # type.
    EMPTY = "empty"
    OTHER = "other"  # passed as received; stays, or becomes NULL


# None is NULL. A result that is not valid for its type becomes NULL too.
Change = Callable[[Scalar, bytes], bytes | None]


@mypyc_attr(allow_interpreted_subclasses=True)
class KindChange:
    """`Change` that also works by type, for all values of it at once."""

    def __call__(self, scalar: Scalar, value: bytes) -> bytes | None:
        raise NotImplementedError

    def of(self, scalar: Scalar) -> Callable[[bytes], bytes | None]:
        """Return the same change for values of one type."""
        raise NotImplementedError

    def constant(self, scalar: Scalar) -> tuple[bytes | None] | None:
        """Return the constant that replaces every value of a type, or None if there is not just one."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Fill(KindChange):
    """`Change` that makes every cell of a column the same, also NULLs, arrays and documents.

    `constant` returns that value for each type. A type without a constant, and None in it, become NULL.
    """


class Rows(Event):
    """Block of rows of an answer: all complete rows of one read. Only `replace` and `change` modify it.

    `texts(i)` returns the searchable texts of column i over all rows, without NULLs and unsearchable values. An array
    yields one text per element. `replace(i, new)` takes as many texts, in the same order. `change(i, by)` calls `by`
    for every value of column i, whatever its type, and for each element of arrays and each field of records. It returns
    how many cells changed, and how many bytes those had. Equal texts get equal results.
    """

    __slots__ = ()
    exchange: int
    columns: tuple[Column, ...]
    count: int

    @property
    def began(self) -> int:
        """Return the exchange that produced the first rows of this statement, which several can fetch."""
        return self.exchange

    @property
    def counts_with(self) -> int:
        """Return the exchange whose rows these are counted with, also if each fetch is a statement of its own."""
        return self.began

    @property
    def counted(self) -> int:
        """Return how many of these rows count for limits; parts of rows that were counted do not."""
        return self.count

    def expect(self, columns: list[bool]) -> None:
        """Announce which columns will be read, before anything else, so that the others need not be decoded."""

    def texts(self, column: int) -> list[bytes]:
        raise NotImplementedError

    def replace(self, column: int, texts: list[bytes]) -> None:
        raise NotImplementedError

    def change(self, column: int, by: Change) -> tuple[int, int]:
        raise NotImplementedError

    def recorded_names(self, columns: tuple[int, ...]) -> tuple[str, ...]:
        """Return the names by which readers of recordings find these columns; empty if they number them alike."""
        return ()

    def find_changed_rows(self, column: int) -> bytes:
        """Return the rows that the last `replace` or `change` of a column changed: a bit for each, lowest first.

        A class that does not know returns every row.
        """
        return b"\xff" * ((self.count + 7) // 8)


_BINARY_DIGITS: Final = bytes.maketrans(b"\x00\x01", b"01")


def compare_cells(old: list[bytes | None], new: list[bytes | None]) -> bytes:
    """Return the rows in which the cells of a column differ, as `Rows.find_changed_rows` does."""
    if not old:
        return b""
    digits = bytes(map(ne, old, new)).translate(_BINARY_DIGITS)  # of the first row first
    return int(digits[::-1], 2).to_bytes((len(old) + 7) // 8, "little")


class Heading(Rows):
    """Columns of a result, before the client receives their description. It has no rows.

    Only interceptors that declare this class see it. A refusal replaces the whole result, including the description.
    `prepared` is the text of a statement that is described and has not run; it is empty for a result. `may_fetch` says
    that rows can come in later exchanges, see `Rows.began`.
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
        """Describe the column as text of a fixed length. All its values become the constant for texts."""
        raise NotImplementedError


class Channel(Enum):
    COPY = "copy"  # bulk data to the client
    NOTICE = "notice"
    ERROR = "error"
    NOTIFICATION = "notification"
    FUNCTION = "function"
    PARAMETER = "parameter"  # a setting of the session, as reported by the target
    STDOUT = "stdout"  # output of a program
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """Format of copied data. `kind` is text, csv or binary; separators are one byte each."""

    kind: str = "text"
    header: bool = False
    delimiter: bytes = b"\t"
    null: bytes = rb"\N"
    quote: bytes = b'"'
    escape: bytes = b'"'
    encoding: str = ""  # the client's encoding, if empty


class Output(Event):
    """Any other answer with text. Works like one column of `Rows`.

    `change(form, columns)` is for copied data. It takes for each column the target's type number (0: unknown) and the
    change of its values, or None to leave them. It returns for each column how many values changed, and how many bytes
    those had. Raises ValueError for data that is not in that format.
    """

    __slots__ = ()
    exchange: int
    channel: Channel

    @property
    def text_kind(self) -> TextKind:
        """Return the kind of `texts`. Replacements of JSON documents keep them valid."""
        return TextKind.TEXT

    @property
    def has_columns(self) -> bool:
        """Return whether this can show values of columns whose names and places are unknown, as a web page does.

        Rules about columns are then in doubt.
        """
        return False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of single values, such as output parameters: one value for each, which can be NULL.

        Rules about columns decide about each of them, as in a row. Empty if this is no list of values.
        """
        return ()

    @property
    def unreadable(self) -> str:
        """Return why nothing in this can be read (`a PDF document`), or nothing. `texts` is then empty."""
        return ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return what each of `texts` is, or nothing if that is unknown.

        A message has these labels: message, detail, hint, position, query (one within the target), context, schema,
        table, column, type and constraint. A setting has its name.
        """
        return ()

    @property
    def rows(self) -> int:
        """Return the number of data rows in this output, for protocols that send rows outside of `Rows` (COPY)."""
        return 0

    def place_marks(self, marks: list[Mark]) -> tuple[int, list[Mark]]:
        """Return the number of rows in this output, and the marks with the cells of these rows, as for `Rows`.

        0 rows: only the number of masked values is known.
        """
        return 0, marks.copy()

    def texts(self) -> list[bytes]:
        raise NotImplementedError

    def replace(self, texts: list[bytes]) -> None:
        raise NotImplementedError

    def rendered_texts(self) -> list[bytes]:
        """Return what a terminal displays of this output, or a program reads in it, if that differs from `texts`.

        After `replace` it returns what is left. Empty for output that is read as it is.
        """
        return []

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        """Replace the texts that `rendered_texts` returned last, in the same order. Changed ones are sent as plain
        text, or with the escapes that their places need."""
        raise NotImplementedError

    def change(self, form: CopyFormat, columns: Sequence[tuple[int, Change] | None]) -> list[tuple[int, int]]:
        raise NotImplementedError

    def change_value(self, column: int, by: Change) -> int:
        """Change the value of one of `columns`, as `Rows.change` does for a cell. Return how many bytes it had."""
        raise NotImplementedError


class Summary(Output):
    """Facts about an executed statement besides rows and messages.

    Only interceptors that declare this class see it, and only if there is something to hide. `insert_id` is the number
    that the statement generated or chose; 0 for none.
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
    """Wire bytes for the client, after masking. Only the recorder receives it."""

    data: bytes

    def __init__(self, data: bytes) -> None:
        self.data = data


@dataclass(init=False)
class Completed(Event):
    """End of an exchange. `rows` is the target's count; times are in microseconds."""

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


class Paused(Event):
    """End of an answer to an exchange whose result the client can read on. It is not recorded."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: int) -> None:
        self.exchange = exchange


@dataclass(slots=True)
class Mark:
    """Values that were masked alike.

    In rows these are the cells of `columns` (from 0) in `rows`: a bit for each row, lowest first; empty for all rows.
    `whole`: the rule is about these columns, whatever they contain. Elsewhere only the number of values is known,
    `count`. `names` are those of the columns, where readers of recordings number them differently.
    """

    mask: Mask
    columns: tuple[int, ...] = ()
    rows: bytes = b""
    count: int = 0
    whole: bool = False
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Masked(Event):
    """What was masked in one part of the client's output: `size` bytes from `at` on of the next `ClientOutput`.

    If the part consists of rows, `rows` is their number, and it contains no other rows.
    """

    exchange: int
    at: int
    size: int
    rows: int
    marks: list[Mark]

    def values(self, mark: Mark) -> int:
        """Return how many values a mark is about."""
        if not mark.columns:
            return mark.count
        rows = int.from_bytes(mark.rows, "little").bit_count() if mark.rows else self.rows
        return rows * len(mark.columns)


@dataclass(slots=True)
class Refusal(Event):
    """Exchange that was denied, and the rule that denied it."""

    exchange: int
    rule: str
    message: str


@dataclass(slots=True)
class Note(Event):
    """Marker in the recording, such as a cut, a kill or a crash."""

    text: str
    details: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Resized(Event):
    """New size of the client's terminal, in characters. Replaying the output needs it."""

    columns: int
    rows: int


@dataclass(slots=True)
class End(Event):
    """Last record of a segment: why the session ended, or that the recording continues in the next segment."""

    reason: str
    continues: bool = False


RECORDED: tuple[type[Event], ...] = (Operation, Masked, ClientOutput, Completed, Refusal, Note, Resized, End)
