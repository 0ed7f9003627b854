"""The approvals that an access to a connection needs, and how long access can last."""

from __future__ import annotations

from collections.abc import Sequence

from postern.domain.durations import duration_text
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import ApprovalRequirement, ReviewKind
from postern.domain.reviews.review_rule import ReviewRule
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection
from postern.errors import Invalid

DEFAULT_ACCESS = 1_800  # seconds that a grant lasts by default
MAX_ACCESS = 48 * 3_600


def kind_of(verb: Verb) -> ReviewKind:
    return ReviewKind.JIT if verb is Verb.CONNECT else ReviewKind.ONETIME


def demands_of(
    principal: Principal, connection: Connection, rules: Sequence[ReviewRule], verb: Verb
) -> tuple[ApprovalRequirement, ...]:
    """Return the approval requirements; empty when no approval is required.

    The connection's own reviewers come first: each of its groups must approve. `rules` are all of the organisation.
    """
    requirements = []
    if connection.reviewers:
        requirement = ApprovalRequirement(
            "", connection.reviewers, 1, all_groups=True, force_groups=connection.force_approve_groups
        )
        requirements.append(requirement)
    requirements += map(_demand_of, sorted(_asking(principal, connection, rules, verb), key=lambda rule: rule.name))
    return tuple(requirements)


def _demand_of(rule: ReviewRule) -> ApprovalRequirement:
    return ApprovalRequirement(rule.name, rule.reviewers_groups, rule.min_approvals, rule.all_groups, rule.force_groups)


def longest_access(principal: Principal, connection: Connection, rules: Sequence[ReviewRule], verb: Verb) -> int:
    """Return the maximum access in seconds."""
    bounds = [MAX_ACCESS, connection.access_max_duration]
    bounds += [rule.max_duration for rule in _asking(principal, connection, rules, verb)]
    return min(bound for bound in bounds if bound is not None)


def _asking(principal: Principal, connection: Connection, rules: Sequence[ReviewRule], verb: Verb) -> list[ReviewRule]:
    return [
        rule
        for rule in rules
        if rule.access_type.is_for(verb) and rule.covers(connection) and rule.requires_approval_of(principal)
    ]


def access_duration(requested: int | None, longest: int) -> int:
    """Return the access duration in seconds. Raises Invalid when more than the maximum is requested."""
    if requested is None:
        return min(DEFAULT_ACCESS, longest)
    if not 0 < requested <= longest:
        raise Invalid(
            f"access_duration: must be from 1 to {longest} seconds ({duration_text(longest)}) on this connection",
            field="access_duration",
        )
    return requested
