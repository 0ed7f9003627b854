"""Facts from sqlglot's tree of one query: effects, tables, conditions, tables read whole (`Statement.scans`).

sqlglot is lenient: it takes a keyword for an alias, and unknown syntax for an opaque command. A tree is therefore only
trusted under three conditions: its kind matches the statement's first word, it has no opaque node, and it accounts for
every keyword of the text that could start a statement. Otherwise UnreadableSql says why.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName
from postern.inspection.sql.conditions import always_true, looks_at_no_row
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, check_nesting, render

# Aggregates that sqlglot knows; each of these returns all values.
_COLLECTING: Final = (exp.ArrayAgg, exp.GroupConcat, exp.JSONArrayAgg, exp.JSONObjectAgg)
_NOTHING: Final[frozenset[str]] = frozenset()

Named = Mapping[int, ObjectName]
"""The name of each table in the tree, by the identity of its node."""


def scans_of(tree: exp.Expr, named: Named, system: frozenset[str]) -> frozenset[ObjectName]:
    """Return the scanned tables, without the server's own: `system` names its schemas, and tables without rows."""
    return frozenset(
        name for name in _scans(tree, named, {}) if system.isdisjoint((name.schema.lower(), name.name.lower()))
    )


def _scans(node: exp.Expr | None, named: Named, ctes: Mapping[str, frozenset[ObjectName]]) -> frozenset[ObjectName]:
    if isinstance(node, exp.Insert):
        inner = node.args.get("expression")
        return _scans(inner if isinstance(inner, exp.Expr) else None, named, _ctes_of(node, named, ctes))
    if not isinstance(node, exp.Query):
        return frozenset()
    here = _ctes_of(node, named, ctes)
    if _is_limited(node):
        return frozenset()
    if isinstance(node, exp.Subquery):
        return _scans(node.this, named, here)
    if isinstance(node, exp.SetOperation):
        return _scans(node.this, named, here) | _scans(node.expression, named, here)
    if isinstance(node, exp.Select):
        return _select(node, named, here)
    return frozenset()


def _ctes_of(
    node: exp.Expr, named: Named, ctes: Mapping[str, frozenset[ObjectName]]
) -> Mapping[str, frozenset[ObjectName]]:
    clause = node.args.get("with_")
    if not isinstance(clause, exp.With):
        return ctes
    scans_by_cte = dict(ctes)
    for cte in clause.expressions:
        scans_by_cte[cte.alias.lower()] = frozenset()  # for a recursive use
        scans_by_cte[cte.alias.lower()] = _scans(cte.this, named, scans_by_cte)
    return scans_by_cte


def _is_limited(node: exp.Expr) -> bool:
    limit = node.args.get("limit")
    if not isinstance(limit, exp.Limit | exp.Fetch):
        return False
    options = limit.args.get("limit_options")
    return not (isinstance(options, exp.LimitOptions) and options.args.get("percent"))


def _select(select: exp.Select, named: Named, ctes: Mapping[str, frozenset[ObjectName]]) -> frozenset[ObjectName]:
    scanned: frozenset[ObjectName] = frozenset()
    for value in select.expressions:
        for query in _queries(value):
            scanned |= _scans(query, named, ctes)
    where = select.args.get("where")
    if isinstance(where, exp.Where) and not always_true(where.this) and not looks_at_no_row(where.this):
        return scanned
    if not select.args.get("group") and _is_one_row(select):
        return scanned
    source = select.args.get("from_")
    places = [source.this] if isinstance(source, exp.From) else []
    places += [join.this for join in select.args.get("joins") or ()]
    for place in places:
        scanned |= _from(place, named, ctes)
    return scanned


def _from(place: object, named: Named, ctes: Mapping[str, frozenset[ObjectName]]) -> frozenset[ObjectName]:
    if isinstance(place, exp.Subquery | exp.Paren):
        inner = _from(place.this, named, ctes) if isinstance(place.this, exp.Table) else _scans(place, named, ctes)
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
    """Yield an expression's nodes, without those inside of its queries; the queries themselves are included."""
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


logging.getLogger("sqlglot").disabled = True  # its warnings quote the statement


@dataclass(frozen=True, slots=True)
class Grammar:
    """Grammar of one dialect.

    - `name`: sqlglot's name.
    - `quotes`: open and close a name.
    - `reserved`: words that start a statement and cannot be unquoted names.
    - `upper`: how unquoted names are folded. None: all names are case-insensitive, and are returned in lower case.
    - `system`: the server's own schemas and tables.
    """

    name: str
    quotes: tuple[str, str]
    reserved: frozenset[str]
    upper: bool | None = None
    system: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TreeFacts:
    effects: frozenset[Effect]
    objects: frozenset[ObjectName] = frozenset()
    without_where: bool = False
    columns: frozenset[tuple[str, str]] = field(default=frozenset())  # (qualifier, name), as written
    scans: frozenset[ObjectName] = frozenset()
    derived: frozenset[str] = field(default=frozenset())  # names of CTEs and subqueries in FROM
    sources: frozenset[str] = field(default=frozenset())  # names and aliases that can qualify a column, in upper case
    read: frozenset[ObjectName] = frozenset()  # `objects` that are tables of their own, and not references to an alias


