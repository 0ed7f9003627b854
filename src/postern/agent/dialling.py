"""The common part of all targets on a TCP port: address, dialling and TLS."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Mapping

from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.protocols.protocol_database_uri import SSL_MODES
from postern.relay.relay_handshake import StreamHandshake


async def connect(stream: StreamHandshake, host: str, port: int) -> None:
    """Connect to the target. Raises Unavailable."""
    try:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: stream, host, port)
    except OSError as error:
        raise Unavailable(f"the target at {host}:{port} cannot be reached: {error.strerror or error}") from error
    connected = transport.get_extra_info("socket")
    if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
        notice_death(connected)


def notice_death(connected: socket.socket) -> None:
    """Set keepalives, so that a vanished target is noticed within ten seconds, idle or with data in flight."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 2), ("TCP_USER_TIMEOUT", 9000)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@functools.lru_cache(maxsize=256)
def tls_context(
    sslmode: str, root: str, offered: tuple[str, ...] = (), newest: ssl.TLSVersion | None = None
) -> ssl.SSLContext | None:
    """Return the TLS context, as in libpq: `require` encrypts without verification, `verify-ca` checks the chain,
    `verify-full` the name too. `offered` are protocols for ALPN, best first. `newest` is the newest version of TLS that
    is used, if it is not the newest of all."""
    if sslmode == "disable":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if newest is not None:
        context.maximum_version = newest
    context.check_hostname = sslmode == "verify-full"
    if offered:
        context.set_alpn_protocols(list(offered))
    if sslmode in ("prefer", "require"):
        context.verify_mode = ssl.CERT_NONE
    elif root:
        context.load_verify_locations(cadata=root)
    else:
        context.load_default_certs()
    return context


def address(connection: str, env: Mapping[str, Secret], *, port: int) -> tuple[str, int, str]:
    """Return (host, port, sslmode) from the secrets of a connection; `port` is the default port. Raises Unavailable."""
    host = required_secret(connection, env, "HOST").reveal()
    number = port_of(connection, env, port)
    sslmode = text(env, "SSLMODE") or "prefer"
    if sslmode not in SSL_MODES:
        raise Unavailable(f"connection {connection!r}: secret SSLMODE must be one of {', '.join(SSL_MODES)}")
    return host, number, sslmode


def port_of(connection: str, env: Mapping[str, Secret], default: int) -> int:
    """Return the port. Raises Unavailable."""
    port = text(env, "PORT") or str(default)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise Unavailable(f"connection {connection!r}: secret PORT is not a port number")
    return int(port)


def required_secret(connection: str, env: Mapping[str, Secret], name: str) -> Secret:
    """Return a secret that must be set. Raises Unavailable."""
    value = env.get(name)
    if not value:
        raise Unavailable(f"connection {connection!r} has no secret 'envvar:{name}'; an administrator must set it")
    return value


def text(env: Mapping[str, Secret], name: str) -> str:
    """Return a secret as text; empty if there is none."""
    value = env.get(name)
    return value.reveal() if value else ""
