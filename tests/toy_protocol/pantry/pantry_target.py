"""Targets: dialled and logged in to, with the credentials that only the agent holds."""

from __future__ import annotations

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import address, connect, required_secret, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.protocols.pantry.pantry_login import log_in
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

PORT = 7070


class PantryTargets:
    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Raises Denied, Unavailable, ConnectionError, or what the login raises."""
        env = secrets.values
        host, port, sslmode = address(order.connection, env, port=PORT)
        self._policy.check_target(host, port)
        stream = StreamHandshake(tls_context(sslmode, text(env, "SSLROOTCERT")), server_name=host)
        try:
            await connect(stream, host, port)
            user = required_secret(order.connection, env, "USER").reveal()
            await log_in(stream, user, env.get("PASS", Secret("")), sslmode)
        except BaseException:
            stream.close()
            raise
        return Target(stream)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Nothing: a request ends with its stream, see `has_cancel`."""
