"""Session hooks through a real tunnel, at an agent that runs them with a real Python."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.gateway.test_agents import AgentHere, Worker, material, permit_for, worker
from tests.support.postgres import PostgresServer
from tests.support.promises import until

from postern.agent.agent_policy import NO_COMMANDS
from postern.agent.process_cleanup import processes
from postern.domain.hook import MAX_HOOK, MAX_OUTPUT, HookOutcome
from postern.errors import Denied, ProtocolViolation, Unavailable
from postern.gateway.agent_dialers import RemoteAgents
from postern.relay.relay_hooks import MORE, Hook, read_answer
from postern.transport.certificates import TlsFiles

__all__ = ["material", "worker"]

PERMIT = permit_for(PostgresServer(port=1), PASS="planted")


@pytest.fixture
async def agent(worker: Worker, material: TlsFiles) -> AsyncIterator[AgentHere]:
    here = AgentHere(material)
    here.want(worker)
    await worker.until_there()
    yield here
    await here.held.close("done")


def hook(text: str, seconds: float = 60) -> Hook:
    return Hook(uuid4(), text, "Y29udGV4dA==", seconds)


async def run(worker: Worker, one: Hook) -> HookOutcome:
    return await RemoteAgents(worker.tunnels, timeout=60).hook(PERMIT, uuid4(), one)


def hanging(folder: Path) -> tuple[Hook, Path]:
    there = folder / "there"
    return hook(f"import subprocess; open({str(there)!r}, 'w'); subprocess.run(['sleep', '300'])"), there


def alive(one: Hook) -> set[int]:
    return processes(-1, f"POSTERN_HOOK_ID={one.id}".encode())


async def test_hook_runs_at_the_agent_without_its_secrets(worker: Worker, agent: AgentHere) -> None:
    text = "import os, sys\nprint(os.environ['POSTERN_HOOK_PAYLOAD'], 'PASS' in os.environ)\nsys.exit(2)\n"
    assert await run(worker, hook(text)) == HookOutcome(2, "Y29udGV4dA== False\n")
    assert (worker.tunnels.streams, agent.orders.running) == (0, 0)


async def test_largest_hook_fits_through_the_tunnel(worker: Worker, agent: AgentHere) -> None:
    text = "print(1)#" + "x" * (MAX_HOOK - 9)
    full = Hook(uuid4(), text, "A" * 65_536, 60)
    assert await run(worker, full) == HookOutcome(0, "1\n")


async def test_hanging_hook_is_ended_by_its_agent(worker: Worker, agent: AgentHere) -> None:
    outcome = await run(worker, hook("import time; time.sleep(300)", seconds=0.5))
    assert (outcome.exit_code, outcome.reason) == (None, "it did not finish within 0.5 seconds and was terminated")


async def test_hook_is_denied_by_the_policy_of_its_agent(worker: Worker, material: TlsFiles) -> None:
    here = AgentHere(material, NO_COMMANDS)
    here.want(worker)
    await worker.until_there()
    with pytest.raises(Denied, match="policy does not allow session hooks"):
        await run(worker, hook("print(1)"))
    await here.held.close("done")


async def test_older_agent_rejects_the_hook_order(
    worker: Worker, agent: AgentHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.agent.serve.HOOK", "an order that nobody gives")
    with pytest.raises(ProtocolViolation, match="does not support the order 'hook'; if it is older than the gateway"):
        await run(worker, hook("print(1)"))


async def test_hook_of_an_offline_agent_is_unavailable(worker: Worker) -> None:
    with pytest.raises(Unavailable, match="offline"):
        await run(worker, hook("print(1)"))


async def test_hook_of_a_lost_agent_fails_and_is_not_run_again(
    worker: Worker, agent: AgentHere, material: TlsFiles, tmp_path: Path
) -> None:
    one, there = hanging(tmp_path)
    task = asyncio.ensure_future(run(worker, one))
    await until(there.exists)
    other = AgentHere(material)
    other.want(worker)
    await worker.until_there(2)
    there.unlink()
    await agent.held.close("it goes")
    with pytest.raises(Unavailable, match="it goes"):
        await task
    assert (alive(one), there.exists()) == (set(), False)
    await other.held.close("done")


async def test_cancelled_hook_is_ended_at_the_agent(worker: Worker, agent: AgentHere, tmp_path: Path) -> None:
    one, there = hanging(tmp_path)
    task = asyncio.ensure_future(run(worker, one))
    await until(there.exists)
    assert agent.orders.running == 1
    task.cancel()
    await until(lambda: agent.orders.running == 0)
    assert alive(one) == set()


@pytest.mark.parametrize(
    "answer",
    [{}, {"exit_code": "0", "output": "", "reason": ""}, {"exit_code": 256, "output": "", "reason": ""}],
)
def test_attack_malformed_hook_outcome_is_a_protocol_violation(answer: dict[str, object]) -> None:
    with pytest.raises(ProtocolViolation, match="is not valid"):
        read_answer(answer)


def test_attack_overlong_hook_outcome_is_cut() -> None:
    found = read_answer({"exit_code": 0, "output": "a\0\ud800" + "x" * 200_000, "reason": "y" * 200_000})
    assert found.output == "a\ufffd?" + "x" * (MAX_OUTPUT - 3 - len(MORE)) + MORE
    assert len(found.reason) == 1_000
