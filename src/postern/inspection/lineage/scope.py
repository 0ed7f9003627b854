"""What names mean inside of a query: the columns that its FROM gives, those of the queries around it, and its CTEs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from postern.domain.targets.target_schema import ColumnRef

Sources = frozenset[ColumnRef] | None
"""The columns that a value is made of; None where that cannot be known."""

NOTHING: Final[frozenset[ColumnRef]] = frozenset()

Plain = frozenset[frozenset[ColumnRef]]
"""The columns of tables that a value may be, passed through unchanged: see `Origin`."""

COMPUTED: Final[Plain] = frozenset()

# Columns that tables of PostgreSQL have beside their own.
SYSTEM_COLUMNS: Final = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})

MOST_WORK: Final = 200_000  # nodes and columns of one text, those of repeated rounds among them


class TooMuch(Exception):
    """The text takes more work than is spent on any."""


class WorkBudget:
    def __init__(self, left: int = MOST_WORK) -> None:
        self._left = left

    def step(self, size: int = 1) -> None:
        self._left -= size
        if self._left < 0:
            raise TooMuch


def union(parts: Iterable[Sources]) -> Sources:
    found = NOTHING
    for part in parts:
        if part is None:
            return None
        if not part <= found:
            found = found | part if found else part
    return found


@dataclass(frozen=True, slots=True)
class Out:
    """A column of a query. Its `name` is None where it cannot be known; `many` stands for any number of columns, of
    any names, that are each made of no more than `sources`. An asterisk does not stand for one that is `hidden`.
    `plain` is COMPUTED unless the column passes a table's column through unchanged."""

    name: str | None
    sources: Sources
    many: bool = False
    hidden: bool = False
    plain: Plain = COMPUTED


UNKNOWN: Final = Out(None, None, many=True)


def merged(outs: Iterable[Out]) -> Sources:
    return union([out.sources for out in outs])


def either(one: Plain, other: Plain) -> Plain:
    """What a value is that comes from one of two places: plain only if it is plain in both. A constant in one of them
    would let a client choose values and compare what becomes of them."""
    return one | other if one and other else COMPUTED


def is_nothing_else(out: Out) -> bool:
    """Whether it is a table's column, or passes some through: nothing else shows in it."""
    return bool(out.plain) and out.sources == frozenset().union(*out.plain)


def only(name: str, exact: Sequence[Out], fuzzy: Sequence[Out] = ()) -> Out:
    """The column that a name means: the exact one where there is a single one and no other may be meant."""
    if len(exact) == 1 and not fuzzy:
        return exact[0]
    return Out(name, merged([*exact, *fuzzy]))


def renamed(outs: Sequence[Out], names: Sequence[str]) -> list[Out]:
    """The first columns under other names, as an alias with a list of names gives them. From one that stands for any
    number on, a name may be of each that follows."""
    found: list[Out] = []
    left = list(names)
    for place, out in enumerate(outs):
        if out.many and left:
            rest = merged(outs[place:])
            return [*found, *(Out(name, rest) for name in left), Out(None, rest, many=True)]
        if left:
            found.append(Out(left.pop(0), out.sources, plain=out.plain))
        else:
            found.append(out)
    return found


@dataclass(frozen=True, slots=True)
class Item:
    """What stands in a FROM under one name. `schema` is that of a table which has no alias. A table has system columns,
    which are in no list."""

    name: str
    outs: tuple[Out, ...]
    schema: str = ""
    system: bool = False

    def column(self, name: str) -> Out:
        found = [out for out in self.outs if out.name == name]
        if found:
            return only(name, found)
        if self.system and name in SYSTEM_COLUMNS:
            return Out(name, NOTHING)
        fuzzy = [out for out in self.outs if out.name is None]
        # Without any, it is a function in the form of a column, or a column that is too new.
        return only(name, (), fuzzy) if fuzzy else Out(name, None)


@dataclass(frozen=True, slots=True)
class FromPart:
    """What an element of a FROM adds: the names that it can be spoken of by, and the columns of its own."""

    items: tuple[Item, ...]
    outs: tuple[Out, ...]


