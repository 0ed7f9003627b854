"""Scanners: lexers that only tell whether the next character would be code, a comment, or quoted.

A quoted value is safe only where the language reads code, so the script is scanned while it is written. A scanner
continues where it stopped. Texts end only where a quoted value follows, so that nothing but a backslash can be split
there. A scanner need not understand everything: when it is lost it says so, and then nothing counts as code.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault

MAX_SIGNS = 400_000  # quotes and similar signs that are followed in one script
MAX_TAGS = 1_000  # dollar quotes
TAIL = 200  # characters before the current position that are stored


class ScannerState(Enum):
    CODE = auto()
    COMMENT = auto()
    QUOTED = auto()


class Scanner:
    """Scanner of a script. `tail` is the end of what it has read."""

    def __init__(self, budget: StepBudget) -> None:
        self.budget = budget
        self.tail = ""
        self.skips = False  # the last character was a backslash, which escapes the next one
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
        """Return whether the code here interprets the value of a literal as code again."""
        return False

    def will_be_read_again(self, text: str) -> bool:
        """Return the same for the literal before `text`, because of `text`."""
        return False

    def is_whole(self) -> bool:
        """Return whether the script, if it ends here, was understood completely, and everything in it is closed."""
        return not (self.is_lost or self.skips or self.state is ScannerState.QUOTED)

    def prefix(self, quote: str) -> str:
        """Return the prefix of a literal that starts here. Raises Fault for a prefix that is not allowed."""
        raise NotImplementedError

    def _read(self, text: str, at: int) -> None:
        raise NotImplementedError

    def _count(self) -> None:
        self._signs += 1
        self.budget.step()
        self.is_lost = self.is_lost or self._signs > MAX_SIGNS

    def _before(self, text: str, at: int, count: int = 3) -> str:
        """Return a few characters before a position."""
        return (self.tail + text[:at])[-count:] if at < count else text[at - count : at]

    def _escape(self, text: str, at: int) -> int:
        """Return the position after a backslash and the escaped character."""
        self.skips = at + 1 >= len(text)
        return at + 2


class UnknownScanner(Scanner):
    """Scanner for an unknown language."""

    @property
    def state(self) -> ScannerState:
        return ScannerState.CODE  # the values that quoted() lets pass have no special meaning anywhere

    def prefix(self, quote: str) -> str:
        return ""

    def _read(self, text: str, at: int) -> None:
        return


_LINE = "line"  # a command of the database client, up to the end of its line
_BEYOND = r"[\x80-\U0010ffff]"  # for some, letters of names too


class Sql(Scanner):
    def __init__(self, syntax: ScriptSyntax, budget: StepBudget) -> None:
        super().__init__(budget)
        self._syntax = syntax
        self._mode = ""  # code if empty; else what ends it, after "\" if a backslash escapes
        self._tags: list[str] = []
        self._opened = 0
        self._depth = 0  # of nested comments
        self.is_conditional = False  # in text that some servers run and others treat as a comment
        self._closed: tuple[int, str] = (-1, "")  # where the last literal ended, and its mode
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
        """Return whether the database client reads the rest of the line, by rules of its own."""
        return self._mode == _LINE

    def is_whole(self) -> bool:
        return super().is_whole() and not self._tags

    def prefix(self, quote: str) -> str:
        if self.tail.endswith(quote):
            raise Fault("two adjacent quoted texts would be read as one; put something between them")
        match = re.search(rf"(?:[\w$]|{_BEYOND}|[uU]&)+$", self.tail)
        if match is None:
            return ""
        if quote == "'" and (
            match[0] in ("N", "n") or (match[0] in ("E", "e") and self._syntax is ScriptSyntax.DOLLAR_QUOTES)
        ):
            return match[0]
        raise Fault("the text before it changes how the quotes are read; put a blank between them")

    def _read(self, text: str, at: int) -> None:
        self.skips = False
        while at < len(text) and not self.is_lost:
            limit, closes = len(text), -1
            for number, tag in enumerate(self._tags):  # the outermost ends everything within it
                end = text.find(tag, at, limit)
                if end >= 0:
                    limit, closes = end, number
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
        """Read up to a position, or to the end of a tag that opens a dollar quote."""
        while at < limit and not self.is_lost:
            self._count()
            if self._mode:
                at = self._leave(text, at, limit)
                continue
            match = self._code.search(text, at, limit)
            if match is None:
                break
            at = match.end()
            if match.lastgroup:
                self._command(text, match)
            elif match[0].startswith("$"):
                if not re.search(rf"(?:[\w$]|{_BEYOND})$", self._before(text, match.start())):
                    return at, match[0]
                at = match.start() + 1
            else:
                self._enter(text, match)
        return limit, ""

    def _command(self, text: str, match: re.Match[str]) -> None:
        if match.lastgroup == "data":
            self.is_lost = True  # lines of data follow, not SQL
        elif match.lastgroup == "anywhere" or self._before(text, match.start())[-1:] in ("", "\n"):
            self._mode = _LINE

    def _enter(self, text: str, match: re.Match[str]) -> None:
        sign, start = match[0], match.start()
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
        if self._mode.startswith("q") and len(text) > match.end():
            opening = text[match.end()]
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
            match = re.compile(r"[\n\r]").search(text, at, limit)
        elif self._mode == _LINE:
            match = re.compile(r"\n").search(text, at, limit)
        elif self._mode.startswith("\\"):
            match = re.compile(rf"\\|{self._mode[1:]}").search(text, at, limit)
            if match and match[0] == "\\":
                return min(self._escape(text, match.start()), limit)
        else:
            match = re.compile(re.escape(self._mode)).search(text, at, limit)
        if match is None:
            return limit
        if self._mode in ("'", "\\'", "]"):
            self._closed = (self._offset + match.end(), self._mode)
        self._mode = ""
        return match.end()

    def _leave_comment(self, text: str, at: int, limit: int) -> int:
        nests = self._syntax in (ScriptSyntax.DOLLAR_QUOTES, ScriptSyntax.TSQL)
        match = re.compile(r"\*/|/\*" if nests else r"\*/").search(text, at, limit)
        if match is None:
            return limit
        self._depth += 1 if match[0] == "/*" else -1
        if not self._depth:
            self._mode = ""
        return match.end()


_SQL_CODE = {
    # The client treats a backslash as its own command, and the lines after COPY … FROM STDIN as data.
    ScriptSyntax.DOLLAR_QUOTES: rf"""'|"|--|/\*|\$(?:(?:[^\W\d]|{_BEYOND})(?:\w|{_BEYOND})*)?\$"""
    r"""|(?P<anywhere>\\(?!;))|(?P<data>(?i:\bp?stdin\b))""",
    # The server runs the content of /*! … */ and /*M! … */.
    ScriptSyntax.BACKSLASH_ESCAPES: r"""'|"|`|--(?=[\x00-\x20\x7f])|\#|/\*M?!|/\*|\*/"""
    r"""|(?P<anywhere>\\[!.uTPRC])|(?P<line>(?im:^[ \t]*(?:use|source|system|delimiter|pager|tee|prompt|connect"""
    r"""|charset|edit|help|\?)[ \t]+(?![=<>!,)]|(?:in|is|not|like|between|and|or|index|key)\b)))""",
    ScriptSyntax.TSQL: r"""'|"|\[|\]|--|/\*|(?P<line>(?m:^[ \t]*(?::|!!)))""",
    ScriptSyntax.PL_SQL: r"""'|"|--|/\*|(?P<line>(?im:^[ \t]*(?:ho(?:st)?[ \t]|!|\$|@)))""",
    ScriptSyntax.SQLITE: r"""'|"|`|\[|--|/\*|(?P<line>(?m:^[ \t]*\.))""",
    ScriptSyntax.SQL: r"""'|"|`|--|/\*|(?P<anywhere>\\)|(?P<line>(?m:^[ \t]*(?:\.|:|!|@)))""",
}


