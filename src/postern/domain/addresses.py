"""The rule for addresses that administrators set and this server contacts: repositories, trackers, sinks, chats,
identity providers.

None of them may lead to what only this machine, its network or its cloud can reach (server-side request forgery),
unless a setting of the machine names that network. The rule is applied twice: when an address is saved, if it is an IP
address, and to each resolved address before connecting. It does not cover what the machine's own environment names
(VAULT_ADDR, anchors, the blob store): its operator does.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from postern.errors import Invalid, Unavailable

Address = IPv4Address | IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class AllowedNetworks:
    """The private networks that one setting of this machine names, loopback included."""

    setting: str
    networks: tuple[Network, ...] = ()


# Services of clouds that answer to any process on a machine, outside of the link-local range: Alibaba, Azure, OCI
# twice, AWS (with the credentials of EKS's pods), Google and Scaleway.
_METADATA = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:c1::a9fe:a9fe", "fd00:ec2::/32", "fd20:ce::254", "fd00:42::42"),
    )
)
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata", "instance-data"})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052
_LOOPBACK = IPv4Address("127.0.0.1")


def parse_host(host: str) -> Address | None:
    """Return the IP address that a host is, as resolvers read it; None for a name.

    `0xa9fea9fe`, `2852039166`, `169.254.43518` and `::ffff:169.254.169.254` are 169.254.169.254, too.
    """
    if host.lower().rstrip(".") == "localhost":
        return _LOOPBACK
    try:
        return inner_address(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return _old_spelling(host)


def inner_address(address: Address) -> Address:
    """Return the IPv4 address inside of an IPv6 one, where there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address


def is_forbidden(host: str) -> bool:
    """Return whether the host is never allowed: link-local, unspecified, multicast, or a metadata service."""
    address = parse_host(host)
    return host.lower().rstrip(".") in _METADATA_NAMES if address is None else is_special(address)


def is_special(address: Address) -> bool:
    special = address.is_link_local or address.is_multicast or address.is_unspecified
    return special or any(address in network for network in _METADATA)


def is_within(text: str, networks: Sequence[Network]) -> bool:
    address = inner_address(ipaddress.ip_address(text.partition("%")[0]))
    return any(address in network for network in networks)


def may_ask(address: Address, allowed: Sequence[Network], *, loopback: bool = False) -> bool:
    """Return whether this server can contact `address`. `allowed` are networks from the machine's settings;
    `loopback` says that this machine is allowed."""
    address = inner_address(address)
    if is_special(address):
        return False
    if loopback and address.is_loopback:
        return True
    return (address.is_global and not address.is_loopback) or any(address in network for network in allowed)


def check_saved(
    host: str, allowed: Sequence[Network], setting: str, field: str, *, loopback: bool = False, private: bool = False
) -> None:
    """Check a host that is saved. A name is checked once it is resolved.

    `loopback`: this machine is allowed. `private`: only a network that the setting names is allowed, as for receivers
    without TLS. Raises Invalid.
    """
    address = parse_host(host)
    if is_forbidden(host):
        raise Invalid(f"{field}: {host!r} is a link-local or metadata address, which is never contacted", field=field)
    if address is not None and not may_ask(address, allowed, loopback=loopback):
        raise Invalid(
            f"{field}: {host!r} is not a public address; if it is meant to be in a private network, name that network "
            f"in {setting}",
            field=field,
        )
    if private and address is not None and not any(address in network for network in allowed):
        raise Invalid(
            f"{field}: {host!r} is not in a network that {setting} names; without TLS, events are sent only there",
            field=field,
        )


def check_resolved(
    what: str, addresses: Sequence[str], allowed: Sequence[Network], setting: str, *, loopback: bool = False
) -> None:
    """Check all resolved addresses of a host before connecting to one; `what` describes the service. Raises
    Unavailable."""
    if not addresses:
        raise Unavailable(f"{what} has no address")
    for text in addresses:
        address = inner_address(ipaddress.ip_address(text.partition("%")[0]))
        if not may_ask(address, allowed, loopback=loopback):
            raise Unavailable(
                f"{what} has the address {address}, which is not public; if it is meant to be in a private network, "
                f"name that network in {setting}"
            )


def _old_spelling(host: str) -> IPv4Address | None:
    """Parse the forms of inet_aton: one to four numbers, decimal, octal or hexadecimal; the last fills the rest."""
    pieces = host.rstrip(".").split(".")
    try:
        numbers = [_number(piece) for piece in pieces]
    except ValueError:
        return None
    room = 256 ** (5 - len(numbers))
    if len(numbers) > 4 or any(number > 255 for number in numbers[:-1]) or numbers[-1] >= room:
        return None
    value = sum(number << (24 - 8 * place) for place, number in enumerate(numbers[:-1])) + numbers[-1]
    return IPv4Address(value)


def _number(text: str) -> int:
    if not text.isascii() or not text.isalnum():
        raise ValueError(text)
    if text.lower().startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text.startswith("0") else int(text)
