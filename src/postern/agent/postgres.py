"""PostgreSQL targets: dialled, spoken TLS with, and logged in to, with the credentials that only the agent holds."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Mapping

from postern.agent.policy import LocalPolicy
from postern.agent.secrets import Resolved
from postern.domain.secret import Secret
from postern.domain.tracing import SpanKind, part
from postern.errors import Unavailable
from postern.protocols.postgres import login, messages
from postern.protocols.postgres.scram import KeyCache
from postern.relay.handshake import StreamHandshake
from postern.relay.orders import Order
from postern.relay.target import Target

SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")


class PostgresTargets:
    """Keeps the keys that SCRAM derives from passwords, so that each is derived once."""

    def __init__(self, policy: LocalPolicy) -> None:
        self._policy = policy
        self._keys = KeyCache()

    async def dial(self, order: Order, secrets: Resolved) -> Target:
        """Raises Denied, Unavailable, ConnectionError, or what the target says of the login."""
        env = secrets.values
        host, port, sslmode = self._address(order, env)
        asked = login.TargetLogin(
            _required(order.connection, env, "USER").reveal(),
            env.get("PASS", Secret("")),
            order.start.database or _text(env, "DB") or _text(env, "USER"),
            sslmode,
            order.start.parameters,
            self._keys,
        )
        stream = StreamHandshake(tls_context(sslmode, _text(env, "SSLROOTCERT")), server_name=host)
        try:
            with part("target.connect", SpanKind.CLIENT):
                await connect(stream, host, port)
            with part("target.login", SpanKind.CLIENT):
                greeting = await login.connect(stream, asked)
        except BaseException:
            stream.close()
            raise
        return Target(stream, greeting.parameters, greeting.pid, greeting.key)

    async def cancel(self, order: Order, secrets: Resolved, process: int, key: bytes) -> None:
        env = secrets.values
        host, port, sslmode = self._address(order, env)
        stream = StreamHandshake(tls_context(sslmode, _text(env, "SSLROOTCERT")), server_name=host)
        await connect(stream, host, port)
        try:
            await login.encrypt(stream, sslmode)
            stream.write(messages.cancel_request(process, key))
            with contextlib.suppress(ConnectionError):
                await stream.read(1)  # the target closes once it has passed the signal on
        finally:
            stream.close()

    def _address(self, order: Order, env: Mapping[str, Secret]) -> tuple[str, int, str]:
        host, port, sslmode = _address(order.connection, env)
        self._policy.check_target(host, port)
        return host, port, sslmode


async def connect(stream: StreamHandshake, host: str, port: int) -> None:
    """Raises Unavailable."""
    try:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: stream, host, port)
    except OSError as error:
        raise Unavailable(f"the target at {host}:{port} cannot be reached: {error.strerror or error}") from error
    connected = transport.get_extra_info("socket")
    if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
        _notice_death(connected)


def _notice_death(connected: socket.socket) -> None:
    """A target that vanished without a word is noticed within ten seconds, idle or with data in flight."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 2), ("TCP_USER_TIMEOUT", 9000)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@functools.lru_cache(maxsize=256)
def tls_context(sslmode: str, root: str) -> ssl.SSLContext | None:
    """As libpq: `require` encrypts without verification, `verify-ca` checks the chain, `verify-full` the name too."""
    if sslmode == "disable":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = sslmode == "verify-full"
    if sslmode in ("prefer", "require"):
        context.verify_mode = ssl.CERT_NONE
    elif root:
        context.load_verify_locations(cadata=root)
    else:
        context.load_default_certs()
    return context


def _address(connection: str, env: Mapping[str, Secret]) -> tuple[str, int, str]:
    host = _required(connection, env, "HOST").reveal()
    port = _text(env, "PORT") or "5432"
    sslmode = _text(env, "SSLMODE") or "prefer"
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise Unavailable(f"connection {connection!r}: secret PORT is not a port number")
    if sslmode not in SSL_MODES:
        raise Unavailable(f"connection {connection!r}: secret SSLMODE must be one of {', '.join(SSL_MODES)}")
    return host, int(port), sslmode


def _required(connection: str, env: Mapping[str, Secret], name: str) -> Secret:
    value = env.get(name)
    if not value:
        raise Unavailable(f"connection {connection!r} has no secret 'envvar:{name}'; an administrator must set it")
    return value


def _text(env: Mapping[str, Secret], name: str) -> str:
    value = env.get(name)
    return value.reveal() if value else ""
