"""What must be known of a text before it is parsed, from its tokens: libpg_query recurses without a limit when it
writes a tree, and a hundred thousand signs of addition overflow its stack."""

from __future__ import annotations

import re
from typing import Final

from postgast import PgQueryError, pg_query_pb2, scan

DEEPEST = 1_000  # of what may nest in a text; real ones have some dozen

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
# The scanner looks at a run of signs again from each comment and operator in it: 16 KiB of pluses take it five seconds.
_SIGNS: Final = re.compile(r"[~!@#^&|`?+\-*/%<>=]{256,}")
MOST_SIGNS: Final = 4_000_000  # squares of such runs together
_LOOSE = re.compile(rb"(?<!\\)(?:\\\\)*\\'")


def scans_slowly(text: str) -> bool:
    """Whether the scanner would take longer than such a text is worth."""
    return sum((found.end() - found.start()) ** 2 for found in _SIGNS.finditer(text)) > MOST_SIGNS


def depth(data: bytes) -> int:
    """At most so many levels does the text nest: brackets, operators in a row, queries, joins and cases. 0 where it has
    no tokens, which is an error to the parser as well."""
    try:
        tokens = scan(data.decode()).tokens
    except PgQueryError:
        return 0
    chain, stays = [0], [0]  # for each open bracket: operators since a comma, and what no comma ends
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
    """Whether an ordinary literal holds a backslash right before a quote: only there do the two ways of reading a
    backslash find different ends of a literal."""
    try:
        tokens = scan(data.decode()).tokens
    except PgQueryError:
        return True
    return any(
        item.token == _SCONST and data[item.start] == _QUOTE and _LOOSE.search(data, item.start, item.end)
        for item in tokens
    )
