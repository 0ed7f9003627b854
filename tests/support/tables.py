"""Rows of parametrised tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable


def cross(names: Iterable[str], values: Iterable[object]) -> list[tuple[str, object]]:
    """Return every name with every value, whatever the values' types are."""
    return list(itertools.product(names, values))
