"""Lexer of templates: text between actions, and the tokens of each action."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from postern.runbooks.template_errors import Fault

MAX_NUMBER = 64  # characters
_BLANK = " \t\r\n"
_OPEN_COMMENT = re.compile(r"[ \t\r\n]*/\*")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CLOSE = re.compile(r"[ \t\r\n]+-\}\}|[ \t\r\n]*\}\}")
# Repetitions are possessive: a literal can be as long as the text, and backtracking would hold the GIL meanwhile.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
    | (?P<string>"(?:[^"\\\n]++|\\[^\n])*+")
    | (?P<raw>`[^`]*`)
    | (?P<char>'(?:[^'\\\n]++|\\[^\n])++')
    | (?P<number>[+-]?(?:[0-9]|\.[0-9])(?:[0-9A-Za-z_.]++|(?<=[eEpP])[+-])*+)
    | (?P<field>\.(?![0-9])\w+)
    | (?P<variable>\$\w*)
    | (?P<word>[^\W0-9]\w*)
    | (?P<declare>:=)
    | (?P<sign>[.|()=,])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\'\"])|x([0-9A-Fa-f]{2})|([0-7]{3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))")
_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class TemplateToken(NamedTuple):
    """Token. `kind` is a group of the pattern above, or "text", "open", "close", "end".

    `value` of strings is unescaped. `spaced` says whether white space precedes the token.
    """

    kind: str
    value: str
    at: int
    spaced: bool = False


def tokens(text: str) -> Iterator[TemplateToken]:
    """Yield the tokens of a template, with each action between "open" and "close". Raises Fault."""
    at, trim = 0, False
    while True:
        opened = text.find("{{", at)
        plain = text[at:] if opened < 0 else text[at:opened]
        visible = plain.lstrip(_BLANK) if trim else plain
        if opened < 0:
            yield TemplateToken("text", visible, len(text) - len(visible))
            yield TemplateToken("end", "", len(text))
            return
        inside = opened + 2
        if text.startswith("-", inside) and text[inside + 1 : inside + 2] in tuple(_BLANK):
            inside += 2
            yield TemplateToken("text", visible.rstrip(_BLANK), opened - len(visible))
        else:
            yield TemplateToken("text", visible, opened - len(visible))
        comment = _OPEN_COMMENT.match(text, inside)
        if comment is not None:
            at, trim = _after_comment(text, comment.end() - 2)
            continue
        yield TemplateToken("open", "{{", opened)
        for token in _action(text, inside, opened):
            yield token
        at, trim = token.at + len(token.value), "-" in token.value


def _after_comment(text: str, at: int) -> tuple[int, bool]:
    comment = _COMMENT.match(text, at)
    if comment is None:
        raise Fault("a comment is not closed; end it with */", at)
    close = _CLOSE.match(text, comment.end())
    if close is None:
        raise Fault("a comment must fill its action: only }} can follow */", at)
    return close.end(), "-" in close[0]


def _action(text: str, at: int, opened: int) -> Iterator[TemplateToken]:
    spaced = True
    while True:
        close = _CLOSE.match(text, at)
        if close is not None:
            yield TemplateToken("close", close[0], at, True)
            return
        match = _TOKEN.match(text, at)
        if match is None:
            raise Fault(_unreadable(text, at), at if at < len(text) else opened)
        kind, value = str(match.lastgroup), match[0]
        at = match.end()
        if kind == "space":
            spaced = True
            continue
        start = match.start()
        if kind in ("string", "char"):
            value = unescape(value[1:-1], start, value[0])
        elif kind == "raw":
            kind, value = "string", value[1:-1].replace("\r", "")
        elif kind == "number" and len(value) > MAX_NUMBER:
            raise Fault(f"a number has at most {MAX_NUMBER} characters", start)
        yield TemplateToken(kind, value, start, spaced)
        spaced = False


def _unreadable(text: str, at: int) -> str:
    sign = text[at : at + 1]
    if not sign:
        return "the action is not closed: }} is missing"
    if sign in "\"'`":
        return f"the quote {sign} is not closed"
    if sign == "-":
        return "- is not valid here; names consist of letters, digits and underscores"
    return f"{sign!r} is not valid in an action"


def unescape(body: str, at: int, quote: str) -> str:
    """Return the text of a literal in Go's syntax."""
    if "\\" not in body:
        return body
    out = bytearray()
    done = 0
    for match in _ESCAPE.finditer(body):
        out += body[done : match.start()].encode()
        done = match.end()
        short, hexadecimal, octal, four, eight, unknown = match.groups()
        if unknown is not None or (short in ("'", '"') and short != quote):
            raise Fault(f"{match[0]} is not an escape; write a backslash as \\\\, or the text in `backquotes`", at)
        if short is not None:
            out += _SHORT.get(short, short).encode()
        elif four is not None or eight is not None:
            out += _character(int(four or eight, 16), match[0], at)
        else:
            out.append(_byte(int(hexadecimal, 16) if hexadecimal else int(octal, 8), match[0], at))
    out += body[done:].encode()
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise Fault("the escapes of this text are not valid UTF-8", at) from None


def _character(code: int, written: str, at: int) -> bytes:
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise Fault(f"{written} is not a character", at)
    return chr(code).encode()


def _byte(code: int, written: str, at: int) -> int:
    if code > 0xFF:
        raise Fault(f"{written} is not a byte", at)
    return code
