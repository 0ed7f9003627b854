"""The possible readings of one text by a MySQL or MariaDB server.

Only the server knows which one applies. It depends on its version (`/*!80000 ... */` is a comment below 8.0), on
whether it is MariaDB (`/*M! ... */`), and on the session's `sql_mode` (NO_BACKSLASH_ESCAPES, ANSI_QUOTES). All readings
are returned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from postern.inspection.sql.sql_lexing import MAX_TOKENS, check_text, token_of, why_unreadable
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, symbol
from postern.protocols.mysql.dialect.mysql_words import READ_CHARSETS

MAX_SERVERS = 8
OLDEST = 50500  # MySQL 5.5
NEVER = 999_999  # dumps of MariaDB begin with `/*!999999\- ... */`: a comment for every server

_CHARSETS = (
    "armscii8|ascii|big5|binary|cp1250|cp1251|cp1256|cp1257|cp850|cp852|cp866|cp932|dec8|eucjpms|euckr|gb18030|gb2312"
    "|gbk|geostd8|greek|hebrew|hp8|keybcs2|koi8r|koi8u|latin1|latin2|latin5|latin7|macce|macroman|sjis|swe7|tis620"
    "|ucs2|ujis|utf16|utf16le|utf32|utf8|utf8mb3|utf8mb4"
)


@dataclass(frozen=True, slots=True)
class Mode:
    backslash: bool  # a backslash escapes
    ansi_quotes: bool  # "..." is a name


USUAL = Mode(backslash=True, ansi_quotes=False)
MODES = (USUAL, Mode(True, True), Mode(False, False), Mode(False, True))


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """A server's version: `version` as in versioned comments, 80036, or 101119 for MariaDB 10.11.19."""

    version: int
    maria: bool

    def runs(self, version: int, maria_only: bool) -> bool:
        if maria_only and not self.maria:
            return False
        if self.maria and not maria_only and 50700 <= version <= 99999:
            return False  # versions of MySQL that MariaDB does not follow
        return version <= self.version


@dataclass(frozen=True, slots=True)
class StatementReading:
    """One reading of a text. `broken` is the reason why it cannot be read to its end; the tokens are those before."""

    tokens: tuple[SqlToken, ...]
    usual: bool
    broken: str = ""


def _body(quote: str, backslash: bool) -> str:
    if backslash:
        return rf"{quote}(?:[^{quote}\\]++|{quote}{quote}|\\.)*+{quote}"
    return rf"{quote}(?:[^{quote}]++|{quote}{quote})*+{quote}"


def _pattern(mode: Mode) -> re.Pattern[str]:
    single, double = _body("'", mode.backslash), _body('"', mode.backslash)
    plain_double = _body('"', False)
    string = rf"(?:[nNxXbB]|_(?i:{_CHARSETS})[ \t\r\n]*)?{single}"
    if not mode.ansi_quotes:
        string += rf"|(?:_(?i:{_CHARSETS})[ \t\r\n]*)?{double}"
    name = r"`(?:[^`]++|``)++`" + (rf"|{plain_double}" if mode.ansi_quotes else "")
    ident = r"[0-9A-Za-z_$\u0080-\U0010ffff]"
    return re.compile(
        r"(?P<blank>[ \t\n\r\f\v]+)"
        r"|(?P<versioned>/\*(?P<maria>M?)!(?P<version>[0-9]{5,6})?)"
        r"|(?P<comment>/\*[\s\S]*?\*/|\#[^\n]*|--(?=[\x00-\x20\x7f]|\Z)[^\n]*)"
        r"|(?P<close>\*/)"
        rf"|(?P<variable>@@?(?:[0-9A-Za-z_$.\u0080-\U0010ffff]+|`(?:[^`]++|``)++`|{single}|{double})?|\?)"
        rf"|(?P<string>{string})"
        rf"|(?P<name>{name})"
        rf"|(?P<number>0x[0-9a-fA-F]+(?!{ident})|0b[01]+(?!{ident})|[0-9]+[eE][+-]?[0-9]+|[0-9]+(?!{ident})(?:\.[0-9]*)?"
        r"(?:(?<=[0-9.])[eE][+-]?[0-9]+)?(?!\.?[eE](?![+-]?[0-9])|\.)|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
        rf"|(?P<word>{ident}+)"
        r"|(?P<symbol>:=|<=>|->>|->|<>|!=|<=|>=|\|\||&&|<<|>>|/(?!\*)|[-+*%(),.;=<>!~^&|:{}])",
        re.DOTALL,
    )


_PATTERNS = {mode: _pattern(mode) for mode in MODES}
USUAL_PATTERN = _PATTERNS[USUAL]


def readings(text: str) -> list[StatementReading]:
    """Return each different reading, the usual one first. Raises Unreadable for a text that cannot be analysed at
    all."""
    check_text(text)
    modes = MODES if '"' in text or "\\" in text else (USUAL,)
    found_readings: dict[tuple[SqlToken, ...], StatementReading] = {}
    for server in _servers(text):
        for mode in modes:
            reading = _read(text, mode, server)
            found_readings.setdefault(reading.tokens + ((_BROKEN,) if reading.broken else ()), reading)
    return list(found_readings.values())


