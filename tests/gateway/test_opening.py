"""A session that is being established, and what aborts it."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast
from uuid import uuid4

import pytest

from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason
from postern.gateway.session_opening import PendingSession, SessionAborted

PERMIT = cast("Permit", SimpleNamespace(expires_at=None, review_id=None))  # only carried here


def opening() -> PendingSession:
    return PendingSession(uuid4())


async def dial(opening: PendingSession, seconds: float = 5) -> str:
    with opening.dialling(PERMIT):
        await asyncio.sleep(seconds)
    return "dialled"


async def test_dial_without_an_end_succeeds() -> None:
    one = opening()
    assert await dial(one, 0) == "dialled"
    assert one.permit is None
    one.check()


async def test_end_during_the_dial_aborts_it_without_cancelling_the_task() -> None:
    one = opening()

    async def login() -> str:
        with pytest.raises(SessionAborted, match="killed") as caught:
            await dial(one)
        assert caught.value.reason is EndReason.KILLED
        await asyncio.sleep(0)  # would be cancelled if a cancellation were left
        return "went on"

    task = asyncio.ensure_future(login())
    await asyncio.sleep(0)
    assert one.permit is PERMIT
    one.end(EndReason.KILLED, "killed")
    one.end(EndReason.REVOKED, "the first reason counts")
    assert await task == "went on"
    assert task.cancelling() == 0


async def test_end_before_the_dial_aborts_it() -> None:
    one = opening()
    one.end(EndReason.KILLED, "killed")
    with pytest.raises(SessionAborted):
        await dial(one, 0)


async def test_end_after_the_dial_is_raised_by_check() -> None:
    one = opening()
    await dial(one, 0)
    one.end(EndReason.KILLED, "killed")
    await asyncio.sleep(0)
    with pytest.raises(SessionAborted):
        one.check()


async def test_end_at_the_moment_the_dial_succeeds_aborts_the_session() -> None:
    one = opening()
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def login() -> None:
        with one.dialling(PERMIT):
            await answer

    task = asyncio.ensure_future(login())
    await asyncio.sleep(0)
    answer.set_result(None)
    one.end(EndReason.KILLED, "killed")
    with pytest.raises(SessionAborted):
        await task


async def test_cancellation_of_the_task_takes_precedence_over_an_end() -> None:
    for order in ("end first", "cancel first"):
        one = opening()
        task = asyncio.ensure_future(dial(one))
        await asyncio.sleep(0)
        if order == "end first":
            one.end(EndReason.KILLED, "killed")
            task.cancel()
        else:
            task.cancel()
            one.end(EndReason.KILLED, "killed")
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_timeout_around_the_dial_still_works() -> None:
    one = opening()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await dial(one)


@pytest.mark.parametrize("hours", [-1, 1])
async def test_attack_permit_that_expires_during_the_dial_aborts_it(hours: int) -> None:
    """This holds even if nothing checks it in between."""
    ends = datetime.now(UTC) + timedelta(hours=hours)
    permit = cast("Permit", SimpleNamespace(expires_at=ends, review_id=uuid4()))
    with opening().dialling(permit) as dialling:
        if hours > 0:
            dialling.check()
        else:
            with pytest.raises(SessionAborted, match="has expired") as ended:
                dialling.check()
            assert ended.value.reason is EndReason.EXPIRED
