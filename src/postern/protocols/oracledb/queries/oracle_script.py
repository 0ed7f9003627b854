"""The client that `exec` uses to run one script on Oracle Database. Without I/O.

statement ─▶ answer ── more rows ─▶ fetch … ─▶ next statement ─▶ … commit ─▶ end
                    ── error ─────▶ end, without a commit
"""

from __future__ import annotations

from collections import deque

from postern.errors import Invalid
from postern.protocols.gateway_queries import ScriptRequest
from postern.protocols.oracledb.dialect.oracle_splitting import split_oracle
from postern.protocols.oracledb.queries.oracle_dialogue import OracleDialogue
from postern.protocols.oracledb.queries.oracle_own_calls import encode_execute


class OracleScript:
    """One script: its statements are sent one after another, and the first error ends it. What it has changed is
    committed at its end, unless there was an error. The output is in the recording."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spans = split_oracle(text).spans
        self._left = deque([text[start:end] for start, end in self._spans])
        self._dialogue = OracleDialogue()
        self.failed = False
        self.finished = False

    @property
    def leaves(self) -> bool:
        """Return True at the end: closing the connection ends the session, and rolls back what is not committed."""
        return self.finished

    def use_database(self, name: str | None) -> None:
        """Do nothing: a script cannot name its database."""

    def requests(self) -> list[ScriptRequest]:
        """Return the calls of all statements, with their places. Raises Invalid."""
        self._check()
        return [
            ScriptRequest(start, end, encode_execute(self._text[start:end], (), 1), self._text[start:end])
            for start, end in self._spans
        ]

    def exit_code(self) -> int:
        """Return 0 if the script ran to its end without an error, else 1."""
        return int(self.failed or not self.finished)

    def start(self) -> bytes:
        """Return the first call. Raises Invalid."""
        self._check()
        return self._dialogue.execute(self._left.popleft())

    def _check(self) -> None:
        if not self._spans:
            raise Invalid("script: it has no statement", field="script")

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        dialogue = self._dialogue
        dialogue.feed(data)
        if not dialogue.answered or self.finished:
            return b""
        if dialogue.error is not None:
            self.failed = self.finished = True
            return b""
        if dialogue.has_more:
            return dialogue.fetch()
        if self._left:
            return dialogue.execute(self._left.popleft())
        if dialogue.in_transaction:
            return dialogue.commit()
        self.finished = True
        return b""
