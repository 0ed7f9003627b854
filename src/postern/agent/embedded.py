"""The embedded agent: runs orders in the gateway's own process, without a tunnel."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from postern.agent.agent_policy import ANYTHING, NO_COMMANDS
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import Resolver
from postern.agent.target_dialer import TargetDialer
from postern.domain.hook import HookOutcome
from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import TERMINAL, Connection
from postern.errors import Denied
from postern.integrations.secrets.sources import Sources
from postern.relay.orders import Order
from postern.relay.relay_hooks import Hook, build_hook_order
from postern.relay.relay_target import Start, Target


class EmbeddedAgent:
    """The agent of the gateway's own process; implements `relay.relay_target.Dialer`.

    `sources` resolve references, for connections of the organisation `owner` only, because other organisations must not
    reach this machine's secrets or run commands here. Its own connections can run commands if `commands` is set.
    `environ` is this process's environment, of which commands get what every program needs.
    """

    def __init__(
        self,
        sources: Sources,
        files: SecretFiles,
        *,
        timeout: float,
        owner: UUID | None,
        environ: Mapping[str, str] | None = None,
        commands: bool = False,
    ) -> None:
        self._own = TargetDialer(Resolver(sources, files), ANYTHING if commands else NO_COMMANDS, environ)
        self._others = TargetDialer(Resolver(None, files), NO_COMMANDS)
        self._owner = owner
        self._timeout = timeout
        self._commands = commands

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        connection = permit.connection
        if connection.protocol == TERMINAL and not self._runs_programs(connection):
            raise Denied(self._refusal(connection, "runs a command"))
        return await self._reach(permit).dial(Order.of(permit, start, session_id, self._timeout))

    async def hook(self, permit: Permit, session_id: UUID, hook: Hook) -> HookOutcome:
        """Run a hook, if commands are allowed, too. Raises Denied, Unavailable."""
        connection = permit.connection
        if not self._runs_programs(connection):
            raise Denied(self._refusal(connection, "has a session hook"))
        return await self._own.hook(build_hook_order(permit, session_id, self._timeout), hook)

    def _runs_programs(self, connection: Connection) -> bool:
        return self._commands and connection.org_id == self._owner

    def _refusal(self, connection: Connection, what: str) -> str:
        text = (
            f"connection {connection.name!r} {what}; the built-in agent runs no commands or hooks, because they could "
            "read the gateway's keys. An administrator can give the connection another agent: `postern admin agents "
            f"create`, then `postern connections update {connection.name} --agent NAME`"
        )
        if connection.org_id != self._owner:
            return text
        return f"{text}; or, if you are the only user of this gateway, start it with POSTERN_GATEWAY_COMMANDS=true"

    async def cancel(self, permit: Permit, target: Target) -> None:
        order = Order.of(permit, Start(), UUID(int=0), self._timeout)
        await self._reach(permit).cancel(order, target.process, target.key)

    def _reach(self, permit: Permit) -> TargetDialer:
        return self._own if permit.connection.org_id == self._owner else self._others