_ROOTS: dict[str, tuple[type[exp.Expr], ...]] = {
    "SELECT": (exp.Select, exp.SetOperation, exp.Subquery),
    "TABLE": (exp.Select, exp.SetOperation, exp.Subquery),
    "VALUES": (exp.Values, exp.SetOperation, exp.Subquery, exp.Select),
    "INSERT": (exp.Insert, exp.MultitableInserts),
    "UPDATE": (exp.Update,),
    "DELETE": (exp.Delete,),
    "MERGE": (exp.Merge,),
}
_OPAQUE = (exp.Command, exp.Block, exp.Set, exp.Use, exp.Execute)


def tree_of(tokens: Sequence[SqlToken], verb: str, grammar: Grammar) -> tuple[exp.Expr, list[exp.Expr]]:
    """Return the tree and all of its nodes.

    `verb` is the keyword that determines the kind of statement: its first, or the one after WITH. Raises UnreadableSql
    for a tree that is not reliable.
    """
    check_nesting(tokens, _types(grammar.name))
    tree = _parse(render(tokens, *grammar.quotes), grammar)
    if not isinstance(tree, _ROOTS[verb]):
        raise UnreadableSql(f"it starts with {verb}, but is read as {type(tree).__name__}")
    nodes = list(tree.walk())
    opaque = next((node for node in nodes if isinstance(node, _OPAQUE)), None)
    if opaque is not None:
        raise UnreadableSql("a part of it is not understood")
    _check_accounted(tokens, nodes, grammar)
    return tree, nodes


@lru_cache
def _types(dialect: str) -> frozenset[str]:
    """Return the words that sqlglot can take for a type."""
    keywords = Dialect.get_or_raise(dialect).tokenizer_class.KEYWORDS
    return frozenset(word.upper() for word, kind in keywords.items() if kind in Parser.TYPE_TOKENS)


def facts_of(tokens: Sequence[SqlToken], verb: str, grammar: Grammar) -> TreeFacts:
    """Return the facts of the tree, see `tree_of`."""
    tree, nodes = tree_of(tokens, verb, grammar)
    tables = [(node, name) for node, name in _tables(nodes, grammar)]
    named = {id(node): name for node, name in tables}
    return TreeFacts(
        _effects(nodes),
        frozenset(named.values()),
        any(_without_where(node) for node in nodes),
        frozenset((node.table, node.name) for node in nodes if type(node) is exp.Column),
        scans_of(tree, named, grammar.system),
        frozenset(node.alias for node in nodes if isinstance(node, exp.Subquery | exp.CTE) and node.alias),
        frozenset(_sources(nodes)),
        frozenset(name for node, name in tables if not _stands_for_another(node)),
    )


def _parse(text: str, grammar: Grammar) -> exp.Expr:
    try:
        trees = sqlglot.parse(text, read=grammar.name)
    except SqlglotError as error:
        raise UnreadableSql(f"it is not understood: {_first_line(error)}") from None
    except (RecursionError, MemoryError):
        raise UnreadableSql("it is nested too deeply") from None
    except Exception as error:
        raise UnreadableSql(f"it could not be parsed ({type(error).__name__})") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        raise UnreadableSql("it is parsed as no statement or as several")
    return trees[0]


def _first_line(error: SqlglotError) -> str:
    """Return the description without its excerpt: the statement's text must not be in messages."""
    details = getattr(error, "errors", None) or [{}]
    return str(details[0].get("description") or "a syntax error")


def _check_accounted(tokens: Sequence[SqlToken], nodes: Sequence[exp.Expr], grammar: Grammar) -> None:
    words = Counter(token.key for token in tokens if token.key in grammar.reserved)
    functions = Counter(
        token.key
        for token, after in pairwise(tokens)
        if token.key in ("REPLACE", "INSERT", "TRUNCATE") and after.key == "("
    )
    accounted: Counter[str] = Counter()
    for node in nodes:
        accounted.update(_words_of(node))
    for word, count in words.items():
        if count > accounted[word] + functions[word]:
            raise UnreadableSql(f"{word} is at a place where it can start another statement")


def _words_of(node: exp.Expr) -> list[str]:
    """Return the keywords that this node represents, and that could start a statement."""
    if isinstance(node, exp.Select):
        return ["SELECT"]
    if isinstance(node, exp.Insert):
        return ["INSERT", "INTO"]
    if isinstance(node, exp.Update):
        return ["UPDATE"]
    if isinstance(node, exp.Delete):
        return ["DELETE"]
    if isinstance(node, exp.Merge):
        return ["MERGE", "INTO"]
    if isinstance(node, exp.Into):
        return ["INTO"]
    if isinstance(node, exp.With):
        return ["WITH"]
    if isinstance(node, exp.MultitableInserts):
        return ["INSERT"]
    if isinstance(node, exp.Lock):
        return ["UPDATE", "LOCK"]
    if isinstance(node, exp.OnConflict):
        return ["UPDATE"]
    if isinstance(node, exp.Returning) and node.args.get("into"):
        return ["INTO"]
    if isinstance(node, exp.When):
        then = node.args.get("then")
        return [then.name.upper()] if isinstance(then, exp.Var) else []
    return []


