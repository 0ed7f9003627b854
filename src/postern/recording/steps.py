"""A recorded session as what rules look at, in the order in which it happened: what was asked, and what came back."""

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

_OWN = 16  # texts of the gateway's own that are remembered, until they were seen in what was shown


class AnswerReader(Protocol):
    """Turns the wire bytes that a client was shown into texts and numbers of rows. One for each reading."""

    def feed(self, data: bytes) -> list[Answered]:
        """The next bytes of the stream, cut anywhere → what is complete now."""
        ...


class LineAnswers:
    """Of a protocol whose answers have no rows: each line is a text."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def feed(self, data: bytes) -> list[Answered]:
        shown = b"".join(text for _, text in self._renderer.feed(data))
        lines = tuple(line for line in shown.splitlines() if line)
        return [Answered(lines)] if lines else []


class _Answers:
    """What was shown, as long as it can be read. What the gateway itself has said is left out: it is in the record
    behind what was shown, so that waits for what comes next."""

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
                yield from self._shown(at, self._reader, data)

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

    def _shown(self, at: float, reader: AnswerReader, data: bytes) -> Iterator[Step]:
        try:
            answers = reader.feed(data)
        except PosternError as error:
            self._reader = None
            yield LostPart(at, f"what was shown cannot be read further: {error.message}")
            return
        for one in answers:
            if one.lost:
                yield LostPart(at, f"{one.lost} is not judged")
                continue
            is_own = any(text in self._own for text in one.texts)
            yield Answered(() if is_own else one.texts, one.rows, one.ends, at=at)


def steps(
    records: Iterator[tuple[int, Event | Gap]], make: Callable[[], AnswerReader] | None, *, framed: bool
) -> Iterator[Step]:
    """Without `make` only what was asked. A statement is in one record, whichever segment that is in."""
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
            yield LostPart(at, "its output was recorded only in part")
    if answers is not None:
        yield from answers.rest()
