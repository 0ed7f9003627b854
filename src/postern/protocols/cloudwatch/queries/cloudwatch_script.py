"""The client that `exec` uses to run one script on CloudWatch. Without I/O.

statement ── operation ─▶ answer ── nextToken ─▶ the next page … ─▶ next statement
                                 ── queryId ───▶ GetQueryResults, until the query has ended ─▶ next statement
                                 ── error ─────▶ end
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from postern.domain.sessions.script_parameters import BoundScript
from postern.errors import Invalid
from postern.protocols.aws.commands.command_words import AwsCommandError
from postern.protocols.cloudwatch.dialect.cloudwatch_statement_text import write_statement
from postern.protocols.cloudwatch.queries.cloudwatch_command_line import (
    CloudwatchCommand,
    CloudwatchScriptStatement,
    read_statements,
)
from postern.protocols.cloudwatch.queries.cloudwatch_messages import ResponseFrames, WholeResponse, encode_request
from postern.protocols.gateway_queries import ScriptRequest

MAX_PAGES: Final = 1000  # of one statement
MAX_POLLS: Final = 1800
_PAUSES: Final = (0.2, 0.3, 0.5, 1.0)  # seconds before each poll; the last one stays
_RUNNING: Final = frozenset({"Scheduled", "Running", "Unknown"})
_TOKENS: Final = ("nextToken", "NextToken")


class CloudwatchScript:
    """One script: its operations run one after another, and the first error ends it. Output is in the recording.

    A script that cannot be read, or has no statement, is Invalid at `start`.
    """

    def __init__(self, script: BoundScript | str, now: Callable[[], float] | None = None) -> None:
        self._text = script if isinstance(script, str) else script.text
        self._now = now if now is not None else lambda: datetime.now(UTC).timestamp()
        self._responses = ResponseFrames()
        self._statements: list[CloudwatchScriptStatement] | None = None
        self._place = 0  # of the next statement
        self._current: CloudwatchCommand | None = None
        self._pages = 0
        self._polls = 0
        self._items = 0
        self._exchange = 0
        self.pause = 0.0
        self.failed = False
        self.finished = False

    @property
    def leaves(self) -> bool:
        """True once it is finished: the protocol has no message for the end."""
        return self.finished

    def use_database(self, name: str | None) -> None:
        """Read the script: there are no databases. Raises Invalid."""
        self._read()

    def requests(self) -> list[ScriptRequest]:
        """Return the operations of all statements, with their places. Raises Invalid.

        Further pages, and the results of queries, are requests of their own when the script runs.
        """
        return [
            ScriptRequest(each.start, each.end, _encode(number, each.command), text_of_command(each.command))
            for number, each in enumerate(self._read(), 1)
        ]

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error, else 1."""
        return int(self.failed or not self.finished)

    def start(self) -> bytes:
        """Return the first request. Raises Invalid."""
        self._read()
        return self._next_statement()

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        sent = b""
        self.pause = 0.0
        for response in self._responses.feed(data):
            if not self.finished:
                sent += self._continue(response)
        return sent

    def _continue(self, response: WholeResponse) -> bytes:
        if not response.succeeded:
            self.failed = self.finished = True
            return b""
        answer = _parse(response.body)
        command = self._current
        assert command is not None
        if command.awaits_query and isinstance(answer.get("queryId"), str):
            return self._poll(CloudwatchCommand(command.service, "GetQueryResults", {"queryId": answer["queryId"]}))
        if command.operation == "GetQueryResults" and self._polls:
            return self._read_results(command, answer)
        token = _token_of(answer)
        if command.pages and token is not None and self._wants_more(command, answer, token):
            return self._send(replace(command, parameters={**command.parameters, token: answer[token]}))
        return self._next_statement()

    def _read_results(self, command: CloudwatchCommand, answer: dict[str, Any]) -> bytes:
        """Go on with the results of a query that this script has started."""
        status = answer.get("status")
        if status in _RUNNING:
            return self._poll(command)
        if status != "Complete":
            self.failed = self.finished = True
            return b""
        return self._next_statement()

    def _poll(self, command: CloudwatchCommand) -> bytes:
        self.pause = _PAUSES[min(self._polls, len(_PAUSES) - 1)]
        self._polls += 1
        if self._polls > MAX_POLLS:
            self.failed = self.finished = True
            return b""
        return self._send(command)

    def _wants_more(self, command: CloudwatchCommand, answer: dict[str, Any], token: str) -> bool:
        self._pages += 1
        self._items += max((len(value) for value in answer.values() if isinstance(value, list)), default=0)
        is_new = command.parameters.get(token) != answer[token]
        return is_new and self._pages < MAX_PAGES and not (command.max_items and self._items >= command.max_items)

    def _next_statement(self) -> bytes:
        statements = self._read()
        self._pages = self._polls = self._items = 0
        if self._place >= len(statements):
            self.finished = True
            return b""
        self._place += 1
        return self._send(statements[self._place - 1].command)

    def _send(self, command: CloudwatchCommand) -> bytes:
        self._current = command
        self._exchange += 1
        return _encode(self._exchange, command)

    def _read(self) -> list[CloudwatchScriptStatement]:
        if self._statements is None:
            try:
                statements = read_statements(self._text, self._now())
            except AwsCommandError as error:
                raise Invalid(f"script: {error.describe_place(self._text)}", field="script") from None
            if not statements:
                raise Invalid("script: it has no statement", field="script")
            for each in statements:
                _encode(1, each.command)  # raises Invalid now, and not in the middle of a run
            self._statements = statements
        return self._statements


def text_of_command(command: CloudwatchCommand) -> str:
    """Return the text by which a command is judged and recorded."""
    return write_statement(command.operation, command.parameters)


def _encode(exchange: int, command: CloudwatchCommand) -> bytes:
    try:
        return encode_request(exchange, command.service, command.operation, command.parameters)
    except (ValueError, RecursionError):
        raise Invalid(f"script: the parameters of {command.operation} are not valid JSON", field="script") from None


def _parse(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _token_of(answer: dict[str, Any]) -> str | None:
    """Return the key under which an answer has the token of the next page."""
    for token in _TOKENS:
        if isinstance(answer.get(token), str) and answer[token]:
            return token
    return None
