"""What a client's collation or character set means for its texts.

MySQL reads a statement in the client's character set. In big5, gbk, gb18030, sjis and cp932 the second half of a
character may be a backslash or a quote, swe7 has letters where ASCII has brackets and the backslash, and UTF-16 and
UTF-32 are no ASCII at all: what a rule reads there would not be what the server reads, so nobody may speak them here
(decision 0057). The others are supersets of ASCII: UTF-8, those of one byte a character, and some of two whose second
half is no ASCII.
"""

from __future__ import annotations

import re
from typing import Final

from postern.protocols.texts import SQL_ASCII

# Python's codec by MySQL's name. What Python has none for is read as ASCII with its other bytes as Latin-1, which is
# for recordings only: quotes and letters of statements are ASCII in all of these.
_CODECS: Final = {
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "binary": SQL_ASCII,
    "ascii": "latin-1",
    "latin1": "cp1252",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "macroman": "mac-roman",
    "macce": "mac-latin2",
    "tis620": "tis-620",
    "armscii8": "latin-1",
    "dec8": "latin-1",
    "geostd8": "latin-1",
    "hp8": "latin-1",
    "keybcs2": "latin-1",
    "euckr": "euc_kr",
    "gb2312": "gb2312",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
}

# Numbers of collations by character set, as far as a byte of the login can name them.
_IDS: Final = {
    "latin2": (2, 9, 21, 27, 77),
    "dec8": (3, 69),
    "cp850": (4, 80),
    "latin1": (5, 8, 15, 31, 47, 48, 49, 94),
    "hp8": (6, 72),
    "koi8r": (7, 74),
    "ascii": (11, 65),
    "ujis": (12, 91),
    "cp1251": (14, 23, 50, 51, 52),
    "hebrew": (16, 71),
    "tis620": (18, 89),
    "euckr": (19, 85),
    "latin7": (20, 41, 42, 79),
    "koi8u": (22, 75),
    "gb2312": (24, 86),
    "greek": (25, 70),
    "cp1250": (26, 34, 44, 66, 99),
    "cp1257": (29, 58, 59),
    "latin5": (30, 78),
    "armscii8": (32, 64),
    "utf8": (33, 76, 83, *range(192, 216), 223),
    "cp866": (36, 68),
    "keybcs2": (37, 73),
    "macce": (38, 43),
    "macroman": (39, 53),
    "cp852": (40, 81),
    "utf8mb4": (45, 46, *range(224, 248), 255),
    "cp1256": (57, 67),
    "binary": (63,),
    "geostd8": (92, 93),
    "eucjpms": (97, 98),
}
_BY_ID: Final = {number: name for name, numbers in _IDS.items() for number in numbers}

# In front of a statement: blanks, comments, and the head of a comment that the server runs. Possessive, since comments
# without end in sight could otherwise be divided in very many ways.
BEFORE: Final = r"(?:\s|/\*M?!\d*|/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/|\#[^\n]*+\n|--\s[^\n]*+\n)*+"
_NAME: Final = rf"(?:(?:session|local){BEFORE}|@@(?:(?:session|local){BEFORE}\.{BEFORE})?)?`?character_set_client`?"
_WORDS: Final = rf"(?:names|char(?:acter{BEFORE}set|set))"
# What sets the character set: by a word, or by something else.
_SETS: Final = re.compile(
    rf"(?:^|;){BEFORE}set{BEFORE}(?:{_WORDS}|{_NAME}{BEFORE}:?=){BEFORE}(?:['\"`]?(\w+)|(@\w+)|)", re.IGNORECASE
)
# … not as the first assignment of its statement, or in a text that is not parsed here
_ASSIGNS: Final = re.compile(rf"(?<!\w)character_set_client`?{BEFORE}:?=", re.IGNORECASE)
_ALSO_SETS: Final = re.compile(rf"(?:^|;){BEFORE}set\b[^;]*,{BEFORE}{_WORDS}\b", re.IGNORECASE)
# What keeps it in a variable, as dumps do: alone in its text.
_KEEPS: Final = re.compile(
    rf"{BEFORE}set{BEFORE}(@\w+){BEFORE}:?={BEFORE}@@(?:session{BEFORE}\.{BEFORE})?character_set_client"
    rf"{BEFORE}(?:\*/)?{BEFORE};?{BEFORE}",
    re.IGNORECASE,
)
# A comment that some servers run, and others do not.
_VERSIONED: Final = re.compile(r"/\*M?!")
# What may give a variable another value that is not seen here.
_RUNS: Final = re.compile(r"\b(?:execute|prepare|call|begin)\b", re.IGNORECASE)
UNKNOWN: Final = "?"


def codec_of(charset: str) -> str | None:
    """Python's codec, or SQL_ASCII; None for one that nobody may speak here, or that is not known."""
    return _CODECS.get(charset.lower())


def charset_of(collation: int) -> str:
    """The character set of a collation by its number; "" for one that nobody may speak here."""
    return _BY_ID.get(collation, "")


def may_speak(payload: bytes) -> bool:
    """Whether a text could set a character set, or keep one: asked about every statement."""
    folded = payload.upper()
    return b"SET" in folded and (b"NAMES" in folded or b"CHARSET" in folded or b"CHARACTER" in folded)


class Spoken:
    """What is known of the client's character set. `now` is "?" where a statement has set it to what is not seen in
    its text; `kept` are variables that hold one, by their names in small letters."""

    __slots__ = ("first", "kept", "now")

    def __init__(self, first: str) -> None:
        self.first = first
        self.now = first
        self.kept: dict[str, str] = {}

    def set_by(self, text: str) -> str:
        """The character set that holds behind this text; "" where it sets none. The last one counts."""
        found = ""
        times = 0
        for one in _SETS.finditer(text):
            times += 1
            word, variable = one.groups()
            found = word.lower() if word else self.kept.get((variable or "").lower(), UNKNOWN)
            found = self.first if found == "default" else found
            if _VERSIONED.search(one[0]) and codec_of(found) != codec_of(self.now):
                found = UNKNOWN
        if len(_ASSIGNS.findall(text)) > times or _ALSO_SETS.search(text):
            return UNKNOWN
        return found

    def keeps(self, text: str) -> str:
        """The variable in which the text keeps the character set of now; "" for none. What else is done to variables
        makes them unknown."""
        found = _KEEPS.fullmatch(text)
        if found is not None:
            return str(found[1]).lower()
        return ""

    def forget(self, text: str) -> None:
        """Variables that the text may change."""
        if not self.kept:
            return
        if _RUNS.search(text):
            self.kept.clear()
            return
        folded = text.lower()
        for variable in [name for name in self.kept if name in folded]:
            if _SETS.match(text) is None or folded.count(variable) != 1:
                del self.kept[variable]


def sets_unread(text: str) -> str:
    """The first character set that nobody may speak here, of those that the text names; "" for none."""
    for one in _SETS.finditer(text):
        word = one[1]
        if word and word.lower() != "default" and codec_of(word) is None:
            return str(word)
    return ""
