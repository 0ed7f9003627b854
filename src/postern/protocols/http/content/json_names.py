"""Names of fields in JSON, as paths have them: names that are data, such as identifiers, are one name."""

from __future__ import annotations

import re
from typing import Final

DATA_NAME: Final = "#"
KEYS: Final = "(key)"  # the column of the keys of an object that are data
_NAME: Final = re.compile(r"[A-Za-z_@$][\w@$ -]{0,60}")
_IDENTIFIER: Final = re.compile(r"[0-9a-fA-F-]{8,}|.*\d{5,}.*")


def is_data(name: str) -> bool:
    """Return whether the name of a field is a value, such as a number or an identifier."""
    return not _NAME.fullmatch(name) or _IDENTIFIER.fullmatch(name) is not None
