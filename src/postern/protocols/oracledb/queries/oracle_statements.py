"""Splitting a script into statements, as SQL*Plus does.

A statement of SQL ends with a semicolon, or with a line that has only a slash. Code in PL/SQL contains semicolons, so
it ends with such a line alone, or with the script. The semicolon is a part of code, but not of a statement of SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<slash>^[ \t]*/[ \t]*$)
    | (?P<space>\s+ | --[^\n]* | /\*.*?(?:\*/|\Z))
    | (?P<text>
        [nN]?[qQ]'(?:\[.*?\]'|\{.*?\}'|<.*?>'|\(.*?\)'|(?P<sign>[^\[{<(\s]).*?(?P=sign)')
        | [nN]?'(?:[^']|'')*'
        | "[^"]*"
      )
    | (?P<word>[^\W\d_][\w$\#]*)
    | (?P<end>;)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE | re.MULTILINE,
)
_BLOCKS: Final = frozenset({"DECLARE", "BEGIN"})
_CODE: Final = frozenset({"FUNCTION", "PROCEDURE", "PACKAGE", "TRIGGER", "TYPE", "LIBRARY", "JAVA"})
_BETWEEN: Final = frozenset({"OR", "REPLACE", "EDITIONABLE", "NONEDITIONABLE", "AND", "RESOLVE", "COMPILE", "NOFORCE"})


@dataclass(frozen=True, slots=True)
class OracleStatement:
    """A statement, and its place in the script."""

    start: int
    end: int
    text: str


def script_statements(script: str) -> list[OracleStatement]:
    """Return the statements of a script."""
    found: list[OracleStatement] = []
    words: list[str] = []
    start = last = -1
    for match in _TOKEN.finditer(script):
        kind = match.lastgroup
        if kind == "space":
            continue
        ends = kind == "slash" or (kind == "end" and not _is_code(words))
        if ends:
            if start >= 0:
                found.append(OracleStatement(start, last, script[start:last]))
            start, words = -1, []
            continue
        if start < 0:
            start = match.start()
        last = match.end()
        if len(words) < 8:
            words.append(match[0].upper())
    if start >= 0:
        found.append(OracleStatement(start, last, script[start:last]))
    return found


def _is_code(words: list[str]) -> bool:
    """Return whether a statement that begins with these words is code in PL/SQL."""
    first = words[0] if words else ""
    if first in _BLOCKS or first == "<":  # a label before a block begins with <<
        return True
    if first == "WITH":
        return words[1:2] in (["FUNCTION"], ["PROCEDURE"])
    if first != "CREATE":
        return False
    rest = [word for word in words[1:] if word not in _BETWEEN]
    return bool(rest) and rest[0] in _CODE
