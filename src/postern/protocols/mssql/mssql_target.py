"""SQL Server targets: dialling, TLS and login, with credentials that only the agent has."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import address, connect, required_secret, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.tracing import SpanKind, part
from postern.errors import Unavailable
from postern.protocols.mssql.login import mssql_login as login
from postern.protocols.mssql.login.mssql_login7 import MssqlClientOptions
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

PORT: Final = 1433
STRICT: Final = "strict"  # of ENCRYPT: TDS 8.0
MAX_ROUTES: Final = 4  # servers that route to another one; a hostile one could do so forever


class MssqlTargets:
    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Dial and log in, at the server that the target routes to. Raises Denied, Unavailable, ConnectionError, or the
        target's login error."""
        env = secrets.values
        host, port, sslmode = address(order.connection, env, port=PORT)
        strict = _is_strict(order.connection, env)
        requested = login.MssqlTargetLogin(
            required_secret(order.connection, env, "USER").reveal(),
            env.get("PASS", Secret("")),
            order.start.database or text(env, "DB"),
            (sslmode if text(env, "SSLMODE") else "verify-full") if strict else sslmode,
            host,
            MssqlClientOptions.read(order.start.parameters),
            strict,
        )
        for _ in range(MAX_ROUTES):
            stream, greeting = await self._login(host, port, requested, env)
            if greeting.routed_to is None:
                return Target(stream, _parameters(greeting) | {"own_database": text(env, "DB")})
            stream.close()
            host, port = _read_route(greeting.routed_to)
        raise Unavailable(f"the target routes to another server, and that again, more than {MAX_ROUTES} times")

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: requests are cancelled on the connection itself."""

    async def _login(
        self, host: str, port: int, requested: login.MssqlTargetLogin, env: Mapping[str, Secret]
    ) -> tuple[StreamHandshake, login.MssqlTargetGreeting]:
        self._policy.check_target(host, port)
        # With `disable`, the password is encrypted all the same, by whatever certificate the target has.
        sslmode = "require" if requested.sslmode == "disable" else requested.sslmode
        if requested.strict:
            context = tls_context(sslmode, text(env, "SSLROOTCERT"), (login.ALPN,))
        else:
            context = tls_context(sslmode, text(env, "SSLROOTCERT"), newest=ssl.TLSVersion.TLSv1_2)
        stream = StreamHandshake(context, server_name=host)
        try:
            with part("target.connect", SpanKind.CLIENT):
                await connect(stream, host, port)
            with part("target.login", SpanKind.CLIENT):
                return stream, await login.connect(stream, requested)
        except BaseException:
            stream.close()
            raise


def _is_strict(connection: str, env: Mapping[str, Secret]) -> bool:
    """Return whether the target is reached by TDS 8.0, which always verifies certificates. Raises Unavailable."""
    encrypt = text(env, "ENCRYPT").lower()
    if encrypt not in ("", STRICT):
        raise Unavailable(f"connection {connection!r}: secret ENCRYPT must be {STRICT}, or missing")
    if encrypt and text(env, "SSLMODE") not in ("", "verify-ca", "verify-full"):
        raise Unavailable(
            f"connection {connection!r}: ENCRYPT={STRICT} needs SSLMODE verify-full (or verify-ca); set it"
        )
    return bool(encrypt)


def _parameters(greeting: login.MssqlTargetGreeting) -> dict[str, str]:
    return {
        "version": ".".join([str(number) for number in greeting.program_version]),
        "program": greeting.program,
        "tds_version": str(greeting.version),
        "packet_size": str(greeting.packet_size),
        "login_tokens": greeting.tokens.hex(),
    }


def _read_route(address: tuple[str, int]) -> tuple[str, int]:
    """Return the address that a target names. Azure's can have an instance behind a backslash."""
    host, port = address
    return host.partition("\\")[0], port or PORT
