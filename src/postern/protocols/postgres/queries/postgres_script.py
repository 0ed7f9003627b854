"""The client that `exec` uses to run one script on PostgreSQL. Without I/O."""

from __future__ import annotations

from collections.abc import Sequence

from postern.protocols.framing import Intake
from postern.protocols.postgres.queries.postgres_query import bound_statement
from postern.protocols.postgres.wire import postgres_messages as m


class PostgresScript:
    """One simple Query. `failed` is True if any error came back. The output is in the recording."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._intake = Intake()
        self._skip = 0
        self.failed = False
        self.finished = False
        self.leaves = False  # True once it sends Terminate

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error, else 1."""
        return int(self.failed or not self.finished)

    def start(self) -> bytes:
        return m.query(self._text.encode())

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        intake = self._intake
        intake.feed(data)
        reply = b""
        while len(intake.buf) - intake.pos >= 5:
            tag = intake.buf[intake.pos]
            size = 1 + int.from_bytes(intake.buf[intake.pos + 1 : intake.pos + 5], "big")
            if tag == m.ERROR_RESPONSE:
                self.failed = True
            elif tag == m.COPY_IN_RESPONSE:
                reply += m.message(b"f", m.cstring("a script has no data to copy from"))
            elif tag == m.READY_FOR_QUERY:
                self.finished = True
                reply += m.TERMINATE_MESSAGE
            here = len(intake.buf) - intake.pos
            self._skip = max(size - here, 0)
            intake.pos += min(size, here)
        return reply


class BoundPostgresScript(PostgresScript):
    """Statements with values in one batch of the extended protocol: one Sync, and so one implicit transaction, as a
    simple Query has. Values are in text format, and the target infers their types."""

    def __init__(self, statements: Sequence[tuple[str, Sequence[str | None]]]) -> None:
        super().__init__("")
        self._statements = statements

    def start(self) -> bytes:
        return b"".join(bound_statement(text, values) for text, values in self._statements) + m.SYNC_MESSAGE
