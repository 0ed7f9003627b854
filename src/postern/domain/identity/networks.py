"""Networks from which something is allowed, as CIDR texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from postern.errors import Invalid

MAX_NETWORKS = 100
_FIELD = "allowed_networks"

_parse_network = lru_cache(4_096)(ip_network)


def contains(networks: Collection[str], address: str) -> bool:
    """Return whether an address is in one of the networks; False for one that cannot be parsed."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    client = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(client in _parse_network(network) for network in networks)


def check_networks(networks: Sequence[str]) -> tuple[str, ...]:
    """Return each network once, in its standard form. Raises Invalid."""
    if len(networks) > MAX_NETWORKS:
        raise Invalid(f"{_FIELD}: at most {MAX_NETWORKS}", field=_FIELD)
    return tuple(dict.fromkeys(_check_network(text) for text in networks))


def _check_network(text: str) -> str:
    try:
        network: IPv4Network | IPv6Network = ip_network(text)
    except ValueError:
        raise Invalid(
            f"{_FIELD}: {text!r} is not a network such as 192.0.2.0/24 or 2001:db8::/32", field=_FIELD
        ) from None
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise Invalid(f"{_FIELD}: {text!r} is an IPv4 network in IPv6 form; write it as IPv4", field=_FIELD)
    return str(network)
