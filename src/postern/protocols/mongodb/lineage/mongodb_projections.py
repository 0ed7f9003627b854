"""What projections make of a document: of a find, of findAndModify, and of `$project`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from postern.inspection.lineage.scope import NOTHING, Sources, union
from postern.protocols.mongodb.dialect.mongodb_json import (
    Document,
    UnreadableCommand,
    is_operator,
    is_scalar,
    number_of,
)
from postern.protocols.mongodb.lineage.mongodb_expressions import ExpressionScope, value_of
from postern.protocols.mongodb.lineage.mongodb_value_trees import (
    MISSING,
    BuiltValue,
    DocumentValue,
    choose,
    depend,
    put_at,
)

_ID = "_id"
_Flat = Iterator[tuple[str, object]]


def project(spec: Document, scope: ExpressionScope, *, is_find: bool) -> DocumentValue:
    """Return the document that a projection makes. `is_find`: it has operators of its own for arrays."""
    root = scope.root
    fields = list(_flatten(spec))
    included = [path for path, value in fields if _is_flag(value) and number_of(value)]
    excluded = [path for path, value in fields if _is_flag(value) and not number_of(value)]
    computed = [(path, value) for path, value in fields if not _is_flag(value)]
    keeps = is_find and not any(path != _ID for path in included) and all(_keeps_others(each) for _, each in computed)
    if (excluded and any(path != _ID for path in excluded)) or keeps:
        document = root
        for path in excluded:
            document = put_at(document, path, MISSING)
        for path, value in computed:
            document = put_at(document, path, _project_field(path, value, scope, is_find=is_find))
        return document
    tree: dict[str, Any] = {}
    for path in included:
        _add(tree, path, root.at_path(path))
    for path, value in computed:
        _add(tree, path, _project_field(path, value, scope, is_find=is_find))
    if _ID not in tree and _ID not in excluded:
        tree[_ID] = root.at(_ID)
    return _build(tree)


def _flatten(spec: Document, before: str = "") -> _Flat:
    for name, value in spec.items():
        path = before + name.removesuffix(".$")
        if isinstance(value, Mapping) and value and not is_operator(value) and not is_scalar(value):
            yield from _flatten(value, f"{path}.")
        else:
            yield path, value


def _is_flag(value: object) -> bool:
    return number_of(value) is not None


def _keeps_others(value: object) -> bool:
    """Return whether a find with only such operators returns all other fields too."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    name, operand = next(iter(value.items()))
    return name == "$meta" or (name == "$slice" and _is_position(operand))


def _project_field(path: str, value: object, scope: ExpressionScope, *, is_find: bool) -> DocumentValue:
    if is_find and isinstance(value, Mapping) and len(value) == 1:
        element = scope.root.at_path(path)
        name, operand = next(iter(value.items()))
        if name == "$elemMatch":
            return depend(element, query_sources(operand, element, scope))
        if name == "$slice" and _is_position(operand):
            return element
    return value_of(value, scope)


def _is_position(operand: object) -> bool:
    """Return whether $slice has numbers only, which makes it that of a find."""
    operands = operand if isinstance(operand, list) else [operand]
    return all(number_of(each) is not None for each in operands)


def _add(tree: dict[str, Any], path: str, value: DocumentValue) -> None:
    """Add a field to a tree of fields. Where two are in conflict, either may be shown."""
    name, dot, inner = path.partition(".")
    if not name:
        raise UnreadableCommand("a path has an empty name")
    old = tree.get(name)
    if not dot:
        tree[name] = value if old is None else choose([value, _build(old) if isinstance(old, dict) else old])
    elif isinstance(old, DocumentValue):
        branch: dict[str, Any] = {}
        _add(branch, inner, value)
        tree[name] = choose([old, _build(branch)])
    else:
        _add(tree.setdefault(name, {}), inner, value)


def _build(tree: Mapping[str, Any]) -> DocumentValue:
    return BuiltValue({name: _build(each) if isinstance(each, dict) else each for name, each in tree.items()})


def query_sources(query: object, value: DocumentValue, scope: ExpressionScope) -> Sources:
    """Return the fields that a filter on a value looks at."""
    if not isinstance(query, Mapping) or is_scalar(query):
        return value.everything
    parts: list[Sources] = [NOTHING]
    for name, operand in query.items():
        if name in ("$and", "$or", "$nor") and isinstance(operand, list):
            parts += [query_sources(each, value, scope) for each in operand]
        elif name == "$expr":
            parts.append(value_of(operand, scope).everything)
        else:
            parts.append(value.everything if name.startswith("$") else value.at_path(name).everything)
    return union(parts)
