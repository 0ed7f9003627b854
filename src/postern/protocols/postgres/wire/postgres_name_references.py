"""References in SQL text to prepared statements and portals that protocol messages have named.

SQL can run by name what Parse and Bind have named: EXECUTE a prepared statement, FETCH and MOVE a portal. So evaluating
such a text includes what it may run.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from postern.domain.text import small_letters

LENGTH: Final = 63  # bytes; the backend truncates names to this, in SQL and in messages
MOST: Final = 100  # names that one text may run; more cannot be evaluated

# Keywords have one spelling, except for case.
_KEYWORDS: Final = ("execute", "fetch", "move")
_WORD: Final = re.compile(r"[\w$]+")
_SPELLED: Final = "u&"  # names spelled by code points


def may_run_by_name(text: str) -> bool:
    small = small_letters(text)
    return any(word in small for word in _KEYWORDS)


def names_in(text: str, known_names: Set[bytes], encoding: str) -> list[bytes]:
    """Return those of `known_names` that the text refers to, or may refer to, in alphabetical order."""
    if not known_names or _SPELLED in small_letters(text):
        return sorted(known_names)
    words = set(_WORD.findall(text)) | set(_WORD.findall(text.lower()))
    spoken = {word.encode(encoding, "ignore")[:LENGTH] for word in words}
    others = [(name, name.decode(encoding, "surrogateescape")) for name in known_names - spoken]
    odd = [(name, spelled) for name, spelled in others if not _WORD.fullmatch(spelled)]
    if len(odd) > MOST:
        return sorted(known_names)
    # A name that is not a plain word is in quotes, and where those begin is unknown here.
    quoted = text.replace('""', '"')
    return sorted([*(known_names & spoken), *(name for name, spelled in odd if spelled in quoted)])
