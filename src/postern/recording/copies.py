"""What is stored of segments, where that is a folder of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from postern.domain.segment import Segment
from postern.errors import NotFound, Unavailable

_PIECE = 256 * 1024


class FileCopies:
    """Below `folder` by the segments' places."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, segment: Segment) -> Iterator[bytes]:
        """Raises NotFound, Unavailable."""
        path = self._folder / segment.place
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise NotFound(f"the segment {segment.number} of session {segment.session_id} has a place outside")
        try:
            with path.open("rb") as file:
                while data := file.read(_PIECE):
                    yield data
        except FileNotFoundError:
            raise NotFound(f"the segment {segment.number} of session {segment.session_id} is not there") from None
        except OSError as error:
            raise Unavailable(f"{path.name} cannot be read: {error.strerror}") from None
