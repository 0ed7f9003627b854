"""Results of trials of guardrails: on one text, and on past sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from postern.domain.rules.guardrail import Action
from postern.domain.rules.statement import Statement
from postern.domain.sessions.session import Session

MAX_LISTED = 100  # sessions that are named, and users of a connection
MAX_SESSIONS_OF_USER = 10  # that are named
MAX_SAMPLES = 50
MAX_SAMPLE = 500  # characters of a statement, or of a value
MAX_VALUES = 20  # of a statement


@dataclass(frozen=True, slots=True)
class Hit:
    """One matching rule. `spans` are (start, end) in characters of the text, empty where the rule evaluates what a
    statement does, or matched only after a comment. `unknown`: it is unknown whether it matches."""

    rule: str
    action: Action
    reason: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """`outcome` is what would happen to the text, None where it passes; `message` is what its author reads.
    `statements`: what a parser finds in it, empty without a parser."""

    outcome: Action | None
    message: str
    hits: tuple[Hit, ...]
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class RecordedStatement:
    """One statement as it was recorded. `values` are its bind values, None for NULL; `truncated`: some were too large
    to be kept whole. `at`: milliseconds since the session's start."""

    text: str
    values: tuple[bytes | None, ...] = ()
    prepared: bool = False  # it was parsed, and did not run
    truncated: bool = False
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Answered:
    """A part of an answer as it was shown: its texts, each judged on its own, and its rows. `lost`: why there is
    nothing to be judged."""

    texts: tuple[bytes, ...]
    rows: int = 0
    ends: bool = False  # of this statement there are no more rows
    lost: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class LostPart:
    """A part of a recording of which nothing can be said."""

    at: float
    reason: str


Step = RecordedStatement | Answered | LostPart


@dataclass(frozen=True, slots=True)
class Sample:
    """`text` is the statement; of an answer the statement in front of it. `values` are what it was bound to, where the
    recording has them."""

    session_id: UUID
    connection: str
    user: str
    at: float  # milliseconds since the session's start
    statement: str
    values: tuple[str | None, ...]
    direction: str  # input or output
    action: Action
    rule: str
    reason: str


@dataclass(slots=True)
class UserHits:
    """What matched in the sessions of one user on one connection. `session_ids` are the newest of them."""

    connection: str
    user: str
    statements: int = 0
    sessions: int = 0
    session_ids: list[UUID] = field(default_factory=list)


@dataclass(slots=True)
class Simulation:
    """How far a simulation has come, and what it found. `skipped`: sessions of which nothing can be said, or not of a
    part of them, by the reason; `caveats`: what no simulation of these rules can know. `sessions` are the first of
    those in which something hits; `stopped` says which bound was reached."""

    sessions_read: int = 0
    statements_read: int = 0
    values_read: int = 0
    answers_read: int = 0  # texts
    skipped: dict[str, int] = field(default_factory=dict)
    caveats: list[str] = field(default_factory=list)
    actions: dict[Action, int] = field(default_factory=dict)
    unknown: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    sessions_hit: int = 0
    sessions: list[UUID] = field(default_factory=list)
    users: dict[tuple[str, str], UserHits] = field(default_factory=dict)  # by connection and user
    samples: list[Sample] = field(default_factory=list)
    stopped: str = ""
    is_done: bool = False

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def hit(self, session: Session, at: float, statement: RecordedStatement | None, hit: Hit, direction: str) -> None:
        self.actions[hit.action] = self.actions.get(hit.action, 0) + 1
        self.rules[hit.rule] = self.rules.get(hit.rule, 0) + 1
        self.unknown += hit.unknown
        if len(self.samples) < MAX_SAMPLES:
            text = "" if statement is None else _shorten(statement.text)
            values = () if statement is None else _readable(statement.values)
            where = (session.id, session.connection, session.user)
            self.samples.append(Sample(*where, at, text, values, direction, hit.action, hit.rule, hit.reason))

    def session_hit(self, session: Session, statements: int) -> None:
        """Count a session in which rules matched so many statements and answers."""
        self.sessions_hit += 1
        if len(self.sessions) < MAX_LISTED:
            self.sessions.append(session.id)
        key = (session.connection, session.user)
        user = self.users.setdefault(key, UserHits(*key))
        user.statements += statements
        user.sessions += 1
        if len(user.session_ids) < MAX_SESSIONS_OF_USER:
            user.session_ids.append(session.id)

    def users_with_most_hits(self) -> list[UserHits]:
        most_first = sorted(self.users.values(), key=lambda user: (-user.statements, user.connection, user.user))
        return most_first[:MAX_LISTED]


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SAMPLE else text[:MAX_SAMPLE] + "…"


def _readable(values: tuple[bytes | None, ...]) -> tuple[str | None, ...]:
    some = values[:MAX_VALUES]
    return tuple(None if data is None else _shorten(data.decode("utf-8", "replace")) for data in some)
