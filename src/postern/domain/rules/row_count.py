"""Row estimates: how many rows a statement would touch, counted before it runs, or why they could not be counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from postern.domain.text import one_line
from postern.errors import PosternError

MOST_ROWS = 1_000_000  # counted; what has more has "more than" that
MOST_CHARACTERS = 10_000  # of a text whose parts are planned

Named = tuple[str, str]
"""A table as a statement names it: its schema, empty where the statement names none, and its name."""


class Uncountable(PosternError):
    """The rows of a statement cannot be counted without running a user's code, or not at all."""


@dataclass(frozen=True, slots=True)
class CountPlan:
    """How one part of a statement is counted: an UPDATE, for example, which can be inside another statement.

    `target` is what the part changes: a schema and a table, or a database and a collection. `why_not` says why it
    cannot be counted; then nothing else of the plan matters. `known` is the number if the text says it. `notes` are
    caveats. Each protocol adds what its own queries need.
    """

    action: str
    target: Named
    why_not: str = ""
    known: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """Return the target's name, as reviewers see it."""
        return ".".join(filter(None, self.target))

    def make_result(self, rows: int, table: str = "", notes: tuple[str, ...] = ()) -> PartCount:
        """Return the result, of which at most `MOST_ROWS` are shown. `table` is the full name, if that was found."""
        is_more = rows > MOST_ROWS
        return PartCount(self.action, table or self.table, min(rows, MOST_ROWS), is_more, notes=self.notes + notes)

    def make_failure(self, why_not: str) -> PartCount:
        return PartCount(self.action, self.table, why_not=why_not, notes=self.notes)


PlanT = TypeVar("PlanT", bound=CountPlan)


@dataclass(frozen=True, slots=True)
class CountPlans(Generic[PlanT]):
    """The plans of one text. `stirs`: it may change the meaning of later statements; `more`: it also does what is
    not counted."""

    parts: tuple[PlanT, ...] = ()
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
