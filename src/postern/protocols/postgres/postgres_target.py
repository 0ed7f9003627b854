"""PostgreSQL targets: dialling, TLS and login, with credentials that only the agent has."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import address, connect, required_secret, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.tracing import SpanKind, part
from postern.protocols.postgres.login import postgres_login as login
from postern.protocols.postgres.wire import postgres_messages as messages
from postern.protocols.scram import KeyCache
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

PORT = 5432


class PostgresTargets:
    """Dials targets. Caches the keys that SCRAM derives from passwords, so that each is derived once."""

    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy
        self._keys = KeyCache()

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Dial and log in. Raises Denied, Unavailable, ConnectionError, or the target's login error."""
        env = secrets.values
        host, port, sslmode = self._address(order, env)
        requested_login = login.PostgresTargetLogin(
            required_secret(order.connection, env, "USER").reveal(),
            env.get("PASS", Secret("")),
            order.start.database or text(env, "DB") or text(env, "USER"),
            sslmode,
            order.start.parameters,
            self._keys,
        )
        stream = StreamHandshake(tls_context(sslmode, text(env, "SSLROOTCERT")), server_name=host)
        try:
            with part("target.connect", SpanKind.CLIENT):
                await connect(stream, host, port)
            with part("target.login", SpanKind.CLIENT):
                greeting = await login.connect(stream, requested_login)
        except BaseException:
            stream.close()
            raise
        return Target(stream, greeting.parameters, greeting.pid, greeting.key)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        env = secrets.values
        host, port, sslmode = self._address(order, env)
        stream = StreamHandshake(tls_context(sslmode, text(env, "SSLROOTCERT")), server_name=host)
        await connect(stream, host, port)
        try:
            await login.encrypt(stream, sslmode)
            stream.write(messages.cancel_request(process, key))
            with contextlib.suppress(ConnectionError):
                await stream.read(1)  # the target closes after it has passed the signal on
        finally:
            stream.close()

    def _address(self, order: Order, env: Mapping[str, Secret]) -> tuple[str, int, str]:
        host, port, sslmode = address(order.connection, env, port=PORT)
        self._policy.check_target(host, port)
        return host, port, sslmode
