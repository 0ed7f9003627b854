"""Retention of recordings and sessions, legal holds, and purges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from postern.errors import Invalid

GRACE = timedelta(days=1)  # until a retention that was shortened takes effect
MOST_DAYS = 36_500
MAX_REASON = 1_000  # characters
WHOLE_ORGANISATION = UUID(int=0)  # in the place of a connection


class PurgeScope(StrEnum):
    """The scope of a purge: the recording, or the whole session. The words are those of the ledger."""

    RECORDING = "recording"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Retention:
    """Days since a session was closed; None is for ever. A session is never kept shorter than its recording."""

    recording_days: int | None = None
    session_days: int | None = None

    def check(self) -> None:
        """Check the days. Raises Invalid."""
        for name in ("recording_days", "session_days"):
            days = getattr(self, name)
            if days is not None and not 1 <= days <= MOST_DAYS:
                raise Invalid(f"{name}: must be 1 to {MOST_DAYS} days, or null for ever", field=name)
        if _longer(self.recording_days, self.session_days) != self.session_days:
            period = "for ever" if self.recording_days is None else f"for {self.recording_days} days"
            raise Invalid(
                f"session_days: recordings are stored {period}, and a session is never stored for less time "
                "than its recording; shorten recording_days as well, or keep sessions longer",
                field="session_days",
            )

    def or_longer(self, other: Retention) -> Retention:
        return Retention(
            _longer(self.recording_days, other.recording_days), _longer(self.session_days, other.session_days)
        )


FOR_EVER = Retention()


@dataclass(frozen=True, slots=True)
class RetentionSetting:
    """The retention of an organisation (`connection_id` is WHOLE_ORGANISATION) or of a connection.

    A connection's name is stored with it: the setting stays when the connection is removed. `wanted` None: the
    organisation's applies. Until `effective_at` nothing is kept shorter than `before` says.
    """

    org_id: UUID
    connection_id: UUID
    connection: str
    wanted: Retention | None
    before: Retention = FOR_EVER
    effective_at: datetime | None = None

    def in_force(self, organisation: Retention, at: datetime) -> Retention:
        """`organisation` is what that of the organisation says at that moment."""
        retention = organisation if self.wanted is None else self.wanted
        return retention.or_longer(self.before) if self.waits(at) else retention

    def waits(self, at: datetime) -> bool:
        """Whether what was shortened is yet to take effect."""
        return self.effective_at is not None and at < self.effective_at


@dataclass(frozen=True, slots=True)
class Retentions:
    """The retention in force at a moment in one organisation. `own` is by connection."""

    organisation: Retention
    own: Mapping[UUID, Retention]

    def of(self, connection_id: UUID) -> Retention:
        return self.own.get(connection_id, self.organisation)

    @property
    def shortest(self) -> int | None:
        """The shortest, in days; None where everything is kept for ever."""
        limits = [retention.recording_days for retention in (self.organisation, *self.own.values())]
        limits += [retention.session_days for retention in (self.organisation, *self.own.values())]
        return min((days for days in limits if days is not None), default=None)


def retentions_at(settings: list[RetentionSetting], at: datetime) -> Retentions:
    """Return what is in force, from the settings of one organisation."""
    whole = next((setting for setting in settings if setting.connection_id == WHOLE_ORGANISATION), None)
    organisation = FOR_EVER if whole is None else whole.in_force(FOR_EVER, at)
    retentions = {
        setting.connection_id: setting.in_force(organisation, at)
        for setting in settings
        if setting.connection_id != WHOLE_ORGANISATION and (setting.wanted is not None or setting.waits(at))
    }
    return Retentions(organisation, retentions)


@dataclass(frozen=True, slots=True)
class RetainedSession:
    """A session that is closed in the ledger, as far as purging asks. `since` is when its time began to count."""

    session_id: UUID
    org_id: UUID
    connection_id: UUID
    started: datetime
    since: datetime
    has_recording: bool


def due(session: RetainedSession, retention: Retention, at: datetime) -> PurgeScope | None:
    """Return what of a session is to be purged now; None for nothing."""
    age = at - session.since
    if retention.session_days is not None and age > timedelta(days=retention.session_days):
        return PurgeScope.SESSION
    if (
        session.has_recording
        and retention.recording_days is not None
        and age > timedelta(days=retention.recording_days)
    ):
        return PurgeScope.RECORDING
    return None


@dataclass(frozen=True, slots=True)
class LegalHold:
    """Keeps a session from being purged until it is released. `by` is the id of its creator, `by_email` for users."""

    id: UUID
    org_id: UUID
    session_id: UUID
    name: str
    reason: str
    by: UUID
    by_email: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Purge:
    """One that has begun: the ledger has it as `entry`, and it goes on until nothing is left. `error` is of the last
    try that failed."""

    session_id: UUID
    org_id: UUID
    what: PurgeScope
    reason: str
    entry: int
    begun_at: datetime
    attempts: int
    next_at: datetime
    error: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a retention would purge now: numbers of recordings and sessions, the oldest of them, stored bytes, and
    how many are held."""

    recordings: int
    sessions: int
    held: int
    stored_size: int
    oldest: datetime | None


def check_text(text: str, field: str, most: int) -> None:
    """Check that it is one line that is not blank. Raises Invalid."""
    if not text.strip() or len(text) > most or not text.isprintable():
        raise Invalid(f"{field}: must be 1 to {most} printable characters", field=field)


def _longer(days: int | None, other: int | None) -> int | None:
    return None if days is None or other is None else max(days, other)
