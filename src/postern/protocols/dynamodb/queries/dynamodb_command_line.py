"""Commands of the AWS CLI: `[aws] [dynamodb] put-item --table-name orders --item '{"id": {"S": "1"}}'`.

Names follow from those of operations and parameters: `batch-get-item` is BatchGetItem, `--table-name` is TableName.
Values are JSON, texts, or the short form `AttributeName=id,AttributeType=S` of structures.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

from postern.protocols.dynamodb.dialect.dynamodb_json import (
    DynamodbOperation,
    UnreadableOperation,
    read_parameters,
)
from postern.protocols.dynamodb.dialect.dynamodb_operations import OPERATIONS

_NUMBERS: Final = frozenset(
    {"Limit", "Segment", "TotalSegments", "TopK", "PageSize", "MaxResults", "MaxWriteRequestUnits"}
)
_LISTS: Final = frozenset(
    {
        *("AttributesToGet", "AttributeDefinitions", "KeySchema", "Tags", "TagKeys", "LocalSecondaryIndexes"),
        *("GlobalSecondaryIndexes", "GlobalSecondaryIndexUpdates", "Statements", "TransactStatements"),
        *("TransactItems", "Parameters", "SearchVector", "ReplicationGroup", "ReplicaUpdates"),
    }
)
# Of structures, or lists of them: `Name=value,Name=value`.
_STRUCTURES: Final = frozenset(
    {
        *("AttributeDefinitions", "KeySchema", "Tags", "ProvisionedThroughput", "TimeToLiveSpecification"),
        *("StreamSpecification", "SSESpecification", "OnDemandThroughput", "PointInTimeRecoverySpecification"),
    }
)
_SHORT: Final = re.compile(r"[A-Za-z]\w*=[^,]*(?:,[A-Za-z]\w*=[^,]*)*")
_ACRONYMS: Final = {"S3": "S3", "Sse": "SSE"}
# Options of the program itself, which mean nothing here.
_IGNORED: Final = frozenset({"no-cli-pager", "no-paginate", "no-verify-ssl", "debug"})
_UNSUPPORTED: Final = frozenset(
    {
        *(
            "query",
            "output",
            "region",
            "profile",
            "endpoint-url",
            "cli-input-json",
            "cli-input-yaml",
            "cli-binary-format",
        ),
        *("cli-binary-format", "generate-cli-skeleton", "starting-token", "ca-bundle", "color", "no-sign-request"),
    }
)
_PAGING: Final = frozenset({"max-items", "page-size"})
_CONTINUED: Final = re.compile(r"""('[^']*'|"(?:[^"\\]|\\.)*")|\\\r?\n""", re.DOTALL)
_COMMANDS: Final = {re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower(): name for name in OPERATIONS}


class CommandLineError(ValueError):
    """A command that cannot be read."""


def read_command_line(line: str) -> DynamodbOperation:
    """Parse one command. Raises CommandLineError."""
    try:
        words = shlex.split(_CONTINUED.sub(lambda match: match[1] or " ", line))
    except ValueError as error:
        raise CommandLineError(f"the command cannot be read: {error}") from None
    for prefix in (("aws",), ("dynamodb", "dynamodbstreams")):
        if words and words[0] in prefix:
            words = words[1:]
    name = _COMMANDS.get(words[0]) if words else None
    if name is None:
        shown = words[0][:64] if words else ""
        raise CommandLineError(
            f"the command {shown!r} is not known; write an operation of DynamoDB, such as scan --table-name orders, "
            'JSON such as {"Scan": {"TableName": "orders"}}, or PartiQL'
        )
    return DynamodbOperation(name, _parameters(words[1:]))


def _parameters(words: Sequence[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    at = 0
    while at < len(words):
        option = words[at]
        if not option.startswith("--"):
            raise CommandLineError(f"{option[:64]!r} stands where an option must be")
        option, equals, inline = option[2:].partition("=")
        at += 1
        values = [inline] if equals else []
        while not equals and at < len(words) and not words[at].startswith("--"):
            values.append(words[at])
            at += 1
        _add_option(parameters, option, values)
    return parameters


def _add_option(parameters: dict[str, Any], option: str, values: list[str]) -> None:
    if option in _IGNORED:
        return
    if option in _UNSUPPORTED:
        raise CommandLineError(f"the option --{option} is not supported here; leave it out")
    if option in _PAGING:
        name, value = "Limit", _value("Limit", values)
    elif not values and option.startswith("no-"):
        name, value = _pascal(option[3:]), False
    else:
        name = _pascal(option)
        value = _value(name, values)
    if name in parameters:
        raise CommandLineError(f"the option --{option} is given twice")
    parameters[name] = value


def _pascal(option: str) -> str:
    words = [word.capitalize() for word in option.split("-")]
    return "".join(_ACRONYMS.get(word, word) for word in words)


def _value(name: str, values: list[str]) -> Any:
    if not values:
        return True
    if len(values) == 1 and values[0].lstrip()[:1] in ("{", "["):
        return _json(name, values[0])
    read = [_single(name, value) for value in values]
    return read if name in _LISTS or len(read) > 1 else read[0]


def _single(name: str, value: str) -> Any:
    if value.lstrip()[:1] == "{":
        return _json(name, value)
    if name in _NUMBERS:
        if not value.isdecimal() or len(value) > 18:
            raise CommandLineError(f"the value of {name} must be a number")
        return int(value)
    if name in _STRUCTURES and _SHORT.fullmatch(value):
        return dict(_short(part) for part in value.split(","))
    return value


def _short(part: str) -> tuple[str, Any]:
    name, _, value = part.partition("=")
    if value in ("true", "false"):
        return name, value == "true"
    is_number = value.isdecimal() and len(value) <= 18 and name.endswith("Units")
    return name, int(value) if is_number else value


def _json(name: str, text: str) -> Any:
    try:
        # As an object, so that the rules about JSON are those of requests.
        return read_parameters(b'{"value":%b}' % text.encode("utf-8", "surrogatepass"))["value"]
    except (UnreadableOperation, KeyError, json.JSONDecodeError):
        raise CommandLineError(f"the value of {name} is not valid JSON") from None
