"""The client that `exec` uses to run one script on DynamoDB. Without I/O.

operation ─▶ response ── more pages ─▶ the same operation, from there ─▶ … next operation
                      ── error ──▶ end
"""

from __future__ import annotations

from collections import deque

from postern.errors import Invalid
from postern.protocols.aws.aws_json_client import AwsJsonResponses
from postern.protocols.aws.commands.command_words import AwsCommandError
from postern.protocols.dynamodb.dialect.dynamodb_json import DynamodbOperation, operation_text
from postern.protocols.dynamodb.queries.dynamodb_requests import encode_operation, next_page
from postern.protocols.dynamodb.queries.dynamodb_script_reader import ScriptStatement, read_script
from postern.protocols.gateway_queries import ScriptRequest


class DynamodbScript:
    """One script: its operations are sent one after another, and the first error ends it. Pages are read to the end.

    The output is in the recording. A script that cannot be read, or has no operation, is Invalid.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._responses = AwsJsonResponses()
        self._waiting: deque[DynamodbOperation] = deque()
        self._current: DynamodbOperation | None = None
        self._number = 0
        self._read: list[ScriptStatement] | None = None
        self.failed = False
        self.finished = False

    @property
    def leaves(self) -> bool:
        """True once it is finished: the protocol has no message for the end."""
        return self.finished

    def use_database(self, name: str | None) -> None:
        """Read the script: there are no databases. Raises Invalid."""
        self._statements()

    def requests(self) -> list[ScriptRequest]:
        """Return the operations of all statements, with their places. Raises Invalid."""
        return [
            ScriptRequest(
                statement.start,
                statement.end,
                encode_operation(number, statement.operation),
                operation_text(*statement.operation),
            )
            for number, statement in enumerate(self._statements(), 1)
        ]

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error, else 1."""
        return int(self.failed or not self.finished)

    def start(self) -> bytes:
        """Return the first operation. Raises Invalid."""
        self._waiting.extend(statement.operation for statement in self._statements())
        return self._send(self._waiting.popleft())

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        sent = b""
        for response in self._responses.feed(data):
            if self.finished or self._current is None:
                break
            further = next_page(self._current, response.content)
            if response.code:
                self.failed = self.finished = True
            elif further is not None:
                sent += self._send(further)
            elif self._waiting:
                sent += self._send(self._waiting.popleft())
            else:
                self.finished = True
        return sent

    def _send(self, operation: DynamodbOperation) -> bytes:
        self._current = operation
        self._number += 1
        return encode_operation(self._number, operation)

    def _statements(self) -> list[ScriptStatement]:
        if self._read is None:
            try:
                self._read = read_script(self._text)
            except AwsCommandError as error:
                raise Invalid(f"script: {error.describe_place(self._text)}", field="script") from None
            if not self._read:
                raise Invalid("script: it has no operation", field="script")
        return self._read
