"""Scopes: the meaning of names inside of a query, from its FROM, the queries around it, and its CTEs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from postern.domain.targets.target_schema import ColumnRef

Sources = frozenset[ColumnRef] | None
"""The columns from which a value is derived; None if unknown."""

NOTHING: Final[frozenset[ColumnRef]] = frozenset()

Plain = frozenset[frozenset[ColumnRef]]
"""The table columns that a value passes through unchanged: see `Origin`."""

COMPUTED: Final[Plain] = frozenset()

Found = TypeVar("Found")

MOST_WORK: Final = 200_000  # nodes and columns of one text, including repeated rounds


class TooMuch(Exception):
    """The text takes more work than any is worth."""


class WorkBudget:
    def __init__(self, left: int = MOST_WORK) -> None:
        self._left = left

    def step(self, size: int = 1) -> None:
        self._left -= size
        if self._left < 0:
            raise TooMuch


def union(parts: Iterable[Sources]) -> Sources:
    united = NOTHING
    for part in parts:
        if part is None:
            return None
        if not part <= united:
            united = united | part if united else part
    return united


@dataclass(frozen=True, slots=True)
class Out:
    """Column of a query.

    `name` is None if unknown. `many`: any number of columns with any names, each derived from no more than `sources`.
    `hidden`: `*` does not include it. `plain` is COMPUTED unless the column passes a table's column through unchanged.
    """

    name: str | None
    sources: Sources
    many: bool = False
    hidden: bool = False
    plain: Plain = COMPUTED


UNKNOWN: Final = Out(None, None, many=True)


def merge_sources(outs: Iterable[Out]) -> Sources:
    return union([out.sources for out in outs])


def either(plain: Plain, other: Plain) -> Plain:
    """Return whether a value from one of two places is plain: only if it is plain in both.

    With a constant on one side, a client could choose values and compare their masked forms.
    """
    return plain | other if plain and other else COMPUTED


def is_nothing_else(out: Out) -> bool:
    """Return whether it is only a table's column, or passes some through."""
    return bool(out.plain) and out.sources == frozenset().union(*out.plain)


def only(name: str, exact: Sequence[Out], fuzzy: Sequence[Out] = ()) -> Out:
    """Return the column that a name means: the exact match, if there is just one and no other candidate."""
    if len(exact) == 1 and not fuzzy:
        return exact[0]
    return Out(name, merge_sources([*exact, *fuzzy]))


def rename_columns(outs: Sequence[Out], names: Sequence[str]) -> list[Out]:
    """Return the first columns under new names, as an alias with a list of names does.

    After a column that stands for any number, a name can belong to each of the following ones.
    """
    columns: list[Out] = []
    remaining = list(names)
    for place, out in enumerate(outs):
        if out.many and remaining:
            rest = merge_sources(outs[place:])
            return [*columns, *(Out(name, rest) for name in remaining), Out(None, rest, many=True)]
        if remaining:
            columns.append(Out(remaining.pop(0), out.sources, plain=out.plain))
        else:
            columns.append(out)
    return columns


@dataclass(frozen=True, slots=True)
class Item:
    """Element of a FROM under one name. `schema` is set for a table without alias. A table has system columns, which
    are in no list.
    """

    name: str
    outs: tuple[Out, ...]
    schema: str = ""
    system: bool = False


@dataclass(frozen=True, slots=True)
class FromPart:
    """Part of a scope that one element of FROM adds: its names, and its columns."""

    items: tuple[Item, ...]
    outs: tuple[Out, ...]


