"""The lexer of POSIX shells and bash, as far as it says whether what comes next is code (see `scanners`)."""

from __future__ import annotations

import re

from postern.runbooks.faults import Fault
from postern.runbooks.scanners import Scanner, State

MAX_NESTED = 200
_MAX_COMMAND = 250  # characters that are kept of the beginning of a command
_CODE = re.compile(r"\\|'|\"|`|\$'|\$\(\(|\$\(|\$\{|\$\[|\(\(|\(|\)|#|<<<|<<|\n|\bcase\b")
_DOUBLE = re.compile(r"\\|\"|`|\$\(\(|\$\(|\$\{|\$\[")
_EXPANSION = re.compile(r"\\|'|\"|`|\}|\$'|\$\(\(|\$\(|\$\{|\$\[")
_ARITHMETIC = re.compile(r"\\|\$\(\(|\$\(|\(|\)\)|\)|`")
_DOCUMENT = re.compile(r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)")
_OPENS = {"$(": "(", "${": "{", "$((": "((", "(": "s"}  # the others are called as they are written
_PAIRS = {("))", "(("), (")", "("), (")", "s"), ("}", "{")}
_CODE_MODES = frozenset({"", "(", "s"})
_OPAQUE = frozenset({"`", "((", "p", "{"})
# Commands of the shell itself that read an argument once more: as code, as arithmetic, which runs what stands in a
# subscript, or as the name of a variable, which may have one.
# What may stand in front of the name of a command; "[[ ;" since sh knows no [[.
_FIRST = (
    r"(?:\[\[ ;)?(?:[\s!{]|(?:if|then|elif|else|while|until|do|time|command|builtin)\s|function\s+\S+\s"
    r"|coproc\s(?:\s*\w+\s+(?=\{))?|-\S*(?:\s|$)|\w+(?:\[[^\]]*\])?\+?=\S*(?:\s|$)|\d*&?[<>]+[&|]?\s*[^\s<>]+(?:\s|$))*"
)
_BEGINS = re.compile(_FIRST)
_AGAIN = re.compile(
    rf"{_FIRST}(?:eval|let|trap|alias|read|unset|mapfile|readarray|getopts|compgen|complete|bind|fc|wait|integer|float"
    r"|nameref|shift|return|exit|break|continue)[\s<>]"
)
_DECLARES = re.compile(rf"{_FIRST}(?:declare|typeset|local|readonly|export)[\s<>]")
_DECLARED = re.compile(r"\s\w+\+?=\S*$")
_AS_OTHER = re.compile(r"\s[-+]\w*[inaA]")
_TESTS = re.compile(rf"{_FIRST}(?:\[\[?|test)[\s<>]")
_PRINTS = re.compile(rf"{_FIRST}printf[\s<>]")
_COMPARES = r"\s-(?:eq|ne|lt|le|gt|ge)\s"
_COMPARED = re.compile(rf"{_COMPARES}|\s-[vR]\s")
_WILL_BE_COMPARED = re.compile(rf"[^&|;]*?{_COMPARES}")
_VARIABLE = re.compile(r"\s-v")
_PROMPT = re.compile(r"\b(?:PS\d|PROMPT_COMMAND)\+?=\S*$")
_SUBSCRIPT = re.compile(r"\[[^\]\s]*$")
_OPENS_SUBSCRIPT = re.compile(r"\w\[|(?<!\S)\[(?![\s\[])")
_REDIRECTED = re.compile(r"(?<!\\)[<>]\s*$")
_NO_WORD = re.compile(r"[^\w./$-]")
_SEPARATORS_COUNT = 10  # signs, for each of them has the beginning of its command read again
_MAX_QUOTED = 20  # characters of quotes that are kept in a command
_SEPARATES = re.compile(r"\[\[(?=[\s\\(])|(?<=\s)\]\](?=[\s;&|)<>])|;|(?<![<>])&(?!>)|\|")


def _is_in_subscript(command: str) -> bool:
    found = _OPENS_SUBSCRIPT.search(command) if "[" in command else None
    return found is not None and command.count("[", found.start()) > command.count("]", found.start())


