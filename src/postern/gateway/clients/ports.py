"""Settles the ports before anything starts, so that one in use is a clear message and not a crash of a child."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from dataclasses import replace

from postern.domain.server import Endpoint
from postern.errors import Conflict, Invalid, Misconfigured
from postern.settings import PORTS, Settings

LOOPBACK = "127.0.0.1"


def settle(settings: Settings) -> Settings:
    """The same settings with a free port in place of each 0. Raises Misconfigured, naming the setting, when a port
    is in use or not allowed."""
    wanted = dict.fromkeys(PORTS, settings.host)
    if settings.demo:
        wanted["demo_port"] = LOOPBACK
    with ExitStack() as held:  # all held until all are known, so that no free port is picked twice
        found = {name: _try(held, host, getattr(settings, name), name) for name, host in wanted.items()}
    return replace(settings, **found)  # type: ignore[arg-type]


def probe(endpoint: Endpoint, field: str) -> None:
    """Whether relay workers could listen there now; `field` says what asks. Raises Conflict when another program does,
    Invalid when this machine does not allow it or has no such address.

    Bound as workers bind, and not listened on, so that no client ends up here.
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
            raise Invalid(f"{field}: {endpoint} cannot be listened on: {error.strerror}", field=field) from None


def _try(held: ExitStack, host: str, port: int, name: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    probe = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
    # As listeners do: connections of an earlier run that linger in TIME_WAIT are no obstacle.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((host, port))
        probe.listen()
    except (OSError, OverflowError) as error:
        raise Misconfigured(_explain(host, port, name, error), field=name) from None
    return int(probe.getsockname()[1])


def _explain(host: str, port: int, name: str, error: OSError | OverflowError) -> str:
    choose = f"choose another with POSTERN_{name.upper()} or --{name.replace('_', '-')} (0 picks a free one)"
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"port {port} on {host} is in use by another program; stop that, or {choose}"
        case errno.EACCES:
            return f"port {port} may not be opened by user {os.geteuid()}; {choose}"
        case None:
            return f"{port} is not a port; {choose}"
        case _:
            return f"{host}:{port} cannot be bound: {error}; check POSTERN_HOST, or {choose}"
