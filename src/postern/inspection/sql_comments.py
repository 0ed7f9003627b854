"""SQL texts without their comments, so that `drop/**/table` reads like `drop table`.

This is not a parser. A text can be read in several ways: a backslash can escape a quote or not, and a dollar-quoted
body can be data or code. All readings are returned, and a rule that matches one of them applies. A wrong reading can
only deny more.
"""

from __future__ import annotations

import re

# Preceding character of an identifier: E' or $ then belongs to the identifier.
_NOT_BEHIND_NAME = rb"(?<![0-9A-Za-z_$\x80-\xff])"
_ESCAPED_BODY = rb"'(?:[^'\\]++|''|\\.)*+(?:'|\Z|\\\Z)"
_PLAIN_BODY = rb"'[^']*+(?:'|\Z)"  # a doubled quote is two adjacent bodies
_CONTINUED = rb"(?:(?:\s|--[^\r\n]*+)*+" + _ESCAPED_BODY + rb")*+"  # 'a' continues on the next line


def _tokens(quoted: bytes) -> re.Pattern[bytes]:
    return re.compile(
        rb"(?P<comment>--[^\r\n]*+|\v)"
        rb"|(?P<block>/\*)"
        rb"|(?P<text>"
        + _NOT_BEHIND_NAME
        + rb"[eE]"
        + _ESCAPED_BODY
        + _CONTINUED
        + rb"|"
        + quoted
        + rb'|"[^"]*+(?:"|\Z))'
        rb"|(?P<dollar>" + _NOT_BEHIND_NAME + rb"\$(?:[A-Za-z_\x80-\xff][0-9A-Za-z_\x80-\xff]*+)?\$)",
        re.DOTALL,
    )


_PLAIN = _tokens(_PLAIN_BODY)
_BACKSLASH = _tokens(_ESCAPED_BODY)
_BLOCK_EDGE = re.compile(rb"/\*|\*/")


def readings(text: bytes) -> tuple[bytes, ...]:
    """Return the text itself, and each different reading of it with every comment replaced by a space."""
    # `find`, because `in` first takes bytes for a number, and drops the exception of the attempt.
    if text.find(b"--") < 0 and text.find(b"/*") < 0 and text.find(b"\v") < 0:
        return (text,)
    distinct = {text: None}
    for tokens in (_PLAIN, _BACKSLASH) if b"\\" in text else (_PLAIN,):
        for dollar_is_code in (False, True) if b"$" in text else (False,):
            distinct[_without_comments(text, tokens, dollar_is_code)] = None
    return tuple(distinct)


def _without_comments(text: bytes, tokens: re.Pattern[bytes], dollar_is_code: bool) -> bytes:
    parts: list[bytes] = []
    start = at = 0
    while token := tokens.search(text, at):
        at = token.end()
        kind = token.lastgroup
        if kind == "dollar" and not dollar_is_code:
            at = _end_of_dollar_quote(text, token.group(), at)
        elif kind in ("comment", "block"):
            if kind == "block":
                at = _end_of_block(text, at)
            parts.append(text[start : token.start()])
            start = at
    parts.append(text[start:])
    return b" ".join(parts)


def _end_of_dollar_quote(text: bytes, delimiter: bytes, at: int) -> int:
    end = text.find(delimiter, at)
    return len(text) if end < 0 else end + len(delimiter)


def _end_of_block(text: bytes, at: int) -> int:
    """Return the end of a block comment. They nest in the SQL standard."""
    depth = 1
    for edge in _BLOCK_EDGE.finditer(text, at):
        depth += 1 if edge.group() == b"/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)
