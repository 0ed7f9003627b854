"""Statements of a script: `use NAME`, `show …`, expressions that begin with `db`, and commands in Extended JSON.

They end at a semicolon or, as in JavaScript, at a line end after which the text cannot continue them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from postern.protocols.mongodb.queries.mongodb_database_methods import SHOW
from postern.protocols.mongodb.queries.mongodb_shell_commands import (
    ShellCommand,
    ShellStatement,
    check_command,
    check_database,
)
from postern.protocols.mongodb.queries.mongodb_shell_errors import SUPPORTED, ShellError
from postern.protocols.mongodb.queries.mongodb_shell_helpers import ShellMember, evaluate
from postern.protocols.mongodb.queries.mongodb_shell_options import document_of
from postern.protocols.mongodb.queries.mongodb_shell_reader import ShellReader
from postern.protocols.mongodb.queries.mongodb_shell_values import Value

MAX_STATEMENTS: Final = 10_000

_WORD = re.compile(r"[^\s;'\"`]+")
_KEYWORDS: Final = frozenset(
    {
        *("async", "await", "break", "class", "const", "continue", "delete", "do", "else", "export", "for", "function"),
        *("if", "import", "let", "return", "switch", "throw", "try", "typeof", "var", "while", "with", "yield"),
    }
)


class ShellScript:
    """Reader of a whole script. `database` is the one that `db` refers to until a `use`; empty if it is unknown."""

    def __init__(
        self,
        text: str,
        database: str = "",
        parameters: Mapping[int, tuple[int, Value]] | None = None,
        *,
        sketch: bool = False,
    ) -> None:
        self._reader = ShellReader(text, parameters, sketch=sketch)
        self._database = database
        self.statements: list[ShellStatement] = []

    def read(self) -> list[ShellStatement]:
        """Return the statements. Raises ShellError; `statements` then has those before the error."""
        reader = self._reader
        separated = True
        while True:
            separated = reader.skip() or separated
            while reader.next == ";":
                reader.at += 1
                reader.skip()
                separated = True
            if not reader.next:
                return self.statements
            if not separated:
                reader.fail_at_next("a semicolon or a line end is expected after a statement")
            if len(self.statements) == MAX_STATEMENTS:
                reader.fail(f"a script has at most {MAX_STATEMENTS:,} statements")
            self.statements.append(self._statement())
            separated = False

    def _statement(self) -> ShellStatement:
        reader, start = self._reader, self._reader.at
        if reader.next == "{":
            return self._command(start)
        name = reader.name()
        if name == "db":
            return self._expression(start)
        if name == "use":
            return self._use(start)
        if name == "show":
            return self._show(start)
        if not name:
            reader.fail_at_next(f"a statement is expected ({SUPPORTED})")
        reason = ": there are no variables, functions and loops" if name in _KEYWORDS else ""
        return reader.fail(f"{name!r} is not supported{reason}; {SUPPORTED}", start)

    def _command(self, start: int) -> ShellStatement:
        reader = self._reader
        document = reader.json_document()
        database = self._database
        try:
            if "$db" in document:
                database = document.pop("$db")
                if not isinstance(database, str):
                    raise ValueError("$db is the name of a database")
                check_database(database)
            check_command(document)
        except ValueError as error:
            reader.fail(str(error), start)
        return ShellStatement(start, reader.at, (ShellCommand(database, document),))

    def _expression(self, start: int) -> ShellStatement:
        reader = self._reader
        members: list[ShellMember] = []
        end = reader.at
        while (member := self._member()) is not None:
            members.append(member)
            end = reader.at
        reader.at = end
        made = evaluate(self._database, members, end)
        return ShellStatement(start, end, made.commands, made.continues)

    def _member(self) -> ShellMember | None:
        """Read the next member of an expression, and the call that follows it; None if the expression ends."""
        reader = self._reader
        reader.skip()
        if reader.text.startswith("?.", reader.at):
            reader.fail("'?.' is not supported")
        if reader.take("."):
            reader.skip()
            at = reader.at
            name = reader.name()
            if not name:
                reader.fail_at_next('a name is expected after \'.\'; write db["name"] or db.getCollection("name")')
        elif reader.take("["):
            reader.skip()
            at = reader.at
            value = reader.value()
            if not isinstance(value, str):
                reader.fail("the name of a collection in quotes is expected", at)
            name = value
            reader.expect("]", "after the name")
        else:
            return None
        end = reader.at
        if not reader.take("("):
            reader.at = end
            return ShellMember(name, at)
        return ShellMember(name, at, reader.arguments())

    def _use(self, start: int) -> ShellStatement:
        at, name, end = self._word("the name of a database")
        try:
            self._database = check_database(name)
        except ValueError as error:
            self._reader.fail(str(error), at)
        return ShellStatement(start, end)

    def _show(self, start: int) -> ShellStatement:
        at, name, end = self._word(f"one of {', '.join(SHOW)}")
        made = SHOW.get(name)
        if made is None:
            self._reader.fail(f"{name!r} cannot be shown; only {', '.join(SHOW)}", at)
        return ShellStatement(start, end, made(self._database).commands)

    def _word(self, what: str) -> tuple[int, str, int]:
        """Read the word after `use` or `show`, on the same line. Return its offset, its text, and its end."""
        reader = self._reader
        end = reader.at
        if reader.skip() or not reader.next or reader.next == ";" or reader.at == end:
            reader.fail(f"{what} is expected on the same line", end)
        at = reader.at
        if reader.next in ("'", '"'):
            return at, reader.string(), reader.at
        match = _WORD.match(reader.text, at)
        if match is None:
            reader.fail_at_next(f"{what} is expected")
        reader.at = match.end()
        return at, match[0], reader.at


def read_document(text: str) -> dict[str, Value]:
    """Return the document of a text in Extended JSON. Raises ShellError."""
    reader = ShellReader(text)
    reader.skip()
    if reader.next != "{":
        reader.fail_at_next("a document is expected")
    document = document_of(reader.json_document(), "a command")
    reader.skip()
    if reader.next:
        reader.fail_at_next("the end is expected after a document")
    return document


__all__ = ["ShellError", "ShellScript", "read_document"]
