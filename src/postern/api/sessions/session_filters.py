"""The filters of the list of sessions, as query parameters."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from postern.api.connection_filters import tag_conditions
from postern.api.query_times import Moment
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.session import EndReason, SessionStatus, Verb
from postern.domain.sessions.words import MAX_SEARCH, parse_search
from postern.errors import Invalid
from postern.services.sessions import MAX_CORRELATION, SessionFilter

MOST = 20  # pairs of one filter
_TEXT = 512
_LONGEST = 3_000
_CENTURY = 3_155_760_000  # seconds

Text = Annotated[str | None, Query(max_length=_TEXT)]
Pairs = Annotated[
    list[Annotated[str, Query(max_length=_LONGEST)]] | None,
    Query(max_length=MOST, description="`key:value`; repeated: sessions with all of them"),
]
OfReview = Annotated[
    str | None,
    Query(
        alias="review.status",
        max_length=_TEXT,
        description="Status of the review under which it runs, or for which it waits; ignoring case, such as PENDING",
    ),
]
Seconds = Annotated[float | None, Query(ge=0, le=_CENTURY, description="Seconds, for sessions that have ended")]


async def filters(
    user: Annotated[str | None, Query(max_length=_TEXT, description="Subject or e-mail address")] = None,
    connection: Annotated[str | None, Query(max_length=_TEXT, description="Name or identifier")] = None,
    type: Text = None,  # noqa: A002 - the API's name
    subtype: Text = None,
    verb: Verb | None = None,
    status: SessionStatus | None = None,
    end_reason: EndReason | None = None,
    review: OfReview = None,
    start_date: Annotated[Moment | None, Query(description="Started at or after")] = None,
    end_date: Annotated[Moment | None, Query(description="Started at or before")] = None,
    label: Pairs = None,
    metadata: Pairs = None,
    tag_selector: Annotated[
        str | None,
        Query(max_length=_LONGEST, description="The connection's tags at that time, as for the list of connections"),
    ] = None,
    correlation_id: Annotated[str | None, Query(max_length=MAX_CORRELATION)] = None,
    issue: Annotated[
        str | None, Query(max_length=_TEXT, description="Key of the issue that was opened for it, such as OPS-7")
    ] = None,
    min_duration: Seconds = None,
    max_duration: Seconds = None,
    refused: Annotated[bool | None, Query(description="Whether anything was denied")] = None,
    masked: Annotated[bool | None, Query(description="Whether anything was masked")] = None,
    held: Annotated[
        bool | None, Query(description="Whether it is under legal hold; for administrators and auditors")
    ] = None,
    search: Annotated[
        str | None,
        Query(
            max_length=MAX_SEARCH,
            description='Words of scripts and statements, all of them: `drop`, `cust*`, `"drop table"`, `-audit`',
        ),
    ] = None,
) -> SessionFilter:
    return SessionFilter(
        user=user,
        connection=connection,
        type=type,
        subtype=subtype,
        verb=verb,
        status=status,
        end_reason=end_reason,
        review=None if review is None else review_status(review, "review.status"),
        start=start_date,
        end=end_date,
        labels=_pairs("label", label),
        metadata=_pairs("metadata", metadata),
        tags=tag_conditions(tag_selector),
        correlation_id=correlation_id,
        issue=issue,
        min_duration=min_duration,
        max_duration=max_duration,
        refused=refused,
        masked=masked,
        held=held,
        search=None if search is None else parse_search(search),
    )


Filters = Annotated[SessionFilter, Depends(filters)]


def review_status(text: str, field: str) -> ReviewStatus:
    """Raises Invalid."""
    try:
        return ReviewStatus(text.upper())
    except ValueError:
        raise Invalid(f"{field}: must be one of {', '.join(ReviewStatus)}", field=field) from None


def _pairs(field: str, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Parse `key:value`; the first colon ends the key."""
    pairs = []
    for text in texts or ():
        key, colon, value = text.partition(":")
        if not colon or not key:
            raise Invalid(f"{field}: {text!r} is not key:value", field=field)
        pairs.append((key, value))
    return tuple(pairs)
