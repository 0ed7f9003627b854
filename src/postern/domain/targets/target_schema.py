"""A target's catalogue of tables, views and functions, as far as rules and masking need it.

It is a snapshot: what was created since is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of a table, as the target spells it."""

    schema: str
    table: str
    column: str


@dataclass(frozen=True, slots=True)
class Origin:
    """What one column of an answer is made of: `refs` are all columns of tables whose values it shows.

    `plain` tells that it passes a column through unchanged. Each member is one column that it may be (several after a
    UNION, for example), as the set of names this column goes by: a view's and its table's, a partition's and its
    parent's. It is empty for a value that the statement computes, and for one that may be a constant.
    """

    refs: frozenset[ColumnRef] = frozenset()
    plain: frozenset[frozenset[ColumnRef]] = frozenset()


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or a view with the text of its query. `number` is the target's own, as answers have it; columns are in
    order, as the target counts them from 1, dropped ones empty.

    `definition` names everything with its schema, but for what the server brings along. `tags` are of the whole
    relation, `column_tags` of single columns. `parents` are the tables that it is a partition of, or inherits from, by
    (schema, name). `generated` are the columns that are computed from others, and their
    expressions. `types` are the target's own numbers of the columns' types, in their order; of a domain that of what it
    is made of. `hidden` are columns that an asterisk does not stand for (in SQL: INVISIBLE).
    """

    schema: str
    name: str
    columns: tuple[str, ...]
    number: int = 0
    definition: str = ""
    tags: frozenset[str] = frozenset()
    column_tags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    parents: tuple[tuple[str, str], ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)
    types: tuple[int, ...] = ()
    hidden: frozenset[str] = frozenset()

    def type_of(self, column: str) -> int:
        """Return the target's number of a column's type; 0 where it is unknown."""
        return dict(zip(self.columns, self.types, strict=False)).get(column, 0) if column else 0


@dataclass(frozen=True, slots=True)
class Function:
    """All overloads of one name together, of what users added to the server: functions, procedures, aggregates, and
    operators by their symbols. `harmless` when every one is declared to change nothing; `pure` when every result
    depends on its arguments alone, not only by its author's declaration."""

    schema: str
    name: str
    harmless: bool
    pure: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TargetSchema:
    """Relations and functions by (schema, name). A schema equals only itself: what was evaluated by one snapshot is
    evaluated anew by the next.

    `search_path` is that of the login, the schemas in which unqualified names are looked up. `database` is the one that
    it is of, for targets whose names can start with a database.

    A function with the schema "" is one that a rule allows, or denies, wherever it is found. `types` and `operators`
    are those of the target's own, with whether they are harmless: enumerations, arrays and rows of harmless types, and
    domains without checks; operators whose functions all are. Without `relations` nothing is known of tables and views,
    and views count as tables.
    """

    relations: Mapping[tuple[str, str], Relation] = field(default_factory=dict)
    functions: Mapping[tuple[str, str], Function] = field(default_factory=dict)
    search_path: tuple[str, ...] = ()
    types: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    operators: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    database: str = ""


Key = tuple[str, str]
"""Schema and name."""


def find_reachable(start: Iterable[Key], step: Callable[[Key], Sequence[Key]]) -> set[Key]:
    """Return all that steps lead to, including their start."""
    reachable: set[Key] = set()
    left = list(start)
    while left:
        key = left.pop()
        if key not in reachable:
            reachable.add(key)
            left += step(key)
    return reachable
