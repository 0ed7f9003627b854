"""Turns: work in threads, one of which goes on at a time, and no organisation has all of them."""

from __future__ import annotations

import asyncio
import sys
import threading
from uuid import uuid4

import pytest
from tests.support.promises import PATIENT

from postern.services.runbooks.worker_pool import TimeSlices, WorkerPool


async def test_one_thread_works_at_a_time_and_rests_between_its_slices() -> None:
    usual = sys.getswitchinterval()
    at_once, threads, most = 0, set(), 0

    def work(slices: TimeSlices) -> None:
        nonlocal at_once, most
        for _ in range(50):
            at_once += 1
            most = max(most, at_once)
            threads.add(threading.get_ident())
            sum(range(20_000))
            assert sys.getswitchinterval() < usual
            at_once -= 1
            slices.rest()

    turns, others = WorkerPool(), WorkerPool()
    async with asyncio.timeout(PATIENT):
        await asyncio.gather(*(some.take(uuid4(), work) for some in (turns, others, turns, others)))
    assert most == 1
    assert len(threads) > 1
    assert sys.getswitchinterval() == usual


async def test_an_organisation_has_one_turn_and_the_others_have_theirs_meanwhile() -> None:
    turns, busy, began, go_on = WorkerPool(), uuid4(), list[str](), threading.Event()
    loop, has_begun = asyncio.get_running_loop(), asyncio.Event()

    def long(slices: TimeSlices) -> str:
        began.append("long")
        loop.call_soon_threadsafe(has_begun.set)
        while not go_on.wait(0.001):
            slices.rest()
        return "long"

    async with asyncio.timeout(PATIENT):
        first, second = (asyncio.create_task(turns.take(busy, long)) for _ in range(2))
        await has_begun.wait()
        assert await turns.take(uuid4(), lambda _: "short") == "short"
        assert began == ["long"]
        go_on.set()
        assert (await first, await second, began) == ("long", "long", ["long", "long"])


async def test_what_fails_leaves_the_turn_to_the_next() -> None:
    turns, org_id = WorkerPool(), uuid4()
    with pytest.raises(ZeroDivisionError):
        await turns.take(org_id, lambda _: 1 // 0)
    async with asyncio.timeout(PATIENT):
        assert await turns.take(org_id, lambda _: 1) == 1
