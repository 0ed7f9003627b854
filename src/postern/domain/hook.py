"""Session hooks: Python scripts of a repository with runbooks, run on the agent's machine beside a session.

What comes of one is kept and shown, and changes nothing for its session.
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
    """By the moment that it runs at."""

    OPEN = "session-open"
    CLOSE = "session-close"


FILE_OF = {HookKind.OPEN: OPEN_HOOK, HookKind.CLOSE: CLOSE_HOOK}


@dataclass(frozen=True, slots=True)
class HookScript:
    """What is run: `text` is the Python of a repository's commit."""

    kind: HookKind
    repository: str
    commit: str
    text: str


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """`exit_code` is None where it did not run to its end, which `reason` explains to people. `output` is what it
    printed, both ways, up to MAX_OUTPUT characters."""

    exit_code: int | None
    output: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HookRun:
    """One hook of one session; `seconds` is how long it took."""

    id: UUID
    org_id: UUID
    session_id: UUID
    kind: HookKind
    repository: str
    commit: str
    started_at: datetime
    seconds: float
    outcome: HookOutcome
