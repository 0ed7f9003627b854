"""Commands of the database that statements of a script stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from postern.protocols.mongodb.queries.mongodb_shell_options import Document
from postern.protocols.mongodb.queries.mongodb_shell_values import Value

ADMIN: Final = "admin"
VERBOSITIES: Final = ("queryPlanner", "executionStats", "allPlansExecution")
_FORBIDDEN_IN_NAMES: Final = '/\\. "$*<>:|?\0'
_MAX_DATABASE: Final = 63  # bytes
_NEVER_END: Final = (
    "a script reads cursors to their end, and tailable cursors and change streams have none; use an interactive client"
)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command without its `$db`, and the database that it goes to. `preference` is a read preference."""

    database: str
    document: Document
    preference: Mapping[str, Value] | None = None

    def complete(self) -> Document:
        """Return the document that is sent."""
        preference = {} if self.preference is None else {"$readPreference": dict(self.preference)}
        return {**self.document, **preference, "$db": self.database}


@dataclass(frozen=True, slots=True)
class ShellStatement:
    """A statement's place in the script, and its commands: none for `use`, several for some bulk writes.

    `continues`: the next command runs although one failed, as in a bulk write that is not ordered.
    """

    start: int
    end: int
    commands: tuple[ShellCommand, ...] = ()
    continues: bool = False


@dataclass(frozen=True, slots=True)
class ShellCommands:
    """What a chain of calls has come to: commands. Nothing can be called on it."""

    commands: tuple[ShellCommand, ...]
    continues: bool = False


@dataclass(frozen=True, slots=True)
class FindChain:
    """`db.COLLECTION.find(…)`, to which further calls add."""

    database: str
    document: Document
    preference: Mapping[str, Value] | None = None
    verbosity: str = ""

    def with_field(self, name: str, value: Value) -> FindChain:
        return replace(self, document={**self.document, name: value})

    def finish(self) -> ShellCommands:
        document = dict(self.document)
        limit = document.get("limit")
        if isinstance(limit, int) and limit <= 0:
            del document["limit"]
            if limit:
                document |= {"limit": -limit, "singleBatch": True}
        return _finish(self.database, document, self.preference, self.verbosity)


@dataclass(frozen=True, slots=True)
class AggregateChain:
    """`db.COLLECTION.aggregate(…)`, to which further calls add."""

    database: str
    document: Document
    preference: Mapping[str, Value] | None = None
    verbosity: str = ""

    def finish(self) -> ShellCommands:
        return _finish(self.database, self.document, self.preference, self.verbosity)


@dataclass(frozen=True, slots=True)
class ExplainChain:
    """`db.COLLECTION.explain(…)`: the next call is explained, and does not run."""

    database: str
    collection: str
    verbosity: str = field(default=VERBOSITIES[0])


def _finish(database: str, document: Document, preference: Mapping[str, Value] | None, verbosity: str) -> ShellCommands:
    if verbosity:
        document = {"explain": document, "verbosity": verbosity}
    return ShellCommands((ShellCommand(database, document, preference),))


def command(database: str, document: Document) -> ShellCommands:
    return ShellCommands((ShellCommand(database, document),))


def explain(made: ShellCommands, verbosity: str) -> ShellCommands:
    """Return the command that explains another. Raises ValueError for several."""
    if len(made.commands) != 1:
        raise ValueError("it cannot be explained: it is more than one command")
    (only,) = made.commands
    return ShellCommands((replace(only, document={"explain": only.document, "verbosity": verbosity}),))


def check_database(name: str) -> str:
    """Return the name of a database. Raises ValueError."""
    if not name or any(sign in _FORBIDDEN_IN_NAMES for sign in name) or len(name.encode()) > _MAX_DATABASE:
        raise ValueError(f"{name[:80]!r} is not a database's name")
    return name


def check_collection(name: str) -> str:
    """Return the name of a collection. Raises ValueError."""
    if not name or "\0" in name or name.startswith(".") or name.endswith(".") or ".." in name:
        raise ValueError(f"{name[:80]!r} is not a collection's name")
    return name


def check_command(document: Document) -> Document:
    """Check a command as the author wrote it. Raises ValueError for one whose answer never ends, or that is none."""
    name = next(iter(document), "")
    if not name or name.startswith("$"):
        raise ValueError("a command begins with its name, as in {ping: 1}")
    if document.get("tailable") is True or document.get("awaitData") is True:
        raise ValueError(_NEVER_END)
    check_pipeline(document.get("pipeline"))
    return document


def check_pipeline(pipeline: Value) -> None:
    """Raises ValueError for a change stream."""
    if isinstance(pipeline, list) and pipeline and isinstance(pipeline[0], dict) and "$changeStream" in pipeline[0]:
        raise ValueError(_NEVER_END)
