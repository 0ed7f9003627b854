"""Recorder of one session: writes events as records into its segments."""

from __future__ import annotations

from postern.errors import Malformed, RecordingFailed
from postern.interception.events import ClientOutput, Event, Masked, Note
from postern.recording.record_format import encode
from postern.recording.segments import Segments

OUTPUT_LIMIT_REACHED = "output limit reached"


class Recorder:
    """Records every event, but output with its masks only up to `output_limit` bytes. A Note marks where it was cut."""

    __slots__ = ("_left", "output_limit", "segments", "truncated")

    def __init__(self, segments: Segments, output_limit: int) -> None:
        self.segments = segments
        self.output_limit = output_limit
        self.truncated = False
        self._left = output_limit

    @property
    def size(self) -> int:
        """Return the uncompressed size of the recording so far, in bytes."""
        return self.segments.size

    def record(self, event: Event, micros: int) -> None:
        """Record one event, as `record_all` does."""
        self.record_all([event], micros)

    def record_all(self, events: list[Event], micros: int) -> None:
        """Append `events` in one write, at `micros` since the start of the session.

        Raises RecordingFailed if they could not be stored. The session must then end; every further call raises too.
        """
        try:
            if len(events) == 1:
                data = self._encode(events[0], micros)
            else:
                data = b"".join([self._encode(event, micros) for event in events])
        except Malformed as error:
            self.segments.fail(error.message)
            raise RecordingFailed(error.message) from error
        self.segments.append(data, micros)

    def _encode(self, event: Event, micros: int) -> bytes:
        """Encode an event. Output over the limit is dropped, and noted the first time."""
        if isinstance(event, Masked):
            return self._encode_masks(event, micros)
        if not isinstance(event, ClientOutput):
            return encode(event, micros)
        size = len(event.data)
        if size <= self._left:
            self._left -= size
            return encode(event, micros)
        if self.truncated:
            return b""
        recorded = encode(ClientOutput(event.data[: self._left]), micros) if self._left else b""
        return recorded + self._cut(micros)

    def _encode_masks(self, event: Masked, micros: int) -> bytes:
        """Encode the masks of the output that follows. If they do not fit, the output is cut: no reader should take a
        masked value for a real one.
        """
        if self.truncated:
            return b""
        recorded = encode(event, micros)
        if len(recorded) > self._left:
            return self._cut(micros)
        self._left -= len(recorded)
        return recorded

    def _cut(self, micros: int) -> bytes:
        self._left = 0
        self.truncated = True
        return encode(Note(OUTPUT_LIMIT_REACHED, {"limit": str(self.output_limit)}), micros)
