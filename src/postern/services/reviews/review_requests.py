"""Requests for reviews: whether approval is required, what was approved, and how to request it.

An approval is bound to exactly what it was requested for (`Binding`). It is valid only while the same approvers would
be required: what was added to a connection or to a rule since needs a new review.
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
    ReviewedCredential,
    ReviewKind,
    person_of,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.rules.permit import Permit
from postern.domain.sessions.script_parameters import text_of
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
    """The approval requirements, see services/reviews/requirement_lookup.py. Raises Unavailable when the rules cannot
    be read."""

    async def demands(
        self, principal: Principal, connection: Connection, verb: Verb
    ) -> tuple[ApprovalRequirement, ...]: ...

    async def longest(self, principal: Principal, connection: Connection, verb: Verb) -> int: ...


@dataclass(frozen=True, slots=True)
class RequestedAccess:
    """The access that a principal would get after approval.

    `longest` is the maximum in seconds; `waiting` is a pending review of theirs with this binding.
    """

    principal: Principal
    connection: Connection
    verb: Verb
    binding: Binding
    demands: tuple[ApprovalRequirement, ...]
    longest: int
    credential_id: UUID | None
    waiting: Review | None


class ReviewRequired(Denied):
    """The principal needs approval first. A caller that can wait requests it with `requested_access`."""

    def __init__(self, requested_access: RequestedAccess) -> None:
        super().__init__(_describe_requirement(requested_access))
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
        self._run: set[UUID] = set()  # sessions that no longer wait for access

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
        """Return the review that admits the principal now; None where no approval is required, which costs no
        statement.

        Raises ReviewRequired; Denied where reviews are disabled, or the approval's time window is still closed.
        """
        demands = await self._needed.demands(principal, connection, verb)
        if not demands:
            return None
        await self._require_on(connection, demands)
        if not means:
            raise Denied(f"{_needs(connection, demands)}; log in to ask for one")
        binding = Binding(principal.id, connection.id, _place(connection), source, means)
        longest = await self._needed.longest(principal, connection, verb)
        review = await self._find_grant(binding, demands) if verb is Verb.CONNECT else None
        if review is not None and review.status is ReviewStatus.APPROVED:
            if review.access_duration <= longest:
                return review
            review = None  # given when more might be
        raise ReviewRequired(
            RequestedAccess(principal, connection, verb, binding, demands, longest, credential_id, review)
        )

    async def describe(self, principal: Principal, connection: Connection, verb: Verb) -> str | None:
        """Return which approvals the principal needs; None where none are required. Costs no statement while rules are
        cached. Raises Denied where reviews are disabled, Unavailable."""
        demands = await self._needed.demands(principal, connection, verb)
        if not demands:
            return None
        await self._require_on(connection, demands)
        return _needs(connection, demands)

    async def _find_grant(self, binding: Binding, demands: Sequence[ApprovalRequirement]) -> Review | None:
        """Return a review that is usable now, or one that is pending."""
        now = self._now()
        review = await self._store.grant(binding, demands, now)
        if review is None or review.is_usable(now):
            return review
        if review.status is ReviewStatus.PENDING:
            return review if now < review.expires_at else None
        if review.time_window is not None and not review.time_window.holds(now):
            raise Denied(
                f"review {review.id} gives access to connection {review.connection!r}, and "
                f"{opening_time_text(review.time_window, now)}"
            )
        return None

    async def waiting_session(self, review: Review) -> UUID | None:
        """Return the session that waited for this access, while it has not run."""
        if review.session_id is None or review.session_id in self._run:
            return None
        session = await self._sessions.get(review.org_id, review.session_id)
        if session is not None and session.status is SessionStatus.READY:
            return session.id
        if len(self._run) >= _RUN_KEPT:
            self._run.clear()
        self._run.add(review.session_id)  # cannot be changed back: further connections of this grant need no new review
        return None

    async def ask(
        self,
        requested_access: RequestedAccess,
        *,
        reason: str = "",
        duration: int | None = None,
        time_window: TimeWindow | None = None,
        session: Session | None = None,
        invocation: Invocation = NOTHING_ADDED,
    ) -> Review:
        """Return the review that is pending from now on, with `session`, which waits for it.

        Where one of theirs waits for the very same access or was approved just now, return that one and add no session:
        then its `session_id` is another's. `duration` is in seconds. `time_window` applies unless a reviewer sets
        another one. Raises TooMany, Invalid.
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
            credential=await self._find_credential(requested_access.credential_id),
            reason=reason,
            input=_of_invocation(invocation),
            access_duration=access_duration(duration, requested_access.longest) if kind is ReviewKind.JIT else 0,
            time_window=time_window,
        )
        session = None if session is None else replace(session, review_id=review.id)
        requested_review = await self._store.add(
            review, session, source=requested_access.binding.source, invocation=invocation
        )
        if requested_review.id == review.id:
            await signal_review(self._signals, requested_review)
        return requested_review

    async def hold(self, permit: Permit, session_id: UUID, rule: str, why: str, statement: str) -> Review:
        """Return a review of one statement, with its values, that the guardrail `rule` holds in this session.

        Raises TooMany, Invalid when it is longer than reviewers are shown, Denied where reviews are disabled.
        """
        connection, principal, now = permit.connection, permit.principal, self._now()
        text = statement.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        if len(text) > MAX_INPUT:
            raise Invalid(f"it is longer than the {MAX_INPUT:,} characters that reviewers can see")
        demands = await self.require_statement_reviews(permit, rule)
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
            credential=await self._find_credential(permit.credential_id),
            reason=why[:MAX_INPUT],
            input=text,
        )
        requested_review = await self._store.add(review, None, source=permit.source)
        await signal_review(self._signals, requested_review)
        return requested_review

    async def _find_credential(self, credential_id: UUID | None) -> ReviewedCredential | None:
        return None if credential_id is None else await self._store.find_credential(credential_id)

    async def require_statement_reviews(self, permit: Permit, rule: str) -> tuple[ApprovalRequirement, ...]:
        """Return the approvals that a statement needs which the guardrail `rule` holds. Raises Denied where reviews are
        disabled."""
        demands = (ApprovalRequirement(rule, statement_approvers(permit)),)
        await self._require_on(permit.connection, demands)
        return demands

    async def find_requirements(
        self, principal: Principal, connection: Connection, verb: Verb
    ) -> tuple[ApprovalRequirement, ...]:
        """Return the approvals that a session of the principal needs first; none where it needs none.

        Raises Denied where it needs some, and reviews are disabled.
        """
        demands = await self._needed.demands(principal, connection, verb)
        if demands:
            await self._require_on(connection, demands)
        return demands

    async def find_end_reason(self, permit: Permit) -> str | None:
        """Return why the approval of a live link is no longer valid, or what is missing now; None while it is valid."""
        try:
            await self.standing(permit)
        except Denied as denial:
            return denial.message
        return None

    async def standing(self, permit: Permit) -> Review | None:
        """Return the review that gave this permit, under the permit's connection, groups and rules.

        None where no approval is required. No statement for a permit without a review. Raises Denied when it is no
        longer valid.
        """
        review = None if permit.review_id is None else await self._store.get(permit.review_id)
        if permit.review_id is not None and review is None:
            raise Denied("the review that gave this access no longer exists; connect again to request a new one")
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
            raise Denied(
                f"the time window of review {review.id} has ended: {opening_time_text(review.time_window, now)}"
            )
        if review.status is ReviewStatus.APPROVED and review.revoke_at is not None:
            raise Denied(f"the access of review {review.id} expired at {time_text(review.revoke_at)}")
        raise Denied(f"the access of review {review.id} has expired: {final_state_text(review)}")

    async def require_same(
        self, review: Review | None, principal: Principal, connection: Connection, verb: Verb
    ) -> None:
        """Check that all approvers that are required now have approved, for the current target. Raises Denied."""
        demands = await self._needed.demands(principal, connection, verb)
        if demands:
            await self._require_on(connection, demands)
        if review is None:
            if demands:
                raise Denied(f"{_needs(connection, demands)}; ask for one")
            return
        if demands and [demand.ordered for demand in demands] != [
            requirement.ordered for requirement in review.demands
        ]:
            raise Denied(
                f"the required approvers of connection {connection.name!r} have changed since; request a new review"
            )
        if demands and review.access_duration > await self._needed.longest(principal, connection, verb):
            raise Denied(f"connection {connection.name!r} now has a shorter max duration; request a new review")
        if connection.place != review.binding.place:
            raise Denied(
                f"connection {connection.name!r} has a different target than when it was reviewed; request a new review"
            )

    async def _require_on(self, connection: Connection, demands: Sequence[ApprovalRequirement]) -> None:
        if not await self._features.is_enabled(connection.org_id, Feature.REVIEWS):
            off = "reviews are switched off in this organisation; ask an administrator"
            raise Denied(f"{_needs(connection, demands)}, and {off}")


