"""Agent forwarding (`ssh -A`) with a mock agent: permissions, logins per program, and requests to the agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import asyncssh
import pytest
from tests.gateway.ssh.test_bounds import at_gateway
from tests.gateway.ssh.test_listening import Agent
from tests.support.promises import PATIENT, until
from tests.support.ssh_gate import PASSWORD, USER, Site, open_site

from postern.domain.targets.connection import Extra
from postern.errors import Denied
from postern.protocols.ssh import ssh_listening as told
from postern.protocols.ssh.listener.ssh_client_listening import AgentForwarder
from postern.protocols.ssh.listener.ssh_server import SshServer
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelKind, Start


class Target(Agent):
    """A target that runs programs until the test ends it."""

    async def act(self, client: Any, start: Start) -> None:
        if start.channel is None:
            return
        if start.channel.kind is ChannelKind.LISTEN:
            self.listeners.append(client)
            if self.grants:
                client.stream.write(m.frame(m.STDOUT, told.listens(0)))
                await self.over.wait()
        elif start.channel.kind is ChannelKind.ACCEPT:
            await super().act(client, start)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as made:
        made.flow.allowed = frozenset({Extra.FORWARD_AGENT})
        yield made


@pytest.fixture
def target(site: Site) -> Target:
    made = Target()
    site.flow.act = made.act
    return made


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[tuple[str, list[bytes]]]:
    """The socket of the client's agent, and what it hears."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()

    path = str(tmp_path / "agent")
    async with await asyncio.start_unix_server(serve, path):
        yield path, heard


async def lending(site: Site, path: str = "/nowhere") -> Any:
    """A client whose programs all ask for its agent, as long as `_agent_forward_path` is that."""
    conn = await site.connect(USER, password=PASSWORD, agent_forwarding=path)
    await until(lambda: site.gate._connections)
    return conn


def started(site: Site) -> list[tuple[str, str]]:
    """What was begun, and by which of the connection's logins."""
    visit = at_gateway(site).visit
    logins = {visit.login: "own", visit.lending: "lending"}
    return [(start.channel.kind, logins[start.channel.login]) for start in site.flow.started if start.channel]


async def test_programs_with_agent_forwarding_share_a_login_and_others_have_their_own(
    site: Site, target: Target
) -> None:
    async with await lending(site) as conn:
        await asyncio.gather(*(conn.run("true") for _ in range(3)))
        conn._agent_forward_path = None
        await conn.run("true")
        assert started(site) == [("listen", "lending"), *[("exec", "lending")] * 3, ("exec", "own")]
        assert at_gateway(site).get_agent_path() is None, "no socket of this machine"
    (lender, *_) = target.listeners
    await until(lambda: lender.stream.transport is None or lender.stream.transport.is_closing())


async def test_program_runs_without_an_agent_if_forwarding_is_disabled(
    site: Site, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    site.flow.allowed = frozenset()
    async with await lending(site) as conn:
        assert (await conn.run("true")).exit_status == 0
        assert started(site) == [("exec", "own")]
        assert not at_gateway(site).visit.listeners
    assert "was not allowed to forward its agent: forward_agent is disabled" in caplog.text
    assert [type(error) for error in site.flow.refused] == [Denied]


async def test_program_runs_without_an_agent_if_the_target_denies_forwarding(site: Site, target: Target) -> None:
    target.grants = False
    async with await lending(site) as conn:
        assert (await conn.run("true")).exit_status == 0
        assert started(site) == [("listen", "lending"), ("exec", "own")]


async def test_command_connection_gets_no_forwarded_agent(site: Site, target: Target) -> None:
    site.flow.subtype, site.flow.protocol = "", "terminal"
    async with await lending(site) as conn:
        assert (await conn.run("true")).exit_status == 0
    assert not target.listeners
    assert not site.flow.refused


async def test_request_to_a_forwarded_agent_is_a_session_and_reaches_the_agent(
    site: Site, target: Target, asked: tuple[str, list[bytes]]
) -> None:
    path, heard = asked
    async with await lending(site, path) as conn:
        await conn.run("true")
        target.says(told.came("7", "", 0))
        await until(lambda: heard)
        assert heard == [b"hello"]
        assert target.taken == ["7 ?:0 ssh-agent"]
        assert started(site)[-1] == ("accept", "lending")


async def test_request_to_a_forwarded_agent_is_rejected_if_no_longer_allowed(
    site: Site, target: Target, asked: tuple[str, list[bytes]]
) -> None:
    async with await lending(site, asked[0]) as conn:
        await conn.run("true")
        conn._agent_forward_path = None
        target.says(told.came("7", "", 0))
        await until(lambda: (m.STDIN, told.refuse("7")) in target.heard)
        conn._agent_forward_path = asked[0]
        site.flow.allowed = frozenset()
        target.says(told.came("8", "", 0))
        await until(lambda: (m.STDIN, told.refuse("8")) in target.heard)
        assert not target.taken
    assert not asked[1]


async def test_program_continues_without_an_agent_if_the_shared_forwarding_is_cancelled(
    site: Site, target: Target
) -> None:
    async with await lending(site) as conn:
        connection = at_gateway(site)
        server = cast(SshServer, connection.get_owner())
        server._lender = asked_for = AgentForwarder(site.gate.admission, connection.visit, connection, "")
        program = asyncio.create_task(conn.run("true"))
        await until(lambda: site.flow.asked)
        asked_for._listens.cancel()
        assert (await asyncio.wait_for(program, PATIENT)).exit_status == 0
        assert started(site) == [("exec", "own")]


async def test_ended_agent_forwarding_is_requested_again_by_the_next_program(site: Site, target: Target) -> None:
    async with await lending(site) as conn:
        await conn.run("true")
        target.over.set()
        await until(lambda: not at_gateway(site).visit.listeners)
        await conn.run("true")
        assert len(target.listeners) == 2


async def test_program_started_before_its_agent_request_gets_no_agent(site: Site, target: Target) -> None:
    async with await site.connect(USER, password=PASSWORD) as conn:
        channel, _ = await conn.create_session(asyncssh.SSHClientSession, "true")
        taken: Any = channel
        assert await taken._make_request(b"auth-agent-req@openssh.com") is not True
    assert not target.listeners