@dataclass(slots=True)
class Scope:
    """Level of names.

    `outs` are the columns that a bare name can mean and that `*` includes. `aliases` are the column names of the query
    itself, if queries inside of it can use them. `searched`: a query inside of it has searched a name here.
    """

    parent: Scope | None = None
    items: list[Item] = field(default_factory=list)
    outs: list[Out] = field(default_factory=list)
    aliases: list[Out] = field(default_factory=list)
    searched: bool = False

    def outer(self) -> Scope | None:
        """Return the surrounding level, for a name that is not found here."""
        if self.parent is not None:
            self.parent.searched = True
        return self.parent

    def add(self, part: FromPart) -> None:
        self.items += part.items
        self.outs += part.outs

    def with_parts(self, parts: Iterable[FromPart]) -> Scope:
        """Return the same level with the preceding elements of the same FROM added."""
        scope = Scope(self.parent, [*self.items], [*self.outs], self.aliases, self.searched)
        for part in parts:
            scope.add(part)
        return scope


def is_unnamed(column: str | None, name: str) -> bool:
    return column is None


@dataclass(frozen=True, slots=True)
class NameRules:
    """Rules of a dialect for names, beyond equal spelling.

    - `fold`: makes table names equal that some server treats as equal.
    - `may_be`: whether some server treats a column with a different spelling as one of this name.
    - `hides`: an exact match hides columns with unknown names next to it.
    - `rows`: a bare name can mean a whole row.
    - `sees_aliases`: inner queries and later clauses can use the query's own column names.
    - `widest`: the maximal number of columns in a list.
    """

    fold: Callable[[str], str] | None = None
    may_be: Callable[[str | None, str], bool] = is_unnamed
    hides: bool = True
    rows: bool = True
    system_columns: frozenset[str] = frozenset()
    sees_aliases: bool = False
    widest: int = 1664

    def fold_name(self, name: str) -> str:
        return name if self.fold is None else self.fold(name)

    def is_meant(self, column: str | None, name: str) -> bool:
        """Return whether a column can be the one of that name."""
        return column == name or self.may_be(column, name)

    def column(self, scope: Scope, name: str) -> Out | None:
        """Return what a bare name means: a column of the innermost level that has it, else a whole row; None if
        unknown.
        """
        fuzzy: list[Out] = []
        level: Scope | None = scope
        while level is not None:
            exact = [out for out in level.outs if out.name == name]
            if exact and self.hides:
                return only(name, exact, fuzzy)
            if name in self.system_columns and any(item.system for item in level.items):
                return only(name, (), fuzzy)
            fuzzy += [out for out in level.outs if self.may_be(out.name, name)]
            if level is not scope:
                fuzzy += [out for out in level.aliases if self.is_meant(out.name, name)]
            if exact:
                return only(name, exact, fuzzy)
            level = level.outer()
        for item in self.items(scope, name) if self.rows else ():
            return Out(name, merge_sources([*item.outs, *fuzzy]))
        return only(name, (), fuzzy) if fuzzy else None

    def items(self, scope: Scope, table: str, schema: str = "") -> list[Item]:
        """Return all elements that a qualifier can mean, the exact match first."""
        exact: Item | None = None
        like: Item | None = None
        level: Scope | None = scope
        while level is not None:
            for item in level.items:
                if schema and self.fold_name(item.schema) != self.fold_name(schema):
                    continue
                if item.name == table and exact is None:
                    exact = item
                elif self.fold is not None and like is None and self.fold(item.name) == self.fold(table):
                    like = item
            if exact is not None:
                break
            level = level.outer()
        return [item for item in (exact, like) if item is not None]

    def column_of(self, items: Sequence[Item], name: str) -> Out | None:
        """Return a column of an element of FROM.

        None if no such column is known: it can be a function in the form of a column, or a new column.
        """
        outs = items[0].outs if len(items) == 1 else [out for item in items for out in item.outs]
        exact = [out for out in outs if out.name == name]
        if not (exact and self.hides):
            if name in self.system_columns and any(item.system for item in items):
                return Out(name, NOTHING)
            fuzzy = [out for out in outs if self.may_be(out.name, name)]
            return only(name, exact, fuzzy) if exact or fuzzy else None
        return only(name, exact)


