"""What the layout of a call depends on in the text of its statement: its kind, and binds that have no value.

Binds of `RETURNING … INTO` come back from the target only. Nothing in a call says which ones these are, so the text is
read as the target reads it: comments, texts in quotation marks (also `q'[…]'`) and quoted names hide what is in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+ | --[^\n]* | /\*.*?(?:\*/|\Z))
    | (?P<text>
        (?:[nN]?[qQ]'(?:\[.*?\]'|\{.*?\}'|<.*?>'|\(.*?\)'|(?P<sign>[^\[{<(\s]).*?(?P=sign)'))
        | [nN]?'(?:[^']|'')*'
      )
    | (?P<quoted>"[^"]*")
    | (?P<bind>:\s*(?:"[^"]*"|[^\W_][\w$\#]*))
    | (?P<word>[^\W\d_][\w$\#]*)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_PLSQL: Final = frozenset({"DECLARE", "BEGIN", "CALL"})
_QUERIES: Final = frozenset({"SELECT", "WITH"})
_DML: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_LONGEST_CACHED: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class StatementForm:
    """`word` is the first word, in upper case. `returned` is the number of the last binds that have no value, or -1 if
    the text after RETURNING cannot be read."""

    word: str = ""
    returned: int = 0

    @property
    def is_plsql(self) -> bool:
        return self.word in _PLSQL

    @property
    def is_query(self) -> bool:
        return self.word in _QUERIES


def form_of(text: str) -> StatementForm:
    """Return the form of a statement."""
    return _form(text) if len(text) > _LONGEST_CACHED else _cached_form(text)


@lru_cache(maxsize=256)
def _cached_form(text: str) -> StatementForm:
    return _form(text)


def _form(text: str) -> StatementForm:
    first = _first_word(text)
    if first not in _DML:
        return StatementForm(first)
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(text) if match.lastgroup != "space"]
    tokens = [("text" if kind == "sign" else kind, part) for kind, part in tokens]
    words = [part.upper() if kind == "word" else "" for kind, part in tokens]
    for place, word in enumerate(words):
        if word in ("RETURNING", "RETURN") and "INTO" in words[place:]:
            into = place + words[place:].index("INTO")
            rest = tokens[into + 1 :]
            binds = [part for kind, part in rest if kind == "bind"]
            is_list = all((kind == "bind") == (at % 2 == 0) for at, (kind, _) in enumerate(rest))
            commas = all(part == "," for kind, part in rest if kind != "bind")
            return StatementForm(first, len(binds) if is_list and commas and len(rest) % 2 else -1)
    return StatementForm(first)


def _first_word(text: str) -> str:
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "word":
            return match[0].upper()
        if match[0] == "<":  # a label before a block
            return "BEGIN"
    return ""
