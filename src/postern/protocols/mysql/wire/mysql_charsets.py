"""The effect of a client's collation or character set on its texts.

MySQL reads a statement in the client's character set. In big5, gbk, gb18030, sjis and cp932 the second byte of a
character can be a backslash or a quote. swe7 has letters where ASCII has brackets and the backslash, and UTF-16 and
UTF-32 are not ASCII at all. A rule would not read what the server reads, so these are not allowed (decision 0057). The
others are supersets of ASCII: UTF-8, single-byte ones, and some of two bytes whose second byte is not ASCII.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from postern.protocols.refusal_texts import SQL_ASCII

# Python's codec by MySQL's name. A character set without one is read as ASCII with its other bytes as Latin-1, for
# recordings only: quotes and letters of statements are ASCII in all of these.
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

# Numbers of collations by character set, as far as the login's one byte can name them.
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
_WIDTHS: Final = {"utf8mb4": 4, "utf8": 3, "ujis": 3, "eucjpms": 3, "gb2312": 2, "euckr": 2}  # others: 1
_MARIADB_UTF8MB3: Final = 2048  # numbers of the uca1400 collations
_MARIADB_UTF8MB4: Final = 2304
_MARIADB_SIZE: Final = 256
_BY_ID: Final = {number: name for name, numbers in _IDS.items() for number in numbers}

# Collations of columns that are not supersets of ASCII, which `character_set_results` can select.
_WIDE: Final = (
    ("utf-16-be", {35, 54, 55, 90, *range(101, 125), *range(128, 160), 640, 641, 642, 672, 673, 674}),
    ("utf-16-be", {1059, 1078, 1079, 1114, 1125, 1147, 1152, 1174, *range(2560, 3072)}),
    ("utf-16-le", {56, 62, 1080, 1086}),
    ("utf-32-be", {60, 61, *range(160, 184), 736, 737, 738, 1084, 1085, 1184, 1206, *range(3072, 3328)}),
)
_WIDE_BY_ID: Final = {number: codec for codec, numbers in _WIDE for number in numbers}

# Before a statement: spaces, comments, and the head of a comment that the server runs. Possessive, and an unclosed one
# extends to the end: nothing is ever scanned twice.
_COMMENT: Final = r"/\*(?!M?!)(?:[^*]|\*(?!/))*+(?:\*/|\Z)|\#[^\n]*+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*+"
BEFORE: Final = rf"(?:\s|/\*M?!\d*|{_COMMENT})*+"
_NAME: Final = rf"(?:(?:session|local){BEFORE}|@@(?:(?:session|local){BEFORE}\.{BEFORE})?)?`?character_set_client`?"
_WORDS: Final = rf"(?:names|char(?:acter{BEFORE}set|set))"
_END: Final = rf"{BEFORE}(?:\*/)?{BEFORE}(?=[;,]|collate\b|\Z)"


def _make_quoted_pattern(escaped: str) -> str:
    """Match strings and names; in these quotes a backslash can escape."""
    return "|".join(
        [rf"{q}(?:[^{q}\\]++|\\.)*+(?:{q}|\\?\Z)" if q in escaped else rf"{q}[^{q}]*+(?:{q}|\Z)" for q in "'\"`"]
    )


def _setting(escaped: str) -> re.Pattern[str]:
    """Match the next statement that sets something, after a semicolon outside of quotes, and its first assignment."""
    passed = rf"[^;'\"`/#-]++|{_make_quoted_pattern(escaped)}|{_COMMENT}|;{BEFORE}(?!set\b)|[/-]"
    value = rf"(?:['\"`]?(?P<word>\w+)['\"`]?|(?P<variable>@[\w.$]+)|)(?P<ends>{_END})?"
    assigned = rf"(?:{_WORDS}|(?P<name>{_NAME}){BEFORE}:?=){BEFORE}{value}"
    return re.compile(rf"(?:{passed})*+(?P<set>;{BEFORE}set\b(?P<sets>{BEFORE}{assigned})?)", re.IGNORECASE | re.DOTALL)


def _more(escaped: str) -> re.Pattern[str]:
    """Match a further word that sets it, later in the same statement."""
    passed = rf"[^;,'\"`/#-]++|{_make_quoted_pattern(escaped)}|{_COMMENT}|,(?!{BEFORE}{_WORDS}\b)|[/-]"
    return re.compile(rf"(?:{passed})*+,", re.IGNORECASE | re.DOTALL)


# The quotes in which a backslash escapes depend on the session's sql_mode.
_WAYS: Final = [(_setting(escaped), _more(escaped)) for escaped in ("'\"", "'", "")]
_MOST: Final = 64  # statements of one text that set something; the effect of further ones is unknown
# … not as the first assignment of its statement, or in a text that is not parsed here
_ASSIGNS: Final = re.compile(r"(?<!\w)character_set_client`?\s*+(?::?=|/\*|\#|--)", re.IGNORECASE)
# Saving it in a variable, as dumps do, and restoring it: each alone in its text.
_KEEPS: Final = re.compile(
    rf"{BEFORE}set{BEFORE}(@\w+){BEFORE}:?={BEFORE}@@(?:session{BEFORE}\.{BEFORE})?character_set_client"
    rf"{BEFORE}(?:\*/)?{BEFORE};?{BEFORE}",
    re.IGNORECASE,
)
_TAKES: Final = re.compile(
    rf"{BEFORE}set{BEFORE}(?:{_WORDS}|{_NAME}{BEFORE}:?=){BEFORE}@\w+{BEFORE}(?:\*/)?{BEFORE};?{BEFORE}", re.IGNORECASE
)
_MOST_KEPT: Final = 8  # variables: dumps have two
# Unusual spellings of variables: in quotes, or with ambiguous characters.
_ODD: Final = re.compile(r"@(?:([`'\"])([^`'\"\\]*+)\1|[`'\"]|[\w.$]*[^\x00-\x7f])")
_MOST_ODD: Final = 1000
# A comment that only some servers run; and a text that may set it, anywhere.
_VERSIONED: Final = re.compile(r"/\*M?!")
_FIRST: Final = re.compile(BEFORE)
_ANYWHERE: Final = re.compile(r"\bset[\s`@/*#!\d-]*+(?:names|char|session|local)", re.IGNORECASE)
# Texts that may change a variable in an unknown way.
_RUNS: Final = re.compile(r"\b(?:execute|prepare|call|begin)\b", re.IGNORECASE)
UNKNOWN: Final = "?"


def codec_of(charset: str) -> str | None:
    """Return Python's codec, or SQL_ASCII; None for a character set that is not allowed or unknown."""
    return _CODECS.get(charset.lower())


