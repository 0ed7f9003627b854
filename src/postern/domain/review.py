"""A Review: people agree, or do not, before somebody is let in or something runs (spec 1, 2.2, 3).

Three kinds, one machine. `onetime`: one script, which runs exactly as it was reviewed, once. `jit`: access to a
connection for a while, bound to who asked, from where and by what. `statement`: one statement of a session that a guard
rail holds.

    (new) ──asked──▶ PENDING ──approved──▶ APPROVED ──started──▶ PROCESSING ──finished──▶ EXECUTED
                        │                     │                   (onetime)
                        ├──rejected──▶ REJECTED
                        ├──expired───▶ EXPIRED ◀──expired──┤      jit: its time is over; onetime: nobody ran it
                        └──withdrawn─▶ WITHDRAWN ◀─withdrawn┤     who asked has given it up
                                              └──revoked──▶ REVOKED

TRANSITIONS is the one statement of this: the store's conditional updates and the table in docs/reviews.md are made of
it. `weigh` is the one place where voices become a decision; the store calls it with the review's row locked, and with
who the reviewers are at that moment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from postern.domain.connection import Connection
from postern.domain.principal import Principal
from postern.domain.review_rule import ReviewRule
from postern.domain.session import Verb
from postern.domain.time_window import TimeWindow
from postern.errors import Conflict, Denied, Invalid

DEFAULT_ACCESS = 1_800  # seconds that a grant lasts where nobody says otherwise
MAX_ACCESS = 48 * 3_600
WAITS: Mapping[str, timedelta] = {  # a review of that kind is decided within this, or expires
    "onetime": timedelta(hours=24),
    "jit": timedelta(hours=1),
    "statement": timedelta(minutes=10),
}
RUN_WITHIN = timedelta(hours=24)  # of its approval, a onetime review's script is started, or the review expires
KEPT = timedelta(days=365)  # behind its end; it goes sooner with its session
MAX_REASON = 1_000
MAX_INPUT = 10_000  # characters of a statement that are shown to who decides

# Who asks and gives up, again and again, fills neither the store nor the list of those who decide.
MAX_OF_SESSION = 100  # statements of one session, in all
MAX_OF_OWNER = 20  # that wait
MAX_OF_ORGANISATION = 1_000  # that wait
FEW_OF_OWNER = 5  # that wait, once half of what the organisation may have does: a few people keep nobody from asking


class ReviewKind(StrEnum):
    ONETIME = "onetime"
    JIT = "jit"
    STATEMENT = "statement"


class ReviewStatus(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVOKED = "REVOKED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"
    PROCESSING = "PROCESSING"
    EXECUTED = "EXECUTED"


class ReviewEvent(StrEnum):
    """What happens to a review as a whole. A voice that decides nothing yet is none."""

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
    """The states of a review of this kind in which that can happen to it."""
    return tuple(before for of, before, cause in TRANSITIONS if of is kind and cause is event)


def after(kind: ReviewKind, status: ReviewStatus, event: ReviewEvent) -> ReviewStatus | None:
    """None: it changes nothing."""
    return TRANSITIONS.get((kind, status, event))


def is_final(kind: ReviewKind, status: ReviewStatus) -> bool:
    """Whether nothing can happen to it any more."""
    return not any(of is kind and before is status for of, before, _ in TRANSITIONS)


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever asks or decides, as they were called at that moment. `chat_id` is theirs in the chat that it came by."""

    principal_id: UUID | None
    subject: str
    email: str
    name: str = ""
    chat_id: str = ""

    def is_same(self, other: Person) -> bool:
        """Also by another account: one subject, or one e-mail address, is one person."""
        if self.principal_id is not None and self.principal_id == other.principal_id:
            return True
        if self.subject and self.subject == other.subject:
            return True
        return bool(self.email) and self.email.strip().casefold() == other.email.strip().casefold()


