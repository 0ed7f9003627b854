"""TCP services as targets: a connection to HOST and PORT, with TLS from the first byte if SSLMODE asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import connect, port_of, required_secret, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.tracing import SpanKind, part
from postern.errors import Unavailable
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

# `prefer` is missing: without a protocol there is no offer of TLS that a target could decline.
SSL_MODES: Final = ("disable", "require", "verify-ca", "verify-full")


class TcpTargets:
    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Connect to the target. Raises Denied by the policy, Unavailable, ConnectionError."""
        env = secrets.values
        host = required_secret(order.connection, env, "HOST").reveal()
        required_secret(order.connection, env, "PORT")
        port, sslmode = port_of(order.connection, env, 0), _ssl_mode(order.connection, env)
        self._policy.check_target(host, port)
        context = tls_context(sslmode, text(env, "SSLROOTCERT"))
        stream = StreamHandshake(context, server_name=host, half_open=True)
        try:
            with part("target.connect", SpanKind.CLIENT):
                await connect(stream, host, port)
                if context is not None:
                    await stream.start_tls()
        except BaseException:
            stream.close()
            raise
        return Target(stream)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: what the target does ends with the connection."""


def _ssl_mode(connection: str, env: Mapping[str, Secret]) -> str:
    """Return the mode. Raises Unavailable."""
    mode = text(env, "SSLMODE") or "disable"
    if mode not in SSL_MODES:
        raise Unavailable(
            f"connection {connection!r}: secret SSLMODE must be one of {', '.join(SSL_MODES)} for a TCP service"
        )
    return mode
