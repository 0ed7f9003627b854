"""A Review: a request for approval of access or of what runs (spec 1, 2.2, 3).

Three kinds, one state machine. `onetime`: one script, which runs exactly as it was reviewed, once. `jit`: access to a
connection for a while, bound to the user, their address and their login. `statement`: one statement of a session that a
guardrail holds.

    (new) ──asked──▶ PENDING ──approved──▶ APPROVED ──started──▶ PROCESSING ──finished──▶ EXECUTED
                        │                     │                   (onetime)
                        ├──rejected──▶ REJECTED
                        ├──expired───▶ EXPIRED ◀──expired──┤      jit: the access ended; onetime: it was not run in time
                        └──withdrawn─▶ WITHDRAWN ◀─withdrawn┤     its owner has given it up
                                              └──revoked──▶ REVOKED

TRANSITIONS is the one statement of this: the store's conditional updates and the table in docs/reviews.md are generated
from it. The required approvers are in `approval_requirements`; how votes become a decision, in `review_weighing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow

WAITS: Mapping[str, timedelta] = {  # a review of that kind is decided within this, or expires
    "onetime": timedelta(hours=24),
    "jit": timedelta(hours=1),
    "statement": timedelta(minutes=10),
}
RUN_WITHIN = timedelta(hours=24)  # of its approval, a onetime review's script is started, or the review expires
KEPT = timedelta(days=365)  # behind its end; it goes sooner with its session
MAX_REASON = 1_000
MAX_INPUT = 10_000  # characters of a statement that reviewers are shown

# A user who requests and withdraws reviews again and again must not fill the store or the reviewers' lists.
MAX_OF_SESSION = 100  # statements of one session, in all
MAX_OF_OWNER = 20  # that wait
MAX_OF_ORGANISATION = 1_000  # that wait
FEW_OF_OWNER = 5  # that wait, once the organisation has half of its maximum: a few users cannot block all others
MAX_LATELY = 200  # of one owner, whatever became of them, within LATELY
LATELY = timedelta(hours=1)


class ReviewKind(StrEnum):
    ONETIME = "onetime"
    JIT = "jit"
    STATEMENT = "statement"


class ReviewOutcome(StrEnum):
    """How a review ended. It distinguishes the cases of the status EXPIRED."""

    APPROVED = "approved"  # a statement, which runs at once
    USED = "used"  # the script ran
    ENDED = "ended"  # access was given, and has expired
    UNUSED = "unused"  # a script was approved, but not run in time
    EXPIRED = "expired"  # no decision was made in time
    REJECTED = "rejected"
    REVOKED = "revoked"
    WITHDRAWN = "withdrawn"


class ReviewEvent(StrEnum):
    """A change of a review's state. A vote that decides nothing yet is not one."""

    APPROVED = "approved"
    REJECTED = "rejected"
    REVOKED = "revoked"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    STARTED = "started"
    FINISHED = "finished"


_ALL = tuple(ReviewKind)
_USED = (ReviewKind.ONETIME, ReviewKind.JIT)  # something is left of an approval that can be used, or taken back


def _table() -> dict[tuple[ReviewKind, ReviewStatus, ReviewEvent], ReviewStatus]:
    pending, approved = ReviewStatus.PENDING, ReviewStatus.APPROVED
    rows: list[tuple[Collection[ReviewKind], ReviewStatus, ReviewEvent, ReviewStatus]] = [
        (_ALL, pending, ReviewEvent.APPROVED, approved),
        (_ALL, pending, ReviewEvent.REJECTED, ReviewStatus.REJECTED),
        (_ALL, pending, ReviewEvent.EXPIRED, ReviewStatus.EXPIRED),
        (_ALL, pending, ReviewEvent.WITHDRAWN, ReviewStatus.WITHDRAWN),
        (_USED, approved, ReviewEvent.REVOKED, ReviewStatus.REVOKED),
        (_USED, approved, ReviewEvent.EXPIRED, ReviewStatus.EXPIRED),
        (_USED, approved, ReviewEvent.WITHDRAWN, ReviewStatus.WITHDRAWN),
        ((ReviewKind.ONETIME,), approved, ReviewEvent.STARTED, ReviewStatus.PROCESSING),
        ((ReviewKind.ONETIME,), ReviewStatus.PROCESSING, ReviewEvent.FINISHED, ReviewStatus.EXECUTED),
    ]
    return {(kind, before, event): after for kinds, before, event, after in rows for kind in kinds}


