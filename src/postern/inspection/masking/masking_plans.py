"""How the columns of a result are masked: which of them as a whole by a rule, and in which values are searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from postern.domain.sessions.results import Mask
from postern.domain.targets.target_schema import Origin, TargetSchema
from postern.inspection.masking.detectors import Detectors
from postern.inspection.masking.joined_texts import Hits, mask_texts
from postern.inspection.masking.json_documents import mask_documents
from postern.inspection.masking.masking_columns import ChosenRule, Decided
from postern.inspection.masking.origins import Sources
from postern.inspection.masking.quiet_columns import QuietColumns
from postern.inspection.masking.scalars import mask_addresses, mask_numbers
from postern.inspection.masking.substituting import ValueSearch
from postern.interception.events import Change, Column, Mark, TextKind

MaskTexts = Callable[[Detectors, Sequence[bytes], Hits], list[bytes] | None]

MASKS: Final[dict[TextKind, MaskTexts]] = {
    TextKind.TEXT: mask_texts,
    TextKind.JSON: mask_documents,
    TextKind.NUMBER: mask_numbers,
    TextKind.ADDRESS: mask_addresses,
}
# Columns in which nothing is found if their texts have no candidate. Escapes in documents hide candidates.
_FOUND_AS_TEXT: Final = frozenset({TextKind.TEXT, TextKind.NUMBER})


@dataclass(frozen=True, slots=True)
class MaskingPlan:
    """Plan for the columns of a result: each is masked by a rule, or searched for values.

    `computed` are the indexes of columns that become constants. `marks` are those of columns that rules mask as a
    whole. `quiet` tells the columns in which nothing can be found.
    """

    decided: Decided
    changes: tuple[Change | None, ...]
    searches: tuple[tuple[tuple[ValueSearch, Detectors], ...], ...]
    touched: list[bool]
    computed: tuple[int, ...]
    marks: tuple[Mark, ...]
    quiet: QuietColumns


def make_plan(
    columns: tuple[Column, ...],
    sources: Sources | None,
    schema: TargetSchema | None,
    decided: Decided,
    value_searches: Sequence[ValueSearch],
) -> MaskingPlan:
    """Return the plan for columns with these origins. `decided` is what rules say about them; in the others,
    `value_searches` look for values."""
    searches = tuple(
        () if choice is not None else tuple((search, search.detectors(column.name)) for search in value_searches)
        for column, choice in zip(columns, decided.chosen, strict=True)
    )
    changes = tuple(
        None if choice is None else change_of(choice, of, schema)
        for choice, of in zip(decided.chosen, sources or (None,) * len(columns), strict=True)
    )
    touched = [
        choice is not None or (bool(column_searches) and column.kind in MASKS)
        for choice, column_searches, column in zip(decided.chosen, searches, columns, strict=True)
    ]
    computed = tuple(place for place, choice in enumerate(decided.chosen) if choice is not None and not choice.plain)
    quiet = QuietColumns(
        {
            place: [detectors for _, detectors in column_searches]
            for place, (column_searches, column) in enumerate(zip(searches, columns, strict=True))
            if column_searches and column.kind in _FOUND_AS_TEXT
        }
    )
    return MaskingPlan(decided, changes, searches, touched, computed, _mark_columns(decided), quiet)


def _mark_columns(decided: Decided) -> tuple[Mark, ...]:
    """Return the marks of columns that rules mask as a whole.

    All cells are marked, also those that are NULL or equal to their replacement: the others would be known.
    """
    columns: dict[Mask, list[int]] = {}
    for place, choice in enumerate(decided.chosen):
        if choice is not None:
            columns.setdefault(choice.rule.mask, []).append(place)
    return tuple(Mark(mask, tuple(places), whole=True) for mask, places in columns.items())


def change_of(chosen: ChosenRule, of: Origin | None, schema: TargetSchema | None) -> Change:
    """Return the change for the cells of a column.

    A document's keys stay if it is stored in a table. A view can build it from values; then only keys stay that are
    names of columns in the masked column's table.
    """
    rule = chosen.rule
    if not chosen.plain:
        return rule.substitutes.computed
    relations = {} if schema is None else schema.relations
    refs = frozenset() if of is None else of.refs
    tables = {(ref.schema, ref.table) for ref in refs}
    if tables and not any(table in relations and relations[table].definition for table in tables):
        return rule.substitutes
    beside = {(ref.schema, ref.table) for ref in refs if rule.patterns.match(ref, frozenset())}
    return rule.substitutes.with_names(
        frozenset(name for table in beside if table in relations for name in relations[table].columns)
    )
