"""The client that `exec` uses to run one script on MongoDB. Without I/O.

statement ── first command ─▶ reply ── cursor ─▶ getMore … ─▶ next command ─▶ … next statement
                                    ── error ──▶ end
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from bson import Int64

from postern.domain.sessions.script_parameters import BoundScript, ParameterValue
from postern.errors import Invalid
from postern.protocols.gateway_queries import ScriptRequest
from postern.protocols.mongodb.queries.mongodb_requests import command_text, encode_command
from postern.protocols.mongodb.queries.mongodb_shell_commands import ShellCommand, ShellStatement
from postern.protocols.mongodb.queries.mongodb_shell_errors import ShellError
from postern.protocols.mongodb.queries.mongodb_shell_statements import ShellScript
from postern.protocols.mongodb.queries.mongodb_shell_values import MAX_INT64, MIN_INT64, Value
from postern.protocols.mongodb.recorded.mongodb_reading import ReplyBatch, parse_reply
from postern.protocols.mongodb.recorded.mongodb_stream import MongodbReplies

DEFAULT_DATABASE: Final = "test"


class MongodbScript:
    """One script: its commands are sent one after another, and the first error ends it. Cursors are read to their end.

    The output is in the recording. A script that cannot be read, or has no command, is Invalid once its database is
    known, or at `start`.
    """

    def __init__(self, script: BoundScript | str) -> None:
        self._script = BoundScript(script) if isinstance(script, str) else script
        self._replies = MongodbReplies()
        self._steps: deque[tuple[ShellCommand, bool]] = deque()  # commands, and whether the next follows an error
        self._current: ShellCommand | None = None
        self._continues = False
        self._number = 0
        self._database: str | None = DEFAULT_DATABASE
        self._read: list[ShellStatement] | None = None
        self.failed = False
        self.finished = False

    @property
    def leaves(self) -> bool:
        """True once it is finished: the protocol has no message for the end."""
        return self.finished

    def use_database(self, name: str | None) -> None:
        """Set the database of a script that begins without `use`; empty for the default one, None if it is unknown.

        It reads the script, which takes up to a second for a long one. Raises Invalid.
        """
        self._database = None if name is None else name or DEFAULT_DATABASE
        self._read = self._read_script()

    def requests(self) -> list[ScriptRequest]:
        """Return the commands of all statements, with their places. Raises Invalid."""
        return [
            ScriptRequest(statement.start, statement.end, self._encode(command), command_text(command))
            for statement in self._statements()
            for command in statement.commands
        ]

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error, else 1."""
        return int(self.failed or not self.finished)

    def start(self) -> bytes:
        """Return the first command. Raises Invalid if the database is unknown, or a command cannot be encoded."""
        statements = self._statements()
        self._number = 0
        for statement in statements:
            self._steps += [(command, statement.continues) for command in statement.commands]
            if statement.commands:  # the last command of a statement: an error in any of them ends the script
                self._steps[-1] = (self._steps[-1][0], False)
        return self._send_next()

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        sent = b""
        for document in self._replies.feed(data):
            if self.finished:
                break
            reply = parse_reply(document)
            if reply.failures:
                self.failed = True
                if not self._continues:
                    self.finished = True
                    break
            if reply.batch is not None and reply.batch.cursor and self._reads_on():
                sent += self._get_more(reply.batch)
            elif self._steps and not (self.failed and not self._continues):
                sent += self._send_next()
            else:
                self.finished = True
        return sent

    def _reads_on(self) -> bool:
        return self._current is not None and next(iter(self._current.document)) != "getMore"

    def _send_next(self) -> bytes:
        self._current, self._continues = self._steps.popleft()
        return self._encode(self._current)

    def _get_more(self, batch: ReplyBatch) -> bytes:
        assert self._current is not None
        database, _, collection = batch.namespace.partition(".")
        document: dict[str, Value] = {"getMore": Int64(batch.cursor), "collection": collection}
        document |= _batch_size(self._current.document)
        return self._encode(ShellCommand(database or self._current.database, document, self._current.preference))

    def _encode(self, command: ShellCommand) -> bytes:
        if not command.database:
            raise Invalid("script: the connection's database is unknown here; begin with `use NAME`", field="script")
        self._number += 1
        try:
            return encode_command(self._number, command.complete())
        except ValueError as error:
            raise Invalid(f"script: {error}", field="script") from None

    def _statements(self) -> list[ShellStatement]:
        if self._read is None:
            self._read = self._read_script()
        return self._read

    def _read_script(self) -> list[ShellStatement]:
        text = self._script.text
        try:
            statements = ShellScript(text, self._database or "", _values(self._script)).read()
        except ShellError as error:
            raise Invalid(f"script: {error.describe_place(text)}", field="script") from None
        commands = [command for statement in statements for command in statement.commands]
        if not commands:
            raise Invalid("script: it has no statement that the database runs", field="script")
        for command in commands:
            if command.database:
                self._encode(command)  # raises Invalid now, and not in the middle of a run
        return statements


def _batch_size(document: Mapping[str, Value]) -> dict[str, Value]:
    """Return the batch size that the author chose, which holds for all batches."""
    cursor = document.get("cursor")
    size = document.get("batchSize", cursor.get("batchSize") if isinstance(cursor, dict) else None)
    return {"batchSize": size} if isinstance(size, int) and size > 0 else {}


def _values(script: BoundScript) -> dict[int, tuple[int, Value]]:
    """Return the end and the value of each placeholder, by its start."""
    return {place.start: (place.end, _value(place.typed)) for place in script.placeholders}


def _value(value: ParameterValue) -> Value:
    """Return a parameter as a value of its own type. Raises Invalid."""
    if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
        raise Invalid("parameters: an integer has at most 64 bits", field="parameters")
    return value
