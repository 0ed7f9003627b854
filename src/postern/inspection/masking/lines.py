"""Masks copied lines by column: what stands between two tabs is a text of its own.

No value that a detector finds holds a tab, and all see an edge at it, so this finds what a search in whole lines
would find; but columns that hold values of one kind are masked far quicker than lines that hold several.
"""

from __future__ import annotations

from collections.abc import Sequence

from postern.inspection.masking.detectors import Detectors
from postern.inspection.masking.texts import SEPARATOR, Hits, mask_texts

_TAB = b"\t"
_BETWEEN = _TAB + SEPARATOR + _TAB  # a field of its own shows where a line ends


def mask_lines(detectors: Detectors, lines: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """As many lines as came in, each masked on its own; None when there is nothing to mask. Adds to `hits`."""
    width = lines[0].count(_TAB) + 1
    if width == 1:
        return mask_texts(detectors, lines, hits)
    joined = _BETWEEN.join(lines)
    if not detectors.may_hold.search(joined):
        return None
    fields = joined.split(_TAB)
    step = width + 1
    if fields[width::step] != [SEPARATOR] * (len(lines) - 1) or len(fields) != step * len(lines) - 1:
        return mask_texts(detectors, lines, hits)  # not all lines have as many fields as the first
    before = hits.size
    for column in range(width):
        cells = fields[column::step]
        masked = mask_texts(detectors, cells, hits) if column < width - 1 else _mask_last(detectors, cells, hits)
        if masked is not None:
            fields[column::step] = masked
    return _TAB.join(fields).split(_BETWEEN) if hits.size > before else None


def _mask_last(detectors: Detectors, cells: list[bytes], hits: Hits) -> list[bytes] | None:
    """The column whose cells end with their line."""
    bare = [cell[:-1] for cell in cells if cell.endswith(b"\n")]
    if len(bare) < len(cells):
        return mask_texts(detectors, cells, hits)
    masked = mask_texts(detectors, bare, hits)
    return None if masked is None else [cell + b"\n" for cell in masked]