# (kind, from, event) → to. What is not here changes nothing.
TRANSITIONS: Mapping[tuple[ReviewKind, ReviewStatus, ReviewEvent], ReviewStatus] = _table()


def sources(kind: ReviewKind, event: ReviewEvent) -> tuple[ReviewStatus, ...]:
    """Return the states of a review of this kind in which the event can happen."""
    return tuple(before for of, before, cause in TRANSITIONS if of is kind and cause is event)


def after(kind: ReviewKind, status: ReviewStatus, event: ReviewEvent) -> ReviewStatus | None:
    """Return the state after the event; None: it changes nothing."""
    return TRANSITIONS.get((kind, status, event))


def is_final(kind: ReviewKind, status: ReviewStatus) -> bool:
    """Whether its state can no longer change."""
    return not any(of is kind and before is status for of, before, _ in TRANSITIONS)


_OUTCOMES: Mapping[ReviewStatus, ReviewOutcome] = {
    ReviewStatus.APPROVED: ReviewOutcome.APPROVED,
    ReviewStatus.EXECUTED: ReviewOutcome.USED,
    ReviewStatus.EXPIRED: ReviewOutcome.EXPIRED,
    ReviewStatus.REJECTED: ReviewOutcome.REJECTED,
    ReviewStatus.REVOKED: ReviewOutcome.REVOKED,
    ReviewStatus.WITHDRAWN: ReviewOutcome.WITHDRAWN,
}


@dataclass(frozen=True, slots=True)
class Person:
    """The owner or a reviewer, by their names at that time. `chat_id` is their account in the chat that it came by."""

    principal_id: UUID | None
    subject: str
    email: str
    name: str = ""
    chat_id: str = ""

    def is_same(self, other: Person) -> bool:
        """Return whether both are one person, also by two accounts: with one subject, or one e-mail address."""
        if self.principal_id is not None and self.principal_id == other.principal_id:
            return True
        if self.subject and self.subject == other.subject:
            return True
        return bool(self.email) and self.email.strip().casefold() == other.email.strip().casefold()


def person_of(principal: Principal, chat_id: str = "") -> Person:
    return Person(principal.id, principal.subject, principal.email, principal.name, chat_id)


@dataclass(frozen=True, slots=True)
class ApprovalRequirement:
    """The approvals that one rule requires. `rule` is its name, empty for the connection's own `reviewers`.

    All requirements of a review must be met; one person counts once in each.
    """

    rule: str
    groups: tuple[str, ...]
    min_approvals: int = 1
    all_groups: bool = False
    force_groups: tuple[str, ...] = ()

    @property
    def ordered(self) -> ApprovalRequirement:
        """The form in which two are compared: the order of groups does not matter."""
        return replace(self, groups=tuple(sorted(self.groups)), force_groups=tuple(sorted(self.force_groups)))


@dataclass(frozen=True, slots=True)
class Binding:
    """What access is bound to, exactly.

    `place` is the connection's target at the time of the request. `source` is the client's address. `means` is the auth
    method and login: one credential, one API key, one login.
    """

    principal_id: UUID
    connection_id: UUID
    place: UUID
    source: str
    means: str


@dataclass(frozen=True, slots=True)
class ReviewedCredential:
    """The credential with which the client logs in that a review is for, by its name at that time."""

    id: UUID
    username: str


