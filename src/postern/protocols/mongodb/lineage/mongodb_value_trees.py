"""Values of a pipeline, as trees: the value at each path of a document, and the stored fields that it shows.

    StoredValue     a field of a collection with everything in it, unchanged
    BuiltValue      a document with known fields; `rest` has all others
    ChoiceValue     one of several values, or an array of them: arrays have no node of their own
    DependentValue  a value whose presence, or choice, depends on other fields
    ComputedValue   a value made of fields, with anything in it
    LiteralValue    a value of the command itself
    ViewValue       a field of a view, under the view's name and those that it comes from

A path that ends with `*` stands for everything in a field: an expression that can show all of it depends on it.
Nothing is copied, so that trees share parts; results are remembered in each node, because a command can use one value
many times. A few stages can name more fields than there is memory, so that looking up fields takes work of a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.lineage.scope import NOTHING, Sources, WorkBudget, either, union
from postern.inspection.lineage.views import also_named
from postern.protocols.mongodb.dialect.mongodb_json import UnreadableCommand, is_scalar

_EVERYTHING: Final = "*"


class FieldWork:
    """The budget of the command that is being read. A process reads one at a time."""

    def __init__(self) -> None:
        self._budget = WorkBudget()

    @contextmanager
    def spend(self, budget: WorkBudget) -> Iterator[None]:
        """Take the work of all look-ups from this budget."""
        before, self._budget = self._budget, budget
        try:
            yield
        finally:
            self._budget = before

    def step(self) -> None:
        self._budget.step()


FIELD_WORK: Final = FieldWork()


class DocumentValue:
    """A value at one place of a document. Subclasses implement the methods whose names begin with `_find`."""

    __slots__ = ("_everything", "_fields", "_names", "_origin", "_shape")

    def __init__(self) -> None:
        self._fields: dict[str, DocumentValue] = {}
        self._origin: tuple[Origin | None] | None = None
        self._everything: tuple[Sources] | None = None
        self._shape: tuple[Sources] | None = None
        self._names: tuple[Sources] | None = None

    def at(self, name: str) -> DocumentValue:
        """Return the field of this name, in the document or in each document of an array. Raises TooMuch."""
        value = self._fields.get(name)
        if value is None:
            FIELD_WORK.step()
            value = self._fields[name] = self._find_field(name)
        return value

    def at_path(self, path: str) -> DocumentValue:
        value = self
        for name in path.split("."):
            value = value.at(name)
        return value

    @property
    def origin(self) -> Origin | None:
        """Return the origin of the value itself, if it is no document; None if unknown."""
        if self._origin is None:
            self._origin = (self._find_origin(),)
        return self._origin[0]

    @property
    def sources(self) -> Sources:
        """Return the fields that the value itself shows, if it is no document."""
        origin = self.origin
        return None if origin is None else origin.refs

    @property
    def key(self) -> Sources:
        """Return the fields that it shows as a key of groups, an order or a join: itself, or all of a document."""
        origin = self.origin
        return None if origin is None else origin.refs or self.everything

    @property
    def everything(self) -> Sources:
        """Return the fields that the value shows with everything in it."""
        if self._everything is None:
            self._everything = (self._find_everything(),)
        return self._everything[0]

    @property
    def shape(self) -> Sources:
        """Return the fields that decide whether the value is there, which fields it has, and how many elements."""
        if self._shape is None:
            self._shape = (self._find_shape(),)
        return self._shape[0]

    @property
    def names(self) -> Sources:
        """Return the fields whose values can be names of fields in it."""
        if self._names is None:
            self._names = (self._find_names(),)
        return self._names[0]

    def _find_field(self, name: str) -> DocumentValue:
        raise NotImplementedError

    def _find_origin(self) -> Origin | None:
        raise NotImplementedError

    def _find_everything(self) -> Sources:
        raise NotImplementedError

    def _find_shape(self) -> Sources:
        return NOTHING

    def _find_names(self) -> Sources:
        return NOTHING


class StoredValue(DocumentValue):
    """A field of a collection's documents; the whole document if `path` is empty. Numbers in a path may be indexes.

    `leaves` are the fields that the catalogue shows to hold no documents.
    """

    __slots__ = ("_collection", "_database", "_leaves", "_path")

    def __init__(
        self, database: str, collection: str, leaves: frozenset[str] = frozenset(), path: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self._database = database
        self._collection = collection
        self._leaves = leaves
        self._path = path

    def _find_field(self, name: str) -> DocumentValue:
        return StoredValue(self._database, self._collection, self._leaves, (*self._path, name))

    def _refs(self) -> frozenset[ColumnRef]:
        spelled = {".".join(self._path), ".".join(name for name in self._path if not name.isdigit())}
        return frozenset(ColumnRef(self._database, self._collection, path) for path in spelled if path)

    def _find_origin(self) -> Origin:
        refs = self._refs()
        return Origin(refs, frozenset({refs}) if refs else frozenset())

    def _find_everything(self) -> Sources:
        refs = self._refs()
        if any(ref.column in self._leaves for ref in refs):
            return refs
        paths = [f"{ref.column}.{_EVERYTHING}" for ref in refs] or [_EVERYTHING]
        return frozenset(ColumnRef(self._database, self._collection, path) for path in paths)


class LiteralValue(DocumentValue):
    """A constant of the command. `is_missing`: no value at all."""

    __slots__ = ("is_missing", "value")

    def __init__(self, value: object = None, *, is_missing: bool = False) -> None:
        super().__init__()
        self.value = value
        self.is_missing = is_missing

    def _find_field(self, name: str) -> DocumentValue:
        if isinstance(self.value, list):
            found = [LiteralValue(each).at(name) for each in self.value if isinstance(each, Mapping)]
            return choose(found)
        return LiteralValue(self.value[name]) if isinstance(self.value, Mapping) and name in self.value else MISSING

    def _find_origin(self) -> Origin:
        return Origin()

    def _find_everything(self) -> Sources:
        return NOTHING


class ComputedValue(DocumentValue):
    """A value made of other values. Unless it `is_scalar`, it can be missing, an array, or a document; `deciding` are
    the fields that this depends on, which are all of them if None is given.
    """

    __slots__ = ("_of", "_shaped_by")

    def __init__(self, sources: Sources, *, is_scalar: bool = False, deciding: Sources = None) -> None:
        super().__init__()
        self._of = sources
        self._shaped_by = NOTHING if is_scalar else sources if deciding is None else deciding

    def _find_field(self, name: str) -> DocumentValue:
        return self

    def _find_origin(self) -> Origin | None:
        return None if self._of is None else Origin(self._of)

    def _find_everything(self) -> Sources:
        return self._of

    def _find_shape(self) -> Sources:
        return self._shaped_by

    def _find_names(self) -> Sources:
        return self._shaped_by


class ChoiceValue(DocumentValue):
    """One of several values, or all of them in an array."""

    __slots__ = ("_values",)

    def __init__(self, values: tuple[DocumentValue, ...]) -> None:
        super().__init__()
        self._values = values

    def _find_field(self, name: str) -> DocumentValue:
        return choose(value.at(name) for value in self._values)

    def _find_origin(self) -> Origin | None:
        first, *others = (value.origin for value in self._values)
        for other in others:
            if first is None or other is None:
                return None
            first = Origin(first.refs | other.refs, either(first.plain, other.plain))
        return first

    def _find_everything(self) -> Sources:
        return union([value.everything for value in self._values])

    def _find_shape(self) -> Sources:
        return union([value.shape for value in self._values])

    def _find_names(self) -> Sources:
        return union([value.names for value in self._values])


class BuiltValue(DocumentValue):
    """A document with these fields; `rest` has those that are not among them."""

    __slots__ = ("_built", "_rest")

    def __init__(self, fields: Mapping[str, DocumentValue], rest: DocumentValue | None = None) -> None:
        super().__init__()
        self._built = fields
        self._rest = rest

    def _find_field(self, name: str) -> DocumentValue:
        value = self._built.get(name)
        if value is not None:
            return value
        return MISSING if self._rest is None else self._rest.at(name)

    def _find_origin(self) -> Origin | None:
        return Origin() if self._rest is None else self._rest.origin

    def _parts(self) -> list[DocumentValue]:
        return [*self._built.values(), *([] if self._rest is None else [self._rest])]

    def _find_everything(self) -> Sources:
        return union([part.everything for part in self._parts()])

    def _find_shape(self) -> Sources:
        return union([part.shape for part in self._parts()])

    def _find_names(self) -> Sources:
        return union([part.names for part in self._parts()])


class DependentValue(DocumentValue):
    """A value that is chosen by others: its presence alone can show something of them.

    It passes another value through unchanged only if that value is none of those that decide. The fields that decide do
    not count for the `shape` of a value that `is_steady`: one that is always there, or a join, which decides which
    documents there are as any filter does.
    """

    __slots__ = ("_deciding", "_inner", "_is_steady")

    def __init__(self, inner: DocumentValue, deciding: Sources, *, is_steady: bool = False) -> None:
        super().__init__()
        self._inner = inner
        self._deciding = deciding
        self._is_steady = is_steady

    def _find_field(self, name: str) -> DocumentValue:
        inner = self._inner.at(name)
        return inner if inner is MISSING else depend(inner, self._deciding, is_steady=self._is_steady)

    def _find_origin(self) -> Origin | None:
        origin = self._inner.origin
        if origin is None or self._deciding is None:
            return None
        decides = any(_is_among(ref, self._deciding) for names in origin.plain for ref in names)
        return Origin(origin.refs | self._deciding, frozenset() if decides else origin.plain)

    def _find_everything(self) -> Sources:
        return union([self._inner.everything, self._deciding])

    def _find_shape(self) -> Sources:
        return union([self._inner.shape, NOTHING if self._is_steady else self._deciding])

    def _find_names(self) -> Sources:
        return union([self._inner.names, NOTHING if self._is_steady else self._deciding])


def _is_among(ref: ColumnRef, refs: frozenset[ColumnRef]) -> bool:
    """Return whether a field is one of these, or in one of them."""
    if ref in refs:
        return True
    names = ref.column.split(".")
    trees = [_EVERYTHING, *(".".join([*names[:end], _EVERYTHING]) for end in range(1, len(names) + 1))]
    return any(ColumnRef(ref.schema, ref.table, tree) in refs for tree in trees)


class ViewValue(DocumentValue):
    """A field of a view. It is plain to a rule that names only the view's field, also if the view computes it."""

    __slots__ = ("_inner", "_own")

    def __init__(self, inner: DocumentValue, own: StoredValue) -> None:
        super().__init__()
        self._inner = inner
        self._own = own

    def _find_field(self, name: str) -> DocumentValue:
        own = self._own.at(name)
        assert isinstance(own, StoredValue)
        inner = self._inner.at(name)
        return inner if inner is MISSING else ViewValue(inner, own)

    def _find_origin(self) -> Origin | None:
        origin, own = self._inner.origin, self._own.origin
        if origin is None or own is None or not own.refs:
            return origin
        return Origin(origin.refs | own.refs, also_named(origin.plain, own.refs))

    def _find_everything(self) -> Sources:
        return union([self._inner.everything, self._own.everything])

    def _find_shape(self) -> Sources:
        return self._inner.shape

    def _find_names(self) -> Sources:
        return self._inner.names


