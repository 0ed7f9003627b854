"""The results of a script, as values, in the order in which they were shown."""

from __future__ import annotations

from dataclasses import dataclass

CUT = "TRUNCATED"  # the severity of a problem: what follows is not in the recording


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """A result begins; the names of its columns."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Each cell as the database writes it as text; None is NULL."""

    cells: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """A statement ended well; `tag` says what it did, as in `SELECT 5`."""

    tag: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, or with `fails` False what is only said. `position` counts the characters of the script from 1."""

    severity: str
    text: str
    code: str = ""
    detail: str = ""
    hint: str = ""
    position: int | None = None
    fails: bool = True


Result = ResultColumns | Row | Finished | Problem
