"""Shell expressions that begin with `db`, as commands.

db ─ .name, ["name"] ─▶ collection ─ .METHOD(…) ─▶ cursor, explanation, commands
   ─ .METHOD(…) ──────▶ database, collection, commands
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from postern.protocols.mongodb.queries.mongodb_collection_methods import COLLECTION_METHODS, EXPLAINED_METHODS
from postern.protocols.mongodb.queries.mongodb_cursor_methods import AGGREGATE_METHODS, FIND_METHODS
from postern.protocols.mongodb.queries.mongodb_database_methods import DATABASE_METHODS
from postern.protocols.mongodb.queries.mongodb_shell_commands import (
    AggregateChain,
    ExplainChain,
    FindChain,
    ShellCommands,
    check_collection,
    check_database,
    explain,
)
from postern.protocols.mongodb.queries.mongodb_shell_errors import ShellError
from postern.protocols.mongodb.queries.mongodb_shell_options import Given
from postern.protocols.mongodb.queries.mongodb_shell_values import Value


@dataclass(frozen=True, slots=True)
class ShellMember:
    """`.name` or `["name"]`, with the arguments of a call that follows it."""

    name: str
    at: int
    arguments: Sequence[Value] | None = None


@dataclass(frozen=True, slots=True)
class _Database:
    name: str


@dataclass(frozen=True, slots=True)
class _Collection:
    database: str
    name: str


_R = TypeVar("_R")
_State = _Database | _Collection | FindChain | AggregateChain | ExplainChain | ShellCommands


def evaluate(database: str, members: Sequence[ShellMember], end: int) -> ShellCommands:
    """Return the commands of `db` followed by these members. Raises ShellError; `end` is where the expression ends."""
    state: _State = _Database(database)
    for member in members:
        try:
            state = _step(state, member)
        except ValueError as error:
            raise ShellError(
                f"{member.name}: {error}" if member.arguments is not None else str(error), member.at
            ) from None
    if isinstance(state, _Database):
        state = _call(DATABASE_METHODS, "getName", (), (state.name,))
    if isinstance(state, FindChain | AggregateChain):
        return state.finish()
    if isinstance(state, ShellCommands):
        return state
    if isinstance(state, ExplainChain):
        raise ShellError("a call to explain is expected, as in db.users.explain().find({})", end)
    raise ShellError(f"a method is expected after the collection, as in db.{state.name}.find({{}})", end)


def _step(state: _State, member: ShellMember) -> _State:
    if isinstance(state, _Database):
        return _step_of_database(state, member)
    if isinstance(state, _Collection):
        if member.arguments is None:
            return _Collection(state.database, check_collection(f"{state.name}.{member.name}"))
        return _call(COLLECTION_METHODS, member.name, member.arguments, (state.database, state.name))
    if member.arguments is None:
        raise ValueError(f"{member.name!r} cannot be read from a result: a script only runs commands")
    if isinstance(state, FindChain):
        return _call(FIND_METHODS, member.name, member.arguments, (state,))
    if isinstance(state, AggregateChain):
        return _call(AGGREGATE_METHODS, member.name, member.arguments, (state,))
    if isinstance(state, ExplainChain):
        return _step_of_explained(state, member)
    raise ValueError("nothing can be called on the result of a command")


def _step_of_database(state: _Database, member: ShellMember) -> _State:
    arguments = member.arguments
    if arguments is None:
        return _Collection(state.name, check_collection(member.name))
    if member.name in ("getSiblingDB", "getSisterDB"):
        given = Given(arguments)
        name = check_database(given.text("the name"))
        given.end()
        return _Database(name)
    if member.name == "getCollection":
        given = Given(arguments)
        collection = check_collection(given.text("the name"))
        given.end()
        return _Collection(state.name, collection)
    return _call(DATABASE_METHODS, member.name, arguments, (state.name,))


def _step_of_explained(state: ExplainChain, member: ShellMember) -> _State:
    if member.name not in EXPLAINED_METHODS:
        raise ValueError(f"it cannot be explained; only {', '.join(sorted(EXPLAINED_METHODS))} can")
    assert member.arguments is not None
    result = _call(COLLECTION_METHODS, member.name, member.arguments, (state.database, state.collection))
    if isinstance(result, FindChain):
        return FindChain(result.database, result.document, result.preference, state.verbosity)
    if isinstance(result, AggregateChain):
        return AggregateChain(result.database, result.document, result.preference, state.verbosity)
    assert isinstance(result, ShellCommands)
    return explain(result, state.verbosity)


def _call(
    methods: Mapping[str, Callable[..., _R]], name: str, arguments: Sequence[Value], before: tuple[object, ...]
) -> _R:
    method = methods.get(name)
    if method is None:
        close = get_close_matches(name, methods, 1)
        hint = f"did you mean {close[0]}?" if close else f"supported are {', '.join(sorted(methods))}"
        raise ValueError(f"this method is not supported; {hint}")
    given = Given(arguments)
    result = method(*before, given)
    given.end()
    return result
