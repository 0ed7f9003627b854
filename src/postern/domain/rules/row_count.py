"""How many rows a statement would touch: what could be counted before anybody let it run, and why not where it could
not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from postern.domain.text import one_line
from postern.errors import PosternError

MOST_ROWS = 1_000_000  # counted; what has more has "more than" that

Named = tuple[str, str]
"""A table as a statement names it: its schema, empty where the statement names none, and its name."""

_NOTHING: frozenset[str] = frozenset()


class Uncountable(PosternError):
    """The rows that a statement would touch cannot be told without running somebody's code, or not at all."""


@dataclass(frozen=True, slots=True)
class CountPlan:
    """How one part of a statement is counted: an UPDATE, a DELETE or a MERGE, which may stand within another statement.

    `why_not` where it is not; then nothing below it means anything. `tables` are all that it reads, `target` one of
    them; `others` are those that decide which rows of it are meant. `functions`, `operators`, `types` and `collations`
    are the names that its query uses, all of which mean the server's own; `fields` those that would call functions if
    they were no columns; `columns` those of columns, None where it may read any. `writes`: it may make texts of values.
    `sets` are the columns that it would change. `values` are
    the numbers of the statement's bind values in the order in which the query takes them, from 1. `query` makes the
    query, given the schema of each of `tables`: one row with one number, `MOST_ROWS` + 1 for more. `check` raises
    Uncountable for a bind value that may mean something else in the session.
    """

    action: str
    target: Named
    why_not: str = ""
    tables: tuple[Named, ...] = ()
    others: tuple[Named, ...] = ()
    columns: frozenset[str] | None = None
    fields: frozenset[str] = _NOTHING
    functions: frozenset[str] = _NOTHING
    operators: frozenset[str] = _NOTHING
    types: frozenset[str] = _NOTHING
    collations: frozenset[str] = _NOTHING
    writes: bool = False
    sets: frozenset[str] = _NOTHING
    values: tuple[int, ...] = ()
    query: Callable[[Mapping[Named, str]], str] = field(default=lambda _: "", compare=False)
    check: Callable[[str], None] = field(default=lambda _: None, compare=False)


@dataclass(frozen=True, slots=True)
class CountPlans:
    """Of one text. `stirs`: it may change what is meant behind it; `more`: it does what is not counted."""

    parts: tuple[CountPlan, ...] = ()
    stirs: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True)
class PartCount:
    """`rows` is None where it could not be counted, and `why_not` says so; `more`: there are more than that. `notes`
    are what else is to be known of it, such as triggers that may skip rows."""

    action: str
    table: str
    rows: int | None = None
    more: bool = False
    why_not: str = ""
    notes: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        what = f"{self.action} {self.table}".rstrip()
        if self.rows is None:
            return one_line(f"{what}: cannot be counted, because {self.why_not}")
        number = f"more than {self.rows:,}" if self.more else f"{self.rows:,}"
        text = f"{what}: {number} {'row' if self.rows == 1 and not self.more else 'rows'}"
        return one_line("; ".join([text, *self.notes]))


@dataclass(frozen=True, slots=True)
class RowCount:
    """Of all parts of one request. `notes` hold for each of them."""

    parts: tuple[PartCount, ...]
    counted_at: datetime
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int | None:
        """All together; None where a part could not be counted."""
        counts = [part.rows for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    def as_json(self) -> dict[str, object]:
        """As `Review.estimate` has it: values of JSON. The target's names in it steer no screen."""
        return {
            "rows": self.rows,
            "more": any(part.more for part in self.parts),
            "counted_at": self.counted_at.isoformat(),
            "said": [part.said for part in self.parts] + list(self.notes),
            "parts": [
                {
                    "action": part.action,
                    "table": one_line(part.table),
                    "rows": part.rows,
                    "more": part.more,
                    "why_not": one_line(part.why_not),
                    "notes": [one_line(note) for note in part.notes],
                }
                for part in self.parts
            ],
            "notes": list(self.notes),
        }
