"""Choice of ports before anything starts, so that a port in use is a clear error and not a crash of a child process."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from dataclasses import replace

from postern.domain.server import Endpoint
from postern.errors import Conflict, Invalid, Misconfigured
from postern.settings import OPTIONAL_PORTS, PORTS, Settings

LOOPBACK = "127.0.0.1"


def settle(settings: Settings) -> Settings:
    """Return the settings with a free port instead of each 0, unless 0 turns a listener off. Raises Misconfigured with
    the setting's name when a port is in use or not allowed."""
    names = [name for name in PORTS if getattr(settings, name) or name not in OPTIONAL_PORTS]
    hosts = dict.fromkeys(names, settings.host)
    if settings.demo:
        hosts["demo_port"] = LOOPBACK
    with ExitStack() as stack:  # all stay bound until all are known, so that no free port is chosen twice
        ports = {name: _try(stack, host, getattr(settings, name), name) for name, host in hosts.items()}
    return replace(settings, **ports)  # type: ignore[arg-type]


def probe(endpoint: Endpoint, field: str) -> None:
    """Check that relay workers could listen at an endpoint; `field` is the field that names it. Raises Conflict when
    another program does, Invalid when this machine does not allow it or lacks the address.

    It binds as workers do, without listening, so that no client connects to it.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            tried.bind((endpoint.host, endpoint.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Conflict(f"{field}: {endpoint} is in use by another program", field=field) from None
            raise Invalid(f"{field}: cannot listen on {endpoint}: {error.strerror}", field=field) from None


def _try(sockets: ExitStack, host: str, port: int, name: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    probe = sockets.enter_context(socket.socket(family, socket.SOCK_STREAM))
    # As listeners do: connections of an earlier run in TIME_WAIT are no obstacle.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((host, port))
        probe.listen()
    except (OSError, OverflowError) as error:
        raise Misconfigured(_explain(host, port, name, error), field=name) from None
    return int(probe.getsockname()[1])


def _explain(host: str, port: int, name: str, error: OSError | OverflowError) -> str:
    choose = f"choose a different port with POSTERN_{name.upper()} or --{name.replace('_', '-')} (0 picks a free one)"
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"port {port} on {host} is in use by another program; stop that program, or {choose}"
        case errno.EACCES:
            return f"user {os.geteuid()} is not allowed to open port {port}; {choose}"
        case None:
            return f"{port} is not a port number; {choose}"
        case _:
            return f"{host}:{port} cannot be bound: {error}; check POSTERN_HOST, or {choose}"
