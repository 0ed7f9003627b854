"""Checks of a text's tokens before it is parsed. libpg_query recurses without limit when it writes a tree: a hundred
thousand plus signs overflow its stack.
"""

from __future__ import annotations

import re
from typing import Final

from postgast import PgQueryError, pg_query_pb2, scan

DEEPEST = 1_000  # nesting levels; real statements have a few dozen at most

_Token = pg_query_pb2.Token
_OPEN: Final = frozenset({_Token.Value("ASCII_40"), _Token.Value("ASCII_91")})
_CLOSE: Final = frozenset({_Token.Value("ASCII_41"), _Token.Value("ASCII_93")})
_CHAINS_END: Final = frozenset(_Token.Value(name) for name in ("ASCII_44", "ASCII_59", "AND", "OR"))
_CHAINS: Final = frozenset(
    _Token.Value(name)
    for name in (
        *("Op", "TYPECAST", "NOT", "NOT_LA", "OPERATOR", "COLLATE", "AT", "IS", "ISNULL", "NOTNULL"),
        *("LESS_EQUALS", "GREATER_EQUALS", "NOT_EQUALS", "EQUALS_GREATER", "COLON_EQUALS"),
        *(f"ASCII_{ord(sign)}" for sign in "+-*/%^<>="),
    )
)
_STAYS: Final = frozenset(_Token.Value(name) for name in ("UNION", "INTERSECT", "EXCEPT", "JOIN", "CASE"))
_END: Final = _Token.Value("END_P")
_SCONST: Final = _Token.Value("SCONST")
_QUOTE: Final = ord("'")
# The scanner reads a run of signs again from each comment and operator in it: 16 KiB of plus signs take five seconds.
_SIGNS: Final = re.compile(r"[~!@#^&|`?+\-*/%<>=]{256,}")
MOST_SIGNS: Final = 4_000_000  # sum of the squares of such runs
_LOOSE = re.compile(rb"(?<!\\)(?:\\\\)*\\'")


def scans_slowly(text: str) -> bool:
    """Return whether the scanner would take too long."""
    return sum((match.end() - match.start()) ** 2 for match in _SIGNS.finditer(text)) > MOST_SIGNS


def depth(data: bytes) -> int:
    """Return an upper bound of the nesting: parentheses, chained operators, queries, joins and cases.

    0 if the text has no tokens, which is an error to the parser as well.
    """
    try:
        tokens = scan(data.decode()).tokens
    except PgQueryError:
        return 0
    chain, stays = [0], [0]  # per open parenthesis: operators since a comma, and what a comma does not end
    closed = deepest = 0
    for item in tokens:
        token = item.token
        if token in _OPEN:
            closed += chain[-1] + stays[-1] + 1
            chain.append(0)
            stays.append(0)
        elif token in _CLOSE:
            if len(chain) > 1:
                chain.pop()
                stays.pop()
                closed -= chain[-1] + stays[-1] + 1
        elif token in _CHAINS:
            chain[-1] += 1
        elif token in _CHAINS_END:
            chain[-1] = 0
            if token == 59 and len(chain) == 1:
                stays[-1] = 0
        elif token in _STAYS:
            stays[-1] += 1
        elif token == _END and stays[-1]:
            stays[-1] -= 1
        else:
            continue
        deepest = max(deepest, closed + chain[-1] + stays[-1])
    return deepest


def has_loose_backslash(data: bytes) -> bool:
    """Return whether an ordinary literal has a backslash right before a quote. Only there do the two readings of a
    backslash disagree on the end of a literal.
    """
    try:
        tokens = scan(data.decode()).tokens
    except PgQueryError:
        return True
    return any(
        item.token == _SCONST and data[item.start] == _QUOTE and _LOOSE.search(data, item.start, item.end)
        for item in tokens
    )
