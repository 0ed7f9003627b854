"""The table in an answer: the list of events, results, log groups, metrics … that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def find_table(tree: Mapping[str, Any]) -> str:
    """Return the key of the first list of objects in an answer; empty if it has none."""
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return key
    return ""