def ways_of(text: str) -> int:
    """Return the maximum number of readings of the text."""
    versions = {match.group(1) for match in _VERSIONED.finditer(text)}
    servers = 2 * min(len(versions) + 1, MAX_SERVERS) if versions else 1
    return servers * (len(MODES) if '"' in text or "\\" in text else 1)


_BROKEN = SqlToken(SqlTokenKind.SYMBOL, "")
_VERSIONED = re.compile(r"/\*M?!([0-9]{5,6})?")


def _servers(text: str) -> list[ServerVersion]:
    """Return servers such that every set of versioned comments that some server runs is run by one of them."""
    version_texts = [match.group(1) for match in _VERSIONED.finditer(text)]
    if not version_texts:
        return [ServerVersion(NEVER - 1, False)]
    versions = sorted({int(version) for version in version_texts if version and OLDEST < int(version) != NEVER})
    if len(versions) >= MAX_SERVERS:
        raise UnreadableSql("it has versioned comments for too many server versions")
    return [ServerVersion(version, maria) for version in reversed([OLDEST, *versions]) for maria in (False, True)]


def _read(text: str, mode: Mode, server: ServerVersion) -> StatementReading:
    pattern = _PATTERNS[mode]
    tokens: list[SqlToken] = []
    place, opened, usual = 0, False, mode == USUAL
    try:
        while place < len(text):
            match = pattern.match(text, place)
            if match is None or match.end() == place:
                return StatementReading(tuple(tokens), usual, why_unreadable(text, place))
            place, kind = match.end(), match.lastgroup
            if match["versioned"] is not None:
                if server.runs(int(match["version"] or 0), match["maria"] == "M"):
                    opened = True
                else:
                    place = _behind_comment(text, place)
            elif kind == "close" and opened:
                opened = False
            elif kind == "close":  # without an open one it is an asterisk: `select */**/from`
                place -= 1
                _append(tokens, symbol("*"))
            elif kind not in ("blank", "comment"):
                _append(tokens, _token(match, text, tokens))
                if len(tokens) > MAX_TOKENS:
                    raise UnreadableSql(f"it has more than {MAX_TOKENS} tokens")
    except UnreadableSql as error:
        return StatementReading(tuple(tokens), usual, str(error))
    return StatementReading(tuple(tokens), usual)


_INTRODUCED = re.compile(r"_(\w+)")
_BLANKS_OF_OTHERS = re.compile(r"[\u0085\u00a0\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]")


def _token(match: re.Match[str], text: str, tokens: list[SqlToken]) -> SqlToken:
    if match.lastgroup == "word":
        if tokens and tokens[-1].key == "." and not match.group().isdigit():
            return SqlToken(SqlTokenKind.NAME, match.group())  # after a dot nothing is a keyword
        text_of_word = match.group()
        if not text_of_word.isascii() and (blank := _BLANKS_OF_OTHERS.search(text_of_word)) is not None:
            raise UnreadableSql(f"U+{ord(blank.group()):04X} may or may not be a space")
        if text_of_word.isdigit() and text_of_word.isascii():
            return SqlToken(SqlTokenKind.NUMBER, text_of_word)
        if text_of_word[0].isdigit():
            return SqlToken(SqlTokenKind.NAME, text_of_word)
    token = token_of(match, text)
    if match.lastgroup == "string" and match.group()[0] == "_" and not _is_as_written(match.group(), token):
        return SqlToken(SqlTokenKind.STRING, token.text)
    return token


def _is_as_written(literal: str, token: SqlToken) -> bool:
    """Return True if the character set before a string does not change its content."""
    charset = _INTRODUCED.match(literal)
    is_read = charset is not None and charset[1].upper() in READ_CHARSETS
    return is_read and token.content is not None and token.content.isascii()


def _append(tokens: list[SqlToken], token: SqlToken) -> None:
    if token.key == "." and tokens and tokens[-1].kind is SqlTokenKind.NUMBER:
        raise UnreadableSql("a dot follows a number")
    if token.kind is SqlTokenKind.STRING and tokens and tokens[-1].kind is SqlTokenKind.STRING:
        before = tokens[-1]  # adjacent strings are one
        both = None if before.content is None or token.content is None else before.content + token.content
        tokens[-1] = SqlToken(SqlTokenKind.STRING, before.text + token.text, content=both)
    else:
        tokens.append(token)


def _behind_comment(text: str, place: int) -> int:
    """Return the position after a versioned comment that is not run. Comments inside it are skipped, one level deep."""
    while True:
        close = text.find("*/", place)
        if close < 0:
            raise UnreadableSql("a comment is not closed")
        inner = text.find("/*", place, close)
        if inner < 0:
            return close + 2
        inner_close = text.find("*/", inner + 2)
        if inner_close < 0:
            raise UnreadableSql("a comment is not closed")
        place = inner_close + 2
