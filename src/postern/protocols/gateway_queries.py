"""What the gateway itself says to targets: logins that are refused, questions, scripts; the same for every protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from postern.domain.targets.target_schema import TargetSchema
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import Unavailable

Row = tuple[str | None, ...]

_TAG = re.compile(r"#(\w(?:[\w:.-]{0,98}\w)?)")


def text(cell: str | None) -> str:
    """Raises ValueError for NULL."""
    if cell is None:
        raise ValueError("NULL in the place of a name")
    return cell


def tags(comment: str) -> frozenset[str]:
    """The words of a comment that begin with a hash sign: `Where to write to. #pii` has the tag `pii`."""
    return frozenset(_TAG.findall(comment))


class TargetRefused(Unavailable):
    """What a target says to a login or a question: `code` is the SQLSTATE, or what its protocol has for one."""

    def __init__(self, message: str, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint

    @property
    def refuses_login(self) -> bool:
        """It did not believe who the gateway is (SQLSTATE class 28, invalid authorization specification)."""
        return self.code.startswith("28")

    @property
    def told(self) -> str:
        return f"{self.message} ({self.code})" + (f". {self.hint}" if self.hint else "")


class Query(Protocol):
    """One question on a stream that is logged in; sans-IO. The stream is ready for another one afterwards."""

    finished: bool
    error: TargetRefused | None  # None when all went well

    def start(self) -> bytes:
        """For the target."""

    @property
    def needs(self) -> int:
        """How many bytes `feed` takes next."""

    def feed(self, data: bytes) -> list[Row]:
        """The rows that are complete now. Raises ProtocolViolation."""


class Script(Protocol):
    """Runs one text as a client of its own: what `exec` sends, and how it knows the end; sans-IO."""

    @property
    def finished(self) -> bool: ...

    def start(self) -> bytes: ...

    def feed(self, data: bytes) -> bytes:
        """What the gateway shows; answers what the client sends next."""

    @property
    def leaves(self) -> bool:
        """Whether this client now goes without another word."""

    def exit_code(self) -> int:
        """0 when it ran to its end without an error."""


@dataclass(frozen=True, slots=True)
class Question:
    """`values` are the names of arguments, in the order of the statement's; `shape` makes the answer of all rows.
    `overhead` is how many bytes of JSON each row costs in it beside its own cells, at the most. `missing` is said when
    there is no row, where that means that something is not there."""

    statement: str
    values: tuple[str, ...]
    shape: Callable[[Sequence[Row]], dict[str, Any]]
    overhead: int = 8
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """How targets of one protocol are asked what they have.

    `schema` are statements that are asked one after the other on a connection of their own; `target_schema` makes one
    value of the rows of each, and raises ProtocolViolation. `own_path` tells from a client's start parameters whether
    names may mean other tables to it than they do to a login that asks for nothing.
    """

    query: Callable[[str, Sequence[str | None]], Query]
    target_tasks: Mapping[TargetTaskKind, Question]
    schema: Sequence[str]
    target_schema: Callable[[Sequence[Sequence[Row]]], TargetSchema]
    own_path: Callable[[Mapping[str, str]], bool] = field(default=lambda parameters: False)
