"""The address of a request's client, behind the proxies that the settings name."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def client_address(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the client's address. `forwarded` are the values of X-Forwarded-For, to which each proxy appends the
    address of its peer.

    Read from the end while the address is a trusted proxy's: strangers can have written what is further to the left.
    """
    address = _parse_address(peer)
    if address is None or not _is_trusted(address, trusted):
        return peer
    for text in reversed([part.strip() for value in forwarded for part in value.split(",")]):
        forwarder = _parse_address(text)
        if forwarder is None:
            break
        address = forwarder
        if not _is_trusted(address, trusted):
            break
    return str(address)


def _parse_address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in trusted)