def person_of(principal: Principal, chat_id: str = "") -> Person:
    return Person(principal.id, principal.subject, principal.email, principal.name, chat_id)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one rule asks for. `rule` is its name, empty for the connection's own `reviewers`. Each demand of a review
    must be met; one person counts once in each."""

    rule: str
    groups: tuple[str, ...]
    min_approvals: int = 1
    all_groups: bool = False
    force_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binding:
    """What access is given to: exactly this, and nothing beside it.

    `place` is where the connection led when it was asked for. `source` is the client's address. `means` is what was
    logged in with: one credential, one API key, one login.
    """

    principal_id: UUID
    connection_id: UUID
    place: UUID
    source: str
    means: str


class Choice(StrEnum):
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True)
class Voice:
    """What one person said. `groups` are those of the review that they spoke for; `own`: the review was their own, and
    the organisation lets people approve their own."""

    reviewer: Person
    choice: Choice
    groups: frozenset[str]
    at: datetime
    forced: bool = False
    own: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """`makers` are the people who made what the owner logged in with, where that was somebody else. `access_duration`
    is in seconds, 0 for what is no access. `input` is a held statement with its values; a script is its session's.
    `expires_at`: while it waits, its deadline; for an approved script, when it is too late to start it. `revoke_at` is
    the end of a grant. `estimate` is what counting told about the rows that a statement would touch, as JSON."""

    id: UUID
    org_id: UUID
    kind: ReviewKind
    status: ReviewStatus
    owner: Person
    binding: Binding
    connection: str
    demands: tuple[Demand, ...]
    created_at: datetime
    expires_at: datetime
    session_id: UUID | None = None
    makers: tuple[Person, ...] = ()
    reason: str = ""
    input: str = ""
    estimate: Mapping[str, object] | None = None
    access_duration: int = 0
    decided_at: datetime | None = None
    revoke_at: datetime | None = None
    time_window: TimeWindow | None = None
    voices: tuple[Voice, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """All that review, each once."""
        return tuple(dict.fromkeys(group for demand in self.demands for group in demand.groups))

    @property
    def force_groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group for demand in self.demands for group in demand.force_groups))

    @property
    def refusal(self) -> Voice | None:
        """Who rejected or revoked it."""
        return next((voice for voice in self.voices if voice.choice is not Choice.APPROVED), None)

    def is_own(self, person: Person) -> bool:
        return any(person.is_same(one) for one in (self.owner, *self.makers))

    def may_review(self, groups: Collection[str]) -> bool:
        return not frozenset(groups).isdisjoint((*self.groups, *self.force_groups))

    def has_lapsed(self, now: datetime) -> bool:
        """Whether its time is over, noted or not yet: to be decided, to be started, or of what was given."""
        if self.status is ReviewStatus.PENDING:
            return now >= self.expires_at
        if self.status is not ReviewStatus.APPROVED or self.kind not in _USED:
            return False
        end = self.revoke_at if self.kind is ReviewKind.JIT else self.expires_at
        return end is not None and now >= end

    def is_usable(self, now: datetime) -> bool:
        """Whether what was approved may be used at this moment: its time has not passed, and its window is open."""
        if self.status is not ReviewStatus.APPROVED or self.has_lapsed(now):
            return False
        return self.time_window is None or self.time_window.holds(now)

    def approved(self, at: datetime, window: TimeWindow | None) -> Review:
        """As it is from its approval on. Access begins when its window opens, so that some is given in any case, and
        ends with the last moment of it at which that is open; a script has its time from the approval, in which each
        window opens once."""
        opens = at if window is None or window.holds(at) else window.opens_at(at)
        grant = opens + timedelta(seconds=self.access_duration) if self.kind is ReviewKind.JIT else None
        if grant is not None and window is not None:
            grant = window.last_open(opens, grant)
        until = at + RUN_WITHIN if self.kind is ReviewKind.ONETIME else self.expires_at
        return replace(
            self, status=ReviewStatus.APPROVED, decided_at=at, revoke_at=grant, expires_at=until, time_window=window
        )


@dataclass(frozen=True, slots=True)
class Seat:
    """Who a reviewer is at the moment of a decision. `is_person`: programs decide nothing."""

    is_active: bool
    is_person: bool
    groups: frozenset[str]
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """What somebody asks to be done with a review."""

    choice: Choice
    at: datetime
    force: bool = False
    comment: str = ""
    time_window: TimeWindow | None = None


@dataclass(frozen=True, slots=True)
class Weighed:
    """`event`: what becomes of the review; None while more have to agree. `time_window` is the review's from now on."""

    voice: Voice
    event: ReviewEvent | None
    time_window: TimeWindow | None = None