def statement_approvers(permit: Permit) -> tuple[str, ...]:
    """Return the groups whose members decide on statements that a guardrail holds."""
    return tuple(dict.fromkeys((*permit.connection.reviewers, permit.principal.role_groups.admin)))


def ends(limit: datetime | None, review: Review | None, now: datetime) -> datetime | None:
    """Return when a permit expires that ends at `limit`, if this review gave it: now, where its window has closed."""
    times = [limit]
    if review is not None:
        times.append(review.revoke_at if review.kind is ReviewKind.JIT else None)
        window = review.time_window
        if window is not None:
            times.append(window.closes_at(now) if window.holds(now) else now)
    return min((end for end in times if end is not None), default=None)


def _place(connection: Connection) -> UUID:
    if connection.place is None:
        raise Unavailable(f"connection {connection.name!r} has no known target; ask an administrator to save it again")
    return connection.place


def _of_invocation(invocation: Invocation) -> str:
    """Return what reviewers see beside the script: parameters, arguments, and names of variables, whose values are
    secret.

    Raises Invalid where that is more than they would be shown.
    """
    lines = [f"argument {number}: {text!r}" for number, text in enumerate(invocation.arguments, 1)]
    lines += [f"variable {name}" for name in sorted(invocation.environment)]
    lines += [
        f":{name} = {'NULL' if value is None else repr(text_of(value))}"
        for name, value in invocation.parameters.items()
    ]
    text = "\n".join(lines)
    if len(text) > MAX_INPUT:
        field = "client_args" if invocation.is_for_commands else "parameters"
        raise Invalid(f"{field}: longer than the {MAX_INPUT:,} characters that reviewers can see", field=field)
    return text


def _needs(connection: Connection, demands: Sequence[ApprovalRequirement]) -> str:
    return f"connection {connection.name!r} needs a review: {requirements_text(demands)}"


def _describe_requirement(requested_access: RequestedAccess) -> str:
    name, text = requested_access.connection.name, _needs(requested_access.connection, requested_access.demands)
    if requested_access.waiting is not None:
        return f"{text}; review {requested_access.waiting.id} is pending"
    if requested_access.verb is Verb.CONNECT:
        return f"{text}; ask for one: postern connect {name} --reason REASON"
    return f"{text}; submit it again to ask for one"
