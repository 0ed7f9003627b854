"""Servers as targets: each dial is one channel, and channels of one client share one login."""

from __future__ import annotations

import shlex

from postern.agent.agent_policy import LocalPolicy
from postern.agent.secrets import Resolved
from postern.domain.targets.command import is_variable
from postern.domain.tracing import SpanKind, part
from postern.errors import Unavailable
from postern.protocols.ssh.ssh_listening import read_what
from postern.protocols.ssh.target import ssh_access as settings
from postern.protocols.ssh.target.ssh_connection_pool import PoolSlot, SshConnectionPool
from postern.protocols.ssh.target.ssh_target_channel import TargetChannel
from postern.protocols.ssh.target.ssh_target_host_keys import believed, one_line
from postern.protocols.ssh.target.ssh_target_listening import TargetListener
from postern.protocols.ssh.target.ssh_target_login import Environment, SshTargetLogin, address
from postern.protocols.terminal.terminal_target import FramedTransport
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start, Target


class SshTargets:
    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy
        self._logins = SshConnectionPool()

    async def dial(self, order: Order, secrets: Resolved) -> Target:
        """Raises Denied by the policy, Unavailable, or what the server says of the login."""
        access = settings.read(order, secrets.values)
        self._policy.check_target(access.host, access.port)
        if access.agent:
            self._policy.check_ssh_agent(access.agent)
        host_keys = believed(access, order.start.host_keys)
        channel = _channel(order)
        # Nobody rides on the login of another: who names it must be who began it, with the same secrets.
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

    async def cancel(self, order: Order, secrets: Resolved, process: int, key: bytes) -> None:
        """A channel ends with its stream."""


def _channel(order: Order) -> ChannelRequest:
    """Who asks for none gets a shell, or runs the arguments, with a login of its own. Raises Unavailable."""
    channel = order.start.channel
    if channel is None:
        what = shlex.join(order.start.arguments)
        return ChannelRequest(ChannelKind.EXEC if what else ChannelKind.SHELL, what, str(order.session_id))
    if channel.kind is not ChannelKind.SHELL and not channel.what:
        raise Unavailable(f"connection {order.connection!r}: a channel for nothing cannot be opened")
    try:
        if channel.kind is ChannelKind.FORWARD:
            address(channel.what)
        elif channel.kind is ChannelKind.LISTEN:
            read_what(channel.what)
    except ValueError:
        raise Unavailable(f"connection {order.connection!r}: what is forwarded is no host:port") from None
    return channel


def _environment(start: Start) -> Environment:
    """What the client sent, and nothing of this machine's; the server takes what it wants to."""
    found = [(name, value) for name, value in start.environment.items() if is_variable(name)]
    return {name.encode(): value.encode("utf-8", "surrogateescape") for name, value in found}
