"""What an event says of a review: as it was when that happened, even if it is told later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from postern.domain.event import OF_REVIEWS, EventKind
from postern.domain.reviews.review import Demand, Person, Review, ReviewStatus, Voice
from postern.domain.reviews.time_window import TimeWindow
from postern.services.notifications.payloads import ReviewData, ReviewDemand, ReviewPerson, ReviewVoice, ReviewWindow
from postern.store.ports.review_ports import ReviewNews

_BY: Mapping[EventKind, ReviewStatus] = {
    EventKind.REVIEW_CREATED: ReviewStatus.PENDING,
    EventKind.REVIEW_VOICED: ReviewStatus.PENDING,
    EventKind.REVIEW_APPROVED: ReviewStatus.APPROVED,
    EventKind.REVIEW_REJECTED: ReviewStatus.REJECTED,
    EventKind.REVIEW_REVOKED: ReviewStatus.REVOKED,
    EventKind.REVIEW_EXPIRED: ReviewStatus.EXPIRED,
    EventKind.REVIEW_WITHDRAWN: ReviewStatus.WITHDRAWN,
    EventKind.REVIEW_STARTED: ReviewStatus.PROCESSING,
    EventKind.REVIEW_EXECUTED: ReviewStatus.EXECUTED,
}


def as_then(news: ReviewNews) -> Review:
    """Without what came after."""
    review, status = news.review, _BY[OF_REVIEWS[news.kind]]
    voices = tuple(voice for voice in review.voices if voice.at <= news.at)
    if status is ReviewStatus.PENDING:
        return replace(review, status=status, voices=voices, decided_at=None, revoke_at=None)
    return replace(review, status=status, voices=voices)


def review_data(review: Review, *, with_script: bool) -> ReviewData:
    found: ReviewData = {
        "id": review.id,
        "type": review.kind.value,
        "status": review.status.value,
        "session": review.session_id,
        "connection": review.connection,
        "connection_id": review.binding.connection_id,
        "owner": _person(review.owner),
        "reason": review.reason,
        "demands": [_demand(one) for one in review.demands],
        "voices": [_voice(one) for one in review.voices],
        "access_duration": review.access_duration,
        "time_window": None if review.time_window is None else _window(review.time_window),
        "created_at": review.created_at,
        "expires_at": review.expires_at,
        "decided_at": review.decided_at,
        "revoke_at": review.revoke_at,
    }
    if with_script:  # what was counted names tables, and tells of rows
        found["estimate"] = review.estimate
        found["input"] = review.input
    return found


def _person(person: Person) -> ReviewPerson:
    return {
        "id": person.principal_id,
        "subject": person.subject,
        "name": person.name,
        "email": person.email,
        "chat_id": person.chat_id,
    }


def _voice(voice: Voice) -> ReviewVoice:
    return {
        "reviewed_by": _person(voice.reviewer),
        "status": voice.choice.value,
        "groups": sorted(voice.groups),
        "review_date": voice.at,
        "forced_review": voice.forced,
        "own": voice.own,
        "comment": voice.comment,
    }


def _demand(demand: Demand) -> ReviewDemand:
    return {
        "rule": demand.rule,
        "groups": list(demand.groups),
        "min_approvals": demand.min_approvals,
        "all_groups": demand.all_groups,
        "force_groups": list(demand.force_groups),
    }


def _window(window: TimeWindow) -> ReviewWindow:
    start, end = f"{window.start:%H:%M}", f"{window.end:%H:%M}"
    return {
        "type": "time_range",
        "configuration": {"start_time": start, "end_time": end, "time_zone": window.zone},
    }
