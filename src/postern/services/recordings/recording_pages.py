"""Parts of a recording: pages of bounded size, however long the session is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from postern.domain.sessions.recorded import Exchange, Moment, RecordedPosition, with_positions
from postern.errors import Invalid

MOST_BYTES = 16 << 20  # that one answer holds of a recording
MOST_ITEMS = 100_000
PAGE_BYTES = 4 << 20
LONGEST = 2**63 - 1  # microseconds

ItemT = TypeVar("ItemT", Moment, Exchange)


_BEGINNING = RecordedPosition()


@dataclass(frozen=True, slots=True)
class RecordingWindow:
    """The requested part of a recording, in microseconds since its start, both included; `limit` None is all of it."""

    start: int = 0
    end: int = LONGEST
    after: RecordedPosition = _BEGINNING
    limit: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the whole recording is requested in one answer."""
        return self.limit is None and not self.start and self.end == LONGEST and self.after == _BEGINNING

    @property
    def since(self) -> int:
        """Where to start reading, in microseconds."""
        return max(self.start, self.after.micros)


@dataclass(frozen=True, slots=True)
class RecordingPart(Generic[ItemT]):
    """A page. `next` is the position to continue after; None at the end."""

    items: list[ItemT]
    next: RecordedPosition | None


def too_much() -> Invalid:
    return Invalid(
        f"expand: this session has more than {MOST_BYTES >> 20} MiB of events, or {MOST_ITEMS}; read it page by page "
        "with `limit` and `cursor`, a part of it with `from` and `to`, or all of it as a file with `extension`",
        field="expand",
    )


def part(
    items: Iterable[ItemT], window: RecordingWindow, size_of: Callable[[ItemT], int], matches: Callable[[ItemT], bool]
) -> RecordingPart[ItemT]:
    """Return the wanted items in the window. A page has at least one, however large.

    Raises Invalid when no limit is set and there is too much for one answer.
    """
    limit = MOST_ITEMS if window.limit is None else window.limit
    room = MOST_BYTES if window.limit is None else PAGE_BYTES
    part_items: list[ItemT] = []
    last = window.after
    for place, item in with_positions(items, window.after):
        if item.micros > window.end:
            break
        if item.micros < window.start or not matches(item):
            continue
        room -= size_of(item)
        if len(part_items) >= limit or (room < 0 and (part_items or window.limit is None)):
            if window.limit is None:
                raise too_much()
            return RecordingPart(part_items, last)
        part_items.append(item)
        last = place
    return RecordingPart(part_items, None)
