"""Names as MySQL and MariaDB compare them.

Those of columns are the same in any case. Those of tables, of databases and of aliases of tables are so where the
server was told to (`lower_case_table_names`), which nobody here knows: what is spelled alike wins where both are there,
else either may be meant. Some servers compare letters beyond ASCII without their accents, so such names are the same
for certain only when they are spelled alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from postern.inspection.lineage.scope import COMPUTED, Item, Out, Plain, Scope, Sources, merged
from postern.protocols.mysql.dialect.mysql_texts import folded


def column_name(text: str) -> str:
    """As columns are compared."""
    return text.lower() if text.isascii() else text


def may_be(one: str | None, name: str) -> bool:
    """Whether some server may take the first for the second, where they are not spelled alike."""
    if one is None:
        return True
    return one != name and not (one.isascii() and name.isascii()) and folded(one) == folded(name)


@dataclass(slots=True)
class Level(Scope):
    """`aliases` are the names that the columns of the query itself have, which queries inside of it may speak of."""

    aliases: list[Out] = field(default_factory=list)


def named(level: Scope, name: str) -> Sources:
    """What a bare name of a column means: that of the innermost level that has it."""
    fuzzy: list[Out] = []
    scope: Scope | None = level
    while scope is not None:
        found = [out for out in scope.outs if out.name == name]
        fuzzy += [out for out in scope.outs if may_be(out.name, name)]
        if isinstance(scope, Level) and scope is not level:
            fuzzy += [out for out in scope.aliases if out.name == name or may_be(out.name, name)]
        if found:
            return merged(found + fuzzy)
        scope = scope.outer()
    return merged(fuzzy) if fuzzy else None


def plain_of(level: Scope, items: list[Item] | None, name: str) -> Plain:
    """The columns of tables that a name is, where no other may be meant: of `items`, or of the innermost level."""
    scope: Scope | None = level
    while scope is not None:
        outs = list(scope.outs) if items is None else [out for item in items for out in item.outs]
        if isinstance(scope, Level) and scope is not level:
            outs += scope.aliases
        exact = [out for out in outs if out.name == name]
        if any(may_be(out.name, name) for out in outs) or len(exact) > 1:
            return COMPUTED
        if exact:
            return exact[0].plain
        scope = None if items is not None else scope.outer()
    return COMPUTED


def is_there(level: Scope, name: str) -> bool:
    """Whether a bare name of a column can mean anything."""
    scope: Scope | None = level
    while scope is not None:
        outs = [*scope.outs, *scope.aliases] if isinstance(scope, Level) else scope.outs
        if any(out.name == name or may_be(out.name, name) for out in outs):
            return True
        scope = scope.outer()
    return False


def column_of(items: list[Item], name: str) -> Sources:
    """A column of what stands in FROM under one name."""
    outs = [out for item in items for out in item.outs]
    found = [out for out in outs if out.name == name or may_be(out.name, name)]
    return merged(found) if found else None


def items_of(level: Scope, table: str, schema: str = "") -> list[Item]:
    """All that a name before a column may mean."""
    exact: Item | None = None
    like: Item | None = None
    scope: Scope | None = level
    while scope is not None:
        for item in scope.items:
            if schema and folded(item.schema) != folded(schema):
                continue
            if item.name == table and exact is None:
                exact = item
            elif folded(item.name) == folded(table) and like is None:
                like = item
        if exact is not None:
            break
        scope = scope.outer()
    return [item for item in (exact, like) if item is not None]
