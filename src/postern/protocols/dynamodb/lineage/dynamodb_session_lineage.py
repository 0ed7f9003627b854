"""Origins of attributes in responses. The wire knows the table of each item, and an attribute's path is its place in
the table: operations rename and compute nothing, besides projections of PartiQL, which the wire resolves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column

_NO_TAGS: Final[frozenset[str]] = frozenset()


class DynamodbSessionLineage:
    """See `SessionOrigins`. It remembers nothing: no operation changes what another one means."""

    def record_gap(self) -> None: ...

    def record_statement(self, statement: str) -> None: ...

    def unread(self, statement: str) -> UnreadText | None:
        return None

    def of(self, statement: str, columns: Sequence[Column]) -> tuple[Origin | None, ...] | None:
        """Return the origin of each column; None for one of an unknown table."""
        return tuple(map(_origin_of, columns)) if columns else None

    def tags(self, column: ColumnRef) -> frozenset[str]:
        """Return nothing: attributes have no descriptions."""
        return _NO_TAGS


def _origin_of(column: Column) -> Origin | None:
    if column.origin is None:
        return None
    ref = frozenset({ColumnRef(*column.origin)})
    return Origin(ref, frozenset({ref}))
