"""Settings of the server that change while it runs: its listeners, and the addresses that clients get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from postern.errors import Invalid
from postern.protocols.registry import PROTOCOLS

_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not bound to
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A TCP address to listen on; `host` is an IP address, `localhost`, or a name from the environment."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def is_everywhere(self) -> bool:
        return self.host in _EVERYWHERE

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


# What native clients speak on ports of their own, and what people call it.
NATIVE: Mapping[str, str] = {spec.name: spec.title for spec in PROTOCOLS.values() if spec.port_setting}
# Those of them that are off unless a port is set.
OFF_BY_DEFAULT = frozenset(spec.name for spec in PROTOCOLS.values() if spec.is_off_by_default)


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener. Port 0 means that none was set, so that it is off."""

    enabled: bool
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """`public_host` is the name that native clients are told, `api_url` where the API is, without `/api`; empty where
    the environment's hold. `listeners` has one for each of NATIVE."""

    listeners: Mapping[str, Listener]
    public_host: str = ""
    api_url: str = ""

    def client_host(self, protocol: str, default: str) -> str:
        """Return the host that native clients get; `default` is the environment's."""
        endpoint = self.listeners[protocol].endpoint
        if self.public_host:
            return self.public_host
        return default if endpoint.is_loopback or endpoint.is_everywhere else endpoint.host


def read_endpoint(text: str, field: str) -> Endpoint:
    """`host:port`, or `[host]:port` for IPv6; the port is 1 to 65535. Raises Invalid."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or not port.isascii() or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise Invalid(f"{field}: {text!r} is not host:port with a port from 1 to 65535", field=field)
    if host != "localhost":
        try:
            address = ip_address(host)
        except ValueError:
            raise Invalid(f"{field}: {host!r} is neither an IP address nor localhost", field=field) from None
        if (address.version == 6) is not bracketed or address.is_multicast:
            raise Invalid(
                f"{field}: {host!r} is not an address to listen on; IPv6 addresses have the form [::1]:7432",
                field=field,
            )
    return Endpoint(host, int(port))
