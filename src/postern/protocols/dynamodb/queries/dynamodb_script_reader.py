"""The language of scripts: operations as the AWS CLI has them, as JSON, or PartiQL, one after another.

    scan --table-name orders --filter-expression 'total > :t' --expression-attribute-values '{":t": {"N": "100"}}'
    {"GetItem": {"TableName": "orders", "Key": {"id": {"S": "1"}}}}
    GetItem {"TableName": "orders", "Key": {"id": {"S": "1"}}}
    SELECT * FROM "orders" WHERE id = '1';

A command of the CLI ends with its line, if no quote is open and no backslash is its last character. PartiQL ends with a
semicolon. Lines that begin with # are comments. The words `aws dynamodb` may come first.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from postern.protocols.aws.commands.command_words import AwsCommandError, WordReader
from postern.protocols.dynamodb.dialect.dynamodb_json import (
    DynamodbOperation,
    UnreadableOperation,
    read_parameters,
)
from postern.protocols.dynamodb.dialect.dynamodb_operations import OPERATIONS
from postern.protocols.dynamodb.queries.dynamodb_command_line import read_command_line

MAX_STATEMENTS: Final = 10_000
_BLANK: Final = re.compile(r"(?:\s|;|\\\r?\n|#[^\n]*(?:\n|$))*")
_PARTIQL: Final = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|EXISTS)(?![\w-])", re.IGNORECASE)
_NAMED: Final = re.compile(r"([A-Z][A-Za-z]{2,63})\s*(?=\{)")
# A statement of PartiQL to its semicolon, without those in quotes.
_STATEMENT: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^;'\"])*")


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """An operation, and its place in the script."""

    start: int
    end: int
    operation: DynamodbOperation


def read_script(text: str) -> list[ScriptStatement]:
    """Return the operations of a script. Raises AwsCommandError."""
    statements: list[ScriptStatement] = []
    at = _skip(text, 0)
    while at < len(text):
        if len(statements) >= MAX_STATEMENTS:
            raise AwsCommandError(f"a script has at most {MAX_STATEMENTS} statements", at)
        statement = _read_statement(text, at)
        statements.append(statement)
        at = _skip(text, statement.end)
    return statements


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _read_statement(text: str, at: int) -> ScriptStatement:
    if text[at] == "{":
        return _read_object(text, at)
    named = _NAMED.match(text, at)
    if named is not None:
        end = _end_of_json(text, named.end())
        return ScriptStatement(at, end, _operation(named[1], text[named.end() : end], at))
    if _PARTIQL.match(text, at):
        match = _STATEMENT.match(text, at)
        end = match.end() if match else len(text)
        statement = text[at:end].rstrip()
        if end < len(text) and text[end] != ";":
            raise AwsCommandError("a quote is not closed", end)
        return ScriptStatement(at, at + len(statement), DynamodbOperation("ExecuteStatement", {"Statement": statement}))
    return _read_command(text, at)


def _read_object(text: str, at: int) -> ScriptStatement:
    """Read `{"Scan": {…}}`."""
    end = _end_of_json(text, at)
    try:
        content = read_parameters(text[at:end].encode("utf-8", "surrogatepass"))
    except UnreadableOperation as error:
        raise AwsCommandError(f"the operation cannot be read: {error}", at) from None
    if len(content) != 1:
        raise AwsCommandError('an object has one name, that of its operation: {"Scan": {…}}', at)
    name, parameters = next(iter(content.items()))
    if name not in OPERATIONS:
        raise AwsCommandError(f"the operation {name[:64]!r} is not known", at)
    if not isinstance(parameters, dict):
        raise AwsCommandError(f"the parameters of {name} must be an object", at)
    return ScriptStatement(at, end, DynamodbOperation(name, parameters))


def _operation(name: str, text: str, at: int) -> DynamodbOperation:
    if name not in OPERATIONS:
        raise AwsCommandError(f"the operation {name!r} is not known", at)
    try:
        return DynamodbOperation(name, read_parameters(text.encode("utf-8", "surrogatepass")))
    except UnreadableOperation as error:
        raise AwsCommandError(f"the operation cannot be read: {error}", at) from None


def _end_of_json(text: str, at: int) -> int:
    try:
        _, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise AwsCommandError(f"the JSON is not valid: {error.msg}", error.pos) from None
    except RecursionError:
        raise AwsCommandError("the JSON is nested too deeply", at) from None
    return int(end)


_DECODER: Final[Any] = json.JSONDecoder()


def _read_command(text: str, at: int) -> ScriptStatement:
    reader = WordReader(text)
    reader.pos = at
    operation, end = read_command_line(reader)
    return ScriptStatement(at, end, operation)
