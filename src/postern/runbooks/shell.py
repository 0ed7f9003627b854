"""Scanner of POSIX shells and bash: it tells whether the next character is code (see `scanners`).

Shells differ in many details, and a runbook does not say which one reads it. The scanner therefore follows only what
all of them read alike. Where they differ it is lost, and then only plain values can be inserted. It also follows the
start of each command, because some commands interpret their arguments as code again.
"""

from __future__ import annotations

import re

from postern.runbooks.scanners import Scanner, ScannerState
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault

MAX_NESTED = 200
_MAX_COMMAND = 250  # characters of the start of a command that are stored
# $$ is a word of its own: after it, there is no $( or ${.
_EXPANSIONS = r"\\|`|\$\$|\$\(\(|\$\(|\$\{|\$\["
_CODE = re.compile(rf"{_EXPANSIONS}|\$'|'|\"|\(\(|\(|\)|#|<<<|<<|\n|\bcase\b")
_TEXT = re.compile(_EXPANSIONS)
_DOUBLE = re.compile(rf"{_EXPANSIONS}|\"")
_EXPANSION = re.compile(rf"{_EXPANSIONS}|\$'|'|\"|\}}")
_ARITHMETIC = re.compile(rf"{_EXPANSIONS}|'|\"|\(|\)\)|\)")
_ARITHMETIC_OR_SHELLS = re.compile(rf"{_ARITHMETIC.pattern}|<<|(?<![^\s;&|()<>])#")
_DOCUMENT = re.compile(
    r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n\\$`]*\"|\\[^\n]|[^\s;&|<>()'\"\\$`#])+)(?=[ \t\n;&|<>()]|\Z)"
)
# Shells disagree about quotes here. These are closed in every reading.
_HARMLESS = re.compile(r"'[\w ./:@,+%=-]*'|\"(?:[\w ./:@,+%=-]|\$\{[\w*?!:./%#\[\]-]+\})*\"")
_OPENS = {"$(": "(", "${": "{"}  # the others are named like their sign
_PAIRS = {("))", "(("), ("))", "$(("), (")", "("), (")", "s"), (")", "e"), (")", "a"), ("}", "{")}
_LEVELS = ("(", "s", "e", "a")  # code within another
_CODE_MODES = frozenset({"", *_LEVELS})
_NO_LIST = re.compile(r"[;&|<>]")
_IN_ARITHMETIC = frozenset({"((", "$((", "p", "$p"})
_OPAQUE = _IN_ARITHMETIC | {"`", "{"}
_DOUBLES = _IN_ARITHMETIC | {'"', "text"}  # within these, each shell reads the quotes of an expansion differently
# Commands of the shell that interpret an argument again: as code, as arithmetic, which runs what a subscript contains,
# or as the name of a variable, which can have a subscript. Below is what can precede a command's name; "[[ ;" because
# sh does not know [[.
_FIRST = (
    r"(?:\[\[ ;)?(?:[\s!{]|(?:if|then|elif|else|while|until|do|time|command|builtin)\s|function\s+\S+\s"
    r"|coproc\s(?:\s*\w+\s+(?=\{))?|-\S*(?:\s|$)|\w+(?:\[[^\]]*\])?\+?=\S*(?:\s|$)|\d*&?[<>]+[&|]?\s*[^\s<>]+(?:\s|$))*+"
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
_COPIES = re.compile(r"[<>]&[ \t]*[^\s;|&<>()]*$")
_ENDS_WORD = re.compile(r"[\s;|&<>()]")
_NO_WORD = re.compile(r"[^\w./$-]")
_SEPARATORS_COUNT = 10  # the cost of a sign: each makes the start of its command be read again
_MAX_QUOTED = 20  # characters of quotes that are stored with a command
_SEPARATES = re.compile(r"\[\[(?=[\s\\(])|(?<=\s)\]\](?=[\s;&|)<>])|;|(?<![<>])&(?!>)|\|")


def _is_in_subscript(command: str) -> bool:
    match = _OPENS_SUBSCRIPT.search(command) if "[" in command else None
    return match is not None and command.count("[", match.start()) > command.count("]", match.start())


class Shell(Scanner):
    """Scanner of a shell script. The stack `_open` lists what is open, outermost first.

    "(" and "s" are code within parentheses, "e" a pattern within them, "a" a list, "((", "$((", "p" and "$p"
    arithmetic, "#" a comment, "<<" a here-document, "{" an expansion; the others are quotes. `within` is set for a part
    of another script: "`", or "text" for the body of a here-document.
    """

    def __init__(self, budget: StepBudget, within: str = "") -> None:
        super().__init__(budget)
        self._open: list[str] = ["text"] if within == "text" else []
        self._is_nested = bool(within)
        self._inner: list[str] = []  # text between backquotes, or in a line of a here-document
        # Here-documents that start at the end of the line: the word that ends each, whether tabs can precede it,
        # whether the body is expanded, so that a backslash joins lines, and how many $( are open.
        self._announced: list[tuple[str, bool, bool, int]] = []
        self._body: Shell | None = None
        self._line = ""
        self._is_joined = False  # the line was joined from several
        self._copied = -1  # number of open levels where the word after >& is read, which bash expands twice; or -1
        self._commands = [""]  # start of the current command, for each level of code

    @property
    def state(self) -> ScannerState:
        if self.is_lost or self.skips:
            return ScannerState.QUOTED
        if (self._mode != "#" and self._mode not in _CODE_MODES) or _OPAQUE & set(self._open):
            return ScannerState.QUOTED
        return ScannerState.COMMENT if self._mode == "#" else ScannerState.CODE

    def is_whole(self) -> bool:
        if not self.skips:
            self.read("\n")  # ends comments and here-documents
        return not (self.is_lost or self.skips or self._announced or self._open not in ([], ["text"]))

    @property
    def _mode(self) -> str:
        return self._open[-1] if self._open else ""

    def prefix(self, quote: str) -> str:
        before = self._joined_tail
        if before.endswith("$"):
            raise Fault("a $ before it changes how the quotes are read; put something between them")
        if re.search(r"(?<!<)<<-?[ \t]*[^\s;&|<>()]*$", before):
            raise Fault("the end marker of a here-document cannot be an input")
        return ""

    @property
    def is_read_again(self) -> bool:
        command, before = self._commands[-1], self._joined_tail
        if self._copied >= 0:
            return True
        tests, declares = _TESTS.match(command), _DECLARES.match(command)
        if len(command) >= _MAX_COMMAND and (tests or declares or _BEGINS.fullmatch(command)):
            return True  # the deciding part can be cut off
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
            if self._announced and mode not in _CODE_MODES and mode not in ("<<", "#"):
                self.is_lost |= "\n" in text[start:at]  # shells differ in where the document begins
            if mode in ("'", '"', "$'"):
                self._keep(_NO_WORD.sub("_", text[start : min(at, start + _MAX_QUOTED)].strip(mode[-1])))
            self.is_lost |= len(self._open) > MAX_NESTED
            levels = 1 + sum(map(self._open.count, _LEVELS))
            del self._commands[levels:]
            while len(self._commands) < levels:
                is_test = self._mode in ("s", "e") and self._commands[-1].startswith("[[")
                self._commands.append("[[ " if is_test else "")

    def _next(self, text: str, at: int) -> int:
        mode = self._mode
        if mode == "<<":
            return self._document(text, at)
        if mode == "#":
            line_end = text.find("\n", at)
            if line_end < 0:
                return len(text)
            self._open.pop()
            return line_end  # the end of the line belongs to the code
        if mode in ("'", "$'"):
            return self._quote(text, at, mode)
        if mode == "`":
            return self._read_backquotes(text, at)
        pattern = _PATTERNS.get(mode, _CODE)
        sign = pattern.search(text, at)
        if pattern is _CODE:
            # After an error in a list, bash continues at the next line, even inside of a value.
            end = sign.start() if sign else len(text)
            self.is_lost |= mode == "a" and _NO_LIST.search(text, at, sign.end() if sign else end) is not None
            self._follow(text[at:end], sign)
        if sign is None:
            return len(text)
        return self._sign(text, sign, mode)

    def _follow(self, code: str, found_sign: re.Match[str] | None) -> None:
        """Update the start of the current command with code that was read, and the sign after it."""
        sign = found_sign[0] if found_sign else ""
        command, done = self._commands[-1], 0
        for match in _SEPARATES.finditer(code + sign):
            if match.end() > len(code) or self.is_lost:
                break
            self._signs += _SEPARATORS_COUNT - 1
            self._count()
            command = (command + code[done : match.start()])[:_MAX_COMMAND]
            done = match.end()
            if _is_in_subscript(command):
                command += "_"
            elif match[0] == "[[":
                command = "[[" if _BEGINS.fullmatch(command) else command + "[["
            elif command.startswith("[["):
                command = "" if match[0] == "]]" else "[[ ;"
            elif match[0] == "]]":
                command += "]]"
            else:
                command = ""
        self._commands[-1] = command
        self._keep(code[done:])
        self._follow_copied(code, sign)
        if sign == "\n" or (sign == ")" and not self._mode):  # ends a pattern of case
            self._end_of_line()
        elif found_sign and sign == "\\":
            self._keep(_NO_WORD.sub("_", found_sign.string[found_sign.end() : found_sign.end() + 1].strip("\n")))
        elif sign in ("(", "((") and not self._commands[-1].startswith("[["):
            # After these signs a new command starts, unless they are a list.
            self._commands[-1] = self._commands[-1] + "_" if self._commands[-1].endswith("=") else ""
        elif sign not in (")", "'", '"', "$'"):
            self._keep("case" if sign == "case" else "_" if sign else "")

    def _follow_copied(self, code: str, sign: str) -> None:
        depth = len(self._open)
        if _COPIES.search(code):
            self._copied = depth
        elif depth < self._copied or (depth == self._copied and _ENDS_WORD.search(code)):
            self._copied = -1
        if depth == self._copied and sign in ("\n", "<<", "<<<", "(", "((", ")"):
            self._copied = -1

    def _end_of_line(self) -> None:
        command = self._commands[-1]
        self._commands[-1] = command + " " if command.startswith("[[") or _is_in_subscript(command) else ""

    def _keep(self, text: str) -> None:
        self._commands[-1] = (self._commands[-1] + text)[:_MAX_COMMAND]

    def _quote(self, text: str, at: int, mode: str) -> int:
        if mode == "'":
            end = text.find("'", at)
        else:
            match = re.compile(r"[\\']").search(text, at)
            if match and match[0] == "\\":
                # Some shells do not know such quotes, and end them here.
                self.is_lost |= text.startswith("'", match.end())
                return self._escape(text, match.start())
            end = match.start() if match else -1
        if end < 0:
            return len(text)
        self._open.pop()
        return end + 1

    def _read_backquotes(self, text: str, at: int) -> int:
        """Read text between backquotes. Shells first find the end, whatever quotes and comments precede it, and then
        parse.
        """
        match = re.compile(r"[\\`]").search(text, at)
        self._inner.append(text[at : match.start() if match else len(text)])
        if match is None:
            return len(text)
        if match[0] == "\\":
            character = text[match.end() : match.end() + 1]
            self.is_lost |= not character or (character == '"' and '"' in self._open)
            self._inner.append(character if character in ("`", "\\", "$") else "\\" + character)
            return match.end() + 1
        self._open.pop()
        within = Shell(self.budget, "`")
        self._read_within(within, "".join(self._inner))
        self._inner.clear()
        self.is_lost |= not within.is_whole()
        return match.end()

    def _read_within(self, within: Shell, text: str) -> None:
        """Scan a part of this text with a scanner of its own, whose cost counts for both."""
        within._signs = self._signs
        within.read(text)
        self._signs = within._signs

    def _sign(self, text: str, match: re.Match[str], mode: str) -> int:
        sign, after = match[0], match.end()
        if sign == "\\":
            self.is_lost |= self._splits_a_sign(text, match.start())
            return self._escape(text, match.start())
        if sign == "case":
            self.is_lost |= "(" in self._open  # its patterns end with unmatched parentheses
        elif sign == "$[":
            self.is_lost = True  # arithmetic in bash, plain text in other shells
        elif sign == "#":
            self._comment(self._before(text, match.start())[-1:])
        elif sign == "<<":
            return self._announce(text, match)
        elif sign == "\n":
            self._begin_document()
        elif sign in (")", "))", "}"):
            return self._shut(match, mode)
        elif sign == mode == '"':
            self._open.pop()
        elif sign in ("'", '"', "$'") and self._is_in_double():
            harmless = _HARMLESS.match(text, match.start())
            self.is_lost |= harmless is None
            return harmless.end() if harmless else after
        elif sign in ("(", "(("):
            self._parenthesis(sign, self._before(text, match.start())[-1:])
        elif sign == "${":
            self.is_lost |= text[after : after + 1] in tuple(" \t\n|(")  # commands, in some shells
            self._open.append("{")
        elif sign not in ("<<<", "$$"):
            self._open.append(_OPENS.get(sign, sign))
        return after

    def _is_in_double(self) -> bool:
        """Return whether quotes are inside of an expansion or arithmetic within double quotes or similar."""
        for quote in reversed(self._open):
            if quote != "{":
                return quote in _DOUBLES
        return False

    def _splits_a_sign(self, text: str, at: int) -> bool:
        """Return whether a backslash removes a line end within what can be one word or sign."""
        if not text.startswith("\n", at + 1):
            return False
        before, behind = self._before(text, at)[-1:], text[at + 2 : at + 3]
        if self._mode in _CODE_MODES:
            is_apart = not before or before in " \t\n" or not behind or behind in " \t\n"
            return not (is_apart or (before in "|&;" and behind not in "|&;()<>#"))
        return (
            before == "$" or (self._mode == "{" and before == "{") or (self._mode in _IN_ARITHMETIC and before == ")")
        )

    def _comment(self, before: str) -> None:
        if self._mode in _IN_ARITHMETIC:
            self.is_lost = True
        elif not before or before in " \t\n;&|()<>":
            self._open.append("#")
            self.is_lost |= self._mode_below() == "e"  # not in the patterns of all shells

    def _mode_below(self) -> str:
        return self._open[-2] if len(self._open) > 1 else ""

    def _parenthesis(self, sign: str, before: str) -> None:
        self.is_lost |= self._mode == "a"
        if self._mode in _IN_ARITHMETIC:
            self._open.append("p" if self._mode in ("((", "p") else "$p")
        elif self._mode == "e" or (before and before in "@?*+!") or self._commands[-1].startswith("[["):
            self._open.append("e")
        elif before == "=":
            self._open.append("a")
        else:
            self._open.append("((" if sign == "((" else "s")
            return
        self.is_lost |= sign == "(("

    def _begin_document(self) -> None:
        if not self._announced:
            return
        # Shells differ in where it begins.
        self.is_lost |= self._mode == "e" or any(level != self._open.count("(") for *_, level in self._announced)
        self._open.append("<<")
        self._next_document()

    def _next_document(self) -> None:
        self._line = ""
        self._body = Shell(self.budget, "text") if self._announced[0][2] else None

    def _shut(self, match: re.Match[str], mode: str) -> int:
        sign = match[0]
        if mode in ("p", "$p"):
            self._open.pop()
            return match.start() + 1
        if sign == ")" and mode in ("((", "$(("):
            self.is_lost = True  # it was not arithmetic
        elif (sign, mode) in _PAIRS:
            self._open.pop()
        return match.end()

    def _announce(self, text: str, match: re.Match[str]) -> int:
        document = _DOCUMENT.match(text, match.start())
        if document is None or self._is_nested or self._mode not in _CODE_MODES - {"e", "a"}:
            self.is_lost = True
            return match.end()
        word = re.sub(r"\\(.)|['\"]", r"\1", document[2])
        self._announced.append((word, bool(document[1]), word == document[2], self._open.count("(")))
        self.is_lost |= len(self._announced) > MAX_NESTED or _is_in_subscript(self._commands[-1])
        return document.end()

    def _document(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)]
        self._line = (self._line + line)[: 10 * 200]
        self._inner.append(line)
        if end < 0:
            return len(text)
        word, is_indented, is_expanded, _ = self._announced[0]
        if is_expanded and (len(line) - len(line.rstrip("\\"))) % 2:
            self._line, self._is_joined = self._line[:-1], True
            self._inner.append("\n")
            return end + 1
        if (self._line.lstrip("\t") if is_indented else self._line) == word:
            self._end_document()
        elif self._body is not None:
            self._read_within(self._body, "".join(self._inner) + "\n")
        self._inner.clear()
        self._line, self._is_joined = "", False
        return end + 1

    def _end_document(self) -> None:
        """End a here-document. Shells differ if something in it is still open; bash even continues elsewhere."""
        self.is_lost |= self._is_joined or (self._body is not None and not self._body.is_whole())
        self._announced.pop(0)
        if self._announced:
            self._next_document()
        else:
            self._open.pop()


_PATTERNS = {
    '"': _DOUBLE,
    "text": _TEXT,
    "{": _EXPANSION,
    "$((": _ARITHMETIC,
    "$p": _ARITHMETIC,
    **dict.fromkeys(("((", "p"), _ARITHMETIC_OR_SHELLS),
}
