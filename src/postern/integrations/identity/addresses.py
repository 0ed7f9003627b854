"""Which addresses an identity provider may have, and whatever else is asked at an address that people set.

Whoever configures a provider chooses addresses that this server then talks to, and the provider's own documents name
more of them. None of these may reach what only this machine or its cloud can reach (server-side request forgery).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, urlsplit

from postern.errors import Invalid, Misconfigured, Unavailable

Address = IPv4Address | IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Services of clouds that answer to any process on a machine, outside of the link-local range: Alibaba, Azure, Oracle
# twice, AWS (with the credentials of EKS's pods), Google and Scaleway.
_METADATA = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:c1::a9fe:a9fe", "fd00:ec2::/32", "fd20:ce::254", "fd00:42::42"),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052


def networks_of(text: str, setting: str = "POSTERN_PROVIDER_NETWORKS") -> tuple[Network, ...]:
    """From a list with commas, such as `10.0.0.0/8, fd12::/16`. Raises Misconfigured."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise Misconfigured(f"{setting}: {text!r} is not a list of networks: {error}") from None


def is_loopback_host(host: str) -> bool:
    """By its name alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_url(url: str, *, loopback: bool) -> SplitResult:
    """`loopback`: whether addresses of this machine are fine, for which alone plain HTTP is. Raises Invalid."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Invalid("the address of the identity provider cannot be read; check how it is written") from None
    plain = parts.scheme == "http" and loopback and host is not None and is_loopback_host(host)
    if not host or (parts.scheme != "https" and not plain):
        raise Invalid("the address of an identity provider must begin with https:// (http:// on loopback only)")
    if parts.username or parts.password or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise Invalid("the address of an identity provider must have no user name, fragment, blank or odd character")
    return parts


def check_address(
    text: str,
    *,
    loopback: bool,
    allowed: tuple[Network, ...],
    what: str = "the identity provider",
    setting: str = "POSTERN_PROVIDER_NETWORKS",
) -> None:
    """`allowed` are private networks that are fine, and `setting` names them; `what` is at that address. Raises
    Unavailable."""
    address = _inner(ipaddress.ip_address(text.partition("%")[0]))
    if address.is_loopback:
        fine = loopback
    elif _is_special(address):
        fine = False
    else:
        fine = address.is_global or any(address in network for network in allowed)
    if not fine:
        raise Unavailable(
            f"{what} has the address {address}, which is not public; if it is meant to be in a private network, name "
            f"that network in {setting}"
        )


def check_host(host: str, found: Sequence[str], allowed: tuple[Network, ...], setting: str) -> None:
    """All addresses that were found for a host that is no identity provider's: loopback is as any private network,
    fine where `allowed` has it. Raises as `check_address`."""
    if not found:
        raise Unavailable(f"{host} has no address")
    for text in found:
        check_address(text, loopback=is_within(text, allowed), allowed=allowed, what=host, setting=setting)


def is_within(text: str, networks: tuple[Network, ...]) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    return any(address in network for network in networks)


def _is_special(address: Address) -> bool:
    """Whether it is nobody's that could be meant, or of a cloud's own services."""
    special = address.is_link_local or address.is_multicast or address.is_unspecified
    return special or any(address in network for network in _METADATA)


def _inner(address: Address) -> Address:
    """The IPv4 address inside of an IPv6 one, where there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address
