"""Conditions of lists of reviews, and of matching grants."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, and_, exists, or_

from postern.domain.reviews.review import ApprovalRequirement, Binding, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.store.ports.review_ports import ReviewFilter
from postern.store.schema.review_tables import review_groups, reviews
from postern.store.sql.reviews.review_rows import requirements_digest
from postern.store.sql.rows import as_uuid

NEWEST = (reviews.c.created_at.desc(), reviews.c.id.desc())
OPEN = reviews.c.ended_at.is_(None)
PENDING = and_(reviews.c.status == ReviewStatus.PENDING, OPEN)


def conditions_of(org_id: UUID, criteria: ReviewFilter) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
    """Return the conditions that use an index, and those that are tried row by row."""
    lead: list[ColumnElement[bool]] = [reviews.c.org_id == org_id]
    if criteria.session_id is not None:
        lead.append(reviews.c.session_id == criteria.session_id)
    if criteria.owner is not None:
        lead.append(reviews.c.principal_id == criteria.owner)
    equal = {reviews.c.status: criteria.status, reviews.c.kind: criteria.kind}
    conditions: list[ColumnElement[bool]] = []
    conditions += [column == value for column, value in equal.items() if value is not None]
    if criteria.connection is not None:
        key = as_uuid(criteria.connection)
        named: ColumnElement[bool] = reviews.c.connection == criteria.connection
        conditions.append(named if key is None else or_(named, reviews.c.connection_id == key))
    if criteria.groups is not None:
        conditions.append(_is_for(criteria.groups))
    if criteria.mine is not None:
        owner, groups = criteria.mine
        conditions.append(or_(reviews.c.principal_id == owner, _is_for(groups)))
    return lead, conditions


def _is_for(groups: frozenset[str]) -> ColumnElement[bool]:
    mine = exists().where(review_groups.c.review_id == reviews.c.id, review_groups.c.name.in_(sorted(groups)))
    return mine.correlate(reviews)


def bound_to(binding: Binding, demands: Sequence[ApprovalRequirement]) -> list[ColumnElement[bool]]:
    """Return the condition for access with exactly this binding, requested under exactly these requirements."""
    return [
        reviews.c.kind == ReviewKind.JIT,
        reviews.c.principal_id == binding.principal_id,
        reviews.c.connection_id == binding.connection_id,
        reviews.c.place == binding.place,
        reviews.c.source == binding.source,
        reviews.c.means == binding.means,
        reviews.c.asked_by == requirements_digest(demands),
    ]
