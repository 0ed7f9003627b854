"""A session's recording, inside of the session's answer (spec 4.2): triples, one text, or queries.

This module reads recordings from disk, so it runs in a thread.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from postern.api.schemas.sessions.session_schemas import StreamFormat, Triple
from postern.domain.sessions.recorded import INPUT, SIZE, Missing, Moment, RecordedPosition
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.connection import TEXTUAL
from postern.errors import Invalid
from postern.services.recordings.recording_pages import (
    MOST_BYTES,
    MOST_ITEMS,
    RecordingPart,
    RecordingWindow,
    part,
    too_much,
)
from postern.services.sessions import Sessions

KINDS = ("i", "o", "e")
ALL_KINDS = (*KINDS, SIZE)  # the forms that can be requested
Events = Iterable[tuple[float, str, bytes]]
StreamName = Literal["stdout", "stderr"]


class EventStream(NamedTuple):
    """The recording. `size` is in bytes; None if nothing was parsed, so that the stored one counts. `next`: the place
    after which the next page begins."""

    events: list[Triple] | list[str]
    size: int | None
    next: RecordedPosition | None


def event_stream(
    sessions: Sessions, session: Session, form: StreamFormat | None, kinds: frozenset[str], window: RecordingWindow
) -> EventStream:
    """Read the recording. Raises NotFound without a recording, Invalid if it is too large for one answer."""
    if window.is_whole and _is_too_much(session, form, kinds):
        raise too_much()
    if form is None:
        recording_part = _moments(sessions, session, kinds, window)
        return EventStream([_triple(moment) for moment in recording_part.items], None, recording_part.next)
    if form is StreamFormat.RAW_QUERIES:
        recording_part = _queries(sessions, session, window)
        size = sum(len(moment.content) for moment in recording_part.items)
        return EventStream([_triple(moment) for moment in recording_part.items], size, recording_part.next)
    recording_part = _moments(sessions, session, kinds - {INPUT, SIZE}, window)
    joined = b"".join(moment.content for moment in recording_part.items)
    text = joined.decode(errors="replace") if form is StreamFormat.UTF8 else base64.b64encode(joined).decode()
    return EventStream([text], len(text.encode()), recording_part.next)


def _is_too_much(session: Session, form: StreamFormat | None, kinds: frozenset[str]) -> bool:
    """Check the size in the session's row first: reading as much as fits takes seconds. A recording that is larger than
    one answer is rejected even if its text would be smaller. Statements alone are counted."""
    wants_output = form is not StreamFormat.RAW_QUERIES and not kinds.isdisjoint(KINDS[1:])
    if wants_output and (session.event_size or 0) > MOST_BYTES:
        return True
    wants_input = form is StreamFormat.RAW_QUERIES or (form is None and INPUT in kinds)
    return wants_input and int(session.metrics.get("operations", 0)) > MOST_ITEMS


def never_recorded(session: Session) -> bool:
    """Return whether the session has not begun, or ended before it began: it has no events, and nothing is missing."""
    return session.status is SessionStatus.READY or (session.status is SessionStatus.DONE and not session.event_size)


@dataclass(slots=True)
class LimitedText:
    """A buffer of the first `limit` bytes."""

    limit: int
    _kept: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, content: bytes) -> None:
        room = self.limit - self._size
        if room > 0:
            self._kept.append(content[:room])
        self._size += len(content)

    @property
    def truncated(self) -> bool:
        return self._size > self.limit

    def __str__(self) -> str:
        return b"".join(self._kept).decode(errors="ignore" if self.truncated else "replace")


@dataclass(slots=True)
class ScriptOutput:
    """The output of a script: everything in order, and each stream by itself.

    `runs` has the stream and the bytes of each part of `both`; it is complete unless `both` is truncated.
    `is_recorded`: there is at least one event of any kind.
    """

    both: LimitedText
    stdout: LimitedText
    stderr: LimitedText
    runs: list[tuple[StreamName, bytearray]] = field(default_factory=list)
    is_recorded: bool = False

    def add(self, name: StreamName, content: bytes) -> None:
        if not self.both.truncated:
            if not self.runs or self.runs[-1][0] != name:
                self.runs.append((name, bytearray()))
            self.runs[-1][1].extend(content)
        self.both.add(content)
        (self.stderr if name == "stderr" else self.stdout).add(content)

    @property
    def is_truncated(self) -> bool:
        return self.both.truncated and self.stdout.truncated and self.stderr.truncated


def output(events: Events, limit: int) -> ScriptOutput:
    """Return the texts, each of at most `limit` bytes."""
    script_output = ScriptOutput(LimitedText(limit), LimitedText(limit), LimitedText(limit))
    for _, kind, content in events:
        script_output.is_recorded = True
        if kind == INPUT:
            continue
        script_output.add("stderr" if kind == "e" else "stdout", content)
        if script_output.is_truncated:
            break
    return script_output


def _moments(
    sessions: Sessions, session: Session, kinds: frozenset[str], window: RecordingWindow
) -> RecordingPart[Moment]:
    if never_recorded(session):
        return RecordingPart([], None)
    moments = sessions.recordings.moments(session, window.since)
    return part(moments, window, _size, lambda moment: moment.kind in kinds or isinstance(moment, Missing))


def _queries(sessions: Sessions, session: Session, window: RecordingWindow) -> RecordingPart[Moment]:
    if never_recorded(session):
        return RecordingPart([], None)
    if sessions.recordings.protocol(session) in TEXTUAL:
        raise Invalid(
            "event_stream: raw-queries needs a session of a database; this one has its input as `i` events",
            field="event_stream",
        )
    operations = sessions.recordings.operations(session, window.since)
    return part((Moment(round(at * 1000), INPUT, text) for at, text in operations), window, _size, lambda _: True)


def _size(moment: Moment) -> int:
    return len(moment.content)


def _triple(moment: Moment) -> Triple:
    return moment.micros / 1000, moment.kind, base64.b64encode(moment.content).decode()