def weigh(
    review: Review, reviewer: Person, ruling: Ruling, seats: Mapping[UUID, Seat], *, own_allowed: bool
) -> Weighed:
    """`seats` has the reviewer and everybody who has spoken before; who is missing does not count any more.

    Raises Denied when they may not, Conflict when it is too late or said already.
    """
    seat = None if reviewer.principal_id is None else seats.get(reviewer.principal_id)
    if seat is None or not seat.is_active:
        raise Denied("whoever decides must be an active user of this organisation")
    if not seat.is_person:
        # Who may make keys would decide on what is their own by one of them.
        raise Denied("people decide on reviews; a program's key does not")
    if ruling.choice is Choice.APPROVED:
        return _approve(review, reviewer, ruling, seat, seats, own_allowed)
    return _refuse(review, reviewer, ruling, seat)


def _approve(
    review: Review, reviewer: Person, ruling: Ruling, seat: Seat, seats: Mapping[UUID, Seat], own_allowed: bool
) -> Weighed:
    _require(review, ReviewEvent.APPROVED, ruling.at)
    named = (*review.groups, *(review.force_groups if ruling.force else ()))
    groups = seat.groups & frozenset(named)
    if ruling.force and not seat.groups & frozenset(review.force_groups):
        raise Denied(f"only members of {_names(review.force_groups)} may force the approval of this review")
    if not groups:
        raise Denied(f"this review is for {_names(review.groups)}, and you are in none of these groups")
    own = review.is_own(reviewer)
    if own and not own_allowed:
        raise Denied("nobody approves what they have asked for themselves; ask another reviewer")
    if ruling.time_window is not None:
        if review.kind is ReviewKind.STATEMENT:
            raise Invalid("time_window: a statement runs at once, or not at all", field="time_window")
        if review.time_window not in (None, ruling.time_window):
            raise Conflict(f"time_window: another reviewer has set {review.time_window} already")
    earlier = next((voice for voice in review.voices if voice.reviewer.is_same(reviewer)), None)
    if earlier is not None and not _says_more(ruling, groups, earlier, seats):
        raise Conflict("you have approved this review already; it waits for others")
    voice = Voice(reviewer, Choice.APPROVED, groups, ruling.at, ruling.force, own, ruling.comment)
    told = [one for one in review.voices if one is not earlier and (own_allowed or not one.own)] + [voice]
    counted = [now for one in told if (now := _as_now(one, seats)) is not None]
    met = all(is_met(demand, counted) for demand in review.demands)
    return Weighed(voice, ReviewEvent.APPROVED if met else None, ruling.time_window or review.time_window)


def _says_more(ruling: Ruling, groups: frozenset[str], earlier: Voice, seats: Mapping[UUID, Seat]) -> bool:
    """Than what they said before, as far as that still counts: who joined another of the groups may speak for it."""
    if ruling.force and not earlier.forced:
        return True
    counted = _as_now(earlier, seats)
    return counted is None or not groups <= counted.groups


def _refuse(review: Review, reviewer: Person, ruling: Ruling, seat: Seat) -> Weighed:
    event = ReviewEvent.REJECTED if ruling.choice is Choice.REJECTED else ReviewEvent.REVOKED
    if ruling.force or ruling.time_window is not None:
        raise Invalid("force_review and time_window go with an approval only", field="status")
    own = review.is_own(reviewer)
    if not (own or seat.is_admin or review.may_review(seat.groups)):
        raise Denied("only its reviewers, administrators and who asked for it may reject or revoke a review")
    _require(review, event, ruling.at)
    groups = seat.groups & frozenset((*review.groups, *review.force_groups))
    voice = Voice(reviewer, ruling.choice, groups, ruling.at, False, own, ruling.comment)
    return Weighed(voice, event, review.time_window)


def _require(review: Review, event: ReviewEvent, at: datetime) -> None:
    if review.has_lapsed(at):
        raise Conflict(f"this review cannot be {event} any more: its time is over")
    if after(review.kind, review.status, event) is None:
        hint = ""
        if review.status is ReviewStatus.APPROVED and event is ReviewEvent.REJECTED:
            hint = "; revoke it to take the approval back"
        if review.status is ReviewStatus.PROCESSING:
            hint = "; kill its session to end it"
        raise Conflict(f"this review cannot be {event} any more: it is {review.status}{hint}")


def _as_now(voice: Voice, seats: Mapping[UUID, Seat]) -> Voice | None:
    """What they said counts for the groups that they are still in; None for who decides nothing any more."""
    seat = None if voice.reviewer.principal_id is None else seats.get(voice.reviewer.principal_id)
    if seat is None or not seat.is_active or not seat.is_person:
        return None
    return replace(voice, groups=voice.groups & seat.groups)


