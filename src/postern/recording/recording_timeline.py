"""Timeline of a session: each request with its outcome, assembled in constant memory.

An exchange is yielded once it has ended, and never before earlier ones. Some never end, such as a line typed at a
terminal or a statement skipped after an error. They are yielded unfinished when too many wait behind them.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from postern.domain.sessions.recorded import ERROR, OUTPUT, Exchange, Kind, MaskedValues
from postern.interception.events import ClientOutput, Completed, Event, Masked, Note, Operation, Phase, Refusal
from postern.recording.recording_rendering import Gap, as_bytes, describe_note, text_of

_decoder = codecs.getincrementaldecoder("utf-8")

STATEMENT: Final = 64 * 1024  # bytes of a statement, and of its values together
_MOST = 500  # waiting exchanges
_MOST_BYTES = 4 << 20

Told = tuple[int, Event | Gap, list[tuple[Kind, bytes]]]


def exchanges(
    events: Iterable[Told], output: int, *, in_turn: bool, number_of: Callable[[bytes], int] | None = None
) -> Iterator[Exchange]:
    """Yield exchanges. `output` limits the bytes of output of each.

    `in_turn`: output answers the oldest request that has not ended; otherwise it belongs to the latest one. With
    `number_of`, requests run at the same time, and it returns the number of the exchange that recorded output answers.
    """
    waiting = _Waiting(output, in_turn=in_turn, number_of=number_of)
    for micros, event, pieces in events:
        waiting.take(micros, event, pieces)
        yield from waiting.ready()
    yield from waiting.rest()


class _Waiting:
    def __init__(self, output: int, *, in_turn: bool, number_of: Callable[[bytes], int] | None) -> None:
        self._number_of = number_of
        self._row: deque[Exchange] = deque()
        self._output = output
        self._in_turn = in_turn
        self._size = 0

    def take(self, micros: int, event: Event | Gap, pieces: list[tuple[Kind, bytes]]) -> None:
        if isinstance(event, Operation):
            self._add(_start_exchange(micros, event))
        elif isinstance(event, Completed):
            self._complete(event)
        elif isinstance(event, Refusal):
            self._refuse(micros, event)
        elif isinstance(event, Masked):
            self._count_masks(event)
        elif isinstance(event, Note):
            self._add(Exchange(micros, note=describe_note(event).decode(errors="replace").strip(), ended=True))
        elif isinstance(event, Gap):
            self._add(Exchange(micros, note=f"[note] {event}", ended=True))
        elif pieces and self._output:
            self._show(micros, pieces, self._number(event))

    def _number(self, event: Event | Gap) -> int:
        """Return the exchange that this is output of, or 0 if only the order tells."""
        if self._number_of is None or not isinstance(event, ClientOutput):
            return 0
        return self._number_of(event.data)

    def ready(self) -> Iterator[Exchange]:
        while self._row and (self._row[0].ended or len(self._row) > _MOST or self._size > _MOST_BYTES):
            yield self._next()

    def rest(self) -> Iterator[Exchange]:
        while self._row:
            yield self._next()

    def _next(self) -> Exchange:
        first = self._row.popleft()
        self._size -= _size_of(first)
        return first

    def _add(self, exchange: Exchange) -> None:
        self._row.append(exchange)
        self._size += _size_of(exchange)

    def _complete(self, event: Completed) -> None:
        """End an exchange, and all earlier ones that have not ended: answers come in order, so those were skipped."""
        if not any(exchange.number == event.exchange for exchange in self._row if not exchange.note):
            return
        for exchange in self._row:
            if exchange.note or exchange.number > event.exchange:
                continue
            if self._number_of is not None and exchange.number != event.exchange:
                continue
            if exchange.number == event.exchange and not exchange.ended:
                exchange.duration, exchange.rows, exchange.tag = event.micros, event.rows, _readable(event.tag)
                exchange.error, exchange.error_code = (
                    exchange.error or _readable(event.error),
                    exchange.error_code or event.error_code,
                )
            exchange.ended = True

    def _refuse(self, micros: int, event: Refusal) -> None:
        mine = [exchange for exchange in self._row if not exchange.note and exchange.number == event.exchange]
        if not mine:
            mine = [Exchange(micros, event.exchange)]
            self._add(mine[0])
        for exchange in mine:
            exchange.rule, exchange.refusal = (
                _readable(event.rule),
                _readable(event.message),
            )  # its answer is still to come

    def _count_masks(self, event: Masked) -> None:
        """Add the marks to the request that the output answers. Output between requests has none."""
        requests = (each for each in self._row if not each.note and not each.prepared and each.number == event.exchange)
        exchange = next(requests, None) or self._find_answered()
        if exchange is None:
            return
        for mark in event.marks:
            count = event.values(mark)
            if count:
                values = exchange.masked.setdefault((mark.mask.rule, mark.mask.strategy), MaskedValues())
                values.info_types.update(mark.mask.info_types)
                values.count += count

    def _show(self, micros: int, pieces: list[tuple[Kind, bytes]], number: int) -> None:
        exchange = self._find_answered() if not number else self._find_numbered(number)
        if exchange is None:
            exchange = Exchange(micros, ended=self._in_turn)
            self._add(exchange)
        for kind, content in pieces:
            if kind not in (OUTPUT, ERROR):
                continue
            data = exchange.output if kind == OUTPUT else exchange.errors
            room = self._output - len(exchange.output) - len(exchange.errors)
            data += content[: max(room, 0)]
            self._size += min(len(content), max(room, 0))
            exchange.output_truncated = exchange.output_truncated or len(content) > room

    def _find_numbered(self, number: int) -> Exchange | None:
        return next((exchange for exchange in self._row if exchange.number == number and not exchange.note), None)

    def _find_answered(self) -> Exchange | None:
        open_ones = (exchange for exchange in self._row if not exchange.note and not exchange.ended)
        if self._in_turn:
            return next(open_ones, None)
        return next((exchange for exchange in reversed(self._row) if not exchange.note), None)


def _start_exchange(micros: int, event: Operation) -> Exchange:
    encoded = text_of(event)
    values, room = [], STATEMENT
    for value in event.values:
        values.append(None if value is None else value[:room])
        room -= len(value or b"")
        room = max(room, 0)
    cut = len(encoded) > STATEMENT or any(
        value is not None and len(value) != len(data or b"") for value, data in zip(event.values, values, strict=True)
    )
    return Exchange(
        micros,
        event.exchange,
        prepared=event.phase is Phase.PREPARE,
        statement=_decoder("backslashreplace").decode(encoded[:STATEMENT]),
        statement_size=len(encoded),
        values=tuple(values),
        truncated=event.truncated or cut,
        ended=event.phase is Phase.PREPARE,
    )


def _readable(text: str) -> str:
    """Return the text with undecodable bytes as `\\xff`, so that it fits JSON and UTF-8."""
    return as_bytes(text).decode(errors="backslashreplace")


def _size_of(exchange: Exchange) -> int:
    return (
        200
        + exchange.statement_size
        + sum(map(len, filter(None, exchange.values)))
        + len(exchange.output)
        + len(exchange.errors)
    )
