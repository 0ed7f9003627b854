"""The statements that an answer can belong to, by the number of its exchange."""

from __future__ import annotations

from typing import Final

from postern.interception.events import Heading, Operation, Rows

MAX_STATEMENTS: Final = 1024  # concurrent requests whose text is stored
_LENGTH: Final = 4 * 1024 * 1024  # … characters in total, except the last one
_FETCHED: Final = 100  # cursors whose statements are stored
_FETCHED_LENGTH: Final = 64 * 1024  # … characters of one; longer ones are not resolved
_MEANINGS: Final = 32  # texts that one request can execute; with more, the origin is unknown


class AnsweredStatements:
    """Texts of requests that run. Empty ones stand for an unknown text."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[str, ...]] = {}
        self._continued: set[int] = set()  # requests that read on, with the text of the statement
        self._length = 0  # total length
        self._fetched: dict[int, tuple[str, ...]] = {}  # for rows that can come in later exchanges

    def record(self, operation: Operation) -> None:
        """Record a request that runs. One exchange can run several texts."""
        text = operation.result_of or operation.text
        texts = self._texts.get(operation.exchange)
        if texts is not None:
            if text not in texts and texts:
                self._forget(operation.exchange)
                self._keep(operation.exchange, (*texts, text))
            return
        self._keep(operation.exchange, (text,))
        if operation.continues:
            self._continued.add(operation.exchange)

    def of_answer(self, exchange: int) -> tuple[str, ...]:
        """Return the statements that this can be the answer to, and forget those of earlier exchanges, which are
        answered.
        """
        while (first := next(iter(self._texts), exchange)) < exchange:
            self._forget(first)
        return self._texts.get(exchange, ())

    def of_rows(self, rows: Rows) -> tuple[str, ...]:
        """Return the statements that these rows can be the answer to, also if a cursor fetches them."""
        if rows.began != rows.exchange:
            if rows.exchange in self._continued:
                return self.of_answer(rows.exchange)
            return self._fetched.get(rows.began, ())
        statements = self.of_answer(rows.exchange)
        is_new = isinstance(rows, Heading) and rows.may_fetch and rows.exchange not in self._fetched
        if is_new and sum(map(len, statements)) <= _FETCHED_LENGTH:
            if len(self._fetched) >= _FETCHED:
                del self._fetched[next(iter(self._fetched))]
            self._fetched[rows.exchange] = statements
        return statements

    def _keep(self, exchange: int, texts: tuple[str, ...]) -> None:
        size = sum(map(len, texts))
        if len(texts) > 1 and (len(texts) > _MEANINGS or size > _LENGTH):
            texts, size = (), 0
        while self._texts and (len(self._texts) >= MAX_STATEMENTS or self._length + size > _LENGTH):
            self._forget(next(iter(self._texts)))
        self._texts[exchange] = texts
        self._length += size

    def _forget(self, exchange: int) -> None:
        self._continued.discard(exchange)
        self._length -= sum(map(len, self._texts.pop(exchange)))
