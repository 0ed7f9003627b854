"""Row estimates: how many rows a statement would touch, counted before it runs, or why they could not be counted."""

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
    """The rows of a statement cannot be counted without running a user's code, or not at all."""


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
    """The plans of one text. `stirs`: it may change the meaning of later statements; `more`: it also does what is
    not counted."""

    parts: tuple[CountPlan, ...] = ()
    stirs: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True)
class PartCount:
    """The rows of one part; None where they could not be counted, for the reason `why_not`. `more`: there are more
    than that. `notes` are caveats, such as triggers that may skip rows."""

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
    """The counts of all parts of one request. `notes` apply to each of them."""

    parts: tuple[PartCount, ...]
    counted_at: datetime
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int | None:
        """The sum; None where a part could not be counted."""
        counts = [part.rows for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    def as_json(self) -> dict[str, object]:
        """Return the count as in `Review.estimate`: JSON values, without control characters in the target's names."""
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
