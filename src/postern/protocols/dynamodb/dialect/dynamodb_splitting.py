"""Splitting of a script into statements."""

from __future__ import annotations

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.script_spans import ScriptSpans, whole
from postern.protocols.aws.commands.command_words import AwsCommandError
from postern.protocols.dynamodb.queries.dynamodb_script_reader import read_script


def split_dynamodb(text: str) -> ScriptSpans:
    """Return the place of each operation."""
    try:
        return ScriptSpans(tuple((statement.start, statement.end) for statement in read_script(text)))
    except AwsCommandError as error:
        return ScriptSpans(whole(text), SyntaxProblem(error.message, error.offset))
