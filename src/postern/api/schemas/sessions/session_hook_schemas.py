"""Bodies of the runs of a session's hooks."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.hook import HookKind, HookRun


class HookRunAnswer(Answer):
    id: UUID
    kind: HookKind
    repository: str
    commit: str
    started_at: datetime
    seconds: float = Field(description="Duration in seconds")
    exit_code: int | None = Field(description="null if it did not finish, which `reason` explains")
    reason: str
    output: str = Field(
        description="Its output, standard output and error, up to 4096 characters; purged with the recording"
    )

    @classmethod
    def of(cls, run: HookRun) -> HookRunAnswer:
        outcome = run.outcome
        same = {name: getattr(run, name) for name in ("id", "kind", "repository", "commit", "started_at", "seconds")}
        return cls(**same, exit_code=outcome.exit_code, reason=outcome.reason, output=outcome.output)


class HookRunsAnswer(Answer):
    data: list[HookRunAnswer] = Field(description="In the order of their start; at most 100")