class Choice(StrEnum):
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True)
class Vote:
    """The decision of one person. `groups` are those of the review that they spoke for; `own`: the review was their
    own, which the organisation allows."""

    reviewer: Person
    choice: Choice
    groups: frozenset[str]
    at: datetime
    forced: bool = False
    own: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """`makers` are the users who created the owner's login, if another user did.

    `access_duration` is in seconds, 0 where no access is given. `input` is a held statement with its values; a script
    is its session's. `expires_at`: while it is pending, its deadline; for an approved script, when it is too late to
    start it. `revoke_at` is the end of a grant. `estimate` is the row estimate of a statement, as JSON. `credential` is
    None where the owner's own login or key is used. `withdrawal_reason`: why the gateway withdrew it.
    """

    id: UUID
    org_id: UUID
    kind: ReviewKind
    status: ReviewStatus
    owner: Person
    binding: Binding
    connection: str
    demands: tuple[ApprovalRequirement, ...]
    created_at: datetime
    expires_at: datetime
    session_id: UUID | None = None
    makers: tuple[Person, ...] = ()
    credential: ReviewedCredential | None = None
    reason: str = ""
    input: str = ""
    estimate: Mapping[str, object] | None = None
    access_duration: int = 0
    decided_at: datetime | None = None
    revoke_at: datetime | None = None
    withdrawal_reason: str = ""
    time_window: TimeWindow | None = None
    voices: tuple[Vote, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups that review, each once."""
        return tuple(dict.fromkeys(group for demand in self.demands for group in demand.groups))

    @property
    def force_groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group for demand in self.demands for group in demand.force_groups))

    @property
    def is_in_advance(self) -> bool:
        """Whether access was requested before a client connected, so that none waits for it."""
        return self.kind is ReviewKind.JIT and self.session_id is None

    @property
    def refusal(self) -> Vote | None:
        """The vote that rejected or revoked it."""
        return next((voice for voice in self.voices if voice.choice is not Choice.APPROVED), None)

    @property
    def outcome(self) -> ReviewOutcome | None:
        """How it ended; None while its state can still change."""
        if not is_final(self.kind, self.status):
            return None
        if self.status is ReviewStatus.EXPIRED and self._was_approved:
            return ReviewOutcome.ENDED if self.kind is ReviewKind.JIT else ReviewOutcome.UNUSED
        return _OUTCOMES[self.status]

    @property
    def _was_approved(self) -> bool:
        """Whether a review that has expired was approved before."""
        if self.kind is ReviewKind.ONETIME:  # without an approval, the decision is its expiry
            return self.decided_at is not None and self.decided_at < self.expires_at
        return self.revoke_at is not None

    def is_own(self, person: Person) -> bool:
        return any(person.is_same(requester) for requester in (self.owner, *self.makers))

    def may_review(self, groups: Collection[str]) -> bool:
        return not frozenset(groups).isdisjoint((*self.groups, *self.force_groups))

    def has_lapsed(self, now: datetime) -> bool:
        """Return whether it has expired, recorded or not: its deadline, its start, or its grant."""
        if self.status is ReviewStatus.PENDING:
            return now >= self.expires_at
        if self.status is not ReviewStatus.APPROVED or self.kind not in _USED:
            return False
        end = self.revoke_at if self.kind is ReviewKind.JIT else self.expires_at
        return end is not None and now >= end

    def is_usable(self, now: datetime) -> bool:
        """Return whether it is approved and usable now: not expired, and within its window."""
        if self.status is not ReviewStatus.APPROVED or self.has_lapsed(now):
            return False
        return self.time_window is None or self.time_window.holds(now)

    def approve(self, at: datetime, window: TimeWindow | None) -> Review:
        """Return the review as approved.

        Access begins when its window opens, so that some is given in any case, and ends with the last moment of it at
        which the window is open. A script can start from the approval on, in a time in which each window opens once.
        """
        opens = at if window is None or window.holds(at) else window.opens_at(at)
        grant = opens + timedelta(seconds=self.access_duration) if self.kind is ReviewKind.JIT else None
        if grant is not None and window is not None:
            grant = window.last_open(opens, grant)
        until = at + RUN_WITHIN if self.kind is ReviewKind.ONETIME else self.expires_at
        return replace(
            self, status=ReviewStatus.APPROVED, decided_at=at, revoke_at=grant, expires_at=until, time_window=window
        )


@dataclass(frozen=True, slots=True)
class Crowd:
    """The number of reviews beside a new one: statements of its session, pending ones of its owner and of its
    organisation, and all of its owner within LATELY."""

    of_session: int
    of_owner: int
    of_organisation: int
    lately: int

    def full(self) -> str | None:
        """Why there is no room for one more."""
        if self.of_session >= MAX_OF_SESSION:
            return f"this session has requested {self.of_session} reviews, which is the limit"
        is_filling = self.of_organisation >= MAX_OF_ORGANISATION // 2
        if self.of_owner >= (FEW_OF_OWNER if is_filling else MAX_OF_OWNER):
            return f"you have {self.of_owner} pending reviews, which is the limit; withdraw one, or wait"
        if self.lately >= MAX_LATELY:
            return f"you have requested {self.lately} reviews within an hour, which is the limit; try again later"
        if self.of_organisation >= MAX_OF_ORGANISATION:
            return f"the organisation has {self.of_organisation} pending reviews, which is the limit; try again later"
        return None