class Variables:
    """Variables of a session: the values before the statement, and those that it assigns.

    A variable can be read in one row and assigned in another, so a statement is resolved again until nothing changes.
    """

    def __init__(self, sources_by_name: Iterable[tuple[str, Sources]] = (), *, lost: bool = False) -> None:
        """Start with the variables' sources. `lost`: other code can have assigned anything to any of them."""
        self._held: dict[str, Sources] = dict(sources_by_name)
        self._lost = lost
        self.put: dict[str, Sources] = {}
        self.is_settled = True

    def sources_of(self, name: str) -> Sources:
        return None if self._lost else self._held.get(name, NOTHING)

    def assign(self, name: str, sources: Sources) -> None:
        self.put[name] = union([self.put.get(name, NOTHING), sources])
        united = union([self._held.get(name, NOTHING), sources])
        if united != self._held.get(name, NOTHING):
            self._held[name] = united
            self.is_settled = False


class Filters:
    """Sources of conditions inside of an expression, while it is resolved.

    Whether a client can filter by a masked column does not matter for a whole statement, but it does inside of an
    expression: a query that uses the row around it gives an answer for each row, and hundreds of them would reveal a
    value.
    """

    def __init__(self, *, repeats: bool = False) -> None:
        """Start empty. `repeats`: the statement is in a loop, in which each answer can depend on another condition."""
        self._found: list[Sources] | None = None
        self._repeats = repeats

    @property
    def wanted(self) -> bool:
        return self._found is not None

    def add(self, sources: Sources) -> None:
        if self._found is not None:
            self._found.append(sources)

    def of(self, scope: Scope, read: Callable[[], Sources]) -> Sources:
        """Return the sources that `read` returns, plus those of its conditions if it depends on a level around it."""
        levels: list[tuple[Scope, bool]] = []
        level: Scope | None = scope
        while level is not None:
            levels.append((level, level.searched))
            level.searched = False
            level = level.parent
        before, self._found = self._found, []
        try:
            sources = read()
            filters = union(self._found)
        finally:
            self._found = before
            depends = any(level.searched for level, _ in levels)
            for level, was_searched in levels:
                level.searched = level.searched or was_searched
        return union([sources, filters]) if depends or self._repeats else sources

    def collect(self, read: Callable[[], Found]) -> tuple[Found, Sources]:
        """Return what `read` returns, and the sources of the conditions in it."""
        before, self._found = self._found, []
        try:
            result = read()
            return result, union(self._found)
        finally:
            self._found = before


class Cte:
    """CTE, which is resolved on first use. A recursive one is resolved again until nothing is added."""

    _MOST: Final = 20  # rounds; each adds a source to at least one of its columns

    def __init__(self, name: str, read: Callable[[], list[Out]], seed: Callable[[], list[Out]]) -> None:
        """`name` is in its original spelling; `seed` resolves the non-recursive part."""
        self.name = name
        self._read = read
        self._seed = seed
        self._outs: list[Out] | None = None
        self._guess: list[Out] | None = None
        self._reading = False
        self._asked = False

    def outs(self) -> list[Out]:
        if self._outs is not None:
            return self._outs
        if self._reading:
            self._asked = True
            if self._guess is None:  # only a recursive CTE resolves its seed, or each level would be resolved twice
                self._guess = [UNKNOWN]
                self._guess = self._seed()
            return self._guess
        self._reading = True
        try:
            self._outs = self._resolve_fully()
        finally:
            self._reading = False
        return self._outs

    def _resolve_fully(self) -> list[Out]:
        outs: list[Out] = []
        for _ in range(self._MOST):
            self._asked = False
            outs = self._read()
            if not self._asked or outs == self._guess:
                return outs
            self._guess = outs
        return [Out(out.name, None, out.many) for out in outs]


@dataclass(frozen=True, slots=True)
class Ctes:
    """CTEs that can be used here, the nearest first."""

    of: dict[str, Cte] = field(default_factory=dict)
    parent: Ctes | None = None

    def find(self, name: str) -> Cte | None:
        here: Ctes | None = self
        while here is not None:
            if name in here.of:
                return here.of[name]
            here = here.parent
        return None
