"""The recorder of one session: events in, records in a spool out."""

from __future__ import annotations

from postern.errors import Malformed, RecordingFailed
from postern.interception.events import Event, Note, Shown
from postern.recording.records import encode
from postern.recording.spool import Spool

OUTPUT_LIMIT_REACHED = "output limit reached"


class Recorder:
    """Records every event, but output only up to `output_limit` bytes; where it is cut, a Note says so."""

    __slots__ = ("_append", "_fail", "_left", "output_limit", "spool", "truncated")

    def __init__(self, spool: Spool, output_limit: int) -> None:
        self.spool = spool
        self.output_limit = output_limit
        self.truncated = False
        self._left = output_limit
        self._append = spool.append
        self._fail = spool.fail

    @property
    def size(self) -> int:
        """Bytes of the recording so far, uncompressed."""
        return self.spool.size

    def record(self, event: Event, micros: int) -> None:
        """Appends `event` at `micros` since the start of the session.

        Raises RecordingFailed when it could not be kept; the session must then end, and every
        further call raises too.
        """
        if type(event) is Shown:
            self._record_shown(event, micros)
        else:
            self._keep(event, micros)

    def _record_shown(self, event: Shown, micros: int) -> None:
        size = len(event.data)
        if size <= self._left:
            self._left -= size
            self._keep(event, micros)
        elif not self.truncated:
            if self._left:
                self._keep(Shown(event.data[: self._left]), micros)
            self._left = 0
            self.truncated = True
            self._keep(Note(OUTPUT_LIMIT_REACHED, {"limit": str(self.output_limit)}), micros)

    def _keep(self, event: Event, micros: int) -> None:
        try:
            record = encode(event, micros)
        except Malformed as error:
            self._fail(error.message)
            raise RecordingFailed(error.message) from error
        self._append(record)
