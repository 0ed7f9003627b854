"""Rules for addresses that users set: HTTPS, and never the cloud's metadata service.

The client that makes the request checks the resolved address again, since a name can resolve to anything.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from postern.domain.addresses import is_forbidden, parse_host
from postern.errors import Invalid

MAX_URL = 2_000


def checked_url(url: str, field: str, what: str) -> str:
    """Return an HTTPS URL, or an HTTP one on loopback, without user name and fragment. Raises Invalid.

    `what` describes the service there, for the error.
    """
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{field}: is not a URL", field=field) from None
    if not host or len(url) > MAX_URL or any(ord(character) <= 32 or character == "\\" for character in url):
        raise Invalid(f"{field}: is not a URL", field=field)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid(f"{field}: must have neither user name nor fragment", field=field)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise Invalid(f"{field}: must begin with https:// (http:// is for loopback only)", field=field)
    if is_forbidden(host):
        raise Invalid(
            f"{field}: {host!r} is a link-local or metadata address, which is not allowed for the {what}",
            field=field,
        )
    return url


def is_loopback(host: str) -> bool:
    address = parse_host(host)
    return address is not None and address.is_loopback
