"""Masks copied lines by column: what stands between two tabs is a text of its own.

No value that a detector finds holds a tab, and all see an edge at it, so this finds what a search in whole lines
would find; but columns that hold values of one kind are masked far quicker than lines that hold several.
"""

from __future__ import annotations

from collections.abc import Sequence

from postern.inspection.masking.detectors import Detectors
from postern.inspection.masking.texts import SEPARATOR, Hits, mask_texts

_TAB = b"\t"


def mask_lines(detectors: Detectors, lines: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """As many lines as came in, each masked on its own; None when there is nothing to mask. Adds to `hits`."""
    if not detectors.worth(SEPARATOR.join(lines)):
        return None
    try:
        columns: list[Sequence[bytes]] = list(zip(*[line.split(_TAB) for line in lines], strict=True))
    except ValueError:  # not all lines have as many fields as the first
        return mask_texts(detectors, lines, hits)
    before = hits.size
    last = len(columns) - 1
    for index, column in enumerate(columns):
        mask = mask_texts if index < last else _mask_last
        masked = mask(detectors, column, hits)
        if masked is not None:
            columns[index] = masked
    return list(map(_TAB.join, zip(*columns, strict=True))) if hits.size > before else None


def _mask_last(detectors: Detectors, cells: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """The column whose cells end with their line."""
    bare = [cell[:-1] for cell in cells if cell.endswith(b"\n")]
    if len(bare) < len(cells):
        return mask_texts(detectors, cells, hits)
    masked = mask_texts(detectors, bare, hits)
    return None if masked is None else [cell + b"\n" for cell in masked]
