"""Ports of the target that clients listen at, with the agent replaced: who may, who is told, and what is bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import Boolean, String, UInt32
from tests.gateway.ssh.test_bounds import CHANNEL_OPEN, GLOBAL_REQUEST, at_gateway, connected, gone
from tests.support.promises import PATIENT, until
from tests.support.ssh_gate import Site, open_site

from postern.domain.targets.connection import Extra
from postern.gateway.clients.session_setup import ClientSession
from postern.protocols.ssh import ssh_listening as told
from postern.protocols.ssh.listener.ssh_client_listening import MOST_LISTENERS
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelKind, Start

REQUEST_SUCCESS = 81


class Agent:
    """Listens at port 4000; says what a test says, and hears what is said to its listeners."""

    def __init__(self) -> None:
        self.listeners: list[ClientSession] = []
        self.taken: list[str] = []
        self.grants = True
        self.first = m.frame(m.STDOUT, told.listens(4000))
        self.over = asyncio.Event()

    async def act(self, client: ClientSession, start: Start) -> None:
        assert start.channel is not None
        if start.channel.kind is ChannelKind.LISTEN:
            self.listeners.append(client)
            if self.grants:
                client.stream.write(self.first)
                await self.over.wait()
            else:
                client.stream.write(m.frame(m.STDERR, b"postern: in use\n"))
        else:
            self.taken.append(start.channel.what)
            client.stream.write(m.frame(m.STDOUT, b"hello"))

    def says(self, data: bytes) -> None:
        self.listeners[-1].stream.write(m.frame(m.STDOUT, data))

    @property
    def heard(self) -> list[tuple[int, bytes]]:
        """Of the newest listener."""
        return m.TerminalFrameReader().feed(self.listeners[-1].stream.unread())


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as made:
        made.flow.allowed = frozenset({Extra.FORWARD_REMOTE})
        yield made


@pytest.fixture
def agent(site: Site) -> Agent:
    made = Agent()
    site.flow.act = made.act
    return made


class Taker(asyncssh.SSHTCPSession[bytes]):
    """The client's end of who came."""

    def __init__(self) -> None:
        self.got = b""

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.got += data


async def listener_of(conn: Any, takes: bool = True, port: int = 0) -> tuple[asyncssh.SSHListener, list[Taker]]:
    takers: list[Taker] = []

    def session(host: str, port: int) -> Taker:
        takers.append(Taker())
        if not takes:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "nobody here")
        return takers[-1]

    return await conn.create_server(session, "localhost", port), takers


async def test_a_port_that_was_allotted_is_told_and_who_comes_is_a_session(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        listener, takers = await listener_of(conn)
        assert listener.get_port() == 4000
        agent.says(told.came("7", "10.0.0.9", 5555))
        await until(lambda: takers and takers[0].got == b"hello")
        assert agent.taken == ["7 10.0.0.9:5555 localhost:4000"]
        agent.says(told.came("8", "10.0.0.9", 5556))
        await until(lambda: len(agent.taken) == 2)
    logins = {start.channel.login for start in site.flow.started if start.channel}
    assert len(logins) == 1


async def test_a_client_hears_of_nobody_before_it_hears_that_it_listens(site: Site, agent: Agent) -> None:
    """OpenSSH refuses who comes to a port that it does not know yet."""
    agent.first = m.frame(m.STDOUT, told.listens(80)) + m.frame(m.STDOUT, told.came("7", "10.0.0.9", 5555))
    async with await connected(site) as conn:
        gateway: Any = at_gateway(site)
        sent, send = [], gateway.send_packet

        def kept(kind: int, *arguments: Any, **more: Any) -> None:
            sent.append(kind)
            send(kind, *arguments, **more)

        gateway.send_packet = kept
        await listener_of(conn, port=80)
        await until(lambda: CHANNEL_OPEN in sent)
    assert sent.index(REQUEST_SUCCESS) < sent.index(CHANNEL_OPEN)


async def test_who_the_client_does_not_take_is_refused_at_the_target(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        await listener_of(conn, takes=False)
        agent.says(told.came("7", "10.0.0.9", 5555))
        await until(lambda: (m.STDIN, told.refuse("7")) in agent.heard)
        assert not agent.taken
        assert not at_gateway(site).visit.channels


async def test_who_comes_when_it_is_no_longer_allowed_is_refused(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        _, takers = await listener_of(conn)
        site.flow.allowed = frozenset()
        agent.says(told.came("7", "10.0.0.9", 5555))
        await until(lambda: (m.STDIN, told.refuse("7")) in agent.heard)
        assert not takers
        assert not agent.taken


async def test_it_is_refused_without_its_switch(site: Site, agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    site.flow.allowed = frozenset({Extra.FORWARD_LOCAL})
    async with await connected(site) as conn:
        with pytest.raises(asyncssh.ChannelListenError):
            await listener_of(conn)
        assert not at_gateway(site).visit.listeners
    assert not site.flow.started
    assert "may not listen at the target: forward_remote is disabled" in caplog.text


async def test_what_the_target_does_not_grant_fails_cleanly(
    site: Site, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    agent.grants = False
    async with await connected(site) as conn:
        with pytest.raises(asyncssh.ChannelListenError):
            await listener_of(conn, port=80)
        assert not at_gateway(site).visit.listeners
        agent.grants = True
        await listener_of(conn)
    assert "of the target ended: in use" in caplog.text


async def test_a_jump_host_listens_nowhere(site: Site, agent: Agent) -> None:
    key = site.keys.add("ann")
    async with await site.connect("ann", client_keys=[key]) as conn:
        with pytest.raises(asyncssh.ChannelListenError):
            await listener_of(conn)
    assert not site.flow.started


async def test_listeners_are_bounded_and_end_with_their_connection(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        for port in range(1, MOST_LISTENERS + 1):
            await listener_of(conn, port=port)
        with pytest.raises(asyncssh.ChannelListenError):
            await listener_of(conn, port=100)
        visit = at_gateway(site).visit
        (first, *_) = visit.listeners
        first.close()
        await listener_of(conn, port=100)
    await until(lambda: not visit.listeners)
    for listener in agent.listeners:
        with pytest.raises(ConnectionError):
            listener.stream.unread()
    agent.over.set()


async def test_a_cancelled_one_ends(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        listener, _ = await listener_of(conn)
        listener.close()
        await listener.wait_closed()
        with pytest.raises(ConnectionError):
            agent.listeners[0].stream.unread()


async def test_what_an_agent_must_not_say_ends_the_listener(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        await listener_of(conn)
        agent.says(b"came from nowhere")
        await until(lambda: not at_gateway(site).visit.listeners)
        assert (await conn.run("true")).exit_status == 0


async def test_requests_behind_one_that_waits_for_people_are_bounded(site: Site, agent: Agent) -> None:
    site.flow.decided.clear()
    async with await connected(site) as conn:
        conn.send_packet(GLOBAL_REQUEST, String("tcpip-forward"), Boolean(True), String(""), UInt32(0))
        await asyncio.wait_for(site.flow.was_asked.wait(), PATIENT)
        for _ in range(500):
            conn.send_packet(GLOBAL_REQUEST, String("keepalive@openssh.com"), Boolean(True))
        await gone(conn)
    site.flow.decided.set()
    assert not site.flow.started


async def test_a_socket_in_a_file_is_not_listened_at(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        with pytest.raises(asyncssh.ChannelListenError):
            await conn.forward_remote_path("/tmp/listens", "/tmp/to")
    assert not site.flow.started
