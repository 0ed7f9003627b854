"""The results of a script, as values, in the order in which they were shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

CUT = "TRUNCATED"  # the severity of a problem: what follows is not in the recording


class Mask(NamedTuple):
    """How values were masked. Without a `rule` the connection's own information types did it (`redact_types`).

    `info_types` are the kinds of values that were found. A rule about columns searches for nothing, and has none.
    """

    rule: str
    strategy: str
    info_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """A result begins: the names of its columns, the target's names of their types, and the masks of whole columns.

    A type is None where the target's answer does not name it. `types` and `masks` are empty where nothing is known.
    """

    names: tuple[str, ...]
    types: tuple[str | None, ...] = ()
    masks: tuple[Mask | None, ...] = ()


# The masked cells of a row: column from 0, and the mask. Rows with the same masks share one tuple.
CellMasks = tuple[tuple[int, Mask], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Each cell as the database writes it as text; None is NULL."""

    cells: tuple[str | None, ...]
    masks: CellMasks = ()


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
