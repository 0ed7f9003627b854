"""How long what is kept, holds and purges, as the API shows them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.sessions.retention import WHOLE_ORGANISATION, LegalHold, Preview, Purge, PurgeScope, Retention
from postern.services.recordings.recording_retention import RetentionView

_DAYS = "Days since a session was closed; null keeps for ever"


class RetentionRequest(Body):
    """Both must be said: what is left out by mistake would be kept for ever, or purged."""

    recording_days: int | None = Field(description=f"Of what was shown. {_DAYS}")
    session_days: int | None = Field(
        description=f"Of the session's row, its script and what was asked; never shorter than its recording. {_DAYS}"
    )

    def retention(self) -> Retention:
        return Retention(self.recording_days, self.session_days)


class InForceAnswer(Answer):
    recording_days: int | None
    session_days: int | None


class RetentionAnswer(Answer):
    connection_id: UUID | None = Field(description="null for the organisation's")
    connection: str | None
    is_own: bool = Field(description="false: none is set; a connection goes by the organisation's then")
    recording_days: int | None = Field(description=f"As it was set. {_DAYS}")
    session_days: int | None = Field(description=f"As it was set. {_DAYS}")
    in_force: InForceAnswer = Field(description="What holds now")
    effective_at: datetime | None = Field(
        description="When what was shortened takes effect; until then it can be taken back. null: it is in force"
    )

    @classmethod
    def of(cls, view: RetentionView) -> RetentionAnswer:
        setting, wanted = view.setting, view.setting.wanted
        is_whole = setting.connection_id == WHOLE_ORGANISATION
        return cls(
            connection_id=None if is_whole else setting.connection_id,
            connection=None if is_whole else setting.connection,
            is_own=wanted is not None,
            recording_days=wanted.recording_days if wanted else None,
            session_days=wanted.session_days if wanted else None,
            in_force=InForceAnswer(
                recording_days=view.in_force.recording_days, session_days=view.in_force.session_days
            ),
            effective_at=view.effective_at,
        )


class RetentionsAnswer(Answer):
    data: list[RetentionAnswer] = Field(description="Of connections that have their own, by name")


class PreviewAnswer(Answer):
    recordings: int = Field(description="How many would be purged, with or without their sessions")
    sessions: int
    held: int = Field(description="How many more a hold keeps")
    stored_size: int = Field(description="Bytes, as stored, that this would free")
    oldest: datetime | None

    @classmethod
    def of(cls, preview: Preview) -> PreviewAnswer:
        return cls(**{name: getattr(preview, name) for name in cls.model_fields})


class HoldRequest(Body):
    name: str = Field(description="By which it is released; one session may have several")
    reason: str


class HoldAnswer(Answer):
    id: UUID
    session_id: UUID
    name: str
    reason: str
    by: UUID = Field(description="Who set it")
    by_email: str
    at: datetime

    @classmethod
    def of(cls, hold: LegalHold) -> HoldAnswer:
        return cls(**{name: getattr(hold, name) for name in cls.model_fields})


class HoldsAnswer(Answer):
    data: list[HoldAnswer] = Field(description="By name")


class PurgeRequest(Body):
    what: PurgeScope = Field(strict=False, description="recording: what was shown; session: all of it")
    reason: str = Field(description="Stays in the ledger for ever, so it should name nobody")


class PurgeAnswer(Answer):
    """One that has begun: the ledger tells of it, and it cannot be taken back."""

    session_id: UUID
    what: PurgeScope
    reason: str
    entry: int = Field(description="Of the ledger")
    begun_at: datetime
    attempts: int
    next_at: datetime = Field(description="When it is tried next")
    error: str = Field(description="Why the last try failed; empty when it did not")

    @classmethod
    def of(cls, purge: Purge) -> PurgeAnswer:
        return cls(**{name: getattr(purge, name) for name in cls.model_fields})
