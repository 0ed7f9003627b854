"""What is allowed in a head, whichever version of HTTP carries it: names, values, methods, targets, authorities.

Readers of both versions refuse what is not allowed here, and writers never write it.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import mypyc_attr

from postern.errors import ProtocolViolation
from postern.protocols.http.http_heads import HOP_BY_HOP, Headers

TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
METHOD: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
# A host name (underscores are used inside companies), an IPv4 or an IPv6 address; then a port.
AUTHORITY: Final = re.compile(r"(?:[0-9A-Za-z._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"/[!\"$-~]*")  # visible ASCII characters besides #, which begins a fragment
_ABSOLUTE: Final = re.compile(r"https?://([^/?#]*)([/?].*)?", re.IGNORECASE)
# A path with `%` that does not begin two hexadecimal digits, or with an encoded NUL.
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")

UPGRADE: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}(?:/[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64})?")

# Deleted from a value, they leave nothing of a valid one: tab, visible ASCII, space, and bytes beyond ASCII.
VALUE_BYTES: Final = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))

# CONNECT makes a tunnel of the connection. TRACE returns the request, with the credential that the agent adds.
REFUSED_METHODS: Final = frozenset({"CONNECT", "TRACE", "TRACK"})

# Trailers that would change how a message is framed, routed, authenticated or processed (RFC 9110, 6.5.1).
FORBIDDEN_TRAILERS: Final = HOP_BY_HOP | {
    *(b"content-length", b"host", b"cache-control", b"expect", b"max-forwards", b"pragma", b"range", b"if-match"),
    *(b"if-none-match", b"if-modified-since", b"if-unmodified-since", b"if-range", b"authorization", b"set-cookie"),
    *(b"cookie", b"www-authenticate", b"age", b"expires", b"date", b"location", b"retry-after", b"vary", b"warning"),
    *(b"content-encoding", b"content-type", b"content-range", b"postern-authorization", b"x-amz-security-token"),
}


@mypyc_attr(allow_interpreted_subclasses=True)
class HttpSyntaxError(ProtocolViolation):
    """A message that is not valid HTTP, or exceeds a limit. `status` is what to answer: of a request 4xx or 5xx, of a
    response 502. The connection is not usable any more: close it after the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def allowed_trailers(trailers: Headers) -> Headers:
    """Return the trailers that may be forwarded."""
    return tuple(pair for pair in trailers if pair[0] not in FORBIDDEN_TRAILERS)


def check_method(method: str) -> None:
    """Raises HttpSyntaxError for a method that is not one, or that no target may get."""
    if METHOD.fullmatch(method) is None:
        raise HttpSyntaxError(400, "the request's method is not a token")
    if method in REFUSED_METHODS:
        raise HttpSyntaxError(405, f"the method {method} is not supported")


def check_authority(authority: str) -> str:
    """Return a host and port in lower case. Raises HttpSyntaxError."""
    match = AUTHORITY.fullmatch(authority)
    if match is None or int(match.group(1) or 0) > 0xFFFF:
        raise HttpSyntaxError(400, "the request's host is not a host name or address with an optional port")
    return authority.lower()


def is_target(target: str) -> bool:
    """Return whether a target is in origin form, or `*`."""
    return target == "*" or _ORIGIN.fullmatch(target) is not None


def check_target(method: str, target: str) -> str:
    """Return a target in origin form, or `*`. Raises HttpSyntaxError."""
    if target == "*":
        if method != "OPTIONS":
            raise HttpSyntaxError(400, f"the target * is for OPTIONS only, not for {method}")
        return target
    if _ORIGIN.fullmatch(target) is None:
        raise HttpSyntaxError(400, "the request's target is not a path of visible ASCII characters; percent-encode it")
    path = target.partition("?")[0]
    if "%" in path and _BAD_ESCAPE.search(path) is not None:
        raise HttpSyntaxError(400, "the request's path has a % that does not begin a valid percent-encoding")
    return target


def split_absolute(method: str, target: str) -> tuple[str, str]:
    """Return the authority and the origin form of a target in absolute form; no authority for another form. Raises
    HttpSyntaxError."""
    if target[:1] == "/" or target == "*":
        return "", target
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise HttpSyntaxError(400, "the request's target is neither a path nor a URL with http or https")
    authority, rest = check_authority(match.group(1)), match.group(2) or ""
    if not rest:
        return authority, "*" if method == "OPTIONS" else "/"
    return authority, rest if rest[0] == "/" else f"/{rest}"
