"""The content of a recording for its readers: moments, exchanges, and positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

from postern.errors import Invalid

INPUT: Literal["i"] = "i"
OUTPUT: Literal["o"] = "o"
ERROR: Literal["e"] = "e"
SIZE: Literal["r"] = "r"

# Input, output, error output (spec 2.2); and a new size of the client's terminal, as b"80x24".
Kind = Literal["i", "o", "e", "r"]


class Moment(NamedTuple):
    """`micros` count from the start of the session."""

    micros: int
    kind: Kind
    content: bytes


UNREADABLE = "cannot be read further"  # the words in which every reading tells of damage


class Missing(Moment):
    """Stands where something cannot be read, and says so: it is told whatever kinds are asked for."""


@dataclass(slots=True)
class MaskedValues:
    """How many values were masked alike, and the information types that were found in them."""

    info_types: set[str] = field(default_factory=set)
    count: int = 0


@dataclass(slots=True)
class Exchange:
    """One request and what came of it; or, with a `note` and nothing else, a marker of the gateway's. Times are
    microseconds, `micros` since the start of the session. `statement` and `values` are cut where they are long:
    `statement_size` (bytes) and `truncated` say so. `rows` as the target counted them. `output` and `errors` are what
    the client was shown, as far as they were asked for. `masked` counts the masked values of the answer: their
    information types and their number, by rule and strategy."""

    micros: int
    number: int = 0
    prepared: bool = False  # it was parsed, and did not run
    statement: str = ""
    statement_size: int = 0
    values: tuple[bytes | None, ...] = ()
    truncated: bool = False
    ended: bool = False
    duration: int | None = None
    rows: int | None = None
    tag: str = ""
    error: str = ""
    error_code: str = ""
    rule: str = ""
    refusal: str = ""
    note: str = ""
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    output_truncated: bool = False
    masked: dict[tuple[str, str], MaskedValues] = field(default_factory=dict)


class RecordedPosition(NamedTuple):
    """Position after an item of a recording: the `nth`, from 1, of those at the time `micros`; 0 is before them."""

    micros: int = 0
    nth: int = 0

    def __str__(self) -> str:
        return f"{self.micros}-{self.nth}"

    @classmethod
    def read(cls, text: str, name: str) -> RecordedPosition:
        """Parse a position. Raises Invalid; `name` is the caller's name of it."""
        micros, _, nth = text.partition("-")
        digits = micros.isascii() and micros.isdigit() and nth.isascii() and nth.isdigit()
        if not digits or len(text) > 40:
            raise Invalid(f"{name}: {text[:40]!r} is not a position from an earlier answer", field=name)
        return cls(int(micros), int(nth))


ItemT = TypeVar("ItemT", Moment, Exchange)


def with_positions(items: Iterable[ItemT], after: RecordedPosition) -> Iterator[tuple[RecordedPosition, ItemT]]:
    """Each item behind `after`, with its place. The items at that moment must be among them."""
    micros, count = -1, 0
    for item in items:
        count = count + 1 if item.micros == micros else 1
        micros = item.micros
        if (micros, count) > after:
            yield RecordedPosition(micros, count), item


ReadT_co = TypeVar("ReadT_co", covariant=True)


class Tail(Protocol[ReadT_co]):
    """The growing recording of a running session: `read` returns the new part, which can be empty. Blocks on files.

    `settled`: the recording has no writer any more, so unreadable parts are not waited for. `behind`: about how many
    recorded bytes are not read yet. `ended`: no more will come.
    """

    @property
    def behind(self) -> int: ...

    @property
    def ended(self) -> bool: ...

    def read(self, *, settled: bool = False) -> Sequence[ReadT_co]: ...

    def close(self) -> None: ...
