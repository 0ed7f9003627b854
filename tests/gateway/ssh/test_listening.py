"""Remote port forwarding with a mock agent: permissions, notifications, and limits."""

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
    """Listens at port 4000; sends what a test tells it to, and records what its listeners are sent."""

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
    """The client's end of an accepted connection."""

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


async def test_client_learns_the_allocated_port_and_each_accepted_connection_is_a_session(
    site: Site, agent: Agent
) -> None:
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


async def test_success_of_the_listener_is_sent_before_the_first_connection(site: Site, agent: Agent) -> None:
    """OpenSSH rejects a connection to a port that it does not know yet."""
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


async def test_connection_that_the_client_rejects_is_rejected_at_the_target(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        await listener_of(conn, takes=False)
        agent.says(told.came("7", "10.0.0.9", 5555))
        await until(lambda: (m.STDIN, told.refuse("7")) in agent.heard)
        assert not agent.taken
        assert not at_gateway(site).visit.channels


async def test_connection_is_rejected_once_forwarding_is_no_longer_allowed(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        _, takers = await listener_of(conn)
        site.flow.allowed = frozenset()
        agent.says(told.came("7", "10.0.0.9", 5555))
        await until(lambda: (m.STDIN, told.refuse("7")) in agent.heard)
        assert not takers
        assert not agent.taken


async def test_remote_forwarding_is_denied_if_disabled(
    site: Site, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    site.flow.allowed = frozenset({Extra.FORWARD_LOCAL})
    async with await connected(site) as conn:
        with pytest.raises(asyncssh.ChannelListenError):
            await listener_of(conn)
        assert not at_gateway(site).visit.listeners
    assert not site.flow.started
    assert "was not allowed to listen at the target: forward_remote is disabled" in caplog.text


async def test_remote_forwarding_that_the_target_denies_fails_cleanly(
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


async def test_jump_host_connection_cannot_listen(site: Site, agent: Agent) -> None:
    key = site.keys.add("ann")
    async with await site.connect("ann", client_keys=[key]) as conn:
        with pytest.raises(asyncssh.ChannelListenError):
            await listener_of(conn)
    assert not site.flow.started


async def test_listeners_are_limited_and_end_with_their_connection(site: Site, agent: Agent) -> None:
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


async def test_cancelled_listener_ends_at_the_agent(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        listener, _ = await listener_of(conn)
        listener.close()
        await listener.wait_closed()
        with pytest.raises(ConnectionError):
            agent.listeners[0].stream.unread()


async def test_malformed_message_of_an_agent_ends_the_listener(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        await listener_of(conn)
        agent.says(b"came from nowhere")
        await until(lambda: not at_gateway(site).visit.listeners)
        assert (await conn.run("true")).exit_status == 0


async def test_requests_queued_during_a_review_are_limited(site: Site, agent: Agent) -> None:
    site.flow.decided.clear()
    async with await connected(site) as conn:
        conn.send_packet(GLOBAL_REQUEST, String("tcpip-forward"), Boolean(True), String(""), UInt32(0))
        await asyncio.wait_for(site.flow.was_asked.wait(), PATIENT)
        for _ in range(500):
            conn.send_packet(GLOBAL_REQUEST, String("keepalive@openssh.com"), Boolean(True))
        await gone(conn)
    site.flow.decided.set()
    assert not site.flow.started


async def test_unix_socket_forwarding_is_denied(site: Site, agent: Agent) -> None:
    async with await connected(site) as conn:
        with pytest.raises(asyncssh.ChannelListenError):
            await conn.forward_remote_path("/tmp/listens", "/tmp/to")
    assert not site.flow.started
