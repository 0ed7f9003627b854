"""An agent attends at a whole gateway: `postern up`, its processes, its own certificate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator

import httpx
import pytest
from bench.processes import child_with
from tests.support.control import Attending
from tests.support.promises import within
from tests.support.running import Gateway, started

from postern.cli.login import profile
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey
from postern.domain.targets.control import Welcome, WorkersChanged
from postern.errors import Unauthenticated

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo") as made:
        yield made


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


@pytest.mark.slow
async def test_it_comes_back_when_the_apis_process_was_killed(gateway: Gateway) -> None:
    agent = Attending(made(gateway, "second"))
    try:
        first = await agent.next()
        os.kill(child(gateway, "api"), signal.SIGKILL)
        assert await agent.next(60) == first
    finally:
        await agent.stop()


@pytest.mark.slow
async def test_it_hears_that_a_worker_was_killed_and_that_another_took_its_place(gateway: Gateway) -> None:
    agent = Attending(made(gateway, "third"))
    try:
        welcome = await agent.next()
        assert isinstance(welcome, Welcome)
        os.kill(child(gateway, "w1"), signal.SIGKILL)
        heard = welcome.workers
        async with asyncio.timeout(120):
            while heard & welcome.workers or not heard:
                order = await agent.next(60)
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
        with pytest.raises(Unauthenticated, match="this agent's key was renewed; start it with the new key"):
            await agent.ended(within(2))
    finally:
        await agent.stop()
    assert agent.key.secret.reveal() not in gateway.log


async def test_a_proxy_manager_opens_a_port_when_it_is_told_to(gateway: Gateway) -> None:
    done = gateway.run(
        "connections", "create", "shop", "--env", "HOST=127.0.0.1", "--env", "USER=app", "--env", "DB=shop"
    )
    assert done.returncode == 0, done.stderr
    known = profile.find(gateway.environment)
    assert known is not None
    assert known.token is not None
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "postern", "proxy-manager", "--json"),
        env=gateway.environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"Waiting for requests" in await asyncio.wait_for(process.stderr.readline(), 60)
        headers = {"Authorization": f"Bearer {known.token.reveal()}"}
        async with httpx.AsyncClient(headers=headers, base_url=f"{known.api_url}/api") as api:
            told = await api.post("/proxymanager/connect", json={"connection_name": "shop"})
            assert told.status_code == 200, told.text
            port = told.json()["port"]
            assert (await api.get("/proxymanager/status")).json() == told.json()
            line = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
            assert line == {"event": "opened", "connection": "shop", "port": port, "seconds": 1800}
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            used = int(known.api_url.rpartition(":")[2])
            taken = await api.post("/proxymanager/connect", json={"connection_name": "shop", "port": used})
            assert taken.status_code == 409, taken.text
            assert f"port {used} cannot be used" in taken.text
            assert (await api.post("/proxymanager/disconnect")).json()["status"] == "ready"
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            brief = {"connection_name": "shop", "access_duration_seconds": 1}
            port = (await api.post("/proxymanager/connect", json=brief)).json()["port"]
            events = [json.loads(await asyncio.wait_for(process.stdout.readline(), 60))["event"] for _ in range(3)]
            assert events == ["closed", "opened", "expired"]
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


async def test_an_agent_is_run_as_the_page_says(gateway: Gateway) -> None:
    """docs/how-to/run-an-agent.md: made, started with its key alone, seen, given another key, which ends it."""
    key = made(gateway, "paged")
    environment = gateway.environment | {"POSTERN_KEY": key.text().reveal()}
    with (gateway.folder / "agent.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "postern", "agent"), env=environment, stdout=log, stderr=log
        )
    try:
        for _ in range(600):
            shown = json.loads(gateway.run("admin", "agents", "show", "paged", "--json").stdout)
            if shown["status"] == "CONNECTED":
                break
            await asyncio.sleep(0.1)
        assert shown["status"] == "CONNECTED", (gateway.folder / "agent.log").read_text()
        assert shown["hostname"]
        assert gateway.run("admin", "agents", "renew-key", "paged", "--yes").returncode == 0
        assert await asyncio.wait_for(process.wait(), 60) == 3
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    said = (gateway.folder / "agent.log").read_text()
    assert "this agent's key was renewed; start it with the new key" in said
    assert key.secret.reveal() not in said + gateway.log
