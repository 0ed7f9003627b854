"""Review rules: administrators define which access needs approval, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.reviews.approval_requirements import MAX_ACCESS
from postern.domain.reviews.review_rule import AccessType, ReviewRule
from postern.domain.targets.connection import check_tags
from postern.errors import Invalid
from postern.services.named_resources import ResourceService
from postern.services.rules.rule_fields import printable_groups, with_connection_ids
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore

MAX_APPROVALS = 20
_REVIEWERS, _REQUIRED, _SKIP = "reviewers_groups", "approval_required_groups", "skip_review_groups"
# The fields of a rule that are groups, and how requests call them.
_GROUPS: Mapping[str, str] = {
    "reviewers_groups": _REVIEWERS,
    "force_groups": "force_approval_groups",
    "required_groups": _REQUIRED,
    "skip_groups": _SKIP,
}
_ORDERED = ("reviewers_groups", "force_groups")


class ReviewRules(ResourceService[ReviewRule]):
    """A rule applies at once. Sessions end unless they were approved under it; an approval under other requirements is
    void."""

    noun = "review rule"

    def __init__(
        self, store: NamedResourceStore[ReviewRule], connections: ConnectionStore, signals: Signals, now: Clock
    ) -> None:
        super().__init__(store, signals, now)
        self._connections = connections

    def blank(self, key: UUID, org_id: UUID) -> ReviewRule:
        return ReviewRule(key, org_id, "", AccessType.BOTH, ())

    async def resolve(self, current: ReviewRule, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = dict(fields)
        for field, called in _GROUPS.items():
            if field in resolved:  # sorted, so that equal rules give equal requirements
                names = tuple(sorted(printable_groups(resolved[field], called)))
                resolved[field] = names if field in _ORDERED else frozenset(names)
        if resolved.get("all_groups", current.all_groups) and resolved.get("min_approvals", current.min_approvals) == 0:
            resolved["min_approvals"] = 1
        return await with_connection_ids(self._connections, current.org_id, resolved)

    async def check(self, resource: ReviewRule) -> None:
        _check(resource)


def _check(rule: ReviewRule) -> None:
    check_tags(rule.connection_tags)
    if not rule.connection_ids and not rule.connection_tags:
        raise Invalid(
            "connection_names: list at least one connection, or one tag in connection_tags",
            field="connection_names",
        )
    if not rule.reviewers_groups:
        raise Invalid(f"{_REVIEWERS}: must have 1 to 100 groups, so that approval is possible", field=_REVIEWERS)
    if rule.skip_groups and rule.required_groups:
        raise Invalid(
            f"{_SKIP}: can only be used with an empty {_REQUIRED}; users in no required group need no approval",
            field=_SKIP,
        )
    if not 1 <= rule.min_approvals <= MAX_APPROVALS:
        raise Invalid(f"min_approvals: must be 1 to {MAX_APPROVALS}", field="min_approvals")
    if rule.max_duration is not None and not 1 <= rule.max_duration <= MAX_ACCESS:
        raise Invalid(
            f"access_max_duration: must be 1 to {MAX_ACCESS} seconds ({duration_text(MAX_ACCESS)})",
            field="access_max_duration",
        )
