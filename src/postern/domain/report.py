"""The counts of reports, and how they are grouped by time and resource."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.sessions.session import Verb

SLOT = 900  # seconds; the offset of every time zone is a multiple of it


class GroupBy(StrEnum):
    """The first resource of a report's lines."""

    ID = "id"
    USER = "user"
    CONNECTION = "connection"
    TYPE = "type"
    SUBTYPE = "subtype"
    VERB = "verb"


class Interval(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """Quarters of an hour since 1970: from the first, until before the last."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """All given conditions apply. `user` is an e-mail, `connection` a name, as in sessions."""

    session_id: UUID | None = None
    user: str | None = None
    connection: str | None = None
    type: str | None = None
    verb: Verb | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over some sessions. `failed` and `killed` of these ended so; `refused` are requests that a rule denied."""

    sessions: int = 0
    failed: int = 0
    killed: int = 0
    operations: int = 0
    refused: int = 0
    masked: int = 0
    transformed_bytes: int = 0
    recorded_bytes: int = 0
    milliseconds: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in COUNTED))


COUNTED: tuple[str, ...] = tuple(Counts.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class MaskedCount:
    """How many values of a type were masked, in the sessions of one resource."""

    resource: str
    info_type: str
    redact_total: int


@dataclass(frozen=True, slots=True)
class Activity:
    """The counts of the hour, day, week or month that begins at `start`, in the requested time zone."""

    start: datetime
    group: str | None
    counts: Counts


def slot_of(moment: datetime) -> int:
    return int(moment.timestamp()) // SLOT
