"""Query parameters for a part of a recording, and for the form of its events in a file."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from fastapi import Query

from postern.domain.sessions.recorded import RecordedPosition
from postern.errors import Invalid
from postern.services.recordings.recording_pages import LONGEST, RecordingWindow

NEXT = "Next-Cursor"
PAGE = 1_000  # items, if a cursor and no limit is given
_MOST = 10_000

Start = Annotated[float, Query(alias="from", ge=0, description="Milliseconds since start_date; from here on")]
End = Annotated[float | None, Query(alias="to", ge=0, description="Milliseconds since start_date; up to here")]
Cursor = Annotated[str | None, Query(description="Continue after a page: its next cursor")]
EventTime = Annotated[
    Literal["0", "1"],
    Query(
        alias="event-time",
        description="1: each event begins with its time; csv has it as the first field of every line, json always",
    ),
]
NewLine = Annotated[
    Literal["0", "1"], Query(description="1: a line break after each event; json then has one object on each line")
]
Limit = Annotated[int | None, Query(ge=1, le=_MOST, description="Items of a page; it can have fewer")]


def window(
    start: float = 0.0, end: float | None = None, cursor: str | None = None, limit: int | None = None
) -> RecordingWindow:
    """Raises Invalid."""
    after = RecordedPosition() if cursor is None else RecordedPosition.read(cursor, "cursor")
    if cursor is not None and limit is None:
        limit = PAGE
    return RecordingWindow(_micros("from", start), LONGEST if end is None else _micros("to", end), after, limit)


def _micros(name: str, milliseconds: float) -> int:
    if not math.isfinite(milliseconds):
        raise Invalid(f"{name}: must be a number of milliseconds", field=name)
    return LONGEST if milliseconds > LONGEST / 1000 else round(milliseconds * 1000)