def charset_of(collation: int) -> str:
    """Return the character set of a collation by its number; "" for one that is not allowed."""
    return _BY_ID.get(collation, "")


def wide_codec(collation: int) -> str:
    """Return Python's codec for texts of a column that are not ASCII-compatible; otherwise ""."""
    return _WIDE_BY_ID.get(collation, "")


def bytes_per_character(collation: int) -> int | None:
    """Return the most bytes of a character, by which servers multiply lengths; None if the collation is unknown."""
    if wide_codec(collation) or _MARIADB_UTF8MB4 <= collation < _MARIADB_UTF8MB4 + _MARIADB_SIZE:
        return 4
    if _MARIADB_UTF8MB3 <= collation < _MARIADB_UTF8MB3 + _MARIADB_SIZE:
        return 3
    name = _BY_ID.get(collation)
    return None if name is None else _WIDTHS.get(name, 1)


def may_speak(payload: bytes) -> bool:
    """Return True if a text could set a character set, or save one. Called for every statement."""
    folded = payload.upper()
    return b"SET" in folded and (b"NAMES" in folded or b"CHARSET" in folded or b"CHARACTER" in folded)


class CharsetState:
    """The state of the client's character set. `now` is "?" if a statement has set it to an unknown one; `kept` are
    variables that store one, by lower-case name."""

    __slots__ = ("first", "kept", "now")

    def __init__(self, first: str) -> None:
        self.first = first
        self.now = first
        self.kept: dict[str, str] = {}

    def set_by(self, text: str) -> str:
        """Return the character set that is active after this text; "" if it sets none. The last assignment counts."""
        charsets = {self._set_by(places, assigned) for places, assigned in _readings(text)}
        if len(charsets) != 1 or (_VERSIONED.search(text, _start(text)) and _ANYWHERE.search(text)):
            return UNKNOWN
        return charsets.pop()

    def _set_by(self, places: list[re.Match[str]] | None, assigned: int) -> str:
        if places is None or assigned > sum([place["name"] is not None for place in places]):
            return UNKNOWN
        return self._resolve_charset(places[-1]) if places else ""

    def _resolve_charset(self, match: re.Match[str]) -> str:
        word, variable = match["word"], match["variable"]
        charset = word.lower() if word else self.kept.get((variable or "").lower(), UNKNOWN)
        if match["ends"] is None or charset == "default":  # the target's own default is unknown
            return UNKNOWN
        return UNKNOWN if _VERSIONED.search(match["set"]) and codec_of(charset) != codec_of(self.now) else charset

    def keeps(self, text: str) -> str:
        """Return the variable in which the text saves the current character set; "" for none. Any other change of a
        variable makes it unknown."""
        match = _KEEPS.fullmatch(text)
        return str(match[1]).lower() if match is not None else ""

    def keep(self, variable: str) -> None:
        """Record that the variable stores the current character set."""
        if len(self.kept) < _MOST_KEPT or variable in self.kept:
            self.kept[variable] = self.now

    def forget(self, text: str) -> None:
        """Forget variables that the text may change."""
        if not self.kept:
            return
        if _RUNS.search(text) or self._may_mean(text):
            self.kept.clear()
            return
        folded = text.lower()
        for variable in [name for name in self.kept if name in folded]:
            if _TAKES.fullmatch(text) is None:
                del self.kept[variable]

    def _may_mean(self, text: str) -> bool:
        """Return True if one of them may be in the text in another spelling."""
        for seen, match in enumerate(_ODD.finditer(text)):
            if match[1] is None or "@" + match[2].lower() in self.kept or not match[2].isascii() or seen >= _MOST_ODD:
                return True
        return False


def _start(text: str) -> int:
    """Return the position of the first statement."""
    match = _FIRST.match(text)
    return match.end() if match is not None else 0


def _readings(text: str) -> list[tuple[list[re.Match[str]] | None, int]]:
    """Return, for each reading of its quotes, where the text sets a character set (None if in an unknown way or too
    often), and how often the setting's name is assigned, including in strings."""
    assigned = sum([1 for _ in islice(_ASSIGNS.finditer(text), _MOST + 1)])
    return [(_places(";" + text, *way), assigned) for way in (_WAYS if "\\" in text else _WAYS[:1])]


def _places(text: str, setting: re.Pattern[str], more: re.Pattern[str]) -> list[re.Match[str]] | None:
    matches: list[re.Match[str]] = []
    place = 0
    for _ in range(_MOST):
        match = setting.match(text, place)
        if match is None:
            return matches
        place = match.end()
        if more.match(text, place) is not None:
            return None
        if match["sets"] is not None:
            matches.append(match)
    return None


def sets_unread(text: str) -> str:
    """Return the first disallowed character set that the text names; "" for none."""
    for places, _ in _readings(text):
        for match in places or ():
            word = match["word"]
            if word and word.lower() != "default" and codec_of(word) is None:
                return str(word)
    return ""
