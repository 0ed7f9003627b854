"""Bodies of retention, legal holds and purges."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.paging import ListAnswer
from postern.api.schemas.common import Answer, Body
from postern.domain.sessions.retention import WHOLE_ORGANISATION, LegalHold, Preview, Purge, PurgeScope, Retention
from postern.services.recordings.recording_retention import RetentionView

_DAYS = "Days since a session was closed; null: forever"


class RetentionRequest(Body):
    """A retention. Both fields are required: one left out by mistake would keep data forever, or purge it."""

    recording_days: int | None = Field(description=f"Retention of the recording. {_DAYS}")
    session_days: int | None = Field(
        description=f"Retention of the session's row, its script and input; at least that of the recording. {_DAYS}"
    )

    def retention(self) -> Retention:
        return Retention(self.recording_days, self.session_days)


class InForceAnswer(Answer):
    recording_days: int | None
    session_days: int | None


class RetentionAnswer(Answer):
    connection_id: UUID | None = Field(description="null for the organisation's")
    connection: str | None
    is_own: bool = Field(description="false: none is set; a connection then uses the organisation's")
    recording_days: int | None = Field(description=f"As it was set. {_DAYS}")
    session_days: int | None = Field(description=f"As it was set. {_DAYS}")
    in_force: InForceAnswer = Field(description="The retention in force")
    effective_at: datetime | None = Field(
        description="When a shorter retention takes effect; until then it can be undone. null: it is in force"
    )

    @classmethod
    def of(cls, view: RetentionView) -> RetentionAnswer:
        setting, retention = view.setting, view.setting.wanted
        is_whole = setting.connection_id == WHOLE_ORGANISATION
        return cls(
            connection_id=None if is_whole else setting.connection_id,
            connection=None if is_whole else setting.connection,
            is_own=retention is not None,
            recording_days=retention.recording_days if retention else None,
            session_days=retention.session_days if retention else None,
            in_force=InForceAnswer(
                recording_days=view.in_force.recording_days, session_days=view.in_force.session_days
            ),
            effective_at=view.effective_at,
        )


class RetentionsAnswer(ListAnswer[RetentionAnswer]):
    """The retentions of connections that have their own, by name."""


class PreviewAnswer(Answer):
    recordings: int = Field(description="Number that would be purged, with or without their sessions")
    sessions: int
    held: int = Field(description="Number of others that a legal hold keeps")
    stored_size: int = Field(description="Bytes, as stored, that this would free")
    oldest: datetime | None

    @classmethod
    def of(cls, preview: Preview) -> PreviewAnswer:
        return cls(**{name: getattr(preview, name) for name in cls.model_fields})


class HoldRequest(Body):
    name: str = Field(description="Name of the hold; a session can have several")
    reason: str


class HoldAnswer(Answer):
    id: UUID
    session_id: UUID
    name: str
    reason: str
    by: UUID = Field(description="Identifier of the user who added it")
    by_email: str
    at: datetime

    @classmethod
    def of(cls, hold: LegalHold) -> HoldAnswer:
        return cls(**{name: getattr(hold, name) for name in cls.model_fields})


class HoldsAnswer(Answer):
    data: list[HoldAnswer] = Field(description="Holds on the session, by name")


class PurgeRequest(Body):
    what: PurgeScope = Field(strict=False, description="recording: the recording alone; session: everything")
    reason: str = Field(description="Stays in the ledger permanently, so leave out names of people")


class PurgeAnswer(Answer):
    """A purge that has started: the ledger records it, and it cannot be undone."""

    session_id: UUID
    what: PurgeScope
    reason: str
    entry: int = Field(description="The ledger's entry")
    begun_at: datetime
    attempts: int
    next_at: datetime = Field(description="Time of the next attempt")
    error: str = Field(description="Error of the last attempt; empty if it succeeded")

    @classmethod
    def of(cls, purge: Purge) -> PurgeAnswer:
        return cls(**{name: getattr(purge, name) for name in cls.model_fields})
