"""Lexers that know one thing: whether what comes next would be code, a comment, or within quotes.

They read on from where they were. A text ends only where a quoted value follows, so nothing but a backslash can be cut
apart there. They need not know everything: where they lose their way they say so, and then nothing is taken for code.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.effort import Effort
from postern.runbooks.faults import Fault

MAX_SIGNS = 400_000  # quotes and the like that are followed in one script
MAX_TAGS = 1_000  # dollar quotes
TAIL = 200  # characters that are kept of what stands in front


class ScannerState(Enum):
    CODE = auto()
    COMMENT = auto()
    QUOTED = auto()


class Scanner:
    """`tail` is the end of what was read."""

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self.tail = ""
        self.skips = False  # a backslash was the last character, and takes the next one
        self.is_lost = False
        self._signs = 0

    def read(self, text: str) -> None:
        if not text or self.is_lost:
            return
        self._read(text, 1 if self.skips else 0)
        self.tail = (self.tail + text[-TAIL:])[-TAIL:]

    @property
    def state(self) -> ScannerState:
        raise NotImplementedError

    @property
    def is_read_again(self) -> bool:
        """Whether what reads code here takes the value of a literal for code in its turn."""
        return False

    def will_be_read_again(self, text: str) -> bool:
        """The same of the literal that this text follows, because of it."""
        return False

    def is_whole(self) -> bool:
        """Whether the script, which ends here, could be followed to its end, and everything in it is closed."""
        return not (self.is_lost or self.skips or self.state is ScannerState.QUOTED)

    def prefix(self, quote: str) -> str:
        """What belongs to a literal that begins here. Raises Fault where none should."""
        raise NotImplementedError

    def _read(self, text: str, at: int) -> None:
        raise NotImplementedError

    def _count(self) -> None:
        self._signs += 1
        self.effort.step()
        self.is_lost = self.is_lost or self._signs > MAX_SIGNS

    def _before(self, text: str, at: int, count: int = 3) -> str:
        """A few characters in front of a place."""
        return (self.tail + text[:at])[-count:] if at < count else text[at - count : at]

    def _escape(self, text: str, at: int) -> int:
        """Behind a backslash and what it takes."""
        self.skips = at + 1 >= len(text)
        return at + 2


class UnknownScanner(Scanner):
    """Of a language that nobody knows."""

    @property
    def state(self) -> ScannerState:
        return ScannerState.CODE  # what quoted() lets pass there means nothing anywhere

    def prefix(self, quote: str) -> str:
        return ""

    def _read(self, text: str, at: int) -> None:
        return


_LINE = "line"  # a command of the program that speaks with a database, up to the end of its line
_BEYOND = r"[\x80-\U0010ffff]"  # letters of names, too, for some


class Sql(Scanner):
    def __init__(self, syntax: ScriptSyntax, effort: Effort) -> None:
        super().__init__(effort)
        self._syntax = syntax
        self._mode = ""  # code; else what ends it, behind "\" where a backslash escapes
        self._tags: list[str] = []
        self._opened = 0
        self._depth = 0  # of comments
        self.is_conditional = False  # in what some servers run, and others take for a comment
        self._closed: tuple[int, str] = (-1, "")  # where a literal ended last, and its mode
        self._offset = 0
        self._code = re.compile(_SQL_CODE[syntax])

    @property
    def state(self) -> ScannerState:
        if self._mode == "":
            return ScannerState.CODE
        return ScannerState.COMMENT if self._mode in ("\n", "*/") else ScannerState.QUOTED

    @property
    def is_within_tags(self) -> bool:
        return bool(self._tags)

    @property
    def is_command(self) -> bool:
        """Whether the rest of the line is read by the program that speaks with the database, in its own way."""
        return self._mode == _LINE

    def is_whole(self) -> bool:
        return super().is_whole() and not self._tags

    def prefix(self, quote: str) -> str:
        if self.tail.endswith(quote):
            raise Fault("two quoted texts stand side by side, and would be read as one: put something between them")
        found = re.search(rf"(?:[\w$]|{_BEYOND}|[uU]&)+$", self.tail)
        if found is None:
            return ""
        if quote == "'" and (
            found[0] in ("N", "n") or (found[0] in ("E", "e") and self._syntax is ScriptSyntax.DOLLAR_QUOTES)
        ):
            return found[0]
        raise Fault("what stands in front would change how the quotes are read: put a blank between them")

    def _read(self, text: str, at: int) -> None:
        self.skips = False
        while at < len(text) and not self.is_lost:
            limit, closes = len(text), -1
            for number, tag in enumerate(self._tags):  # the outermost ends everything within it
                found = text.find(tag, at, limit)
                if found >= 0:
                    limit, closes = found, number
            at, opened = self._read_to(text, at, limit)
            if opened:
                self._tags.append(opened)
                self._opened += 1
                self.is_lost = self._opened > MAX_TAGS
            elif closes >= 0:
                at = limit + len(self._tags[closes])
                del self._tags[closes:]
                self._mode = ""
        self._offset += len(text)

    def _read_to(self, text: str, at: int, limit: int) -> tuple[int, str]:
        """Up to a place, or behind a tag that opens a dollar quote."""
        while at < limit and not self.is_lost:
            self._count()
            if self._mode:
                at = self._leave(text, at, limit)
                continue
            found = self._code.search(text, at, limit)
            if found is None:
                break
            at = found.end()
            if found.lastgroup:
                self._command(text, found)
            elif found[0].startswith("$"):
                if not re.search(rf"(?:[\w$]|{_BEYOND})$", self._before(text, found.start())):
                    return at, found[0]
                at = found.start() + 1
            else:
                self._enter(text, found)
        return limit, ""

    def _command(self, text: str, found: re.Match[str]) -> None:
        if found.lastgroup == "data":
            self.is_lost = True  # no SQL follows, but lines that are none
        elif found.lastgroup == "anywhere" or self._before(text, found.start())[-1:] in ("", "\n"):
            self._mode = _LINE

    def _enter(self, text: str, found: re.Match[str]) -> None:
        sign, start = found[0], found.start()
        if sign in ("--", "#"):
            self._mode = "\n"
        elif sign == "/*":
            self._mode, self._depth = "*/", 1
        elif sign in ("/*!", "/*M!", "*/"):
            self.is_conditional = sign != "*/"
        elif sign == "[":
            self._mode = "]"
        elif sign == "]":  # ]] within a name
            self._mode = "]" if self._closed == (self._offset + start, "]") else ""
        elif sign == "'":
            self._mode = self._literal(self._before(text, start), self._offset + start)
        else:
            self._mode = "\\" + sign if self._syntax is ScriptSyntax.BACKSLASH_ESCAPES and sign == '"' else sign
        if self._mode.startswith("q") and len(text) > found.end():
            opening = text[found.end()]
            self._mode = {"[": "]", "(": ")", "{": "}", "<": ">"}.get(opening, opening) + "'"

    def _literal(self, before: str, offset: int) -> str:
        if self._syntax is ScriptSyntax.BACKSLASH_ESCAPES:
            return "\\'"
        if self._closed[0] == offset:  # '' within a literal
            return self._closed[1]
        if self._syntax is ScriptSyntax.DOLLAR_QUOTES and re.search(rf"(?:^|(?!{_BEYOND})[^\w$])[eE]$", before):
            return "\\'"
        if self._syntax is ScriptSyntax.PL_SQL and re.search(r"(?:^|[^\w$])[nN]?[qQ]$", before):
            return "q'"
        return "'"

    def _leave(self, text: str, at: int, limit: int) -> int:
        if self._mode == "*/":
            return self._leave_comment(text, at, limit)
        if self._mode == "\n":
            found = re.compile(r"[\n\r]").search(text, at, limit)
        elif self._mode == _LINE:
            found = re.compile(r"\n").search(text, at, limit)
        elif self._mode.startswith("\\"):
            found = re.compile(rf"\\|{self._mode[1:]}").search(text, at, limit)
            if found and found[0] == "\\":
                return min(self._escape(text, found.start()), limit)
        else:
            found = re.compile(re.escape(self._mode)).search(text, at, limit)
        if found is None:
            return limit
        if self._mode in ("'", "\\'", "]"):
            self._closed = (self._offset + found.end(), self._mode)
        self._mode = ""
        return found.end()

    def _leave_comment(self, text: str, at: int, limit: int) -> int:
        nests = self._syntax in (ScriptSyntax.DOLLAR_QUOTES, ScriptSyntax.TSQL)
        found = re.compile(r"\*/|/\*" if nests else r"\*/").search(text, at, limit)
        if found is None:
            return limit
        self._depth += 1 if found[0] == "/*" else -1
        if not self._depth:
            self._mode = ""
        return found.end()


_SQL_CODE = {
    # The client takes a backslash for a command of its own, and has the lines behind COPY … FROM STDIN for data.
    ScriptSyntax.DOLLAR_QUOTES: rf"""'|"|--|/\*|\$(?:(?:[^\W\d]|{_BEYOND})(?:\w|{_BEYOND})*)?\$"""
    r"""|(?P<anywhere>\\(?!;))|(?P<data>(?i:\bp?stdin\b))""",
    # What stands in /*! … */ and /*M! … */ is run.
    ScriptSyntax.BACKSLASH_ESCAPES: r"""'|"|`|--(?=[\x00-\x20\x7f])|\#|/\*M?!|/\*|\*/"""
    r"""|(?P<anywhere>\\[!.uTPRC])|(?P<line>(?im:^[ \t]*(?:use|source|system|delimiter|pager|tee|prompt|connect"""
    r"""|charset|edit|help|\?)[ \t]+(?![=<>!,)]|(?:in|is|not|like|between|and|or|index|key)\b)))""",
    ScriptSyntax.TSQL: r"""'|"|\[|\]|--|/\*|(?P<line>(?m:^[ \t]*(?::|!!)))""",
    ScriptSyntax.PL_SQL: r"""'|"|--|/\*|(?P<line>(?im:^[ \t]*(?:ho(?:st)?[ \t]|!|\$|@)))""",
    ScriptSyntax.SQLITE: r"""'|"|`|\[|--|/\*|(?P<line>(?m:^[ \t]*\.))""",
    ScriptSyntax.SQL: r"""'|"|`|--|/\*|(?P<anywhere>\\)|(?P<line>(?m:^[ \t]*(?:\.|:|!|@)))""",
}