_NODE_EFFECTS: tuple[tuple[tuple[type[exp.Expr], ...], tuple[Effect, ...]], ...] = (
    ((exp.Select, exp.SetOperation, exp.Returning), (Effect.READ,)),
    ((exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.MultitableInserts), (Effect.WRITE,)),
    ((exp.Into,), (Effect.DDL, Effect.WRITE)),
    ((exp.NextValueFor,), (Effect.WRITE,)),
)


def _effects(nodes: Sequence[exp.Expr]) -> frozenset[Effect]:
    effects_of_nodes = {
        effect for node in nodes for kinds, effects in _NODE_EFFECTS if isinstance(node, kinds) for effect in effects
    }
    for node in nodes:
        if isinstance(node, exp.Lock):  # a read-only transaction rejects FOR UPDATE, but not FOR SHARE
            effects_of_nodes.add(Effect.WRITE if node.args.get("update") else Effect.SESSION)
    return frozenset(effects_of_nodes or {Effect.READ})  # VALUES (1)


def fold_name(name: str, quoted: bool, grammar: Grammar) -> str:
    if grammar.upper is None:
        return name.lower()
    return name if quoted else name.upper() if grammar.upper else name.lower()


def _tables(nodes: Sequence[exp.Expr], grammar: Grammar) -> Iterator[tuple[exp.Table, ObjectName]]:
    """Yield the tables with their nodes."""
    ctes = _Ctes()
    for node in nodes:
        if not isinstance(node, exp.Table) or ctes.has(node):
            continue
        name, schema = node.this, node.args.get("db")
        if isinstance(name, exp.Dot):  # server.database.schema.table
            name, schema = name.expression, name.this
        if isinstance(name, exp.Identifier):
            yield node, ObjectName(ObjectKind.TABLE, _identifier(name, grammar), _identifier(schema, grammar))


def _stands_for_another(table: exp.Table) -> bool:
    """Return whether it refers to a table or alias that the same statement lists: `DELETE o FROM orders AS o`, FOR
    UPDATE OF.
    """
    if isinstance(table.parent, exp.Delete):
        return table.arg_key == "tables" or (table.arg_key == "this" and bool(table.parent.args.get("using")))
    return isinstance(table.parent, exp.Lock)


def _identifier(name: object, grammar: Grammar) -> str:
    """Return the folded name; empty if there is none, as in `database..table`."""
    if not isinstance(name, exp.Identifier):
        return ""
    return fold_name(name.name, bool(name.args.get("quoted")), grammar)


class _Ctes:
    """Names of CTEs in one tree."""

    def __init__(self) -> None:
        self._first: dict[int, dict[str, int]] = {}  # for each WITH: the first place of a name
        self._places: dict[int, int] = {}  # for each CTE, in its WITH

    def has(self, table: exp.Table) -> bool:
        """Return whether a CTE of this name is visible: one of a surrounding WITH, except itself and later ones."""
        if table.args.get("db"):
            return False
        name, below, node = table.name.lower(), None, table.parent
        while node is not None:
            with_ = node.args.get("with_")
            if isinstance(with_, exp.With) and below is not with_:
                if name in self._names(with_):
                    return True
            elif isinstance(node, exp.With):
                first = self._names(node).get(name)
                if first is not None and first < self._places[id(below)]:
                    return True
            below, node = node, node.parent
        return False

    def _names(self, with_: exp.With) -> dict[str, int]:
        first_places = self._first.get(id(with_))
        if first_places is None:
            first_places = self._first[id(with_)] = {}
            for place, cte in enumerate(with_.expressions):
                first_places.setdefault(cte.alias.lower(), place)
                self._places[id(cte)] = place
        return first_places


def _sources(nodes: Sequence[exp.Expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, exp.Table | exp.Subquery | exp.CTE | exp.TableAlias):
            yield node.alias_or_name.upper()
            if isinstance(node, exp.Table):
                yield node.name.upper()


def _without_where(node: exp.Expr) -> bool:
    if isinstance(node, exp.Update | exp.Delete) and not isinstance(node.parent, exp.When):
        where = node.args.get("where")
        return not isinstance(where, exp.Where) or always_true(where.this)
    if isinstance(node, exp.Merge):
        on, whens = node.args.get("on"), node.args.get("whens")
        changes = [
            each for each in (whens.expressions if whens else []) if not isinstance(each.args.get("then"), exp.Insert)
        ]
        return bool(changes) and (not isinstance(on, exp.Expr) or looks_at_no_row(on) or always_true(on))
    return False