def is_met(demand: Demand, voices: Sequence[Voice]) -> bool:
    """By approvals, each of a person who is in the groups that it names. A force counts where it is allowed only."""
    voices = [voice for voice in voices if voice.choice is Choice.APPROVED]
    if any(voice.forced and not voice.groups.isdisjoint(demand.force_groups) for voice in voices):
        return True
    people = _people([voice for voice in voices if not voice.groups.isdisjoint(demand.groups)])
    if len(people) < demand.min_approvals:
        return False
    return not demand.all_groups or _covered(demand.groups, people)


def _people(voices: Sequence[Voice]) -> list[frozenset[str]]:
    """The groups of each person, however many accounts they have."""
    people: list[tuple[list[Person], frozenset[str]]] = []
    for voice in voices:
        same = [one for one in people if any(voice.reviewer.is_same(known) for known in one[0])]
        merged = ([voice.reviewer], voice.groups)
        for one in same:
            people.remove(one)
            merged = (merged[0] + one[0], merged[1] | one[1])
        people.append(merged)
    return [groups for _, groups in people]


def _covered(groups: Sequence[str], people: Sequence[frozenset[str]]) -> bool:
    """Whether each group has a person of its own: augmenting paths, the groups on one side and the people on the
    other."""
    taken: dict[int, str] = {}

    def place(group: str, tried: set[int]) -> bool:
        for number, own in enumerate(people):
            if group in own and number not in tried:
                tried.add(number)
                if number not in taken or place(taken[number], tried):
                    taken[number] = group
                    return True
        return False

    return all(place(group, set()) for group in dict.fromkeys(groups))


def kind_of(verb: Verb) -> ReviewKind:
    return ReviewKind.JIT if verb is Verb.CONNECT else ReviewKind.ONETIME


def demands_of(
    principal: Principal, connection: Connection, rules: Sequence[ReviewRule], verb: Verb
) -> tuple[Demand, ...]:
    """What they need before they may do this; empty when nobody has to agree. The connection's own reviewers come
    first: each of its groups must agree. `rules` are all of the organisation."""
    found = []
    if connection.reviewers:
        own = Demand("", connection.reviewers, 1, all_groups=True, force_groups=connection.force_approve_groups)
        found.append(own)
    found += map(_demand_of, sorted(_asking(principal, connection, rules, verb), key=lambda rule: rule.name))
    return tuple(found)


def _demand_of(rule: ReviewRule) -> Demand:
    return Demand(rule.name, rule.reviewers_groups, rule.min_approvals, rule.all_groups, rule.force_groups)


def longest_access(principal: Principal, connection: Connection, rules: Sequence[ReviewRule], verb: Verb) -> int:
    """Seconds that may be given at most."""
    bounds = [MAX_ACCESS, connection.access_max_duration]
    bounds += [rule.max_duration for rule in _asking(principal, connection, rules, verb)]
    return min(bound for bound in bounds if bound is not None)


def _asking(principal: Principal, connection: Connection, rules: Sequence[ReviewRule], verb: Verb) -> list[ReviewRule]:
    return [
        rule for rule in rules if rule.access_type.is_for(verb) and rule.covers(connection) and rule.asks(principal)
    ]


def access_duration(asked: int | None, longest: int) -> int:
    """What is given, in seconds. Raises Invalid when more is asked for than may be given."""
    if asked is None:
        return min(DEFAULT_ACCESS, longest)
    if not 0 < asked <= longest:
        raise Invalid(
            f"access_duration: must be from 1 to {longest} seconds on this connection", field="access_duration"
        )
    return asked


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many reviews there are beside a new one: statements of its session in all, and those that wait of its owner
    and of its organisation."""

    of_session: int
    of_owner: int
    of_organisation: int

    def full(self) -> str | None:
        """Why there is no room for one more."""
        if self.of_session >= MAX_OF_SESSION:
            return f"this session has asked {self.of_session} times, which is the most"
        is_filling = self.of_organisation >= MAX_OF_ORGANISATION // 2
        if self.of_owner >= (min(FEW_OF_OWNER, MAX_OF_OWNER) if is_filling else MAX_OF_OWNER):
            return f"{self.of_owner} reviews of yours wait already, which is the most; withdraw one, or wait"
        if self.of_organisation >= MAX_OF_ORGANISATION:
            return f"{self.of_organisation} reviews wait for a decision, which is the most"
        return None


def _names(groups: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in groups) or "nobody"
