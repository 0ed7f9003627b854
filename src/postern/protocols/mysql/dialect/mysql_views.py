"""The tables that the views of a MySQL or MariaDB target read (see `inspection.sql.view_reach`).

The catalogue has the text of each view, with the database of every table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from postern.domain.rules.statement import ObjectName
from postern.domain.targets.target_schema import Key, TargetSchema
from postern.inspection.sql import view_reach
from postern.inspection.sql.judging import Draft
from postern.inspection.sql.view_reach import JudgeDefinition, ViewResolver, ViewRules

# Only the server's owner can create views there, and reading its own shows no rows of other databases.
_SYSTEM: Final = frozenset({"information_schema", "performance_schema", "sys"})
_SEQUENCE_TABLE: Final = re.compile(r"seq_\d+_to_\d+(_step_\d+)?")  # of MariaDB: its engine computes the rows


def _is_of_system(name: ObjectName) -> bool:
    if name.schema.lower() in _SYSTEM:
        return True
    plain = name.name.lower()
    return (plain == "dual" and not name.schema) or _SEQUENCE_TABLE.fullmatch(plain) is not None


_RULES: Final = ViewRules(
    _SYSTEM, _is_of_system, "if its definition is hidden, grant SHOW VIEW on it to the connection's user"
)


@lru_cache(maxsize=16)
def views_of(schema: TargetSchema) -> ViewResolver:
    """Return the resolver of a snapshot, which is identified by its object identity."""
    return ViewResolver(schema, _RULES)


def follow_views(
    draft: Draft,
    read: Iterable[ObjectName],
    schema: TargetSchema | None,
    within: tuple[Key, ...],
    judge: JudgeDefinition,
) -> None:
    """Add to `draft` the effects of reading or writing these relations, beyond their names."""
    views = views_of(schema) if schema is not None and schema.relations else None
    view_reach.follow_views(draft, read, views, _RULES, within, judge)
