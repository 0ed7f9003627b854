"""Rendering recorded bytes as text: each event, result or object on a line."""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter

from postern.protocols.cloudwatch.queries.cloudwatch_messages import ResponseFrames
from postern.protocols.cloudwatch.recorded.cloudwatch_reading import (
    RecordedAnswer,
    count_line,
    line_of,
    read_recorded,
)


class CloudwatchTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._responses = ResponseFrames(is_eager=True)

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the pieces; adjacent ones of the same kind are joined. Raises ProtocolViolation for bytes that are not
        frames of responses."""
        pieces = [
            piece for response in self._responses.feed(data) for piece in _render(read_recorded(response)) if piece[1]
        ]
        return [(kind, b"".join(text for _, text in same)) for kind, same in groupby(pieces, itemgetter(0))]

    def rest(self) -> list[tuple[str, bytes]]:
        """Return a note about incomplete responses, of which nothing can be rendered."""
        waiting = self._responses.waiting
        self._responses = ResponseFrames(is_eager=True)
        return [("o", b"[%d bytes of a response]\n" % waiting)] if waiting else []


def _render(answer: RecordedAnswer) -> list[tuple[str, bytes]]:
    if answer.error is not None:
        return [("e", f"ERROR {answer.error.text}\n".encode("utf-8", "replace"))]
    lines = [line_of(row) for row in answer.rows]
    if answer.table == "results" and answer.details:
        lines.append(json.dumps(answer.details, ensure_ascii=False))
    if answer.table and not answer.is_part:
        lines.append(count_line(len(answer.rows)))
    elif not lines and not answer.is_part:
        lines.append("ok")
    return [("o", "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))]
