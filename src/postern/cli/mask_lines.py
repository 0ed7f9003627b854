"""Text about what was masked in results and sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postern.domain.text import one_line

_MOST = 20  # names of columns in a line


def masked_columns_line(entry: Mapping[str, Any]) -> str:
    """Return a line about the rows of a script's answer: `masked by rule "people" (hash): email, card (24 cells)`."""
    names = [one_line(name) for name in entry["columns"]]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    cells = _count(entry["cells"], "cell")
    return f"{_lead(entry)}: {', '.join(names[:_MOST])}{more} ({cells})"


def masked_values_line(entry: Mapping[str, Any]) -> str:
    """Return a line about the answer to a statement: `masked by rule "people" (hash): 24 values`."""
    return f"{_lead(entry)}: {_count(entry['values'], 'value')}"


def _lead(entry: Mapping[str, Any]) -> str:
    rule = f'rule "{one_line(entry["rule"])}"' if entry["rule"] else "information types of the connection"
    how = ", ".join([entry["strategy"], *entry["info_types"]])
    return f"masked by {rule} ({one_line(how)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
