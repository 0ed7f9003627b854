"""The port to an issue tracker. Adapters are in integrations/trackers."""

from __future__ import annotations

from typing import Protocol

from postern.domain.issues.issue import Assets, Issue, NewIssue, TrackerSettings
from postern.domain.lists import Page


class Tracker(Protocol):
    """One organisation's tracker. Allows concurrent calls; ends with `close`.

    Each method raises Unavailable when it may succeed later (with `retry_after` where the tracker asks for a pause).
    Permanent errors are: Denied for rejected credentials, NotFound for a project or an issue that does not exist or is
    hidden, Invalid with the tracker's own message about fields. Messages are for users: one line of bounded length,
    without control characters and tokens.

    Values of `NewIssue.fields` are texts, or, where their type is known, `{"value": text}` for an option of a list and
    `{"moment": text}` for a timestamp in ISO 8601 (UTC without a zone). The tracker's own type of the field takes
    precedence: a text for a list is sent as an option. Any other value is sent as it is.
    """

    lag: float
    """Seconds after which `find` sees a created issue; above 0 where the tracker updates its index later."""

    async def check(self, project_key: str = "") -> str:
        """Return the account that the tracker knows us as; with a project also check that we can see it."""

    async def create(self, new: NewIssue) -> Issue:
        """Create the issue.

        Raises Uncertain when it may exist all the same: then call `find`, `lag` seconds later at the earliest, before
        creating it again.
        """

    async def find(self, new: NewIssue) -> Issue | None:
        """Return an issue that was created from this, by its marker; the oldest where there are several."""

    async def transition(self, issue: Issue, name: str) -> bool:
        """Move the issue to the status of that name, else through the transition of that name, ignoring case.

        Returns False when nothing was to be done, since it has that status or is closed otherwise. Raises Invalid with
        the available transitions. Can be repeated.
        """

    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        """Return objects of that type whose name contains the query, by name. Raises Invalid where
        a tracker has none."""

    async def close(self) -> None: ...


class Trackers(Protocol):
    """Creates the adapter for an organisation's settings."""

    def __call__(self, settings: TrackerSettings) -> Tracker:
        """Return the adapter. Raises Invalid for a forbidden address."""
