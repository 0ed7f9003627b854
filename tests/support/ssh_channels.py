"""Channels of SSH as the gateway has them: dialled at an agent, read and written as frames."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID, uuid4

from tests.support.promises import PATIENT
from tests.support.sshds import Sshd

from postern.agent.agent_policy import ANYTHING, LocalPolicy
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.protocols.ssh.target.ssh_targets import SshTargets
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_target import FramedTransport
from postern.relay.orders import Order
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start, Target, Terminal

CONNECTION = UUID("6c1f4c6e-6f0f-4c4e-8d0b-2f6a5c1d9e01")


def secrets_of(server: Sshd, **more: str) -> dict[str, str]:
    """An empty text takes one away."""
    given = {"HOST": "localhost", "PORT": str(server.port), "USER": server.user, "PRIVATE_KEY": server.key}
    return {name: value for name, value in (given | more).items() if value}


def order_of(start: Start, *, user: str = "ann", timeout: float = PATIENT, **secrets: str) -> Order:
    return Order(
        session_id=uuid4(),
        user_id=user,
        user_email=f"{user}@example.com",
        verb=Verb.CONNECT,
        connection_id=CONNECTION,
        connection="web-1",
        type=ConnectionType.APPLICATION,
        subtype="ssh",
        command=(),
        secret={f"envvar:{name}": Secret(value) for name, value in secrets.items()},
        start=start,
        timeout=timeout,
    )


class Reader(asyncio.Protocol):
    """Keeps what comes; output only as its size and hash, unless it is small."""

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.output = {m.STDOUT: bytearray(), m.STDERR: bytearray()}
        self.size = 0
        self.digest = hashlib.sha256()
        self.exit: m.Exit | None = None
        self.lost = False
        self.full = False
        self.news = asyncio.Event()
        self._frames = m.TerminalFrameReader()

    def data_received(self, data: bytes) -> None:
        for kind, payload in self._frames.feed(data):
            assert self.exit is None  # the last frame
            if not self.kinds or self.kinds[-1] != kind:
                self.kinds.append(kind)
            if kind == m.STDOUT:
                self.size += len(payload)
                self.digest.update(payload)
            if kind in self.output and len(self.output[kind]) < 1 << 20:
                self.output[kind] += payload
            if kind == m.EXIT:
                self.exit = m.read_exit(payload)
        self.news.set()

    def pause_writing(self) -> None:
        assert not self.full
        self.full = True

    def resume_writing(self) -> None:
        assert self.full
        self.full = False
        self.news.set()

    def connection_lost(self, error: Exception | None) -> None:
        assert not self.lost
        self.lost = True
        self.news.set()


class Running:
    """A channel that was dialled."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.reader = Reader()
        transport = target.stream.transport
        assert isinstance(transport, FramedTransport)
        self.transport: Any = transport
        assert target.stream.hand_over(self.reader) == b""

    def send(self, *frames: bytes) -> None:
        self.transport.write(b"".join(frames))

    async def send_all(self, data: bytes, times: int = 1) -> None:
        """As fast as it is taken."""
        frames = m.frames(m.STDIN, data)
        for _ in range(times):
            await self.until(lambda: not self.reader.full)
            self.transport.write(frames)
            await asyncio.sleep(0)

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENT):
            while not true():
                self.reader.news.clear()
                await self.reader.news.wait()

    async def output(self, size: int) -> None:
        """Once so many bytes of it have come."""
        await self.until(lambda: self.reader.size >= size)

    async def ended(self) -> m.Exit:
        await self.until(lambda: self.reader.lost)
        assert self.reader.exit is not None
        return self.reader.exit

    def text(self, kind: int = m.STDOUT) -> str:
        return self.reader.output[kind].decode()


class Servers:
    """An agent's own part of it."""

    def __init__(self, policy: LocalPolicy = ANYTHING) -> None:
        self.targets = SshTargets(policy)
        self.login = str(uuid4())
        self._opened: list[Running] = []

    async def dial(
        self,
        secrets: Mapping[str, str],
        what: str | None = None,
        *,
        kind: ChannelKind = ChannelKind.EXEC,
        terminal: Terminal | None = None,
        environment: Mapping[str, str] | None = None,
        host_keys: tuple[str, ...] | None = (),
        login: str = "",
        user: str = "ann",
        timeout: float = PATIENT,
    ) -> Running:
        channel = ChannelRequest(kind if what is not None else ChannelKind.SHELL, what or "", login or self.login)
        start = Start(environment=environment or {}, terminal=terminal, channel=channel, host_keys=host_keys)
        return await self.carry_out(order_of(start, user=user, timeout=timeout), secrets)

    async def carry_out(self, order: Order, secrets: Mapping[str, str]) -> Running:
        values = {name: Secret(value) for name, value in secrets.items()}
        running = Running(await self.targets.dial(order, ResolvedSecrets(values, {})))
        self._opened.append(running)
        return running

    async def run(self, secrets: Mapping[str, str], what: str, **how: Any) -> tuple[m.Exit, str]:
        """Without input."""
        running = await self.dial(secrets, what, **how)
        running.send(m.START_FRAME, m.STDIN_END_FRAME)
        return await running.ended(), running.text()

    async def close(self) -> None:
        for running in self._opened:
            running.transport.close()
            running.target.release()
        for _, shared in list(self.targets._logins._held.items()):
            if shared.task.done():
                shared.end()
        await asyncio.sleep(0)
