"""The recorder of one session: events in, records in its segments out."""

from __future__ import annotations

from postern.errors import Malformed, RecordingFailed
from postern.interception.events import ClientOutput, Event, Note
from postern.recording.record_format import encode
from postern.recording.segments import Segments

OUTPUT_LIMIT_REACHED = "output limit reached"


class Recorder:
    """Records every event, but output only up to `output_limit` bytes; where it is cut, a Note says so."""

    __slots__ = ("_left", "output_limit", "segments", "truncated")

    def __init__(self, segments: Segments, output_limit: int) -> None:
        self.segments = segments
        self.output_limit = output_limit
        self.truncated = False
        self._left = output_limit

    @property
    def size(self) -> int:
        """Bytes of the recording so far, uncompressed."""
        return self.segments.size

    def record(self, event: Event, micros: int) -> None:
        """As `record_all`, for one event."""
        self.record_all([event], micros)

    def record_all(self, events: list[Event], micros: int) -> None:
        """Appends `events` at `micros` since the start of the session, in one write.

        Raises RecordingFailed when they could not be kept; the session must then end, and every
        further call raises too.
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
        """The event's record; of output beyond the limit, only the first says that it was cut."""
        if not isinstance(event, ClientOutput):
            return encode(event, micros)
        size = len(event.data)
        if size <= self._left:
            self._left -= size
            return encode(event, micros)
        if self.truncated:
            return b""
        kept = encode(ClientOutput(event.data[: self._left]), micros) if self._left else b""
        self._left = 0
        self.truncated = True
        return kept + encode(Note(OUTPUT_LIMIT_REACHED, {"limit": str(self.output_limit)}), micros)
