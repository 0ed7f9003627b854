"""Review rules: what admins write about who must agree before somebody is let in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

from postern.domain.connection import check_new_name, check_tags
from postern.domain.lists import Listed, Page
from postern.domain.principal import Principal
from postern.domain.review_demands import MAX_ACCESS
from postern.domain.review_rule import AccessType, ReviewRule
from postern.errors import Invalid, NotFound
from postern.services.identity.users import require_admin, require_reader
from postern.services.rule_fields import check_description, check_room, checked_connections, printable_groups
from postern.services.server.trail import changed
from postern.store.ports.common import Clock, Signals, Topic
from postern.store.ports.reviews import NamedReviewRule, ReviewRuleStore
from postern.store.ports.targets import ConnectionStore

__all__ = ["NamedReviewRule", "ReviewRuleFields", "ReviewRules"]

T = TypeVar("T")

MAX_APPROVALS = 20
_DEED = "change review rules"
# Groups as requests call them.
_REVIEWERS, _FORCE = "reviewers_groups", "force_approval_groups"
_REQUIRED, _SKIP = "approval_required_groups", "skip_review_groups"


@dataclass(frozen=True, slots=True)
class ReviewRuleFields:
    """What a writer sets; `connections` are names or ids, `max_duration` is in seconds. None leaves as it is, where
    there is something already; `unbounded` takes a `max_duration` away."""

    name: str | None = None
    description: str | None = None
    access_type: AccessType | None = None
    connections: tuple[str, ...] | None = None
    connection_tags: Mapping[str, str] | None = None
    required_groups: tuple[str, ...] | None = None
    skip_groups: tuple[str, ...] | None = None
    reviewers_groups: tuple[str, ...] | None = None
    force_groups: tuple[str, ...] | None = None
    all_groups: bool | None = None
    min_approvals: int | None = None
    max_duration: int | None = None
    unbounded: bool = False


class ReviewRules:
    def __init__(self, store: ReviewRuleStore, connections: ConnectionStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._connections = connections
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[NamedReviewRule]:
        """By name. Raises Denied."""
        require_reader(principal, "review rules")
        return await self._store.find(principal.org_id, page)

    async def get(self, principal: Principal, name_or_id: str) -> NamedReviewRule:
        """Raises Denied, NotFound."""
        require_reader(principal, "review rules")
        return await self._existing(principal, name_or_id)

    async def create(self, principal: Principal, given: ReviewRuleFields) -> NamedReviewRule:
        """It holds at once, for what is opened from now on; what runs ends unless it was agreed to. Raises Denied,
        Invalid, Conflict."""
        require_admin(principal, _DEED)
        check_room((await self._store.find(principal.org_id, Page(limit=1))).total, "review rules")
        at = self._now()
        empty = ReviewRule(uuid4(), principal.org_id, "", AccessType.BOTH, (), created_at=at)
        rule = replace(await self._merged(empty, given), updated_at=at)
        await self._store.add(rule)
        changed(None, rule)
        return await self._told(principal, rule)

    async def update(self, principal: Principal, name_or_id: str, given: ReviewRuleFields) -> NamedReviewRule:
        """What was agreed to under another demand holds no longer. Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, _DEED)
        current = (await self._existing(principal, name_or_id)).rule
        rule = replace(await self._merged(current, given), updated_at=self._now())
        await self._store.update(rule)
        changed(current, rule)
        return await self._told(principal, rule)

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """Raises Denied, NotFound."""
        require_admin(principal, _DEED)
        current = (await self._existing(principal, name_or_id)).rule
        await self._store.remove(current.id)
        changed(current, None)
        await self._tell(principal)

    async def _existing(self, principal: Principal, name_or_id: str) -> NamedReviewRule:
        found = await self._store.get(principal.org_id, name_or_id)
        if found is None:
            raise NotFound(f"there is no review rule {name_or_id!r}")
        return found

    async def _merged(self, current: ReviewRule, given: ReviewRuleFields) -> ReviewRule:
        if given.name is not None:
            check_new_name(given.name)
        merged = replace(
            current,
            name=_given(given.name, current.name),
            description=_given(given.description, current.description),
            access_type=_given(given.access_type, current.access_type),
            connection_tags=dict(_given(given.connection_tags, current.connection_tags)),
            required_groups=frozenset(_groups(given.required_groups, current.required_groups, _REQUIRED)),
            skip_groups=frozenset(_groups(given.skip_groups, current.skip_groups, _SKIP)),
            reviewers_groups=_groups(given.reviewers_groups, current.reviewers_groups, _REVIEWERS),
            force_groups=_groups(given.force_groups, current.force_groups, _FORCE),
            all_groups=_given(given.all_groups, current.all_groups),
            min_approvals=_given(given.min_approvals, current.min_approvals),
            max_duration=None if given.unbounded else _given(given.max_duration, current.max_duration),
        )
        if merged.all_groups and merged.min_approvals == 0:
            merged = replace(merged, min_approvals=1)
        if given.connections is not None:
            ids = await checked_connections(self._connections, current.org_id, given.connections)
            merged = replace(merged, connection_ids=ids)
        _check(merged)
        return merged

    async def _told(self, principal: Principal, rule: ReviewRule) -> NamedReviewRule:
        await self._tell(principal)
        return await self._existing(principal, str(rule.id))

    async def _tell(self, principal: Principal) -> None:
        """Which connections a rule covers changes with their tags: everybody of the organisation is checked again."""
        await self._signals.publish(Topic.POLICY_CHANGED, org_id=str(principal.org_id))


def _check(rule: ReviewRule) -> None:
    if not rule.name:
        raise Invalid("name: is required", field="name")
    check_description(rule.description)
    check_tags(rule.connection_tags)
    if not rule.connection_ids and not rule.connection_tags:
        raise Invalid(
            "connection_names: must list a connection, or connection_tags a tag; else it is about nothing",
            field="connection_names",
        )
    if not rule.reviewers_groups:
        raise Invalid(f"{_REVIEWERS}: must be 1 to 100; somebody must be able to agree", field=_REVIEWERS)
    if rule.skip_groups and rule.required_groups:
        raise Invalid(
            f"{_SKIP}: goes with an empty {_REQUIRED} only; who is in none of those is not asked anyway", field=_SKIP
        )
    if not 1 <= rule.min_approvals <= MAX_APPROVALS:
        raise Invalid(f"min_approvals: must be 1 to {MAX_APPROVALS}", field="min_approvals")
    if rule.max_duration is not None and not 1 <= rule.max_duration <= MAX_ACCESS:
        raise Invalid(f"access_max_duration: must be 1 to {MAX_ACCESS} seconds", field="access_max_duration")


def _given(wanted: T | None, current: T) -> T:
    return current if wanted is None else wanted


def _groups(wanted: Sequence[str] | None, current: Collection[str], field: str) -> tuple[str, ...]:
    """In order, so that the same rule makes the same demand."""
    return tuple(sorted(current if wanted is None else printable_groups(wanted, field)))
