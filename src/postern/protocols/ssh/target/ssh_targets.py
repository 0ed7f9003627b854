"""SSH servers as targets: each dial is one channel, and all channels of one client share one connection to the server.

If the server accepts no more sessions on a connection (`MaxSessions` of OpenSSH is 10), another one is opened. The
states of a connection:

    unused ─▶ logging in ─▶ in use ◀─▶ idle ── LINGER seconds ─▶ closed
                  └── no channel waits for it any more, or it failed ─▶ dropped
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Hashable
from functools import partial

from postern.agent.agent_policy import LocalPolicy
from postern.agent.secrets import ResolvedSecrets
from postern.domain.targets.command import is_variable
from postern.domain.tracing import SpanKind, part
from postern.errors import Unavailable
from postern.protocols.ssh.ssh_listening import read_what
from postern.protocols.ssh.target import ssh_access as settings
from postern.protocols.ssh.target.ssh_target_channel import TargetChannel
from postern.protocols.ssh.target.ssh_target_host_keys import accepted_host_keys, one_line
from postern.protocols.ssh.target.ssh_target_listening import TargetListener
from postern.protocols.ssh.target.ssh_target_login import Environment, SshTargetLogin, address
from postern.protocols.terminal.terminal_target import FramedTransport
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start, Target

LINGER = 5.0  # seconds that a connection without channels stays open for the next one
MOST_LOGINS = 1_000
MOST_CONNECTIONS = 10  # for the channels of one client


class SshConnectionPool:
    def __init__(self) -> None:
        self._held: dict[Hashable, _Shared] = {}

    async def share(
        self, key: Hashable, make: Callable[[], SshTargetLogin], timeout: float
    ) -> tuple[SshTargetLogin, Callable[[], None]]:
        """Return the connection under `key`, or a new one, and the function that releases it. Raises the errors of its
        login."""
        shared = self._held.get(key)
        if shared is None or shared.is_over:
            self._check_room()
            shared = self._held[key] = _Shared(make, timeout)
        shared.join()
        try:
            login = await asyncio.shield(shared.task)
        except BaseException:
            self._leave(key, shared)
            raise
        return login, partial(self._leave, key, shared)

    def _check_room(self) -> None:
        """Make room: close the connection that has been idle longest."""
        if len(self._held) < MOST_LOGINS:
            return
        for key, shared in self._held.items():
            if not shared.users:
                self._forget(key, shared)
                return
        raise Unavailable(f"this agent has {MOST_LOGINS} connections to servers, its limit; retry later")

    def _leave(self, key: Hashable, shared: _Shared) -> None:
        shared.users -= 1
        if shared.users:
            return
        if shared.is_over or not shared.task.done():
            self._forget(key, shared)
            return
        if self._held.get(key) is shared:
            self._held[key] = self._held.pop(key)  # after those that are idle already
        shared.idle = asyncio.get_running_loop().call_later(LINGER, self._forget, key, shared)

    def _forget(self, key: Hashable, shared: _Shared) -> None:
        if self._held.get(key) is shared:
            del self._held[key]
        shared.end()


class PoolSlot:
    """One channel's slot on a connection. `make` makes a connection, given the first one of the same key or None;
    `check` raises if one must not be used."""

    def __init__(
        self,
        logins: SshConnectionPool,
        key: Hashable,
        make: Callable[[SshTargetLogin | None], SshTargetLogin],
        check: Callable[[SshTargetLogin], None],
        timeout: float,
    ) -> None:
        self._logins = logins
        self._key = key
        self._make = make
        self._check = check
        self._timeout = timeout
        self._number = 0
        self._login: SshTargetLogin | None = None
        self._give_back: Callable[[], None] | None = None
        self._released = False

    async def take(self, *, program: bool) -> SshTargetLogin:
        """Return a connection. A program gets one that accepts more programs, as far as is known. Raises the errors of
        a login."""
        login = await self._join(0)
        while program and login.is_crowded:
            following = await self.next()
            if following is None:
                break
            login = following
        return login

    async def next(self) -> SshTargetLogin | None:
        """Return another connection instead of this one; None if there can be no more. Raises the errors of a login."""
        if self._number + 1 >= MOST_CONNECTIONS:
            return None
        return await self._join(self._number + 1)

    async def _join(self, number: int) -> SshTargetLogin:
        make = partial(self._make, self._login)
        login, give_back = await self._logins.share((self._key, number), make, self._timeout)
        try:
            self._check(login)
            if self._released:
                raise Unavailable("no client waits for this channel any more")
        except BaseException:
            give_back()
            raise
        before, self._give_back = self._give_back, give_back
        if before is not None:
            before()
        self._login, self._number = login, number
        return login

    def release(self) -> None:
        self._released = True
        if self._give_back is not None:
            self._give_back()
            self._give_back = None


class _Shared:
    def __init__(self, make: Callable[[], SshTargetLogin], timeout: float) -> None:
        self.task = asyncio.get_running_loop().create_task(_connect_login(make(), timeout))
        self.task.add_done_callback(_retrieve_result)
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """Return True if it failed, or the connection was lost."""
        task = self.task
        return task.done() and (task.cancelled() or task.exception() is not None or task.result().is_over)

    def join(self) -> None:
        self.users += 1
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None

    def end(self) -> None:
        if self.idle is not None:
            self.idle.cancel()
        if not self.task.done():
            self.task.cancel()
        elif not self.is_over:
            self.task.result().close()


async def _connect_login(login: SshTargetLogin, timeout: float) -> SshTargetLogin:
    async with asyncio.timeout(timeout):
        await login.connect()
    return login


def _retrieve_result(task: asyncio.Task[SshTargetLogin]) -> None:
    """Retrieve the result of a login, for which no channel may be waiting any more."""
    if not task.cancelled():
        task.exception()


class SshTargets:
    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy
        self._logins = SshConnectionPool()

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Open a channel. Raises Denied by the policy, Unavailable, or the server's login error."""
        access = settings.read(order, secrets.values)
        self._policy.check_target(access.host, access.port)
        if access.agent:
            self._policy.check_ssh_agent(access.agent)
        host_keys = accepted_host_keys(access, order.start.host_keys)
        channel = _channel(order)
        # A login is never shared with others: a channel must have the same principal and the same secrets.
        key = (order.connection_id, order.user_id, channel.login, access)

        def make(first: SshTargetLogin | None) -> SshTargetLogin:
            if first is None:
                return SshTargetLogin(access, host_keys)
            return SshTargetLogin(access, host_keys.behind(first.host_key), first.lending)

        def check(login: SshTargetLogin) -> None:
            if not host_keys.takes(login.host_key):
                raise host_keys.refusal(access, login.host_key)

        place = PoolSlot(self._logins, key, make, check, order.timeout)
        try:
            with part("target.login", SpanKind.CLIENT):
                login = await place.take(program=channel.kind.is_program)
        except BaseException:
            place.release()
            raise
        start, timeout = order.start, order.timeout
        transport: FramedTransport
        if channel.kind is ChannelKind.LISTEN:
            transport = TargetListener(login, channel.what, timeout)
        else:
            transport = TargetChannel(login, place.next, channel, start.terminal, _environment(start), timeout)
        stream = StreamHandshake()
        transport.set_protocol(stream)
        stream.connection_made(transport)
        parameters = {"host_key": one_line(login.host_key)} if host_keys.first_use else {}
        return Target(stream, parameters, release=place.release)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: a channel ends with its stream."""


def _channel(order: Order) -> ChannelRequest:
    """Return the requested channel. Without one, it is a shell or runs the arguments, with a separate login. Raises
    Unavailable."""
    channel = order.start.channel
    if channel is None:
        what = shlex.join(order.start.arguments)
        return ChannelRequest(ChannelKind.EXEC if what else ChannelKind.SHELL, what, str(order.session_id))
    if channel.kind is not ChannelKind.SHELL and not channel.what:
        raise Unavailable(f"connection {order.connection!r}: the channel request is empty")
    try:
        if channel.kind is ChannelKind.FORWARD:
            address(channel.what)
        elif channel.kind is ChannelKind.LISTEN:
            read_what(channel.what)
    except ValueError:
        raise Unavailable(f"connection {order.connection!r}: the forwarding address is not host:port") from None
    return channel


def _environment(start: Start) -> Environment:
    """Return the client's variables, without any of this machine's. The server accepts those that it allows."""
    variables = [(name, value) for name, value in start.environment.items() if is_variable(name)]
    return {name.encode(): value.encode("utf-8", "surrogateescape") for name, value in variables}
