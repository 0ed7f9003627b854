"""Tables that a query of sqlglot's tree reads whole, as `Statement.scans` has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from postern.domain.rules.statement import ObjectName
from postern.inspection.sql.conditions import always_true, looks_at_no_row

# sqlglot knows by name what makes one value of all rows; of these each holds all of them.
_COLLECTING: Final = (exp.ArrayAgg, exp.GroupConcat, exp.JSONArrayAgg, exp.JSONObjectAgg)
_NOTHING: Final[frozenset[str]] = frozenset()

Named = Mapping[int, ObjectName]
"""What each table of the tree is called, by the identity of its node."""


def scans_of(tree: exp.Expr, named: Named, system: frozenset[str]) -> frozenset[ObjectName]:
    """Return the tables but for those of the server: `system` names its schemas, and tables without rows."""
    return frozenset(
        name for name in _of(tree, named, {}) if system.isdisjoint((name.schema.lower(), name.name.lower()))
    )


def _of(node: exp.Expr | None, named: Named, ctes: Mapping[str, frozenset[ObjectName]]) -> frozenset[ObjectName]:
    if isinstance(node, exp.Insert):
        inner = node.args.get("expression")
        return _of(inner if isinstance(inner, exp.Expr) else None, named, _with(node, named, ctes))
    if not isinstance(node, exp.Query):
        return frozenset()
    here = _with(node, named, ctes)
    if _is_limited(node):
        return frozenset()
    if isinstance(node, exp.Subquery):
        return _of(node.this, named, here)
    if isinstance(node, exp.SetOperation):
        return _of(node.this, named, here) | _of(node.expression, named, here)
    if isinstance(node, exp.Select):
        return _select(node, named, here)
    return frozenset()


def _with(
    node: exp.Expr, named: Named, ctes: Mapping[str, frozenset[ObjectName]]
) -> Mapping[str, frozenset[ObjectName]]:
    clause = node.args.get("with_")
    if not isinstance(clause, exp.With):
        return ctes
    found = dict(ctes)
    for cte in clause.expressions:
        found[cte.alias.lower()] = frozenset()  # where it speaks of itself
        found[cte.alias.lower()] = _of(cte.this, named, found)
    return found


def _is_limited(node: exp.Expr) -> bool:
    limit = node.args.get("limit")
    if not isinstance(limit, exp.Limit | exp.Fetch):
        return False
    options = limit.args.get("limit_options")
    return not (isinstance(options, exp.LimitOptions) and options.args.get("percent"))


def _select(select: exp.Select, named: Named, ctes: Mapping[str, frozenset[ObjectName]]) -> frozenset[ObjectName]:
    found: frozenset[ObjectName] = frozenset()
    for value in select.expressions:
        for query in _queries(value):
            found |= _of(query, named, ctes)
    where = select.args.get("where")
    if isinstance(where, exp.Where) and not always_true(where.this) and not looks_at_no_row(where.this):
        return found
    if not select.args.get("group") and _is_one_row(select):
        return found
    source = select.args.get("from_")
    places = [source.this] if isinstance(source, exp.From) else []
    places += [join.this for join in select.args.get("joins") or ()]
    for place in places:
        found |= _from(place, named, ctes)
    return found


def _from(place: object, named: Named, ctes: Mapping[str, frozenset[ObjectName]]) -> frozenset[ObjectName]:
    if isinstance(place, exp.Subquery | exp.Paren):
        inner = _from(place.this, named, ctes) if isinstance(place.this, exp.Table) else _of(place, named, ctes)
        return inner.union(*(_from(join.this, named, ctes) for join in place.args.get("joins") or ()))
    if not isinstance(place, exp.Table):
        return frozenset()
    joined = frozenset[ObjectName]().union(*(_from(join.this, named, ctes) for join in place.args.get("joins") or ()))
    if not place.args.get("db") and place.name.lower() in ctes:
        return ctes[place.name.lower()] | joined
    name = named.get(id(place))
    return joined if name is None else joined | {name}


def _is_one_row(select: exp.Select) -> bool:
    called = [call for value in select.expressions for call in _aggregates(value)]
    return bool(called) and not any(isinstance(call, _COLLECTING) for call in called)


def _inside(value: exp.Expr) -> Iterator[exp.Expr]:
    """An expression without the queries in it; those themselves are told."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, exp.Query):
            waiting += list(node.iter_expressions())


def _queries(value: exp.Expr) -> Iterator[exp.Expr]:
    return (node for node in _inside(value) if isinstance(node, exp.Query))


def _aggregates(value: exp.Expr) -> Iterator[exp.Expr]:
    return (
        node for node in _inside(value) if isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window)
    )
