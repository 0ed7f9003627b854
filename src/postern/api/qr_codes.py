"""QR codes, to be drawn by a browser without a library of its own."""

from __future__ import annotations

import itertools

import segno

_QUIET_ZONE = 4  # modules around a code, which scanners need


def qr_path(text: str) -> tuple[int, str]:
    """Return the width of the code in modules, with its quiet zone, and its dark modules as data of an SVG path."""
    runs: list[str] = []
    size = 0
    for row, modules in enumerate(segno.make(text, error="m", micro=False).matrix_iter(border=_QUIET_ZONE)):
        column = 0
        for is_dark, group in itertools.groupby(modules, key=bool):
            width = len(list(group))
            if is_dark:
                runs.append(f"M{column} {row}h{width}v1h-{width}z")
            column += width
        size = column
    return size, "".join(runs)
