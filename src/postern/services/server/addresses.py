"""Which addresses that people set are taken at all: HTTPS, and never the cloud's own metadata service.

What is asked here is asked again of the resolved address by whoever makes the request: a name can lead anywhere.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from postern.errors import Invalid

MAX_URL = 2_000
_NAT64 = ip_network("64:ff9b::/96")
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata", "instance-data"})
# Of clouds that keep them outside the link-local range: Alibaba, AWS by IPv6, Oracle's older one.
_METADATA_ADDRESSES = frozenset(map(ip_address, ("100.100.100.200", "fd00:ec2::254", "192.0.0.192")))


def checked_url(given: str, field: str, what: str) -> str:
    """An HTTPS URL, or an HTTP one on loopback, without user name and fragment; `what` is to be there. Raises
    Invalid."""
    try:
        parts = urlsplit(given)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{field}: is not a URL", field=field) from None
    if not host or len(given) > MAX_URL or any(ord(character) <= 32 or character == "\\" for character in given):
        raise Invalid(f"{field}: is not a URL", field=field)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid(f"{field}: must have neither user name nor fragment", field=field)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise Invalid(f"{field}: must begin with https:// (http:// is for loopback only)", field=field)
    if is_forbidden(host):
        raise Invalid(f"{field}: {host!r} is a link-local or metadata address, where no {what} is", field=field)
    return given


def is_loopback(host: str) -> bool:
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_forbidden(host: str) -> bool:
    """Link-local, unspecified, multicast, and metadata services; `host` is a name or an address in any spelling."""
    address = _address(host)
    if address is None:
        return host.lower().rstrip(".") in _METADATA_NAMES
    return address.is_link_local or address.is_unspecified or address.is_multicast or address in _METADATA_ADDRESSES


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """As resolvers read it: `0xa9fea9fe`, `2852039166` and `169.254.43518` are 169.254.169.254, too."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return _old_spelling(host)
    return found if isinstance(found, IPv4Address) else found.ipv4_mapped or found.sixtofour or _translated(found)


def _translated(address: IPv6Address) -> IPv4Address | IPv6Address:
    """What a NAT64 gateway makes of it (RFC 6052)."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address


def _old_spelling(host: str) -> IPv4Address | None:
    """The forms of inet_aton: one to four numbers, decimal, octal or hexadecimal; the last fills what is left."""
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
