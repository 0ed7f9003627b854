"""Marks of the cells that an interceptor has masked."""

from __future__ import annotations

from collections.abc import Sequence

from postern.domain.sessions.results import Mask
from postern.interception.events import Mark, Rows


def mark_cells(rows: Rows, column: int, masks: Sequence[Mask]) -> list[Mark]:
    """Return the marks of the cells that the last replacement of a column changed.

    `masks` are those of the changed cells, in order. If their number differs, every changed cell gets each of them.
    """
    changed = rows.find_changed_rows(column)
    count = int.from_bytes(changed, "little").bit_count()
    if not count:
        return []
    distinct = masks if len(masks) == 1 else list(dict.fromkeys(masks))
    if len(distinct) == 1 or len(masks) != count:
        every = b"" if count >= rows.count else changed
        return [Mark(mask, (column,), every) for mask in distinct]
    own_rows = {mask: bytearray(len(changed)) for mask in distinct}
    places = (row for row in range(rows.count) if changed[row >> 3] >> (row & 7) & 1)
    for row, mask in zip(places, masks, strict=True):
        own_rows[mask][row >> 3] |= 1 << (row & 7)
    return [Mark(mask, (column,), bytes(bits)) for mask, bits in own_rows.items()]
