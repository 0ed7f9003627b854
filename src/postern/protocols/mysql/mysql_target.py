"""MySQL and MariaDB targets: dialling, TLS and login, with credentials that only the agent has."""

from __future__ import annotations

from collections.abc import Mapping

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import address, connect, required_secret, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.tracing import SpanKind, part
from postern.protocols.mysql.login import mysql_login as login
from postern.protocols.mysql.login.mysql_client_options import ClientOptions
from postern.protocols.mysql.queries.mysql_query import MysqlQuery
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

PORT = 3306


class MysqlTargets:
    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Dial and log in. Raises Denied, Unavailable, ConnectionError, or the target's login error."""
        env = secrets.values
        database = order.start.database or text(env, "DB") or None
        stream, greeting = await self._login(order, env, ClientOptions.read(order.start.parameters), database)
        parameters = {
            "version": greeting.version,
            "status": str(greeting.status),
            "mariadb": "yes" if greeting.is_mariadb else "no",
            "extended_metadata": "yes" if greeting.extended else "no",
        }
        return Target(stream, parameters, greeting.thread)

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Cancel by a separate login, the protocol's only way. `key` is unused."""
        stream, _ = await self._login(order, secrets.values, ClientOptions(), None)
        try:
            query = MysqlQuery(f"kill query {process:d}")
            stream.write(query.start())
            while not query.finished:
                query.feed(await stream.read(query.needs))
        finally:
            stream.close()

    async def _login(
        self, order: Order, env: Mapping[str, Secret], chosen: ClientOptions, database: str | None
    ) -> tuple[StreamHandshake, login.MysqlTargetGreeting]:
        host, port, sslmode = address(order.connection, env, port=PORT)
        self._policy.check_target(host, port)
        requested_login = login.MysqlTargetLogin(
            required_secret(order.connection, env, "USER").reveal(),
            env.get("PASS", Secret("")),
            database,
            sslmode,
            chosen.capabilities,
            chosen.collation,
            chosen.attributes,
        )
        stream = StreamHandshake(tls_context(sslmode, text(env, "SSLROOTCERT")), server_name=host)
        try:
            with part("target.connect", SpanKind.CLIENT):
                await connect(stream, host, port)
            with part("target.login", SpanKind.CLIENT):
                return stream, await login.connect(stream, requested_login)
        except BaseException:
            stream.close()
            raise