# Where a slash begins a regular expression of JavaScript, and does not divide.
_BEFORE_REGEX = re.compile(r"(?:^|[(,=:\[!&|?{};+*%<>~^-]|\breturn)\s*$")


class ProgramScanner(Scanner):
    """Python and JavaScript."""

    def __init__(self, syntax: ScriptSyntax, effort: Effort) -> None:
        super().__init__(effort)
        self._is_python = syntax is ScriptSyntax.PYTHON
        self._mode = ""  # code; else what ends it
        self._braces: list[int] = []  # open ones of each ${ that code stands in
        self._code = re.compile(r"'''|\"\"\"|'|\"|#" if self._is_python else r"'|\"|`|//|/\*|/|\{|\}")

    @property
    def state(self) -> ScannerState:
        if self._mode == "":
            return ScannerState.CODE
        return ScannerState.COMMENT if self._mode in ("\n", "*/") else ScannerState.QUOTED

    def prefix(self, quote: str) -> str:
        if re.search(r"[\w$'\"`\\]$", self.tail):
            raise Fault("what stands in front would change how the quotes are read: put a blank between them")
        return ""

    def _read(self, text: str, at: int) -> None:
        self.skips = False
        while at < len(text) and not self.is_lost:
            self._count()
            at = self._leave(text, at) if self._mode else self._enter(text, at)

    def _enter(self, text: str, at: int) -> int:
        found = self._code.search(text, at)
        if found is None:
            return len(text)
        sign = found[0]
        if sign in ("{", "}"):
            self._brace(sign)
        elif sign in ("#", "//"):
            self._mode = "\n"
        elif sign == "/*":
            self._mode = "*/"
        elif sign != "/":
            self._mode = sign
        elif _BEFORE_REGEX.search(self._before(text, found.start(), 20)):
            self._mode = "/"
        return found.end()

    def _brace(self, sign: str) -> None:
        if not self._braces:
            return
        self._braces[-1] += 1 if sign == "{" else -1
        if self._braces[-1] == 0:
            self._braces.pop()
            self._mode = "`"

    def _leave(self, text: str, at: int) -> int:
        if self._mode in ("\n", "*/"):
            found = text.find(self._mode, at)
            self._mode, at = ("", found + len(self._mode)) if found >= 0 else (self._mode, len(text))
            return at
        ending = re.escape(self._mode)
        more = r"|\$\{" if self._mode == "`" else "" if len(self._mode) > 1 else r"|\n"
        found_sign = re.compile(rf"\\|{ending}{more}").search(text, at)
        if found_sign is None:
            return len(text)
        if found_sign[0] == "\\":
            return self._escape(text, found_sign.start())
        if found_sign[0] == "${":
            self._braces.append(1)
            self.is_lost = len(self._braces) > MAX_TAGS
        self._mode = ""
        return found_sign.end()
