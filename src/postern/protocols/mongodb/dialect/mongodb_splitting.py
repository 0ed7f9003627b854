"""Splitting of a script into statements. A preview has their commands from the client that runs the script."""

from __future__ import annotations

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.script_spans import ScriptSpans, whole
from postern.protocols.mongodb.queries.mongodb_shell_errors import ShellError
from postern.protocols.mongodb.queries.mongodb_shell_statements import ShellScript


def split_mongodb(text: str) -> ScriptSpans:
    """Return the place of each command. `use` is not a command."""
    try:
        statements = ShellScript(text, sketch=True).read()
    except ShellError as error:
        return ScriptSpans(whole(text), SyntaxProblem(error.message, error.offset))
    return ScriptSpans(tuple((statement.start, statement.end) for statement in statements for _ in statement.commands))
