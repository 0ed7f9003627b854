"""A line of the log of this server's processes, and filters of lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

LEVELS = ("debug", "info", "warning", "error", "critical")


@dataclass(frozen=True, slots=True)
class LogLine:
    """`id` names one line for good, and ids of one process sort as its lines do; `more` is what was said beside the
    message."""

    id: str
    at: datetime
    level: str
    process: str
    logger: str
    message: str
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """All given conditions hold. `level` is the lowest that is wanted."""

    level: str | None = None
    process: str | None = None
    since: datetime | None = None

    def fits(self, line: LogLine) -> bool:
        if self.level is not None and _rank(line.level) < _rank(self.level):
            return False
        if self.process is not None and line.process != self.process:
            return False
        return self.since is None or line.at >= self.since


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else LEVELS.index("info")
