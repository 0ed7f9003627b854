"""The client that `exec` uses to run one script on MySQL. Without I/O."""

from __future__ import annotations

from postern.protocols.mysql.recorded.mysql_reading import Answers, StatementEnd
from postern.protocols.mysql.recorded.mysql_recorded_stream import MysqlMessages
from postern.protocols.mysql.wire import mysql_messages as m


class MysqlScript:
    """One COM_QUERY with all its statements; the first error ends it. The output is in the recording."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._messages = MysqlMessages()
        self._answers = Answers()
        self.failed = False
        self.finished = False
        self.leaves = False  # True once it sends COM_QUIT

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error, else 1."""
        return int(self.failed or not self.finished)

    def start(self) -> bytes:
        return m.query(self._text.encode())

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        for message in self._messages.feed(data):
            if message.payload is None:
                self._answers.skip_payload()
                continue
            found = self._answers.take(message.payload)
            if isinstance(found, m.Failed):
                self.failed = True
            elif not isinstance(found, StatementEnd) or found.more:
                continue
            self.finished = True
        return m.QUIT if self.finished else b""
