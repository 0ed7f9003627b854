"""Command lines of scripts, as the AWS CLI has them, as operations of CloudWatch.

    [aws] logs filter-log-events --log-group-name /shop/orders --filter-pattern ERROR
    [aws] logs tail /shop/orders --since 1h
    [aws] logs start-query --log-group-name /shop/orders --start-time … --end-time … --query-string 'fields @message'
    [aws] cloudwatch list-metrics --namespace AWS/EC2
    FilterLogEvents {"logGroupName": "/shop/orders"}

The last form is the one that recordings show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from postern.protocols.aws.commands.command_options import OptionReader, option_name, read_moment
from postern.protocols.aws.commands.command_words import AwsCommandError, CommandWord, WordReader
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import OPERATIONS, CloudwatchService
from postern.protocols.cloudwatch.dialect.cloudwatch_statement_text import UnreadableCloudwatchRequest, read_parameters
from postern.protocols.cloudwatch.queries.cloudwatch_shapes import SHAPES

MAX_STATEMENTS: Final = 1000
_JSON_FORM: Final = re.compile(r"([A-Z][A-Za-z0-9]{0,127})[ \t]*(?=\{)")
_SINCE: Final = re.compile(r"([0-9]{1,6})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SERVICES: Final = {"logs": CloudwatchService.LOGS, "cloudwatch": CloudwatchService.METRICS}
_COMMANDS: Final = {
    service: {option_name(name): name for name in operations} for service, operations in OPERATIONS.items()
}
_STREAMS: Final = frozenset({"StartLiveTail", "GetLogObject"})
_TIMES: Final = frozenset({"startTime", "endTime", "from", "to", "time"})
_SECOND_TIMES: Final = frozenset({"StartQuery", "GetScheduledQueryHistory", "GetLogGroupFields"})
_TOKENS: Final = ("nextToken", "NextToken")
# Options that limit the number of results: with one of them only one page is read.
_LIMITS: Final = frozenset({"limit", "maxResults", "MaxResults", "maxItems", "MaxRecords"})
_FOLLOW: Final = "a script needs an end; use the AWS CLI through the gateway to follow a log group"


@dataclass(frozen=True, slots=True)
class CloudwatchCommand:
    """An operation to run.

    `pages`: its answer is read page by page, at most `max_items` values. `awaits_query`: it starts a query, whose
    results are awaited.
    """

    service: CloudwatchService
    operation: str
    parameters: dict[str, Any] = field(default_factory=dict)
    pages: bool = False
    max_items: int = 0

    @property
    def awaits_query(self) -> bool:
        return self.operation == "StartQuery"


@dataclass(frozen=True, slots=True)
class CloudwatchScriptStatement:
    """A command, and its place in the script."""

    start: int
    end: int
    command: CloudwatchCommand


def read_statements(text: str, now: float) -> list[CloudwatchScriptStatement]:
    """Read a script. `now` is the time in seconds since 1970, from which `--since` counts.

    Raises AwsCommandError.
    """
    reader = WordReader(text)
    statements: list[CloudwatchScriptStatement] = []
    while reader.next_statement():
        if len(statements) >= MAX_STATEMENTS:
            raise AwsCommandError(f"a script has at most {MAX_STATEMENTS} statements", reader.pos)
        start = reader.pos
        if (match := _JSON_FORM.match(text, start)) is not None:
            command = _read_json_form(reader, match)
            end = reader.pos
            if not reader.at_end_of_statement():
                raise AwsCommandError("the statement has something after its parameters", reader.pos)
        else:
            words = reader.words()
            command, end = _read_words(words, now), words[-1].end
        statements.append(CloudwatchScriptStatement(start, end, command))
    return statements


def _read_json_form(reader: WordReader, match: re.Match[str]) -> CloudwatchCommand:
    operation = match[1]
    service = next((service for service, listed in OPERATIONS.items() if operation in listed), None)
    if service is None:
        raise AwsCommandError(f"{operation} is not an operation of CloudWatch", match.start())
    try:
        end = json.JSONDecoder().raw_decode(reader.text, match.end())[1]
        parameters = read_parameters(reader.text[match.end() : end].encode("utf-8", "surrogatepass"))
    except (UnreadableCloudwatchRequest, ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, UnreadableCloudwatchRequest) else "the parameters are not valid JSON"
        raise AwsCommandError(why, match.end()) from None
    if operation in OPERATIONS[CloudwatchService.METRICS] and "ResourceARN" in parameters:
        service = CloudwatchService.METRICS  # both services have operations for tags
    _check_stream(operation, match.start())
    reader.pos = end
    return CloudwatchCommand(service, operation, parameters)


def _read_words(words: Sequence[CommandWord], now: float) -> CloudwatchCommand:
    texts = [word.text for word in words[:3]]
    first = 1 if texts[0] == "aws" else 0
    service = _SERVICES.get(texts[first]) if len(texts) > first else None
    if service is None:
        raise AwsCommandError(
            "a statement begins with logs or cloudwatch and a command, as in: logs describe-log-groups", words[0].start
        )
    if len(texts) < first + 2:
        raise AwsCommandError(f"a command is missing after {texts[first]}", words[first].end)
    verb = words[first + 1]
    options = OptionReader(words[first + 2 :])
    options.drop_client_options()
    if service is CloudwatchService.LOGS and verb.text == "tail":
        return _read_tail(options, verb, now)
    operation = _COMMANDS[service].get(verb.text)
    if operation is None:
        raise AwsCommandError(f"{texts[first]} has no command {verb.text[:64]!r}", verb.start)
    _check_stream(operation, verb.start)
    shape = SHAPES[service].get(operation, {})
    single = options.take_flag("--no-paginate")
    most = 0 if "maxItems" in shape else options.take_most()  # else it is a parameter of the operation itself
    parameters = options.read(shape, lambda name, text: _read_time(operation, name, text))
    pages = not single and operation != "GetLogEvents" and _LIMITS.isdisjoint(parameters)
    pages = pages and any(token in shape and token not in parameters for token in _TOKENS)
    return CloudwatchCommand(service, operation, parameters, pages, most)


def _check_stream(operation: str, place: int) -> None:
    if operation in _STREAMS:
        raise AwsCommandError(f"{operation} is a stream, which scripts cannot read; use an SDK or the AWS CLI", place)


def _read_time(operation: str, name: str, text: str) -> int | None:
    """Return a time as the operation counts it, in milliseconds or seconds."""
    moment = read_moment(text) if name in _TIMES else None
    if moment is None:
        return None
    return int(moment) if operation in _SECOND_TIMES else int(moment * 1000)


def _read_tail(options: OptionReader, verb: CommandWord, now: float) -> CloudwatchCommand:
    """Read `logs tail GROUP`, which filters the events of the last ten minutes."""
    if options.place_of("--follow"):
        raise AwsCommandError(_FOLLOW, options.place_of("--follow"))
    if len(options.arguments) != 1:
        raise AwsCommandError("logs tail needs one log group: logs tail GROUP --since 1h", verb.end)
    group = options.arguments.pop().text
    since = options.take_text("--since") or "10m"
    options.take_text("--format")
    parameters: dict[str, Any] = {"logGroupIdentifier" if group.startswith("arn:") else "logGroupName": group}
    names = options.take_texts("--log-stream-names")
    prefix = options.take_text("--log-stream-name-prefix")
    pattern = options.take_text("--filter-pattern")
    if names:
        parameters["logStreamNames"] = names
    if prefix:
        parameters["logStreamNamePrefix"] = prefix
    if pattern:
        parameters["filterPattern"] = pattern
    match = _SINCE.fullmatch(since)
    moment = now - int(match[1]) * _SECONDS[match[2]] if match is not None else read_moment(since)
    if moment is None:
        raise AwsCommandError("--since is a duration, such as 5m, 1h or 2d, or a time in ISO 8601", verb.start)
    parameters["startTime"] = max(0, int(moment * 1000))
    most = options.take_most()
    options.read({})
    return CloudwatchCommand(CloudwatchService.LOGS, "FilterLogEvents", parameters, pages=True, max_items=most)
