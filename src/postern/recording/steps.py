"""Recorded session as input for rules: operations and answers, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from postern.domain.rules.trial import Answered, LostPart, RecordedStatement, Step
from postern.errors import PosternError
from postern.interception.events import RUN, ClientOutput, Event, Note, Operation, Refusal
from postern.recording.recorder import OUTPUT_LIMIT_REACHED
from postern.recording.recording_rendering import Gap, Renderer
from postern.recording.resync_point import ResyncPoint

_OWN = 16  # own texts of the gateway that are remembered until they appear in the output


class AnswerReader(Protocol):
    """Decoder of answers: turns wire bytes for the client into texts and row counts. One per reading."""

    def feed(self, data: bytes) -> list[Answered]:
        """Decode the next bytes of the stream, cut anywhere; return what is complete."""
        ...


class LineAnswers:
    """Decoder for a protocol without rows: each line is a text."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def feed(self, data: bytes) -> list[Answered]:
        shown_data = b"".join(text for _, text in self._renderer.feed(data))
        lines = tuple(line for line in shown_data.splitlines() if line)
        return [Answered(lines)] if lines else []


class _Answers:
    """Answers of a session, as long as they can be read, without the gateway's own messages.

    A message of the gateway is recorded after the output that contains it, so output waits for the next record.
    """

    def __init__(self, make: Callable[[], AnswerReader], *, framed: bool) -> None:
        self._make = make
        self._reader: AnswerReader | None = make()
        self._framed = framed
        self._rest: ResyncPoint | None = None
        self._own: deque[bytes] = deque(maxlen=_OWN)
        self._waiting: list[tuple[float, bytes]] = []

    def before(self, event: Event | Gap) -> Iterator[Step]:
        if isinstance(event, Note | Refusal):
            self._own.append((event.text if isinstance(event, Note) else event.message).encode())
        else:
            yield from self.rest()

    def rest(self) -> Iterator[Step]:
        waiting, self._waiting = self._waiting, []
        for at, data in waiting:
            if self._reader is not None:
                yield from self._read(at, self._reader, data)

    def take(self, at: float, event: Event | Gap) -> None:
        if isinstance(event, Gap):
            self._reader = self._make() if self._framed else None
            self._rest = None if self._framed else ResyncPoint()
            return
        if self._rest is not None and self._rest.has_come(event):
            self._rest = None
            self._reader = self._make()
        if isinstance(event, ClientOutput):
            self._waiting.append((at, event.data))

    def _read(self, at: float, reader: AnswerReader, data: bytes) -> Iterator[Step]:
        try:
            answers = reader.feed(data)
        except PosternError as error:
            self._reader = None
            yield LostPart(at, f"the rest of the output cannot be read: {error.message}")
            return
        for answer in answers:
            if answer.lost:
                yield LostPart(at, f"{answer.lost} is not evaluated")
                continue
            is_own = any(text in self._own for text in answer.texts)
            yield Answered(() if is_own else answer.texts, answer.rows, answer.ends, at=at)


def steps(
    records: Iterator[tuple[int, Event | Gap]], make: Callable[[], AnswerReader] | None, *, framed: bool
) -> Iterator[Step]:
    """Yield the steps of a session; without `make` only its operations. A statement is always in one record."""
    answers = None if make is None else _Answers(make, framed=framed)
    for micros, event in records:
        at = micros / 1000
        if answers is not None:
            yield from answers.before(event)
            answers.take(at, event)
        if isinstance(event, Operation):
            text = event.text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            yield RecordedStatement(text, event.values, event.phase is not RUN, event.truncated, at)
        elif isinstance(event, Gap):
            yield LostPart(at, f"segment {event.segment} cannot be read: {event.reason}")
        elif answers is not None and isinstance(event, Note) and event.text == OUTPUT_LIMIT_REACHED:
            yield LostPart(at, "the output was only partly recorded")
    if answers is not None:
        yield from answers.rest()