@dataclass(slots=True)
class Scope:
    """One level of names. `outs` are what a bare name may mean and `*` stands for. `asked`: a query inside of it has
    looked for a name here."""

    parent: Scope | None = None
    items: list[Item] = field(default_factory=list)
    outs: list[Out] = field(default_factory=list)
    windows: dict[str, Any] = field(default_factory=dict)
    asked: bool = False

    def outer(self) -> Scope | None:
        """The level around this one, for a name that is not found here."""
        if self.parent is not None:
            self.parent.asked = True
        return self.parent

    def add(self, part: FromPart) -> None:
        self.items += part.items
        self.outs += part.outs

    def with_parts(self, parts: Iterable[FromPart]) -> Scope:
        """The same, and beside it what stands further left in the same FROM."""
        found = replace(self, items=list(self.items), outs=list(self.outs))
        for part in parts:
            found.add(part)
        return found

    def item(self, name: str, schema: str = "") -> Item | None:
        scope: Scope | None = self
        while scope is not None:
            for item in scope.items:
                if item.name == name and (not schema or item.schema == schema):
                    return item
            scope = scope.outer()
        return None

    def named(self, name: str) -> Out:
        """What a bare name means: a column of the innermost level that has it, else a whole row."""
        fuzzy: list[Out] = []
        scope: Scope | None = self
        while scope is not None:
            found = [out for out in scope.outs if out.name == name]
            if found:
                return only(name, found, fuzzy)
            if name in SYSTEM_COLUMNS and any(item.system for item in scope.items):
                return only(name, (), fuzzy)
            fuzzy += [out for out in scope.outs if out.name is None]
            scope = scope.outer()
        item = self.item(name)
        if item is not None:
            return Out(name, merged([*item.outs, *fuzzy]))
        return only(name, (), fuzzy) if fuzzy else Out(name, None)


class Filters:
    """What decides which rows the queries inside of an expression give, while such a one is read.

    Whether a client may filter by a masked column is not asked of a whole statement. Inside of an expression it is: a
    query that speaks of the row around it answers for each row anew, and hundreds of them would spell a value out.
    """

    def __init__(self) -> None:
        self._found: list[Sources] | None = None

    @property
    def wanted(self) -> bool:
        return self._found is not None

    def add(self, sources: Sources) -> None:
        if self._found is not None:
            self._found.append(sources)

    def of(self, scope: Scope, read: Callable[[], Sources]) -> Sources:
        """Of a query within `scope`: what `read` gives, and what filters in it, if it speaks of a level around it."""
        levels: list[tuple[Scope, bool]] = []
        level: Scope | None = scope
        while level is not None:
            levels.append((level, level.asked))
            level.asked = False
            level = level.parent
        before, self._found = self._found, []
        try:
            found = read()
            filters = union(self._found)
        finally:
            self._found = before
            depends = any(level.asked for level, _ in levels)
            for level, asked in levels:
                level.asked = level.asked or asked
        return union([found, filters]) if depends else found


class Cte:
    """Read when it is first spoken of. One that speaks of itself is read again until nothing is added."""

    _MOST: Final = 20  # rounds; each adds a column to one of its own at least

    def __init__(self, read: Callable[[], list[Out]], seed: Callable[[], list[Out]]) -> None:
        """`seed` reads the part that does not speak of itself."""
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
            if self._guess is None:  # only one that speaks of itself is read for that, else each level would be twice
                self._guess = [UNKNOWN]
                self._guess = self._seed()
            return self._guess
        self._reading = True
        try:
            self._outs = self._settled()
        finally:
            self._reading = False
        return self._outs

    def _settled(self) -> list[Out]:
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
    """The CTEs that can be spoken of here, the nearest first."""

    of: dict[str, Cte] = field(default_factory=dict)
    parent: Ctes | None = None

    def find(self, name: str) -> Cte | None:
        here: Ctes | None = self
        while here is not None:
            if name in here.of:
                return here.of[name]
            here = here.parent
        return None
