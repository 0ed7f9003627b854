"""What a session's own requests may have changed in it, for whoever has to repeat its settings on another connection.

A server reports the database of a session, but none of its SET options. So the wire keeps the texts that may set one:
only the start of a text is looked at for that, by words, and rather too many are kept. `dialect.tsql_settings` reads
them. Options that a procedure or sp_executesql sets are restored at its end, so only batches count.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_TEXTS: Final = 100
MAX_CHARACTERS: Final = 64 * 1024
MAX_READ: Final = 128 * 1024  # characters of a text whose literals are told apart

# What a text does with the session's database
NO_USE: Final = 0
PLAIN_USE: Final = 1  # it begins with USE, and nothing behind that changes the database again
OTHER_USE: Final = 2

_PART: Final = r"(?:\[[^\]]*\]|[a-z_@#$][\w@#$]*)"
# What follows the word SET in a statement that sets no option of the meaning of texts: an assignment, or one of these.
_NO_OPTION: Final = (
    rf"\s*{_PART}(?:\s*\.\s*{_PART})*\s*(?:[-+*/%&|^]?=|\.\s*write\s*\()"
    r"|\s+(?:nocount|xact_abort|implicit_transactions|cursor_close_on_commit|(?:statistics\s+)(?:io|time))\s+o(?:n|ff)\b"
    r"|\s+transaction\s+isolation\s+level\b"
    r"|\s+(?:lock_timeout|deadlock_priority|textsize)\b"
)
_SET: Final = re.compile(rf"set(?![\w@#$])(?!{_NO_OPTION})")
_IN_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyz_@#$")
_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_SWITCHING: Final = ("exec", "setuser", "revert", "approle")
_SWITCH: Final = re.compile(
    r"setuser|revert|approle|exec(?:ute)?\s*(?:/\*|--|(?<=\s)as(?!\w)|@(?![\w@#$]+\s*=\s*[\w\[]))"
)
_USE: Final = re.compile(r"use(?![\w@#$])")
# Without comments, quotes and brackets end where a server ends them.
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]")
_FIRST_USE: Final = re.compile(r"\s*use\s+(?:\[[^\]]*\]|[a-z_][\w@#$]*)\s*(?:;|$|\n)")


def _simple_letters(text: str) -> str:
    """Return the text in small letters. Wide letters become plain ones, because some servers read them alike."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


class MssqlSessionTexts:
    """The state of one session, as far as its own requests tell. `database` is the one that the server has reported, if
    that is not the login's. `is_lost`: settings are unknown. `is_switched`: it may have another user."""

    __slots__ = ("_size", "_texts", "database", "is_lost", "is_switched")

    def __init__(self) -> None:
        self.database = ""
        self.is_lost = False
        self.is_switched = False
        self._texts: dict[str, bool] = {}
        self._size = 0

    @property
    def texts(self) -> tuple[str, ...] | None:
        """Return the texts that may have set options, in order; None if settings are unknown."""
        return None if self.is_lost else tuple(self._texts)

    def record_batch(self, text: str) -> bool:
        """Record a batch that is forwarded. Return True if it may set options."""
        simple = _simple_letters(text)
        for word in _SWITCHING:
            if word in simple and _SWITCH.search(simple) is not None:
                self.is_switched = True
        if "reset_connection" in simple:
            self.is_lost = True
        if not _may_set(simple):
            return False
        is_plain = len(simple) <= MAX_READ and "--" not in simple and "/*" not in simple
        if is_plain and not _may_set(_QUOTED.sub("[]", simple)):
            return False  # the word is within a text
        self._size += len(text) if self._texts.pop(text, None) is None else 0
        self._texts[text] = True  # as the last one
        if len(self._texts) > MAX_TEXTS or self._size > MAX_CHARACTERS:
            self.is_lost = True
            self._texts.clear()
            self._size = 0
        return True

    def record_call(self, name: str) -> None:
        """Record a procedure that is called by name."""
        if not name.isascii() or "approle" in name.lower():
            self.is_switched = True
        if "reset_connection" in name.lower():
            self.is_lost = True

    def reset(self) -> None:
        """The session is reset to its state at login. A reset ends no switch to another user."""
        self.database = ""
        self.is_lost = False
        self._texts.clear()
        self._size = 0


def _may_set(simple: str) -> bool:
    """Return whether a text contains the word SET with anything but an assignment behind it."""
    pos = simple.find("set")
    while pos >= 0:
        if not _is_inside_word(simple, pos) and _SET.match(simple, pos) is not None:
            return True
        pos = simple.find("set", pos + 3)
    return False


def _is_inside_word(simple: str, pos: int) -> bool:
    """Return whether a word at `pos` has begun before. A number can end right there: `1SET`, `1eSET`, `0xABSET`."""
    start = pos - 1
    if start < 0 or simple[start] not in _IN_WORDS:
        return False
    if simple[start] == "e" and start and simple[start - 1] in "0123456789.":
        return False
    while start >= 0 and simple[start] in _HEXADECIMAL:
        start -= 1
    return not (start > 0 and simple[start] == "x" and simple[start - 1] == "0")


def use_of(text: str) -> int:
    """Return what a text does with the session's database."""
    simple = _simple_letters(text)
    if "use" not in simple or _USE.search(simple) is None:
        return NO_USE
    first = _FIRST_USE.match(simple)
    is_plain = first is not None and _USE.search(simple, first.end()) is None and "exec" not in simple
    return PLAIN_USE if is_plain else OTHER_USE
