"""Schedules of runbooks. The values of parameters and of the fields of issues are written and never shown."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session
from postern.services.runbooks.schedules import NamedSchedule, ScheduleFields

_CRON = "Minute, hour, day of the month, month, day of the week: `30 2 * * MON-FRI`"
_READ_ONLY = {
    "id",
    "owner",
    "parameter_names",
    "tracker_field_names",
    "next_at",
    "last_at",
    "last_session_id",
    "last_error",
}


class RunbookScheduleChange(Body):
    """The body of PUT: what is left out or null stays as it is."""

    read_only: ClassVar[frozenset[str]] = frozenset({*_READ_ONLY, "created_at", "updated_at"})

    name: str | None = None
    connection_name: str | None = Field(None, description="Name or identifier; answers have the name")
    repository: str | None = Field(None, description="Its name or address; may be left out where there is one only")
    file_name: str | None = Field(None, description="Its path from the root of the repository")
    cron: str | None = Field(None, description=_CRON)
    timezone: str | None = Field(None, description="IANA time zone of these times; UTC unless said otherwise")
    parameters: dict[str, str] | None = Field(None, description="Replaces all; no answer shows them")
    tracker_fields: dict[str, str] | None = Field(
        None,
        description="What the connection's issue template asks for, by the tracker's names of the fields; replaces "
        "all, and no answer shows them",
    )
    enabled: bool | None = None

    def fields(self) -> ScheduleFields:
        return ScheduleFields(
            name=self.name,
            connection=self.connection_name,
            repository=self.repository,
            file=self.file_name,
            cron=self.cron,
            zone=self.timezone,
            parameters=_secrets(self.parameters),
            tracker_fields=_secrets(self.tracker_fields),
            enabled=self.enabled,
        )


def _secrets(given: dict[str, str] | None) -> dict[str, Secret] | None:
    return None if given is None else {name: Secret(value) for name, value in given.items()}


class RunbookScheduleRequest(RunbookScheduleChange):
    name: str
    connection_name: str
    file_name: str
    cron: str


class RunbookScheduleAnswer(Answer):
    id: UUID
    name: str
    owner: str = Field(description="E-mail address of who it runs as; empty when they were deleted")
    connection_name: str
    repository: str
    file_name: str
    cron: str
    timezone: str
    parameter_names: list[str]
    tracker_field_names: list[str]
    enabled: bool
    next_at: datetime | None = Field(description="Null while it is switched off")
    last_at: datetime | None = Field(description="When its time came last")
    last_session_id: UUID | None = Field(description="Of the last run that there was")
    last_error: str = Field(description="Why the last time brought no run, or why none can; empty when it did")
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, found: NamedSchedule) -> RunbookScheduleAnswer:
        one = found.schedule
        return cls(
            id=one.id,
            name=one.name,
            owner=found.owner,
            connection_name=found.connection,
            repository=one.repository,
            file_name=f"/{one.file}",
            cron=one.cron,
            timezone=one.zone,
            parameter_names=sorted(one.parameters),
            tracker_field_names=sorted(one.tracker_fields),
            enabled=one.enabled,
            next_at=one.next_at,
            last_at=one.last_at,
            last_session_id=one.last_session_id,
            last_error=found.problem or one.last_error,
            created_at=one.created_at,
            updated_at=one.updated_at,
        )


class RunbookScheduleRun(Answer):
    session_id: UUID
    review_id: UUID | None = Field(description="That it waits for; then `POST /sessions/{session_id}/exec` runs it")

    @classmethod
    def of(cls, session: Session) -> RunbookScheduleRun:
        return cls(session_id=session.id, review_id=session.review_id)
