"""Reviews: pending requests, and decisions on them (spec 2.2, 3)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, CallerInFull, Use
from postern.api.info import Info
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.responses import errors
from postern.api.schemas.reviews.review_schemas import AccessRequest, AccessRequestAnswer, DecisionRequest, ReviewAnswer
from postern.api.sessions.session_filters import review_status
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Review, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.errors import Invalid
from postern.services.bundle import Services
from postern.services.reviews.reviews import ReviewFilter

router = APIRouter(tags=["Reviews"], route_class=AuditedRoute)

_TEXT = 512

Key = Annotated[str, Path(alias="id", description="Identifier of the review, or of the session that waits for it")]


ForMe = Annotated[
    bool,
    Query(description="Only pending reviews that the caller can approve and has not yet; without their own requests"),
]


async def _filters(
    caller: Caller,
    status: Annotated[str | None, Query(max_length=_TEXT, description="Ignoring case, such as PENDING")] = None,
    type: Annotated[str | None, Query(max_length=_TEXT, description="onetime, jit or statement")] = None,  # noqa: A002 - the API's name
    connection: Annotated[str | None, Query(max_length=_TEXT, description="Name of the connection")] = None,
    session: Annotated[UUID | None, Query(description="Reviews of this session, with those of its statements")] = None,
    owner: Annotated[
        str | None, Query(max_length=_TEXT, description="`self`, or the identifier of the requester")
    ] = None,
    waiting_for_me: ForMe = False,
) -> ReviewFilter:
    """Raises Invalid."""
    requested_status = None if status is None else review_status(status, "status")
    if waiting_for_me and requested_status not in (None, ReviewStatus.PENDING):
        raise Invalid(
            "waiting_for_me: cannot be combined with `status`, because such reviews are PENDING", field="waiting_for_me"
        )
    return ReviewFilter(
        status=requested_status,
        kind=_kind(type),
        connection=connection,
        session_id=session,
        owner=_owner(caller, owner),
    )


def _kind(text: str | None) -> ReviewKind | None:
    try:
        return None if text is None else ReviewKind(text.lower())
    except ValueError:
        raise Invalid(f"type: must be one of {', '.join(ReviewKind)}", field="type") from None


def _owner(caller: Principal, text: str | None) -> UUID | None:
    if text is None or text == "self":
        return None if text is None else caller.id
    try:
        return UUID(text)
    except ValueError:
        raise Invalid("owner: must be `self` or an identifier of a user", field="owner") from None


Filters = Annotated[ReviewFilter, Depends(_filters)]


@router.get("/reviews", responses=errors())
async def list_reviews(
    caller: Caller, services: Use, info: Info, page: LongPaging, filters: Filters, waiting_for_me: ForMe = False
) -> LongListAnswer[ReviewAnswer]:
    """List reviews: pending ones first, then the newest. Users who are neither administrator nor auditor see their own,
    and those that a group of theirs reviews."""
    find = services.reviews.find_waiting if waiting_for_me else services.reviews.find
    stretch = await find(caller, filters, page)
    return make_long_list_answer([ReviewAnswer.of(review, info.api_url, caller) for review in stretch.items], stretch)


@router.post("/reviews", status_code=201, responses=errors(403, 404, 429))
async def request_access(
    body: AccessRequest, caller: CallerInFull, services: Use, info: Info, address: Address
) -> AccessRequestAnswer:
    """Request access to a connection in advance. Once it is approved, clients with the same login, or the named
    credential, and from the same address connect without waiting. Returns the existing review if one is pending or
    approved, and `required: false` if no approval is required."""
    principal = caller.principal
    review = await services.access_requests.request(
        principal,
        body.connection,
        source=address,
        means=caller.means,
        credential_id=body.credential_id,
        reason=body.reason,
        duration=body.access_duration,
        time_window=body.time_window.window() if body.time_window else None,
    )
    answer = None if review is None else ReviewAnswer.of(review, info.api_url, principal)
    return AccessRequestAnswer(required=review is not None, review=answer)


@router.get("/reviews/{id}", responses=errors(404))
async def get_review(key: Key, caller: Caller, services: Use, info: Info) -> ReviewAnswer:
    """Return a review with its script or statement."""
    return await _full_answer(services, info.api_url, caller, await services.reviews.get(caller, key))


@router.put("/reviews/{id}", responses=errors(403, 404, 409))
async def decide_review(key: Key, body: DecisionRequest, caller: Caller, services: Use, info: Info) -> ReviewAnswer:
    """Approve, reject or revoke a review. Each reviewer counts once, and cannot approve their own request, unless the
    feature `self-review` is on. 409 if it can no longer be decided, or the reviewer has already voted."""
    return await _decide_review(key, body, caller, services, info.api_url)


@router.put("/sessions/{session_id}/review", responses=errors(403, 404, 409))
async def decide_review_of_session(
    session_id: str, body: DecisionRequest, caller: Caller, services: Use, info: Info
) -> ReviewAnswer:
    """Decide the review that this session waits for."""
    return await _decide_review(session_id, body, caller, services, info.api_url)


@router.post("/reviews/{id}/withdraw", responses=errors(403, 404, 409))
async def withdraw_review(key: Key, caller: Caller, services: Use, info: Info) -> ReviewAnswer:
    """Withdraw a review, as its requester. Access that it gave ends."""
    review = await services.reviews.withdraw(caller, key)
    return await _full_answer(services, info.api_url, caller, review)


async def _decide_review(
    key: str, body: DecisionRequest, caller: Principal, services: Services, api_url: str
) -> ReviewAnswer:
    review = await services.reviews.decide(
        caller,
        key,
        body.choice(),
        force=body.force_review,
        comment=body.merge_comments(),
        time_window=body.time_window.window() if body.time_window else None,
    )
    return await _full_answer(services, api_url, caller, review)


async def _full_answer(services: Services, api_url: str, caller: Principal, review: Review) -> ReviewAnswer:
    return ReviewAnswer.in_full(review, api_url, caller, await services.reviews.script(review))
