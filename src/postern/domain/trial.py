"""What guard rails would say: of one text, and of what was asked in the past."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from postern.domain.guardrail import Action
from postern.domain.statement import Statement

MAX_LISTED = 100  # sessions that are named
MAX_SAMPLES = 50
MAX_SAMPLE = 500  # characters of a statement


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule that hits. `spans` are (start, end) in characters of the text, empty where the rule judges what a
    statement does, or saw it only behind a comment. `unknown`: it cannot be told whether it hits."""

    rule: str
    action: Action
    reason: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """`outcome` is what would become of the text, None where it goes its way; `message` is what its author reads.
    `statements`: what a parser reads in it, empty where there is none."""

    outcome: Action | None
    message: str
    hits: tuple[Hit, ...]
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    session_id: UUID
    at: float  # milliseconds since the session's start
    statement: str
    action: Action
    rule: str
    reason: str


@dataclass(slots=True)
class Simulation:
    """How far a simulation has come, and what it found. `skipped`: sessions of which nothing can be said, by the
    reason. `sessions` are the first of those in which something hits; `stopped` says which bound was reached."""

    sessions_read: int = 0
    statements_read: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    actions: dict[Action, int] = field(default_factory=dict)
    unknown: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    sessions_hit: int = 0
    sessions: list[UUID] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    stopped: str = ""
    is_done: bool = False

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def hit(self, session_id: UUID, at: float, statement: str, found: Hit) -> None:
        self.actions[found.action] = self.actions.get(found.action, 0) + 1
        self.rules[found.rule] = self.rules.get(found.rule, 0) + 1
        self.unknown += found.unknown
        if len(self.samples) < MAX_SAMPLES:
            shown = statement if len(statement) <= MAX_SAMPLE else statement[:MAX_SAMPLE] + "…"
            self.samples.append(Sample(session_id, at, shown, found.action, found.rule, found.reason))

    def session_hit(self, session_id: UUID) -> None:
        self.sessions_hit += 1
        if len(self.sessions) < MAX_LISTED:
            self.sessions.append(session_id)
