"""Commands as targets: a connection's command, run on the agent's machine with the connection's secrets in its
environment.

There is no shell in between, and no secret among the arguments. Of the agent's own environment only what every program
needs is passed on, because the rest can hold other secrets. The program starts after the gateway has evaluated its
arguments.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from postern.agent.agent_policy import LocalPolicy
from postern.agent.command_process import CommandProgram, CommandTransport, base_environment
from postern.agent.secrets import ResolvedSecrets
from postern.domain.targets.command import is_variable
from postern.errors import Unavailable
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

_MARK = "POSTERN_SESSION_ID"


class CommandTargets:
    """Starts commands. `environ` is the agent's own environment."""

    def __init__(self, policy: LocalPolicy, environ: Mapping[str, str]) -> None:
        self._policy = policy
        self._base = base_environment(environ)

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Start the command. Raises Denied by the policy, and Unavailable if the command is not installed."""
        self._policy.check_command(order.connection)
        environment = self._environment(order, secrets)
        if shutil.which(order.command[0], path=environment["PATH"]) is None:
            raise Unavailable(
                f"connection {order.connection!r}: its command {order.command[0]!r} does not exist on the "
                "agent's machine, or is not executable"
            )
        mark = f"{_MARK}={order.session_id}".encode()
        program = CommandProgram((*order.command, *order.start.arguments), environment, order.start.terminal, mark)
        stream = StreamHandshake()
        transport = CommandTransport(program)
        transport.set_protocol(stream)
        stream.connection_made(transport)
        return Target(stream)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: a command ends with its stream."""

    def _environment(self, order: Order, secrets: ResolvedSecrets) -> dict[str, str]:
        """Return the command's environment. The client's variables override only the defaults."""
        client_variables = {name: value for name, value in order.start.environment.items() if is_variable(name)}
        session_mark = {_MARK: str(order.session_id)}
        terminal = {} if order.start.terminal is None else {"TERM": order.start.terminal.kind}
        return self._base | terminal | client_variables | secrets.environment() | session_mark
