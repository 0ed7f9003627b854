"""The data of events of the stream of changes."""

from __future__ import annotations

from typing import Self
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.change import ChangeNotice


class ChangeAnswer(Answer):
    """The data of the events `review`, `session`, `agent`, `connection` and `login`."""

    id: UUID | None = Field(description="What has changed; null: read the whole list again")
    change: str = Field(
        description="`started`, `ended`, `online`, `offline`, `renewed`, `drained`, `deleted` or `changed`; for a "
        "review its status, such as PENDING or APPROVED"
    )
    session_id: UUID | None = Field(description="The session of a review; null for other events")

    @classmethod
    def of(cls, change: ChangeNotice) -> Self:
        return cls(id=change.id, change=change.what, session_id=change.session_id)


class ChangeStreamAnswer(Answer):
    """The data of the events `ready`, `resync` and `cut`, which are about the stream itself."""

    reason: str | None = Field(None, description="Why the stream ends; only of `cut`")
