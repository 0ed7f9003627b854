"""URLs of identity providers, and networks in this machine's settings. domain/addresses.py has the rule for allowed
addresses."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from postern.domain.addresses import Network, parse_host
from postern.errors import Invalid, Misconfigured


def networks_of(text: str, setting: str = "POSTERN_PROVIDER_NETWORKS") -> tuple[Network, ...]:
    """Parse a comma-separated list, such as `10.0.0.0/8, fd12::/16`. Raises Misconfigured."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise Misconfigured(f"{setting}: {text!r} is not a list of networks: {error}") from None


def is_loopback_host(host: str) -> bool:
    """Return True for loopback, by its name alone."""
    address = parse_host(host)
    return address is not None and address.is_loopback


def checked_url(url: str, *, loopback: bool) -> SplitResult:
    """Check a URL. `loopback`: addresses of this machine are allowed, and plain HTTP for those only. Raises Invalid."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Invalid("the address of the identity provider is not a valid URL") from None
    plain = parts.scheme == "http" and loopback and host is not None and is_loopback_host(host)
    if not host or (parts.scheme != "https" and not plain):
        raise Invalid("the address of an identity provider must begin with https:// (http:// on loopback only)")
    if parts.username or parts.password or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise Invalid("the address of an identity provider must have no user, fragment, space or non-ASCII character")
    return parts
