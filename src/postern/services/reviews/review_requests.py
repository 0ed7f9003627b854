"""Asking: whether somebody has to agree before a principal is let in, what was given to them, and how they ask for it.

What is given is bound to exactly what it was asked for (`Binding`), and is good only while the same people would have
to agree: what was added to a connection or to a rule since is asked for anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol
from uuid import UUID, uuid4

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.reviews.approval_requirements import access_duration, kind_of
from postern.domain.reviews.review import (
    MAX_INPUT,
    WAITS,
    ApprovalRequirement,
    Binding,
    Review,
    ReviewKind,
    ReviewStatus,
    person_of,
)
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Session, SessionStatus, Verb
from postern.domain.targets.command import NOTHING_ADDED, Invocation
from postern.domain.targets.connection import Connection
from postern.errors import Denied, Invalid, Unavailable
from postern.services.reviews.review_signals import signal_review
from postern.services.reviews.review_text import (
    checked_text,
    final_state_text,
    opening_time_text,
    requirements_text,
    time_text,
)
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.review_ports import ReviewStore
from postern.store.ports.target_ports import SessionStore

_RUN_KEPT = 10_000


class ApprovalRequirements(Protocol):
    """Who must agree, see services/reviews/requirement_lookup.py. Raises Unavailable when the rules cannot be read."""

    async def demands(
        self, principal: Principal, connection: Connection, verb: Verb
    ) -> tuple[ApprovalRequirement, ...]: ...

    async def longest(self, principal: Principal, connection: Connection, verb: Verb) -> int: ...


@dataclass(frozen=True, slots=True)
class RequestedAccess:
    """What somebody would be let in for, if colleagues agree. `longest` is the seconds of access that may be given at
    most; `waiting` is a review of theirs with this binding that waits already."""

    principal: Principal
    connection: Connection
    verb: Verb
    binding: Binding
    demands: tuple[ApprovalRequirement, ...]
    longest: int
    credential_id: UUID | None
    waiting: Review | None


class ReviewRequired(Denied):
    """They may, once others agree. Who can wait for that asks by `wish`."""

    def __init__(self, requested_access: RequestedAccess) -> None:
        super().__init__(_required(requested_access))
        self.requested_access = requested_access


class ReviewRequests:
    def __init__(
        self,
        store: ReviewStore,
        sessions: SessionStore,
        needed: ApprovalRequirements,
        features: Features,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._needed = needed
        self._features = features
        self._signals = signals
        self._now = now
        self._run: set[UUID] = set()  # sessions that waited for access, and do no more

    async def grant(
        self,
        principal: Principal,
        connection: Connection,
        verb: Verb,
        *,
        source: str,
        means: str,
        credential_id: UUID | None,
    ) -> Review | None:
        """None: nobody has to agree, which costs no statement. Else what lets them in now.

        Raises ReviewRequired; Denied where reviews are switched off, or what was given may be used later only.
        """
        demands = await self._needed.demands(principal, connection, verb)
        if not demands:
            return None
        await self._require_on(connection, demands)
        if not means:
            raise Denied(f"{_needs(connection, demands)}; log in to ask for one")
        binding = Binding(principal.id, connection.id, _place(connection), source, means)
        longest = await self._needed.longest(principal, connection, verb)
        found = await self._find_grant(binding, demands) if verb is Verb.CONNECT else None
        if found is not None and found.status is ReviewStatus.APPROVED:
            if found.access_duration <= longest:
                return found
            found = None  # given when more might be
        raise ReviewRequired(
            RequestedAccess(principal, connection, verb, binding, demands, longest, credential_id, found)
        )

    async def _find_grant(self, binding: Binding, demands: Sequence[ApprovalRequirement]) -> Review | None:
        """One that may be used now, or one that waits."""
        now = self._now()
        found = await self._store.grant(binding, demands, now)
        if found is None or found.is_usable(now):
            return found
        if found.status is ReviewStatus.PENDING:
            return found if now < found.expires_at else None
        if found.time_window is not None and not found.time_window.holds(now):
            raise Denied(
                f"review {found.id} gives access to connection {found.connection!r}, and "
                f"{opening_time_text(found.time_window, now)}"
            )
        return None

    async def waiting_session(self, review: Review) -> UUID | None:
        """The session that waited for this access, while nobody has run it."""
        if review.session_id is None or review.session_id in self._run:
            return None
        session = await self._sessions.get(review.org_id, review.session_id)
        if session is not None and session.status is SessionStatus.READY:
            return session.id
        if len(self._run) >= _RUN_KEPT:
            self._run.clear()
        self._run.add(review.session_id)  # nothing leads back: all further connections of this grant ask no more
        return None

    async def ask(
        self,
        requested_access: RequestedAccess,
        *,
        reason: str = "",
        duration: int | None = None,
        session: Session | None = None,
        invocation: Invocation = NOTHING_ADDED,
    ) -> Review:
        """The review that waits from now on, with `session`, which waits for it; where one of theirs waits for the very
        same access or was approved just now, that one, and no session is added: then its `session_id` is another's.
        `duration` is in seconds.

        Raises TooMany, Invalid.
        """
        reason = checked_text(reason, "reason")
        kind, now = kind_of(requested_access.verb), self._now()
        review = Review(
            id=uuid4(),
            org_id=requested_access.connection.org_id,
            kind=kind,
            status=ReviewStatus.PENDING,
            owner=person_of(requested_access.principal),
            binding=requested_access.binding,
            connection=requested_access.connection.name,
            demands=requested_access.demands,
            created_at=now,
            expires_at=now + WAITS[kind],
            session_id=None if session is None else session.id,
            makers=await self._store.makers(requested_access.principal.id, requested_access.credential_id),
            reason=reason,
            input=_of_invocation(invocation),
            access_duration=access_duration(duration, requested_access.longest) if kind is ReviewKind.JIT else 0,
        )
        session = None if session is None else replace(session, review_id=review.id)
        asked = await self._store.add(review, session, source=requested_access.binding.source, invocation=invocation)
        if asked.id == review.id:
            await signal_review(self._signals, asked)
        return asked

    async def hold(self, permit: Permit, session_id: UUID, rule: str, why: str, statement: str) -> Review:
        """A review of one statement, with its values, that the guard rail `rule` holds in this session.

        Raises TooMany, Invalid when it is longer than who decides would be shown, Denied where reviews are off.
        """
        connection, principal, now = permit.connection, permit.principal, self._now()
        shown = statement.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        if len(shown) > MAX_INPUT:
            raise Invalid(f"it is longer than the {MAX_INPUT:,} characters that who decides would be shown")
        groups = tuple(dict.fromkeys((*connection.reviewers, principal.role_groups.admin)))
        demands = (ApprovalRequirement(rule, groups),)
        await self._require_on(connection, demands)
        review = Review(
            id=uuid4(),
            org_id=connection.org_id,
            kind=ReviewKind.STATEMENT,
            status=ReviewStatus.PENDING,
            owner=person_of(principal),
            binding=Binding(principal.id, connection.id, _place(connection), permit.source, permit.means),
            connection=connection.name,
            demands=demands,
            created_at=now,
            expires_at=now + WAITS[ReviewKind.STATEMENT],
            session_id=session_id,
            makers=await self._store.makers(principal.id, permit.credential_id),
            reason=why[:MAX_INPUT],
            input=shown,
        )
        asked = await self._store.add(review, None, source=permit.source)
        await signal_review(self._signals, asked)
        return asked

    async def find_end_reason(self, permit: Permit) -> str | None:
        """For a live link: why what gave it is over, or what is missing now; None while it holds."""
        try:
            await self.standing(permit)
        except Denied as final_state_text:
            return final_state_text.message
        return None

    async def standing(self, permit: Permit) -> Review | None:
        """The review that gave this permit, while it gives it: under the connection, the groups and the rules that are
        in the permit. None where nobody has to agree. Costs no statement for a permit without a review. Raises Denied.
        """
        review = None if permit.review_id is None else await self._store.get(permit.review_id)
        if permit.review_id is not None and review is None:
            raise Denied("the review that gave this access is gone; connect again to ask for one")
        if review is not None:
            self._require_holding(review)
        await self.require_same(review, permit.principal, permit.connection, permit.verb)
        return review

    def _require_holding(self, review: Review) -> None:
        now = self._now()
        window_open = review.time_window is None or review.time_window.holds(now)
        if review.kind is ReviewKind.ONETIME:
            holds = review.status is ReviewStatus.PROCESSING and window_open
        else:
            holds = review.is_usable(now)
        if holds:
            return
        if not window_open and review.time_window is not None and not review.has_lapsed(now):
            raise Denied(f"the time window of review {review.id} is over: {opening_time_text(review.time_window, now)}")
        if review.status is ReviewStatus.APPROVED and review.revoke_at is not None:
            raise Denied(f"the access that review {review.id} gave ended at {time_text(review.revoke_at)}")
        raise Denied(f"the access that review {review.id} gave is over: {final_state_text(review)}")

    async def require_same(
        self, review: Review | None, principal: Principal, connection: Connection, verb: Verb
    ) -> None:
        """That it was agreed to by all who must agree now, and for where the connection leads now. Raises Denied."""
        demands = await self._needed.demands(principal, connection, verb)
        if demands:
            await self._require_on(connection, demands)
        if review is None:
            if demands:
                raise Denied(f"{_needs(connection, demands)}; ask for one")
            return
        if demands and [one.ordered for one in demands] != [one.ordered for one in review.demands]:
            raise Denied(f"who must agree on connection {connection.name!r} has changed since; ask for a review again")
        if demands and review.access_duration > await self._needed.longest(principal, connection, verb):
            raise Denied(f"access to connection {connection.name!r} is given for less time now; ask for a review again")
        if connection.place != review.binding.place:
            raise Denied(f"connection {connection.name!r} leads elsewhere since it was reviewed; ask again")

    async def _require_on(self, connection: Connection, demands: Sequence[ApprovalRequirement]) -> None:
        if not await self._features.is_enabled(connection.org_id, Feature.REVIEWS):
            off = "reviews are switched off in this organisation; ask an administrator"
            raise Denied(f"{_needs(connection, demands)}, and {off}")


def ends(given: datetime | None, review: Review | None, now: datetime) -> datetime | None:
    """When a right that ends at `given` ends, if this review gave it: now, where its window has closed meanwhile."""
    found = [given]
    if review is not None:
        found.append(review.revoke_at if review.kind is ReviewKind.JIT else None)
        window = review.time_window
        if window is not None:
            found.append(window.closes_at(now) if window.holds(now) else now)
    return min((end for end in found if end is not None), default=None)


def _place(connection: Connection) -> UUID:
    if connection.place is None:
        raise Unavailable(
            f"connection {connection.name!r} does not say where it leads; ask an administrator to save it"
        )
    return connection.place


def _of_invocation(invocation: Invocation) -> str:
    """What reviewers see of it beside the script: the arguments, and the names of variables, whose values are secret.
    Raises Invalid where that is more than they would be shown."""
    lines = [f"argument {number}: {text!r}" for number, text in enumerate(invocation.arguments, 1)]
    lines += [f"variable {name}" for name in sorted(invocation.environment)]
    text = "\n".join(lines)
    if len(text) > MAX_INPUT:
        raise Invalid(
            f"client_args: longer than the {MAX_INPUT:,} characters that reviewers would be shown", field="client_args"
        )
    return text


def _needs(connection: Connection, demands: Sequence[ApprovalRequirement]) -> str:
    return f"connection {connection.name!r} needs a review: {requirements_text(demands)}"


def _required(requested_access: RequestedAccess) -> str:
    name, text = requested_access.connection.name, _needs(requested_access.connection, requested_access.demands)
    if requested_access.waiting is not None:
        return f"{text}; review {requested_access.waiting.id} waits for them"
    if requested_access.verb is Verb.CONNECT:
        return f"{text}; ask for one: postern connect {name} --reason REASON"
    return f"{text}; submit it again to ask for one"