class UnknownValue(DocumentValue):
    """A value of which nothing is known."""

    __slots__ = ()

    def _find_field(self, name: str) -> DocumentValue:
        return self

    def _find_origin(self) -> Origin | None:
        return None

    def _find_everything(self) -> Sources:
        return None

    def _find_shape(self) -> Sources:
        return None

    def _find_names(self) -> Sources:
        return None


MISSING: Final = LiteralValue(is_missing=True)
CONSTANT: Final = LiteralValue()
UNKNOWN_VALUE: Final = UnknownValue()


def choose(values: Iterable[DocumentValue]) -> DocumentValue:
    """Return one of these values; a missing one does not count."""
    present = tuple(dict.fromkeys(value for value in values if value is not MISSING))
    if len(present) == 1:
        return present[0]
    return ChoiceValue(present) if present else MISSING


def depend(value: DocumentValue, deciding: Sources, *, is_steady: bool = False) -> DocumentValue:
    """Return the value as one that depends on others as well."""
    return DependentValue(value, deciding, is_steady=is_steady) if deciding is None or deciding else value


def is_field_name(name: str) -> bool:
    """Return whether a command can give a new field this name. Some servers accept others, whose paths would be read as
    those of other fields."""
    return bool(name) and "." not in name and not name.startswith("$")


def put_at(value: DocumentValue | None, path: str, new: DocumentValue) -> DocumentValue:
    """Return a document with a new value at a path; without a `value`, one that has nothing else."""
    name, dot, inner = path.partition(".")
    if not name:
        raise UnreadableCommand("a path has an empty name")
    if dot:
        new = put_at(None if value is None else value.at(name), inner, new)
    return BuiltValue({name: new}, value)


def are_alike(values: Iterable[DocumentValue]) -> bool:
    """Return whether all are constants of one type."""
    kinds = {type(value.value) if isinstance(value, LiteralValue) else None for value in values}
    return len(kinds) == 1 and kinds <= {str, int, float, bool}


def is_scalar_literal(value: DocumentValue) -> bool:
    """Return whether it is a constant that is neither a document nor has one in it."""
    if not isinstance(value, LiteralValue):
        return False
    values = value.value if isinstance(value.value, list) else [value.value]
    return all(map(is_scalar, values))
