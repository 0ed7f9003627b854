"""Splitting of a script into statements. A preview has their operations from the client that runs the script."""

from __future__ import annotations

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.script_spans import ScriptSpans, whole
from postern.protocols.aws.commands.command_words import AwsCommandError
from postern.protocols.cloudwatch.queries.cloudwatch_command_line import read_statements


def split_cloudwatch(text: str) -> ScriptSpans:
    """Return the place of each statement."""
    try:
        statements = read_statements(text, now=0.0)
    except AwsCommandError as error:
        return ScriptSpans(whole(text), SyntaxProblem(error.message, error.offset))
    return ScriptSpans(tuple((statement.start, statement.end) for statement in statements))
