"""A tracker that only answers questions, and remembers who asked them."""

from __future__ import annotations

from dataclasses import dataclass, field

from postern.domain.issues.issue import Asset, Assets, Issue, NewIssue, TrackerSettings
from postern.domain.lists import Page
from postern.errors import Denied, Invalid, NotFound


@dataclass
class AskedTracker:
    """Also what makes it. Knows the token `good` at any address but one under `refused.example.com`, the project `OPS`,
    and assets of the type `Server`."""

    lag: float = 0.0
    made: list[TrackerSettings] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    closed: int = 0

    def __call__(self, settings: TrackerSettings) -> AskedTracker:
        if "refused.example.com" in settings.url:
            raise Invalid("url: refused.example.com is never asked", field="url")
        self.made.append(settings)
        return self

    async def check(self, project_key: str = "") -> str:
        self.asked.append(f"check {project_key}".strip())
        if self.made[-1].token.reveal() != "good":
            raise Denied("the tracker does not let us in: check user and token")
        if project_key not in ("", "OPS"):
            raise NotFound(f"there is no project {project_key}, or it is not shown to us")
        return "it knows us"

    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        self.asked.append(f"objects {object_type} {query} {page.limit} {page.offset}")
        names = [name for name in ("db1", "db2", "web1") if object_type == "Server" and query in name]
        shown = names[page.offset : page.offset + page.limit]
        return Assets([Asset(name, name) for name in shown], len(names), page.offset + page.limit < len(names))

    async def create(self, new: NewIssue) -> Issue:
        raise AssertionError(f"nobody makes {new.marker} here")

    async def find(self, new: NewIssue) -> Issue | None:
        raise AssertionError(f"nobody looks for {new.marker} here")

    async def transition(self, issue: Issue, name: str) -> bool:
        raise AssertionError(f"nobody closes {issue.key} here")

    async def close(self) -> None:
        self.closed += 1
