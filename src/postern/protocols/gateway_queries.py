"""What the gateway itself sends to targets: logins, queries and scripts. The types are the same for every protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from postern.domain.targets.target_schema import TargetSchema
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import Unavailable

Row = tuple[str | None, ...]

_TAG = re.compile(r"#(\w(?:[\w:.-]{0,98}\w)?)")


def text(cell: str | None) -> str:
    """Return the cell's text. Raises ValueError for NULL."""
    if cell is None:
        raise ValueError("a name is NULL")
    return cell


def tags(comment: str) -> frozenset[str]:
    """Return the words of a comment that begin with a hash sign: `Where to write to. #pii` has the tag `pii`."""
    return frozenset(_TAG.findall(comment))


class TargetRefused(Unavailable):
    """The target's error in response to a login or a query. `code` is the SQLSTATE, or the protocol's own code."""

    def __init__(self, message: str, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint

    @property
    def refuses_login(self) -> bool:
        """True if the target rejected the credentials (SQLSTATE class 28, invalid authorization specification)."""
        return self.code.startswith("28")

    @property
    def text(self) -> str:
        return f"{self.message} ({self.code})" + (f". {self.hint}" if self.hint else "")


class Query(Protocol):
    """One query on a stream that is logged in, without I/O. Afterwards the stream is ready for the next one."""

    finished: bool
    error: TargetRefused | None  # None if the query succeeded

    def start(self) -> bytes:
        """Return the bytes to send to the target."""

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next."""

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""


@runtime_checkable
class QueryInSteps(Query, Protocol):
    """A query that needs several round trips."""

    def request(self) -> bytes:
        """Return the bytes to send before the next read, once; empty while a response is incomplete."""


class Script(Protocol):
    """The client that runs one script for `exec`: it sends the text and recognises its end. Without I/O."""

    @property
    def finished(self) -> bool: ...

    def start(self) -> bytes: ...

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""

    @property
    def leaves(self) -> bool:
        """True when this client closes the connection without a further message."""

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error."""


@runtime_checkable
class PollingScript(Script, Protocol):
    """A script that asks again after a pause, until the target has finished something."""

    @property
    def pause(self) -> float:
        """Return how many seconds to wait before what `feed` has just returned is sent."""


@runtime_checkable
class ScriptInBatches(Script, Protocol):
    """A script that is sent in several requests, of several statements each."""

    def batches(self) -> Sequence[bytes]:
        """Return all requests as a preview judges them."""


class ScriptRequest(NamedTuple):
    """One request: the place of its statement in the script, its bytes, and its text as it is recorded."""

    start: int
    end: int
    data: bytes
    text: str


@runtime_checkable
class ScriptInSteps(Script, Protocol):
    """A script whose statements are requests of their own, sent one after another, and that name their database."""

    def use_database(self, name: str | None) -> None:
        """Set the target's default database, before `start`. Empty if it has none; None if the gateway does not know
        it."""

    def requests(self) -> Sequence[ScriptRequest]:
        """Return all requests as a preview judges them. Raises Invalid if they depend on an unknown database."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query about the target's catalogue.

    `values` are the names of arguments, in the order of the statement's parameters; `database` is the login's. `shape`
    makes the answer from all rows. `overhead` is the maximum number of bytes of JSON that a row adds besides its cells,
    of which `shown` returns those that the answer has. `missing` is the error if there is no row, where that means that
    the object does not exist.
    """

    statement: str
    values: tuple[str, ...]
    shape: Callable[[Sequence[Row]], dict[str, Any]]
    overhead: int = 8
    missing: str = ""
    shown: Callable[[Row], Row] = lambda row: row

    def cost(self, row: Row) -> int:
        """Return the most bytes that a row adds to the answer."""
        return len(json.dumps(self.shown(row), ensure_ascii=False).encode()) + self.overhead


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The catalogue queries of one protocol.

    `schema` are statements that run in sequence on a separate connection. `target_schema` makes one value from the rows
    of each, and raises ProtocolViolation. `own_path` is True if a client's start parameters can make names refer to
    other tables than they do for a login without parameters.
    """

    query: Callable[[str, Sequence[str | None]], Query]
    target_tasks: Mapping[TargetTaskKind, Question]
    schema: Sequence[str]
    target_schema: Callable[[Sequence[Sequence[Row]]], TargetSchema]
    own_path: Callable[[Mapping[str, str]], bool] = field(default=lambda parameters: False)
