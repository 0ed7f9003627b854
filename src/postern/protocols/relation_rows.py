"""Rows of a database's catalogue as relations and functions, for databases that describe them in separate answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from postern.domain.targets.target_schema import Function, Key, Relation
from postern.protocols.gateway_queries import Row, tags, text


def read_relations(
    relations: Iterable[Row], columns: Iterable[Row], definitions: Mapping[Key, str]
) -> dict[Key, Relation]:
    """Return tables and views by their names. Raises ValueError if a name is NULL.

    `relations` are rows of schema, name and comment. `columns` are rows of schema, relation, name, the expression that
    computes the column, its comment, and "1" if `*` does not include it; those of a relation are in its order.
    `definitions` are the texts of views.
    """
    columns_of: dict[Key, list[Row]] = defaultdict(list)
    for schema, relation, *column in columns:
        columns_of[text(schema), text(relation)].append(tuple(column))
    found = {}
    for schema, name, comment in relations:
        key = text(schema), text(name)
        found[key] = _read_relation(key, comment or "", columns_of[key], definitions.get(key, ""))
    return found


def _read_relation(key: Key, comment: str, columns: Sequence[Row], definition: str) -> Relation:
    return Relation(
        *key,
        tuple(text(column) for column, *_ in columns),
        definition=definition,
        tags=tags(comment),
        column_tags={text(column): tags(comment) for column, _, comment, _ in columns if comment},
        hidden=frozenset(text(column) for column, _, _, hidden in columns if hidden == "1"),
        generated={text(column): expression for column, expression, *_ in columns if expression},
    )


def read_harmful_functions(rows: Iterable[Row]) -> dict[Key, Function]:
    """Return functions by their names, from rows of schema and name. Any of them may change data.

    Raises ValueError if a name is NULL.
    """
    functions = [Function(text(schema), text(name), harmless=False) for schema, name in rows]
    return {(function.schema, function.name): function for function in functions}
