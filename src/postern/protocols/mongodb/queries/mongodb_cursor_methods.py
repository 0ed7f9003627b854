"""Methods of cursors: `.sort(…)`, `.limit(…)` and so on, which become fields of the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from postern.protocols.mongodb.queries.mongodb_collection_methods import verbosity_of
from postern.protocols.mongodb.queries.mongodb_shell_commands import (
    AggregateChain,
    FindChain,
    ShellCommands,
    command,
    explain,
)
from postern.protocols.mongodb.queries.mongodb_shell_options import Document, Given
from postern.protocols.mongodb.queries.mongodb_shell_values import Value

_PREFERENCES: Final = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
_COUNTED: Final = (
    "collation",
    "comment",
    "hint",
    "limit",
    "maxTimeMS",
    "readConcern",
    "skip",
)  # fields that a count has, too


def _with_document(name: str) -> Callable[[FindChain, Given], FindChain]:
    return lambda chain, given: chain.with_field(name, given.document("its argument"))


def _with_number(name: str) -> Callable[[FindChain, Given], FindChain]:
    return lambda chain, given: chain.with_field(name, given.whole("its argument"))


def _with_flag(name: str) -> Callable[[FindChain, Given], FindChain]:
    return lambda chain, given: chain.with_field(name, given.optional_flag("its argument", default=True))


def _with_any(name: str) -> Callable[[FindChain, Given], FindChain]:
    return lambda chain, given: chain.with_field(name, given.any("its argument"))


def _read_concern(chain: FindChain, given: Given) -> FindChain:
    return chain.with_field("readConcern", {"level": given.text("the level")})


def read_preference(given: Given) -> Document:
    """Return a read preference from the arguments: mode, tag sets, hedge. Raises ValueError."""
    mode = given.text("the mode")
    if mode not in _PREFERENCES:
        raise ValueError(f"the mode is one of {', '.join(_PREFERENCES)}")
    preference: Document = {"mode": mode}
    if len(given) and (tags := given.any("the tags")):
        preference["tags"] = tags
    if len(given) and (hedge := given.any("hedge")):
        preference["hedge"] = hedge
    return preference


def _read_preference(chain: FindChain, given: Given) -> FindChain:
    return FindChain(chain.database, chain.document, read_preference(given), chain.verbosity)


def _keep_chain(chain: FindChain, given: Given) -> FindChain:
    return chain


def _count(chain: FindChain, given: Given) -> ShellCommands:
    """Like mongosh, count with skip and limit, whatever the argument of old shells."""
    given.optional_flag("its argument", default=True)
    return _size(chain, given)


def _size(chain: FindChain, given: Given) -> ShellCommands:
    found = chain.document
    document: Document = {"count": found["find"], "query": found["filter"]}
    made = command(chain.database, document | {name: found[name] for name in _COUNTED if name in found})
    return explain(made, chain.verbosity) if chain.verbosity else made


def _explain(chain: FindChain, given: Given) -> ShellCommands:
    return FindChain(chain.database, chain.document, chain.preference, verbosity_of(given)).finish()


FIND_METHODS: Final[Mapping[str, Callable[[FindChain, Given], FindChain | ShellCommands]]] = {
    "allowDiskUse": _with_flag("allowDiskUse"),
    "allowPartialResults": _with_flag("allowPartialResults"),
    "batchSize": _with_number("batchSize"),
    "collation": _with_document("collation"),
    "comment": _with_any("comment"),
    "count": _count,
    "explain": _explain,
    "finish": _keep_chain,
    "hint": _with_any("hint"),
    "limit": _with_number("limit"),
    "max": _with_document("max"),
    "maxTimeMS": _with_number("maxTimeMS"),
    "min": _with_document("min"),
    "noCursorTimeout": _with_flag("noCursorTimeout"),
    "pretty": _keep_chain,
    "projection": _with_document("projection"),
    "readConcern": _read_concern,
    "readPref": _read_preference,
    "returnKey": _with_flag("returnKey"),
    "showRecordId": _with_flag("showRecordId"),
    "size": _size,
    "skip": _with_number("skip"),
    "sort": _with_document("sort"),
    "toArray": _keep_chain,
}


def _set_field(chain: AggregateChain, name: str, value: Value) -> AggregateChain:
    return AggregateChain(chain.database, {**chain.document, name: value}, chain.preference, chain.verbosity)


def _aggregate_batch(chain: AggregateChain, given: Given) -> AggregateChain:
    return _set_field(chain, "cursor", {"batchSize": given.whole("its argument")})


def _aggregate_time(chain: AggregateChain, given: Given) -> AggregateChain:
    return _set_field(chain, "maxTimeMS", given.whole("its argument"))


def _keep_aggregate(chain: AggregateChain, given: Given) -> AggregateChain:
    return chain


def _aggregate_explain(chain: AggregateChain, given: Given) -> ShellCommands:
    return AggregateChain(chain.database, chain.document, chain.preference, verbosity_of(given)).finish()


AGGREGATE_METHODS: Final[Mapping[str, Callable[[AggregateChain, Given], AggregateChain | ShellCommands]]] = {
    "batchSize": _aggregate_batch,
    "explain": _aggregate_explain,
    "finish": _keep_aggregate,
    "maxTimeMS": _aggregate_time,
    "pretty": _keep_aggregate,
    "toArray": _keep_aggregate,
}
