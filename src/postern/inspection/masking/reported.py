"""Values that reach the client beside an answer: settings that the target reports, and notifications."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

UNTOLD: Final = b"****"

# Settings that the target reports and that take more or less any text; the others have values of their own.
_FREE: Final = frozenset({"application_name", "search_path"})
_TIMEZONE: Final = "timezone"
# Of the database of time zones, or a plain offset as SET TIME ZONE writes it. What else has digits may be any word.
_ZONE: Final = re.compile(
    rb"[A-Za-z_/+-]+|Etc/GMT[+-]?\d{1,2}|GMT[+-]?0|[A-Z]ST\dE?DT|EST5EDT|CST6CDT|MST7MDT|PST8PDT"
    rb"|<[+-]\d{2}(?::?\d{2}){0,2}>[+-]?\d{1,2}(?::\d{2}){0,2}"
)


def is_known_setting(name: str, value: bytes, statements: Iterable[str]) -> bool:
    """Whether the value can be none that a query read: by the setting, or because a statement says it."""
    folded = name.lower()
    free = _ZONE.fullmatch(value) is None if folded == _TIMEZONE else folded in _FREE and value != b""
    return not free or any(value in statement.encode("utf-8", "surrogateescape") for statement in statements)
