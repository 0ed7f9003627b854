"""An agent attends at a whole gateway: `postern up`, its processes, its own certificate."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from bench.processes import child_with
from tests.support.control import Attending
from tests.support.running import Gateway

from postern.cli import profile
from postern.domain.agent import AgentKey
from postern.domain.control import Welcome, WorkersChanged
from postern.domain.secret import Secret
from postern.errors import Unauthenticated


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with tempfile.TemporaryDirectory(prefix="postern-") as folder:
        made = Gateway(Path(folder), ("--no-demo",))
        try:
            made.start()
            yield made
        finally:
            made.remove()


def made(gateway: Gateway, name: str) -> AgentKey:
    done = gateway.run("admin", "agents", "create", name)
    assert done.returncode == 0, done.stderr
    return AgentKey.read(Secret(done.stdout.strip()))


def child(gateway: Gateway, word: str) -> int:
    assert gateway.process is not None
    return child_with(gateway.process.pid, word)


async def test_the_key_that_is_printed_is_all_that_an_agent_needs(gateway: Gateway) -> None:
    agent = Attending(made(gateway, "edge"), facts={"hostname": "db-7"})
    try:
        welcome = await agent.next()
        assert isinstance(welcome, Welcome)
        assert len(welcome.workers) == 1
        known = profile.find(gateway.environment)
        assert known is not None
        headers = {"Authorization": f"Bearer {known.token.reveal() if known.token else ''}"}
        async with httpx.AsyncClient(headers=headers) as api:
            told = (await api.get(f"{known.api_url}/api/serverinfo")).json()
        assert welcome.tunnel_url == told["tunnel_url"]
        assert told["grpc_url"] == f"grpcs://{agent.key.host}:{agent.key.port}"
        assert "db-7" in gateway.run("admin", "agents", "show", "edge").stdout
    finally:
        await agent.stop()


async def test_it_comes_back_when_the_apis_process_was_killed(gateway: Gateway) -> None:
    agent = Attending(made(gateway, "second"))
    try:
        first = await agent.next()
        os.kill(child(gateway, "api"), signal.SIGKILL)
        assert await agent.next(30) == first
    finally:
        await agent.stop()


async def test_it_hears_that_a_worker_was_killed_and_that_another_took_its_place(gateway: Gateway) -> None:
    agent = Attending(made(gateway, "third"))
    try:
        welcome = await agent.next()
        assert isinstance(welcome, Welcome)
        os.kill(child(gateway, "w1"), signal.SIGKILL)
        heard = welcome.workers
        async with asyncio.timeout(40):
            while heard & welcome.workers or not heard:
                order = await agent.next(30)
                assert isinstance(order, WorkersChanged)
                heard = order.workers
    finally:
        await agent.stop()


async def test_a_renewed_key_ends_it_within_two_seconds(gateway: Gateway) -> None:
    agent = Attending(made(gateway, "fourth"))
    try:
        await agent.next()
        done = await asyncio.to_thread(gateway.run, "admin", "agents", "renew-key", "fourth", "--yes")
        assert done.returncode == 0, done.stderr
        with pytest.raises(Unauthenticated, match="this agent's key was renewed; start it with the new one"):
            await agent.ended(2)
    finally:
        await agent.stop()
    assert agent.key.secret.reveal() not in gateway.log
