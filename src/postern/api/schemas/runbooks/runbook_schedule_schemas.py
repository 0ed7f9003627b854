"""Bodies of schedules of runbooks. The values of parameters and of the fields of issues are never shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field

from postern.api.schemas.common import Answer, NamedResourceAnswer, ResourceBody, SortedNames, refers_to, secret
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session

CRON = "Minute, hour, day of the month, month, day of the week: `30 2 * * MON-FRI`"
_KEPT = "left out or null: unchanged; never shown"


class RunbookScheduleRequest(ResourceBody):
    read_only = ResourceBody.read_only | {
        *("owner", "parameter_names", "tracker_field_names"),
        *("next_at", "last_at", "last_session_id", "last_error"),
    }

    name: str
    connection: str = Field(
        alias="connection_name",
        description="Name or identifier; answers have the name",
        json_schema_extra=refers_to("connection"),
    )
    repository: str | None = Field(
        None,
        description="Name or address; default: the only repository",
        json_schema_extra=refers_to("runbook-repository"),
    )
    file: str = Field(alias="file_name", description="Path from the root of the repository")
    cron: str = Field(description=CRON)
    zone: str | None = Field(None, alias="timezone", description="IANA time zone of these times; default: UTC")
    parameters: dict[str, str] | None = Field(
        None, description=f"Replaces all; {_KEPT}", json_schema_extra=secret("parameter_names")
    )
    tracker_fields: dict[str, str] | None = Field(
        None,
        description=f"Fields of the connection's issue template, by the tracker's names; replaces all; {_KEPT}",
        json_schema_extra=secret("tracker_field_names"),
    )
    enabled: bool | None = None

    def fields(self) -> dict[str, Any]:
        secret = ("parameters", "tracker_fields")
        return {
            name: {key: Secret(text) for key, text in value.items()} if name in secret else value
            for name, value in super().fields().items()
        }


class RunbookScheduleAnswer(NamedResourceAnswer):
    owner: str = Field(description="E-mail address of the user it runs as; empty if they were deleted")
    connection_name: str = Field(validation_alias="connection")
    repository: str
    file_name: Annotated[str, BeforeValidator("/{}".format)] = Field(validation_alias="file")
    cron: str
    timezone: str = Field(validation_alias="zone")
    parameter_names: SortedNames = Field(validation_alias="parameters")
    tracker_field_names: SortedNames = Field(validation_alias="tracker_fields")
    enabled: bool
    next_at: datetime | None = Field(description="Null while it is disabled")
    last_at: datetime | None = Field(description="Time of the last run")
    last_session_id: UUID | None = Field(description="Session of the last run")
    last_error: str = Field(
        validation_alias="trouble",
        description="Why the last scheduled run did not start, or why no run is possible; empty if it ran",
    )
    created_at: datetime | None
    updated_at: datetime | None


class RunbookScheduleRun(Answer):
    session_id: UUID
    review_id: UUID | None = Field(
        description="The review that it waits for; then `POST /sessions/{session_id}/exec` runs it"
    )

    @classmethod
    def of(cls, session: Session) -> RunbookScheduleRun:
        return cls(session_id=session.id, review_id=session.review_id)


class ScheduleTimesAnswer(Answer):
    description: str = Field(description="The expression in words: `At 02:30 on Monday through Friday`")
    times: list[datetime] = Field(description="The next times, in order; fewer than asked for if there are no more")
