"""Names that messages give (of prepared statements and portals) in the text of a statement.

SQL runs by name what Parse and Bind have named: EXECUTE a prepared statement, FETCH and MOVE a portal. So whoever
judges such a text judges what it may run as well.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from postern.domain.text import small_letters

LENGTH: Final = 63  # bytes; the backend cuts names there, in SQL and in messages
MOST: Final = 100  # names that one text may run; more cannot be judged

# Keywords have one spelling, but for case.
_KEYWORDS: Final = ("execute", "fetch", "move")
_WORD: Final = re.compile(r"[\w$]+")
_SPELLED: Final = "u&"  # names by the numbers of their characters


def may_run_by_name(text: str) -> bool:
    small = small_letters(text)
    return any(word in small for word in _KEYWORDS)


def names_in(text: str, known: Set[bytes], encoding: str) -> list[bytes]:
    """Those of `known` that the text speaks of, or may; in the order of the alphabet."""
    if not known or _SPELLED in small_letters(text):
        return sorted(known)
    words = set(_WORD.findall(text)) | set(_WORD.findall(text.lower()))
    spoken = {word.encode(encoding, "ignore")[:LENGTH] for word in words}
    others = [(name, name.decode(encoding, "surrogateescape")) for name in known - spoken]
    odd = [(name, spelled) for name, spelled in others if not _WORD.fullmatch(spelled)]
    if len(odd) > MOST:
        return sorted(known)
    # What is no word stands in quotes, of which nobody here knows where they begin.
    quoted = text.replace('""', '"')
    return sorted([*(known & spoken), *(name for name, spelled in odd if spelled in quoted)])
