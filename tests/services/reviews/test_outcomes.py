"""How a review ended, told apart where the status is the same."""

from __future__ import annotations

import pytest
from tests.services.reviews.desk import Desk

from postern.domain.reviews.review import Choice, Review, ReviewEvent, ReviewKind, ReviewOutcome
from postern.domain.reviews.review_status import ReviewStatus
from postern.services.reviews.review_text import final_state_text


async def asked(desk: Desk, kind: ReviewKind) -> Review:
    return await desk.ask() if kind is ReviewKind.JIT else await desk.review_of(await desk.submit())


@pytest.mark.parametrize(
    ("kind", "approved", "outcome", "said"),
    [
        (ReviewKind.JIT, False, ReviewOutcome.EXPIRED, "it was not decided in time"),
        (ReviewKind.JIT, True, ReviewOutcome.ENDED, "the access that it gave has expired"),
        (ReviewKind.ONETIME, False, ReviewOutcome.EXPIRED, "it was not decided in time"),
        (ReviewKind.ONETIME, True, ReviewOutcome.UNUSED, "it was approved, but was not run in time"),
    ],
)
async def test_outcome_tells_apart_what_has_expired(
    desk: Desk, kind: ReviewKind, approved: bool, outcome: ReviewOutcome, said: str
) -> None:
    review = await asked(desk, kind)
    assert review.outcome is None
    if approved:
        assert (await desk.approve(review)).outcome is None
    desk.world.clock.forward(hours=25)
    await desk.services.reviews.settle()
    ended = await desk.services.reviews.look(review.id)
    assert ended is not None
    assert (ended.status, ended.outcome, final_state_text(ended)) == (ReviewStatus.EXPIRED, outcome, said)


async def test_review_that_its_client_gave_up_early_has_expired(desk: Desk) -> None:
    """A client waits at login for less time than the review would."""
    review = await desk.ask()
    await desk.services.reviews.close(review.id, ReviewEvent.EXPIRED)
    closed = await desk.services.reviews.look(review.id)
    assert closed is not None
    assert closed.outcome is ReviewOutcome.EXPIRED


async def test_script_that_ran_is_used(desk: Desk) -> None:
    session = await desk.ready()
    await desk.services.sessions.execute(desk.ann, session.id)
    review = await desk.review_of(session)
    assert (review.status, review.outcome) == (ReviewStatus.PROCESSING, None)
    await desk.services.reviews.close(review.id, ReviewEvent.FINISHED)
    used = await desk.services.reviews.look(review.id)
    assert used is not None
    assert (used.status, used.outcome) == (ReviewStatus.EXECUTED, ReviewOutcome.USED)


@pytest.mark.parametrize("kind", [ReviewKind.JIT, ReviewKind.ONETIME])
@pytest.mark.parametrize("outcome", [ReviewOutcome.REJECTED, ReviewOutcome.REVOKED, ReviewOutcome.WITHDRAWN])
async def test_outcome_of_what_people_ended_is_what_they_did(
    desk: Desk, kind: ReviewKind, outcome: ReviewOutcome
) -> None:
    review = await asked(desk, kind)
    if outcome is ReviewOutcome.WITHDRAWN:
        ended = await desk.services.reviews.withdraw(desk.ann, str(review.id))
    else:
        if outcome is ReviewOutcome.REVOKED:
            await desk.approve(review)
        ended = await desk.services.reviews.decide(desk.rita, str(review.id), Choice(outcome.upper()))
    assert ended.outcome is outcome
