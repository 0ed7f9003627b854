"""Where in a script a quoted value is about to stand, and whether its quotes mean there what they should.

A quoted value is one only where the language reads code. Within quotes that the text itself has opened, in a shell's
here-document, in arithmetic or behind a prefix such as `$`, `E` or `f`, the same characters are read differently, and
somebody's value would become code. So the script is read as it grows, as the lexer of its language would, and what
cannot hold is refused. What is inserted raw is read as well: it is in the script.

In a comment a quoted value may stand while it cannot end it. Within a shell's quotes and here-documents it may stand
while it is made of letters, digits and a few signs that mean nothing.
"""

from __future__ import annotations

import re

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.effort import Effort
from postern.runbooks.faults import Fault
from postern.runbooks.quoting import is_plain, quoted
from postern.runbooks.scanners import ProgramScanner, Scanner, ScannerState, Sql, UnknownScanner
from postern.runbooks.shell import Shell

_AGAIN = (
    "the shell would read it once more here, as code or as arithmetic, which can run commands: only letters, digits "
    'and _./:@,+%- may. Ask for type "number", or take asenv'
)

_NOT_WHOLE = (
    "the script cannot be followed to its end: a quote, a here-document, an expansion or a parenthesis is not closed "
    "in it, or stands where shells do not agree. In such a script only letters and digits may stand between quotes"
)


class TemplatePlaces:
    """Reads a script while it is written."""

    def __init__(self, syntax: ScriptSyntax, effort: Effort) -> None:
        self._syntax = syntax
        self._effort = effort
        self._scanner = scanner_of(syntax, effort)
        self._unread: list[str] = []
        self._is_delicate = False  # a value could be more than itself
        self._is_open = False  # what stands behind the last value may still make something else of it

    def text(self, text: str) -> None:
        self._unread.append(text)

    def quoted(self, quote: str, value: str, text: str) -> str:
        """The value between quotes, as it can stand here; `text` is how it would stand where quotes are read as such.
        Raises Fault where it could be read as anything else."""
        scanner = self._scanner
        self._effort.check()
        self._read_on()
        self._is_delicate = self._is_delicate or not is_plain(self._syntax, value)
        if scanner.is_lost or scanner.state is ScannerState.QUOTED:
            self._insist_on_plain(value)
        elif scanner.state is ScannerState.COMMENT:
            if re.search(r"[\n\r\u2028\u2029]|\*/|/\*", text):
                raise Fault("this stands in a comment, which a value of several lines, or with */ in it, would end")
        else:
            is_open = not is_plain(self._syntax, value)
            if is_open and scanner.is_read_again:
                raise Fault(_AGAIN)
            self._is_open = self._is_open or is_open
            prefix = scanner.prefix(quote)
            text = quoted(self._syntax, quote, value, prefix) if prefix else text
        if isinstance(scanner, Sql):
            if scanner.is_within_tags and "$" in value:
                raise Fault("this stands within dollar quotes, which a value with a dollar sign could end")
            if scanner.is_conditional and re.search(r"\*/|/\*", value):
                raise Fault("this stands in a comment that some servers run, and a value with */ in it could end")
        scanner.read(text)
        return text

    def end(self) -> None:
        """Nothing follows. A script that is not understood to its end is not at any place before. Raises Fault."""
        self._read_on()
        if self._is_delicate and not self._scanner.is_whole():
            raise Fault(_NOT_WHOLE)

    def _read_on(self) -> None:
        """Up to here. Raises Fault where what was read makes code of the value in front of it."""
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
                    "this stands in a command of the program that speaks with the database, which reads it in ways of "
                    "its own, and its line only: only letters, digits and _./:@,+%- may"
                )
        elif self._syntax is not ScriptSyntax.SHELL or self._scanner.skips:
            raise Fault(
                "this stands within quotes of the text: the function writes them, so leave them out of the text"
            )
        elif not is_plain(self._syntax, value):
            raise Fault(
                "this stands within quotes, a here-document, an expansion or arithmetic of the text, where quoting "
                "does not hold: only letters, digits and _./:@,+%- may. Leave the quotes of the text out, or take asenv"
            )


def scanner_of(syntax: ScriptSyntax, effort: Effort) -> Scanner:
    if syntax is ScriptSyntax.SHELL:
        return Shell(effort)
    if syntax.is_sql:
        return Sql(syntax, effort)
    return UnknownScanner(effort) if syntax is ScriptSyntax.OTHER else ProgramScanner(syntax, effort)
