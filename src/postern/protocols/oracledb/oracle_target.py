"""Oracle Database targets: dialling, encryption, redirects and login, with credentials that only the agent has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import address, connect, required_secret, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.tracing import SpanKind, part
from postern.errors import Unavailable
from postern.protocols.oracledb.login import oracle_login as login
from postern.protocols.oracledb.login.oracle_start import DatabaseName, OracleStart, target_parameters
from postern.protocols.oracledb.native_encryption.native_algorithms import NativeMode
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

PORT: Final = 1521
TLS_PORT: Final = 2484  # registered for TCPS
MAX_REDIRECTS: Final = 4  # listeners that name another one; a hostile one could do so forever


class OracleTargets:
    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Dial and log in, at the listener that the target redirects to. Raises Denied, Unavailable, ConnectionError,
        or the target's login error."""
        env = secrets.values
        host, port, sslmode = address(order.connection, env, port=PORT)
        begun = OracleStart.read(order.start.parameters)
        own = DatabaseName(text(env, "DB"), text(env, "SID"))
        named = _database(order, own)
        requested = login.OracleTargetLogin(
            host,
            port,
            required_secret(order.connection, env, "USER").reveal(),
            env.get("PASS", Secret("")),
            service=named.service,
            sid=named.sid,
            encrypted=_is_encrypted(sslmode, port),
            types=begun.types,
            sdu=begun.sdu,
            attributes=begun.attributes,
            alter_session=begun.alter_session,
            native=_native_mode(order, env),
        )
        for _ in range(MAX_REDIRECTS):
            try:
                stream, greeting = await self._login(requested, sslmode, env)
            except login.OracleRedirect as redirect:
                requested = _follow_redirect(requested, redirect)
                continue
            parameters = target_parameters(greeting)
            return Target(stream, parameters | {"own_service": own.service, "own_sid": own.sid})
        raise Unavailable(f"the target redirects to another listener, and that again, more than {MAX_REDIRECTS} times")

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: calls are cancelled on the connection itself."""

    async def _login(
        self, requested: login.OracleTargetLogin, sslmode: str, env: Mapping[str, Secret]
    ) -> tuple[StreamHandshake, login.OracleTargetGreeting]:
        host, port = requested.host, requested.port
        self._policy.check_target(host, port)
        context = tls_context(sslmode, text(env, "SSLROOTCERT")) if requested.encrypted else None
        stream = StreamHandshake(context, server_name=host)
        try:
            with part("target.connect", SpanKind.CLIENT):
                await connect(stream, host, port)
            with part("target.login", SpanKind.CLIENT):
                return stream, await login.connect(stream, requested)
        except BaseException:
            stream.close()
            raise


def _database(order: Order, own: DatabaseName) -> DatabaseName:
    """Return the database to log in to: what the client names, else what the connection names. Raises Unavailable if
    there is neither."""
    named = DatabaseName.read(order.start.database)
    if named.service and named.service.lower() == own.sid.lower():
        return DatabaseName(sid=named.service)
    if named != DatabaseName():
        return named
    if own == DatabaseName():
        raise Unavailable(
            f"connection {order.connection!r} has no secret 'envvar:DB' with the name of the service, nor "
            "'envvar:SID'; an administrator must set one"
        )
    return DatabaseName(own.service) if own.service else own


def _native_mode(order: Order, env: Mapping[str, Secret]) -> NativeMode:
    """Return how native encryption is used. Raises Unavailable."""
    name = text(env, "NATIVE_ENCRYPTION") or NativeMode.PREFER
    try:
        return NativeMode(name)
    except ValueError:
        raise Unavailable(
            f"connection {order.connection!r}: secret NATIVE_ENCRYPTION must be one of {', '.join(NativeMode)}"
        ) from None


def _is_encrypted(sslmode: str, port: int) -> bool:
    """Return whether to use TLS. Oracle Net cannot negotiate it: a port is one for TCP, or one for TCPS."""
    return port == TLS_PORT if sslmode == "prefer" else sslmode != "disable"


def _follow_redirect(requested: login.OracleTargetLogin, redirect: login.OracleRedirect) -> login.OracleTargetLogin:
    """Return the login at the listener that a redirect names. Raises Unavailable if it would change the encryption."""
    named = redirect.address
    if requested.encrypted and not named.encrypted:
        raise Unavailable(f"the target redirects to {named.host}:{named.port}, which does not use TLS (TCPS)")
    if named.encrypted and not requested.encrypted:
        raise Unavailable(
            f"the target redirects to {named.host}:{named.port}, which uses TLS (TCPS); set SSLMODE to verify-full"
        )
    return replace(requested, host=named.host, port=named.port, descriptor=named.connect_data)
