"""What happened in a session, put together from its events (spec 2.2 `event_stream`)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from postern.client.shapes import EventTriple


@dataclass(slots=True)
class Step:
    """One input and what came of it. Times in milliseconds since the session's start; `until` is that of the
    last output, None when there was none. Output before the first input is a step without a statement."""

    at: float
    statement: str | None
    until: float | None = None
    output: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def duration(self) -> float | None:
        return None if self.until is None else self.until - self.at

    @property
    def result(self) -> str:
        """The last line of the output, where a database says what it did: `SELECT 5`, `(5 rows)`."""
        lines = [line for line in "".join(self.output).splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def steps(events: Iterable[EventTriple]) -> Iterator[Step]:
    """In the order of the events. Bytes that are no UTF-8 are shown as replacement characters."""
    current: Step | None = None
    for at, kind, content in events:
        text = base64.b64decode(content).decode(errors="replace")
        if kind == "i":
            if current is not None:
                yield current
            current = Step(at, text)
            continue
        if current is None:
            current = Step(at, None)
        current.until = at
        (current.errors if kind == "e" else current.output).append(text)
    if current is not None:
        yield current
