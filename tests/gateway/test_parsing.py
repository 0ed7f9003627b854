"""Threads for parsing are shared fairly. What runs is decided by events, never by the clock."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from uuid import UUID

import pytest
from tests.support.promises import wait_until

from postern.gateway.parsing import Busy, ParseThreads

EVE, ANN, BOB = UUID(int=1), UUID(int=2), UUID(int=3)


class Slow:
    """Work that goes on until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self.go.wait(60)
        return "done"


@pytest.fixture
def threads() -> ParseThreads[str]:
    return ParseThreads(2, most=6, most_each=4)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_attack_many_huge_statements_of_one_hold_up_nobody_else(threads: ParseThreads[str]) -> None:
    huge = [Slow() for _ in range(4)]
    evil = [asyncio.ensure_future(threads.run(EVE, one)) for one in huge]
    await settle()
    assert await asyncio.wait_for(threads.run(ANN, lambda: "ann"), 60) == "ann"
    assert await asyncio.wait_for(threads.run(BOB, lambda: "bob"), 60) == "bob"
    assert not any(one.done() for one in evil)
    await asyncio.to_thread(wait_until, huge[0].began.is_set)
    assert not any(one.began.is_set() for one in huge[1:])
    for one in huge:
        one.go.set()
    assert await asyncio.wait_for(asyncio.gather(*evil), 60) == ["done"] * 4


async def test_principals_take_turns() -> None:
    """One thread: whoever came with many is not asked twice while another waits."""
    threads: ParseThreads[str] = ParseThreads(1)
    order: list[str] = []
    first = Slow()
    running = [asyncio.ensure_future(threads.run(EVE, first))]
    await settle()

    def note(name: str) -> str:
        order.append(name)
        return name

    def noting(name: str) -> Callable[[], str]:
        return lambda: note(name)

    for owner, name in [(EVE, "eve 1"), (EVE, "eve 2"), (EVE, "eve 3"), (ANN, "ann 1"), (ANN, "ann 2"), (BOB, "bob")]:
        running.append(asyncio.ensure_future(threads.run(owner, noting(name))))
    await settle()
    first.go.set()
    await asyncio.wait_for(asyncio.gather(*running), 60)
    assert order == ["eve 1", "ann 1", "bob", "eve 2", "ann 2", "eve 3"]


async def test_what_waits_is_bounded(threads: ParseThreads[str]) -> None:
    huge = Slow()
    mine = [asyncio.ensure_future(threads.run(EVE, huge)) for _ in range(5)]  # one runs, four wait
    await settle()
    assert len(threads) == 4
    with pytest.raises(Busy):
        await threads.run(EVE, lambda: "")
    others = [asyncio.ensure_future(threads.run(ANN, huge)) for _ in range(3)]
    await settle()
    assert len(threads) == 6
    with pytest.raises(Busy):
        await threads.run(BOB, lambda: "")
    huge.go.set()
    assert set(await asyncio.wait_for(asyncio.gather(*mine, *others), 60)) == {"done"}
    assert len(threads) == 0


async def test_who_gives_up_takes_the_job_back(threads: ParseThreads[str]) -> None:
    huge, never = Slow(), Slow()
    running = asyncio.ensure_future(threads.run(EVE, huge))
    waiting = asyncio.ensure_future(threads.run(EVE, never))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(threads) == 0
    huge.go.set()
    assert await asyncio.wait_for(running, 60) == "done"
    assert not never.began.is_set()


async def test_who_gives_up_what_runs_leaves_the_thread_to_the_next(threads: ParseThreads[str]) -> None:
    huge = Slow()
    gone = asyncio.ensure_future(threads.run(EVE, huge))
    await settle()
    await asyncio.to_thread(wait_until, huge.began.is_set)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    follows = asyncio.ensure_future(threads.run(EVE, lambda: "next"))
    await settle()
    assert not follows.done()
    huge.go.set()
    assert await asyncio.wait_for(follows, 60) == "next"


async def test_what_fails_is_told_and_frees_the_thread(threads: ParseThreads[str]) -> None:
    def fails() -> str:
        raise ValueError("so")

    for _ in range(5):
        with pytest.raises(ValueError, match="so"):
            await threads.run(EVE, fails)
    assert await threads.run(EVE, lambda: "well") == "well"


def test_a_process_ends_though_a_statement_is_being_parsed() -> None:
    code = (
        "import asyncio, time, uuid\n"
        "from postern.gateway.parsing import ParseThreads\n"
        "async def main():\n"
        "    running = asyncio.ensure_future(ParseThreads().run(uuid.UUID(int=1), lambda: time.sleep(600)))\n"
        "    await asyncio.sleep(0.1)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
