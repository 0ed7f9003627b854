"""The port to an issue tracker. Who carries it out is in integrations/trackers."""

from __future__ import annotations

from typing import Protocol

from postern.domain.issue import Assets, Issue, NewIssue, TrackerSettings
from postern.domain.lists import Page


class Tracker(Protocol):
    """One organisation's tracker. May be used by many at once; ends with `close`.

    Each method raises Unavailable when it may go well later (with `retry_after` where the tracker asks for a pause).
    For good, since the tracker will refuse it again, are: Denied for credentials that do not let in, NotFound for a
    project or an issue that is not there or not shown, Invalid with the tracker's own words about fields. Messages are
    for people: one line of bounded length, without control characters and tokens.

    Values of `NewIssue.fields` are texts, or, where they are known to be something else, `{"value": text}` for one of a
    list and `{"moment": text}` for a point in time in ISO 8601 (UTC where it has no zone). What a tracker knows of the
    field goes before: a text for a list is sent as one of the list. Any other value is sent as it is.
    """

    lag: float
    """Seconds after which `find` sees what was made: it may not before, where the tracker's index follows later."""

    async def check(self, project_key: str = "") -> str:
        """Whom the tracker knows us as; with a project also that we see it."""

    async def create(self, new: NewIssue) -> Issue:
        """Raises Uncertain when it may be there all the same: then ask `find`, `lag` seconds later at the earliest,
        before it is made again."""

    async def find(self, new: NewIssue) -> Issue | None:
        """One that was made of this already, by its marker; the oldest where there are several."""

    async def transition(self, issue: Issue, name: str) -> bool:
        """Brings it to the status of that name, else through the transition of that name, in any case of letters.
        False when there was nothing to do, since it is in that status or is closed in another way. Raises Invalid with
        the transitions that there are. May be repeated."""

    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        """Of that type, whose name contains the query, by name. Raises Invalid where a tracker has no such thing."""

    async def close(self) -> None: ...


class Trackers(Protocol):
    """Makes the adapter for what is set."""

    def __call__(self, settings: TrackerSettings) -> Tracker:
        """Raises Invalid for an address that is never asked."""
