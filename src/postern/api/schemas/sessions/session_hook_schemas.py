"""What became of the hooks of a session."""

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
    seconds: float = Field(description="That it took")
    exit_code: int | None = Field(description="null where it did not run to its end, which `reason` explains")
    reason: str
    output: str = Field(description="What it printed, both ways, up to 4096 characters; purged with the recording")

    @classmethod
    def of(cls, run: HookRun) -> HookRunAnswer:
        outcome = run.outcome
        same = {name: getattr(run, name) for name in ("id", "kind", "repository", "commit", "started_at", "seconds")}
        return cls(**same, exit_code=outcome.exit_code, reason=outcome.reason, output=outcome.output)


class HookRunsAnswer(Answer):
    data: list[HookRunAnswer] = Field(description="First those that began first; 100 at most")
