"""Position of quoted values in a script, and whether their quotes work there.

In requests of HTTP, a value has the form that its place needs (`http_places`).

In other languages, a quoted value is one only where the language reads code. Within quotes of the text itself, in a
here-document of a shell, in arithmetic or after a prefix such as `$`, `E` or `f`, the same characters are read
differently, and the value could become code. The script is therefore scanned while it grows, as the lexer of its
language would read it, and a value that would be unsafe is rejected. Unquoted insertions are scanned too, because they
are part of the script.

In a comment, a quoted value is allowed if it cannot end the comment. Within quotes and here-documents of a shell, it is
allowed if it consists of letters, digits and a few signs without special meaning.
"""

from __future__ import annotations

import re

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.http_places import HttpRequests
from postern.runbooks.quoting import is_plain, quote_value
from postern.runbooks.scanners import ProgramScanner, Scanner, ScannerState, Sql, UnknownScanner
from postern.runbooks.shell import Shell
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault

_AGAIN = (
    "the shell interprets the value again here, as code or arithmetic, which can run commands: only letters, digits "
    'and _./:@,+%- are allowed. Use type "number" or asenv'
)

_NOT_WHOLE = (
    "the script cannot be analysed to its end: a quote, here-document, expansion or parenthesis in it is not closed, "
    "or is one that shells read differently. In such a script only letters and digits are allowed between quotes"
)


class TemplatePlaces:
    """Scanner of a script while it is written."""

    def __init__(self, syntax: ScriptSyntax, budget: StepBudget, *, is_shown: bool = False) -> None:
        self._syntax = syntax
        self._budget = budget
        self._scanner = scanner_of(syntax, budget, is_shown=is_shown)
        self._unread: list[str] = []
        self._is_delicate = False  # a value could have a special meaning
        self._is_open = False  # the text after the last value can still change its meaning

    def add_text(self, text: str) -> None:
        self._unread.append(text)

    def quote_value(self, quote: str, value: str, text: str) -> str:
        """Return the quoted value as it can be inserted here. Raises Fault if it could be read as anything else.

        `text` is its form where quotes have their normal meaning.
        """
        scanner = self._scanner
        self._budget.check()
        self._read_on()
        self._is_delicate = self._is_delicate or not is_plain(self._syntax, value)
        if isinstance(scanner, HttpRequests):
            return scanner.write_value(value)
        if scanner.is_lost or scanner.state is ScannerState.QUOTED:
            self._insist_on_plain(value)
        elif scanner.state is ScannerState.COMMENT:
            if re.search(r"[\n\r\u2028\u2029]|\*/|/\*", text):
                raise Fault("this is in a comment, which a value with several lines or with */ would end")
        else:
            is_open = not is_plain(self._syntax, value)
            if is_open and scanner.is_read_again:
                raise Fault(_AGAIN)
            self._is_open = self._is_open or is_open
            prefix = scanner.prefix(quote)
            text = quote_value(self._syntax, quote, value, prefix) if prefix else text
        if isinstance(scanner, Sql):
            if scanner.is_within_tags and "$" in value:
                raise Fault("this is within dollar quotes, which a value with a dollar sign could end")
            if scanner.is_conditional and re.search(r"\*/|/\*", value):
                raise Fault("this is in a comment that some servers run, and that a value with */ could end")
        scanner.read(text)
        return text

    def end(self) -> None:
        """End the script. If it is not understood to its end, no position in it is certain. Raises Fault."""
        self._read_on()
        if self._is_delicate and not self._scanner.is_whole():
            raise Fault(_NOT_WHOLE)

    def _read_on(self) -> None:
        """Scan up to here. Raises Fault if what was scanned turns the preceding value into code."""
        text = "".join(self._unread)
        self._unread.clear()
        if self._is_open and self._scanner.will_be_read_again(text):
            raise Fault(_AGAIN)
        self._is_open = self._is_open and not re.search(r"\s", text)
        self._scanner.read(text)

    def _insist_on_plain(self, value: str) -> None:
        if isinstance(self._scanner, Sql) and self._scanner.is_command:
            if not is_plain(ScriptSyntax.SHELL, value):
                raise Fault(
                    "this is in a command of the database client, which reads only its line and by its own rules: "
                    "only letters, digits and _./:@,+%- are allowed"
                )
        elif self._syntax is not ScriptSyntax.SHELL or self._scanner.skips:
            raise Fault(
                "this is within quotes of the text: the function writes quotes itself, so remove those of the text"
            )
        elif not is_plain(self._syntax, value):
            raise Fault(
                "this is within quotes, a here-document, an expansion or arithmetic of the text, where quoting does "
                "not work: only letters, digits and _./:@,+%- are allowed. Remove the quotes of the text, or use asenv"
            )


def scanner_of(syntax: ScriptSyntax, budget: StepBudget, *, is_shown: bool = False) -> Scanner:
    if syntax is ScriptSyntax.SHELL:
        return Shell(budget)
    if syntax.is_sql:
        return Sql(syntax, budget)
    if syntax is ScriptSyntax.HTTP:
        return HttpRequests(budget, is_shown=is_shown)
    return UnknownScanner(budget) if syntax is ScriptSyntax.OTHER else ProgramScanner(syntax, budget)
