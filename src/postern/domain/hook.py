"""Session hooks: Python scripts of a repository with runbooks, run on the agent's machine beside a session.

The result of a hook is stored and shown, and does not affect its session.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.runbook import CLOSE_HOOK, OPEN_HOOK

MAX_HOOK = 128 * 1024  # bytes of its text: with its context it has to fit into one frame of a tunnel
MAX_OUTPUT = 4096  # characters of what a hook printed; what is behind them is left out, and said to be
MAX_REASON = 1_000  # characters of why one did not run to its end
HOOK_SECONDS = 60.0  # that one may run


class HookKind(StrEnum):
    """The moment at which the hook runs."""

    OPEN = "session-open"
    CLOSE = "session-close"


FILE_OF = {HookKind.OPEN: OPEN_HOOK, HookKind.CLOSE: CLOSE_HOOK}


@dataclass(frozen=True, slots=True)
class HookScript:
    """The script of a hook: `text` is Python from a repository's commit."""

    kind: HookKind
    repository: str
    commit: str
    text: str


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The result of a hook. `exit_code` is None where it did not run to its end, which `reason` explains.

    `output` is its standard output and error, up to MAX_OUTPUT characters.
    """

    exit_code: int | None
    output: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HookRun:
    """One run of a hook for one session; `seconds` is its duration."""

    id: UUID
    org_id: UUID
    session_id: UUID
    kind: HookKind
    repository: str
    commit: str
    started_at: datetime
    seconds: float
    outcome: HookOutcome
