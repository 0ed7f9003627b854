"""The lexer of POSIX shells and bash, as far as it says whether what comes next is code (see `scanners`)."""

from __future__ import annotations

import re

from postern.runbooks.faults import Fault
from postern.runbooks.scanners import Scanner, State

MAX_NESTED = 200
_CODE = re.compile(r"\\|'|\"|`|\$'|\$\(\(|\$\(|\$\{|\(\(|\(|\)|#|<<<|<<|\n|\bcase\b")
_DOUBLE = re.compile(r"\\|\"|`|\$\(\(|\$\(|\$\{")
_EXPANSION = re.compile(r"\\|'|\"|`|\}|\$'|\$\(\(|\$\(|\$\{")
_ARITHMETIC = re.compile(r"\\|\$\(\(|\$\(|\(|\)\)|\)|`")
_DOCUMENT = re.compile(r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)")
_OPENS = {"'": "'", '"': '"', "`": "`", "$'": "$'", "$(": "(", "${": "{", "$((": "((", "((": "((", "(": "s"}
_CODE_MODES = frozenset({"", "(", "s"})
_OPAQUE = frozenset({"`", "((", "p", "{"})


class Shell(Scanner):
    """What is open, outermost first: "(" and "s" are code within parentheses, "((" and "p" arithmetic, "#" a comment,
    "<<" a here-document, "{" an expansion; the others are quotes."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self._announced: list[tuple[str, bool]] = []  # here-documents that begin at the end of the line
        self._line = ""

    @property
    def state(self) -> State:
        if self.is_lost or self.skips:
            return State.QUOTED
        if self._mode == "#":
            return State.COMMENT
        return State.CODE if self._mode in _CODE_MODES and not _OPAQUE & set(self._open) else State.QUOTED

    @property
    def _mode(self) -> str:
        return self._open[-1] if self._open else ""

    def prefix(self, quote: str) -> str:
        if self.tail.endswith("$"):
            raise Fault("a $ in front of it would change how the quotes are read: put something between them")
        if re.search(r"<<-?[ \t]*[^\s;&|<>()]*$", self.tail):
            raise Fault("what ends a here-document cannot be an input")
        return ""

    def _read(self, text: str, at: int) -> None:
        self.skips = False
        while at < len(text) and not self.is_lost:
            self._count()
            at = self._next(text, at)
            self.is_lost = self.is_lost or len(self._open) > MAX_NESTED

    def _next(self, text: str, at: int) -> int:
        mode = self._mode
        if mode == "<<":
            return self._document(text, at)
        if mode == "#":
            found = text.find("\n", at)
            if found < 0:
                return len(text)
            self._open.pop()
            return found  # the end of the line is code's
        if mode in ("'", "$'"):
            return self._quote(text, at, mode)
        pattern = {'"': _DOUBLE, "{": _EXPANSION, "((": _ARITHMETIC, "p": _ARITHMETIC}.get(mode, _CODE)
        sign = pattern.search(text, at)
        if sign is None:
            return len(text)
        return self._sign(text, sign, mode)

    def _quote(self, text: str, at: int, mode: str) -> int:
        if mode == "'":
            end = text.find("'", at)
        else:
            found = re.compile(r"[\\']").search(text, at)
            if found and found[0] == "\\":
                return self._escape(text, found.start())
            end = found.start() if found else -1
        if end < 0:
            return len(text)
        self._open.pop()
        return end + 1

    def _sign(self, text: str, found: re.Match[str], mode: str) -> int:
        sign, after = found[0], found.end()
        if sign == "\\":
            return self._escape(text, found.start())
        if sign == "case":
            self.is_lost = "(" in self._open  # its patterns end with parentheses that nothing opened
        elif sign == "#":
            before = self._before(text, found.start())[-1:]
            if not before or before in " \t\n;&|()":
                self._open.append("#")
        elif sign == "<<":
            return self._announce(text, found)
        elif sign == "\n":
            if self._announced:
                self._open.append("<<")
                self._line = ""
        elif sign in (")", "))", "}"):
            return self._shut(found, mode)
        elif sign == mode or (sign == "`" and "`" in self._open):
            del self._open[len(self._open) - 1 - self._open[::-1].index(sign) :]
        elif mode == "{" and '"' in self._open and sign in ("'", '"', "$'"):
            pass
        elif sign == "(" and mode in ("((", "p"):
            self._open.append("p")
        elif sign != "<<<":
            self._open.append(_OPENS[sign])
        return after

    def _shut(self, found: re.Match[str], mode: str) -> int:
        sign = found[0]
        if mode == "p":
            self._open.pop()
            return found.start() + 1
        if sign == ")" and mode == "((":
            self.is_lost = True  # it was no arithmetic
        elif (sign == "))" and mode == "((") or (sign == ")" and mode in ("(", "s")) or (sign == "}" and mode == "{"):
            self._open.pop()
        return found.end()

    def _announce(self, text: str, found: re.Match[str]) -> int:
        document = _DOCUMENT.match(text, found.start())
        if document is None:
            return found.end()
        word = re.sub(r"\\(.)|['\"]", r"\1", document[2])
        self._announced.append((word, bool(document[1])))
        self.is_lost = len(self._announced) > MAX_NESTED
        return document.end()

    def _document(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        self._line = (self._line + text[at : end if end >= 0 else len(text)])[: 10 * 200]
        if end < 0:
            return len(text)
        word, is_indented = self._announced[0]
        if (self._line.lstrip("\t") if is_indented else self._line) == word:
            self._announced.pop(0)
            if not self._announced:
                self._open.pop()
        self._line = ""
        return end + 1