class Shell(Scanner):
    """What is open, outermost first: "(" and "s" are code within parentheses, "((" and "p" arithmetic, "#" a comment,
    "<<" a here-document, "{" an expansion; the others are quotes."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        # Here-documents that begin at the end of the line: what ends each, whether tabs may stand in front of that, and
        # whether a backslash takes the end of a line away.
        self._announced: list[tuple[str, bool, bool]] = []
        self._line = ""
        self._is_joined = False  # the line was several
        self._commands = [""]  # how the command begins that is being read, of each level of code

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
        before = self._joined_tail
        if before.endswith("$"):
            raise Fault("a $ in front of it would change how the quotes are read: put something between them")
        if re.search(r"(?<!<)<<-?[ \t]*[^\s;&|<>()]*$", before):
            raise Fault("what ends a here-document cannot be an input")
        return ""

    @property
    def is_read_again(self) -> bool:
        command, before = self._commands[-1], self._joined_tail
        tests, declares = _TESTS.match(command), _DECLARES.match(command)
        if len(command) >= _MAX_COMMAND and (tests or declares or _BEGINS.fullmatch(command)):
            return True  # what decides may have been cut off
        if _REDIRECTED.search(before) and not command.startswith("[["):
            return False
        if _SUBSCRIPT.search(before) or _is_in_subscript(command) or _PROMPT.search(command) or _AGAIN.match(command):
            return True
        if declares:
            return _DECLARED.search(command) is None or _AS_OTHER.search(command) is not None
        if tests:
            return _COMPARED.search(command) is not None
        return _PRINTS.match(command) is not None and _VARIABLE.search(command) is not None

    def will_be_read_again(self, text: str) -> bool:
        return (
            _TESTS.match(self._commands[-1]) is not None
            and _WILL_BE_COMPARED.match(text.replace("\\\n", "")) is not None
        )

    @property
    def _joined_tail(self) -> str:
        return self.tail.replace("\\\n", "")

    def _read(self, text: str, at: int) -> None:
        self.skips = False
        while at < len(text) and not self.is_lost:
            self._count()
            mode, start = self._mode, at
            at = self._next(text, at)
            if mode in ("'", '"', "$'"):
                self._keep(_NO_WORD.sub("_", text[start : min(at, start + _MAX_QUOTED)].strip(mode[-1])))
            self.is_lost = self.is_lost or len(self._open) > MAX_NESTED
            levels = 1 + self._open.count("(") + self._open.count("s")
            del self._commands[levels:]
            while len(self._commands) < levels:
                is_test = self._mode == "s" and self._commands[-1].startswith("[[")
                self._commands.append("[[ " if is_test else "")

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
        pattern = _PATTERNS.get(mode, _CODE)
        sign = pattern.search(text, at)
        if pattern is _CODE:
            self._follow(text[at : sign.start() if sign else len(text)], sign)
        if sign is None:
            return len(text)
        return self._sign(text, sign, mode)

    def _follow(self, code: str, found_sign: re.Match[str] | None) -> None:
        """How the command begins, once that code is read, and the sign behind it."""
        sign = found_sign[0] if found_sign else ""
        command, done = self._commands[-1], 0
        for found in _SEPARATES.finditer(code + sign):
            if found.end() > len(code) or self.is_lost:
                break
            self._signs += _SEPARATORS_COUNT - 1
            self._count()
            command = (command + code[done : found.start()])[:_MAX_COMMAND]
            done = found.end()
            if _is_in_subscript(command):
                command += "_"
            elif found[0] == "[[":
                command = "[[" if _BEGINS.fullmatch(command) else command + "[["
            elif command.startswith("[["):
                command = "" if found[0] == "]]" else "[[ ;"
            elif found[0] == "]]":
                command += "]]"
            else:
                command = ""
        self._commands[-1] = command
        self._keep(code[done:])
        if sign == "\n" or (sign == ")" and not self._mode):  # which ends a pattern of case
            self._end_of_line()
        elif found_sign and sign == "\\":
            self._keep(_NO_WORD.sub("_", found_sign.string[found_sign.end() : found_sign.end() + 1].strip("\n")))
        elif sign in ("(", "((") and not self._commands[-1].startswith("[["):
            # Behind what these open another command begins, unless they are a list.
            self._commands[-1] = self._commands[-1] + "_" if self._commands[-1].endswith("=") else ""
        elif sign not in (")", "'", '"', "$'"):
            self._keep("case" if sign == "case" else "_" if sign else "")

    def _end_of_line(self) -> None:
        command = self._commands[-1]
        self._commands[-1] = command + " " if command.startswith("[[") or _is_in_subscript(command) else ""

    def _keep(self, text: str) -> None:
        self._commands[-1] = (self._commands[-1] + text)[:_MAX_COMMAND]

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
        elif sign == "$[":
            self.is_lost = True  # arithmetic in bash, and nothing in other shells
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
            self._open.append(_OPENS.get(sign, sign))
        return after

    def _shut(self, found: re.Match[str], mode: str) -> int:
        sign = found[0]
        if mode == "p":
            self._open.pop()
            return found.start() + 1
        if sign == ")" and mode == "((":
            self.is_lost = True  # it was no arithmetic
        elif (sign, mode) in _PAIRS:
            self._open.pop()
        return found.end()

    def _announce(self, text: str, found: re.Match[str]) -> int:
        document = _DOCUMENT.match(text, found.start())
        if document is None:
            return found.end()
        word = re.sub(r"\\(.)|['\"]", r"\1", document[2])
        self._announced.append((word, bool(document[1]), word == document[2]))
        self.is_lost = len(self._announced) > MAX_NESTED
        return document.end()

    def _document(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        self._line = (self._line + text[at : end if end >= 0 else len(text)])[: 10 * 200]
        if end < 0:
            return len(text)
        word, is_indented, joins = self._announced[0]
        line = text[at:end]
        if joins and (len(line) - len(line.rstrip("\\"))) % 2:
            self._line, self._is_joined = self._line[:-1], True
            return end + 1
        if (self._line.lstrip("\t") if is_indented else self._line) == word:
            self.is_lost = self._is_joined  # shells differ
            self._announced.pop(0)
            if not self._announced:
                self._open.pop()
        self._line, self._is_joined = "", False
        return end + 1


_PATTERNS = {'"': _DOUBLE, "{": _EXPANSION, "((": _ARITHMETIC, "p": _ARITHMETIC}