# Code before a slash that starts a regular expression of JavaScript, and is not a division.
_BEFORE_REGEX = re.compile(r"(?:^|[(,=:\[!&|?{};+*%<>~^-]|\breturn)$")
_CODE_TAIL = 20  # characters of code that are stored, without blanks at the end


class ProgramScanner(Scanner):
    """Scanner of Python and JavaScript."""

    def __init__(self, syntax: ScriptSyntax, budget: StepBudget) -> None:
        super().__init__(budget)
        self._is_python = syntax is ScriptSyntax.PYTHON
        self._mode = ""  # code; else what ends it
        self._braces: list[int] = []  # open braces of each surrounding ${
        self._in_class = False  # between the brackets of a regular expression, where a slash does not end it
        self.code_tail = ""  # the end of the code so far, without comments and blanks
        self._line_end = re.compile(r"[\n\r]" if self._is_python else r"[\n\r\u2028\u2029]")
        self._code = re.compile(r"'''|\"\"\"|'|\"|#" if self._is_python else r"'|\"|`|//|/\*|/|\{|\}")

    @property
    def state(self) -> ScannerState:
        if self._mode == "":
            return ScannerState.CODE
        return ScannerState.COMMENT if self._mode in ("\n", "*/") else ScannerState.QUOTED

    def is_whole(self) -> bool:
        return super().is_whole() and not self._braces

    def prefix(self, quote: str) -> str:
        if re.search(r"[\w$'\"`\\]$", self.tail):
            raise Fault("the text before it changes how the quotes are read; put a blank between them")
        return ""

    def _read(self, text: str, at: int) -> None:
        self.skips = False
        while at < len(text) and not self.is_lost:
            self._count()
            at = self._leave(text, at) if self._mode else self._enter(text, at)

    def _enter(self, text: str, at: int) -> int:
        match = self._code.search(text, at)
        end = len(text) if match is None else match.start()
        self._add_code(text[at:end].rstrip())
        if match is None:
            return len(text)
        sign = match[0]
        if sign not in ("//", "/*", "#", "/"):
            self._add_code(sign)
        if sign in ("{", "}"):
            self._brace(sign)
        elif sign in ("#", "//"):
            self._mode = "\n"
        elif sign == "/*":
            self._mode = "*/"
        elif sign != "/":
            self._mode = sign
        elif _BEFORE_REGEX.search(self.code_tail):
            self._mode, self._in_class = "/", False
            self._add_code("'")  # stands for it
        else:
            self._add_code("/")
        return match.end()

    def _add_code(self, text: str) -> None:
        self.code_tail = (self.code_tail + text[-_CODE_TAIL:])[-_CODE_TAIL:]

    def _brace(self, sign: str) -> None:
        if not self._braces:
            return
        self._braces[-1] += 1 if sign == "{" else -1
        if self._braces[-1] == 0:
            self._braces.pop()
            self._mode = "`"

    def _leave(self, text: str, at: int) -> int:
        if self._mode == "\n":
            line_end = self._line_end.search(text, at)
            if line_end is None:
                return len(text)
            self._mode = ""
            return line_end.end()
        if self._mode == "*/":
            end = text.find(self._mode, at)
            self._mode, at = ("", end + len(self._mode)) if end >= 0 else (self._mode, len(text))
            return at
        ending = re.escape(self._mode) + (r"|\[|\]" if self._mode == "/" else "")
        more = r"|\$\{" if self._mode == "`" else "" if len(self._mode) > 1 else r"|\n"
        found_sign = re.compile(rf"\\|{ending}{more}").search(text, at)
        if found_sign is None:
            return len(text)
        if found_sign[0] == "\\":
            return self._escape(text, found_sign.start())
        if self._mode == "/" and found_sign[0] in "[]":
            self._in_class = found_sign[0] == "["
            return found_sign.end()
        if self._mode == "/" and found_sign[0] == "/" and self._in_class:
            return found_sign.end()
        if found_sign[0] == "${":
            self._braces.append(1)
            self.is_lost = len(self._braces) > MAX_TAGS
        self._mode = ""
        return found_sign.end()
