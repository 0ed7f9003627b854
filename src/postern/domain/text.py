"""Untrusted texts, made safe to show."""

from __future__ import annotations

import re

# Those that have the property Bidi_Control (Unicode Standard Annex 9).
BIDI = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# C0, DEL, C1, and the characters that some readers take as a line's end or as a change of direction.
_CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f\u2028\u2029{BIDI}]")
_UNPRINTABLE = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}]")
_BEYOND_JSON = re.compile(rf"[\x7f-\x9f\u2028\u2029{BIDI}]")  # JSON escapes C0 itself


def small_letters(text: str) -> str:
    """Return `text` in lower case, so that each ASCII word that a case-insensitive search would find is in it
    unchanged.

    Searching words in it takes a hundredth of the time of such a search.
    """
    if text.isascii():
        return text.lower()
    return text.casefold().replace("i\u0307", "i").replace("\u0131", "i")  # a capital I with a dot, a small one without


def one_line(text: str) -> str:
    r"""Return `text` on one line: control characters as `\n`, `\x1b`, `\u2028`."""
    return _CONTROL.sub(_escape, text)


def printable(text: str) -> str:
    """Return `text` with its tabs and lines, and without other control characters."""
    return _UNPRINTABLE.sub(_escape, text.replace("\r\n", "\n"))


def json_text(text: str) -> str:
    """Return equivalent JSON without control characters, which cannot steer a terminal or change how it reads."""
    return _BEYOND_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
