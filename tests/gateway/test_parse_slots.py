"""Parsing processes are shared fairly. Events decide what runs, never the clock."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from uuid import UUID

import anyio
import pytest

from postern.gateway.rules import parse_slots
from postern.gateway.rules.parse_slots import ParseSlots, QueueFull, Task, loop_slot, process_slots

EVE, ANN, BOB = UUID(int=1), UUID(int=2), UUID(int=3)
PATIENT = 60


class Tasks:
    """Run tasks instead of processes: each until the test ends it."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self._go: dict[str, asyncio.Event] = {}

    def task(self, name: str) -> Task:
        return partial(str, name)

    def go(self, *names: str) -> None:
        for name in names:
            self._go.setdefault(name, asyncio.Event()).set()

    async def run(self, task: Task) -> object:
        name = str(task())
        self.began.append(name)
        try:
            await self._go.setdefault(name, asyncio.Event()).wait()
        finally:
            self.ended.append(name)
        return name


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


def start(processes: ParseSlots, tasks: Tasks, owner: UUID, name: str) -> asyncio.Future[object]:
    return asyncio.ensure_future(processes.run(owner, tasks.task(name)))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_attack_huge_statements_of_one_user_do_not_block_other_users(tasks: Tasks) -> None:
    processes = ParseSlots(2, tasks.run, most=6, most_each=4)
    evil = [start(processes, tasks, EVE, f"huge {number}") for number in range(4)]
    tasks.go("ann", "bob")
    await settle()
    assert await start(processes, tasks, ANN, "ann") == "ann"
    assert await start(processes, tasks, BOB, "bob") == "bob"
    assert tasks.began == ["huge 0", "ann", "bob"]
    tasks.go(*(f"huge {number}" for number in range(4)))
    assert await asyncio.gather(*evil) == [f"huge {number}" for number in range(4)]


async def test_parsing_tasks_of_principals_take_turns(tasks: Tasks) -> None:
    """With one process, a principal with many tasks gets no second turn while another waits."""
    processes = ParseSlots(1, tasks.run)
    names = ["eve 1", "eve 2", "eve 3", "ann 1", "ann 2", "bob"]
    owners = {"eve": EVE, "ann": ANN, "bob": BOB}
    running = [start(processes, tasks, EVE, "first")]
    await settle()
    running += [start(processes, tasks, owners[name[:3]], name) for name in names]
    await settle()
    tasks.go("first", *names)
    await asyncio.gather(*running)
    assert tasks.began == ["first", "eve 1", "ann 1", "bob", "eve 2", "ann 2", "eve 3"]


async def test_waiting_parsing_tasks_are_limited(tasks: Tasks) -> None:
    processes = ParseSlots(2, tasks.run, most=6, most_each=4)
    mine = [start(processes, tasks, EVE, "huge") for _ in range(5)]  # one runs, four wait
    await settle()
    assert len(processes) == 4
    with pytest.raises(QueueFull):
        await processes.run(EVE, tasks.task("more"))
    others = [start(processes, tasks, ANN, "huge") for _ in range(3)]
    await settle()
    assert len(processes) == 6
    with pytest.raises(QueueFull):
        await processes.run(BOB, tasks.task("more"))
    tasks.go("huge")
    assert set(await asyncio.gather(*mine, *others)) == {"huge"}
    assert len(processes) == 0


async def test_cancelled_waiting_task_never_runs(tasks: Tasks) -> None:
    processes = ParseSlots(1, tasks.run)
    running, waiting = start(processes, tasks, EVE, "huge"), start(processes, tasks, EVE, "never")
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(processes) == 0
    tasks.go("huge")
    assert await running == "huge"
    assert tasks.began == ["huge"]


async def test_attack_cancelled_running_task_keeps_its_slot_until_done(tasks: Tasks) -> None:
    """Otherwise clients that come and go would start process after process."""
    slots = ParseSlots(1, tasks.run)
    gone, follows = start(slots, tasks, EVE, "gone"), start(slots, tasks, EVE, "next")
    await settle()
    gone.cancel()
    tasks.go("next")
    await settle()
    assert gone.cancelled()
    assert tasks.began == ["gone"]
    tasks.go("gone")
    assert await follows == "next"
    assert tasks.ended == ["gone", "next"]


async def test_failure_of_a_cancelled_task_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    go = asyncio.Event()

    async def fails(task: Task) -> object:
        await go.wait()
        raise ValueError("so")

    slots = ParseSlots(1, fails)
    gone = asyncio.ensure_future(slots.run(EVE, str))
    await settle()
    gone.cancel()
    go.set()
    await settle()
    gc.collect()
    assert not caplog.messages


@pytest.mark.parametrize("moment", range(4))
async def test_slot_is_not_lost_whenever_a_task_is_cancelled(tasks: Tasks, moment: int) -> None:
    processes = ParseSlots(1, tasks.run)
    running, waiting = start(processes, tasks, EVE, "first"), start(processes, tasks, ANN, "second")
    await settle()
    tasks.go("first", "second", "third")
    for _ in range(moment):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    assert await asyncio.wait_for(start(processes, tasks, BOB, "third"), PATIENT) == "third"
    assert len(processes) == 0


# With processes


async def test_task_runs_in_another_process_that_stays() -> None:
    processes = process_slots()
    first = await processes.run(EVE, os.getpid)
    assert first != os.getpid()
    assert await processes.run(ANN, os.getpid) == first
    assert await processes.run(EVE, partial(os.nice, 0)) == 10 + os.nice(0)


async def test_failed_task_raises_its_error_and_frees_the_process() -> None:
    processes = process_slots()
    for _ in range(3):
        with pytest.raises(ValueError, match="invalid literal"):
            await processes.run(EVE, partial(int, "so"))
    assert await processes.run(EVE, partial(int, "7")) == 7


async def test_process_that_crashes_is_replaced() -> None:
    processes = process_slots()
    with pytest.raises(anyio.BrokenWorkerProcess):
        await processes.run(EVE, _die)
    assert await processes.run(EVE, partial(int, "7")) == 7


def _die() -> None:
    os._exit(1)


async def test_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = process_slots()
    pid = await processes.run(EVE, os.getpid)
    assert isinstance(pid, int)
    monkeypatch.setattr(parse_slots, "LONGEST", 0.2)
    with pytest.raises(TimeoutError):
        await processes.run(EVE, partial(time.sleep, 600))
    monkeypatch.undo()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await processes.run(EVE, partial(int, "7")) == 7


async def test_other_coroutines_run_between_two_tasks_on_the_event_loop() -> None:
    slot, order = loop_slot(), list[str]()

    async def somebody_else() -> None:
        for _ in range(1000):
            order.append("else")
            await asyncio.sleep(0)

    other = asyncio.ensure_future(somebody_else())
    names = [f"task {number}" for number in range(40)]
    await asyncio.gather(*(slot.run(EVE, partial(order.append, name)) for name in names), other)
    assert [one for one in order if one != "else"] == names
    assert all("else" in order[order.index(one) : order.index(two)] for one, two in pairwise(names))


@pytest.mark.ci
def test_process_exits_although_a_statement_is_being_parsed() -> None:
    code = (
        "import asyncio, functools, time, uuid\n"
        "from postern.gateway.rules.parse_slots import process_slots\n"
        "async def main():\n"
        "    task = functools.partial(time.sleep, 600)\n"
        "    running = asyncio.ensure_future(process_slots().run(uuid.UUID(int=1), task))\n"
        "    await asyncio.sleep(2)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
