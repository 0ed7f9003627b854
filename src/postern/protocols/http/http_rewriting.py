"""The client's view of an application and the application's own, translated in heads. Bodies are not changed.

    client_origin  https://app.gateway.example         what the browser's address bar shows
    target_origin  http://app.internal:3000            what the application believes that it is

The application sees one consistent world, its own: `Host`, `Origin`, `Referer` and `X-Forwarded-*` all name the
target's origin. Frameworks compare them in different pairs to reject forged requests: Django and Jupyter compare
`Origin` with `Host`, Rails and Next.js with `X-Forwarded-Host`, Rails with `X-Forwarded-Proto` too. One different value
breaks some of them. An application that must see another origin, because it usually is behind a load balancer that ends
TLS, is given it by secrets of the connection (`HEADER_X_FORWARDED_PROTO`, `HEADER_X_FORWARDED_HOST`, `HEADER_HOST`).
The agent then reports that origin as the target's.

`X-Forwarded-For` is the client's address. Other headers by which proxies describe the original request are dropped: an
application could trust them, for the path as well (`X-Original-URL`), which rules have judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from postern.protocols.http.http_heads import HOP_BY_HOP, Headers, RequestHead, ResponseHead, plain_name

# Headers of proxies. A client's own are dropped, besides all X-Forwarded-*. The last ones are a prefix that servers cut
# off the path (gunicorn believes them from its own machine).
_FROM_PROXIES: Final = frozenset(
    {
        *(b"forwarded", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip", b"cf-connecting-ip"),
        *(b"x-original-forwarded-for", b"x-original-host", b"x-host", b"x-original-url", b"x-rewrite-url"),
        *(b"x-script-name", b"script-name", b"path-info"),
    }
)
# Never written with underscores but to confuse who reads them.
_CONTROL: Final = HOP_BY_HOP | {b"content-length", b"content-type", b"host", b"authorization", b"postern-authorization"}
_FORWARDED_PREFIX: Final = b"x-forwarded-"
# Headers of requests whose value is a URL or an origin of the application as the client sees it.
_REQUEST_URLS: Final = frozenset({b"origin", b"referer", b"destination", b"hx-current-url"})
_RESPONSE_URLS: Final = frozenset(
    {b"location", b"content-location", b"hx-redirect", b"x-inertia-location", b"turbolinks-location"}
)
_RESPONSE_ORIGINS: Final = frozenset({b"access-control-allow-origin", b"timing-allow-origin"})
_RESPONSE_TEXTS: Final = frozenset({b"link", b"refresh", b"www-authenticate"})  # URLs among other text
_POLICIES: Final = frozenset({b"content-security-policy", b"content-security-policy-report-only"})
_DROPPED_RESPONSES: Final = frozenset({b"alt-svc"})  # names ports that bypass the gateway
_DROPPED_WITHOUT_TLS: Final = frozenset({b"strict-transport-security"})

_REWRITTEN_RESPONSES: Final = frozenset({b"set-cookie"}).union(
    *(_RESPONSE_URLS, _RESPONSE_ORIGINS, _RESPONSE_TEXTS, _POLICIES, _DROPPED_RESPONSES, _DROPPED_WITHOUT_TLS)
)

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SOCKETS: Final = {"http": "ws", "https": "wss"}
_ORIGIN: Final = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^/:@?#\s\[\]]+)(?::(\d{1,5}))?", re.IGNORECASE)
# Ends an origin within a URL. Anything else, as in `http://app.internal.example`, is a longer name.
_END: Final = rb"(?=[/?#\s\"'<>;,)]|$)"
# Cookies with these prefixes must be Secure. A client without TLS gets them under another name.
_SECURE_NAMES: Final = (b"__host-", b"__secure-")
_RENAMED: Final = b"postern"


# What becomes of a header of a request.
_PASSES: Final = 1
_DROPPED: Final = 2
_URL: Final = 3
_COOKIE: Final = 4
_request_kinds: Final[dict[bytes, int]] = {}
_MAX_KINDS: Final = 1024  # names whose kind is remembered …
_MAX_NAME: Final = 64  # … and bytes of such a name


def _request_kind(name: bytes) -> int:
    read_as = plain_name(name)
    kind = _PASSES
    is_of_proxies = read_as in _FROM_PROXIES or read_as.startswith(_FORWARDED_PREFIX)
    if is_of_proxies or (read_as is not name and read_as in _CONTROL):
        kind = _DROPPED
    elif name in _REQUEST_URLS:
        kind = _URL
    elif name == b"cookie":
        kind = _COOKIE
    if len(_request_kinds) < _MAX_KINDS and len(name) <= _MAX_NAME:
        _request_kinds[name] = kind
    return kind


@dataclass(frozen=True, slots=True)
class HttpOrigin:
    """A scheme, a host in lower case (an IPv6 address in brackets) and a port."""

    scheme: str
    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse `scheme://authority`. Raises ValueError."""
        match = _ORIGIN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not an origin (http://host or https://host, with :port if needed)")
        scheme = match[1].lower()
        port = int(match[3]) if match[3] else _DEFAULT_PORTS[scheme]
        if not 0 < port < 65536:
            raise ValueError(f"{text!r} has no valid port")
        return cls(scheme, match[2].lower(), port)

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @property
    def has_default_port(self) -> bool:
        return self.port == _DEFAULT_PORTS[self.scheme]

    @property
    def authority(self) -> str:
        """Return host and port as in a `Host` header: without the scheme's default port."""
        return self.host if self.has_default_port else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


class HttpRewriting:
    """Translates heads between two origins. One object serves any number of requests of one client.

    `client_origin` and `target_origin` are `scheme://authority`; `client_address` is the IP address for
    `X-Forwarded-For`, empty for none. Raises ValueError for an invalid origin.
    """

    def __init__(self, client_origin: str, target_origin: str, *, client_address: str = "") -> None:
        client, target = HttpOrigin.read(client_origin), HttpOrigin.read(target_origin)
        self._client = client
        self._authority = target.authority
        self._to_target = _OriginReplacer(client, target)
        self._to_client = _OriginReplacer(target, client)
        self._links_to_client = _OriginReplacer(target, client, either_scheme=True)
        forwarded = [
            (b"x-forwarded-host", target.authority.encode()),
            (b"x-forwarded-proto", target.scheme.encode()),
        ]
        if client_address:
            forwarded.insert(0, (b"x-forwarded-for", client_address.encode()))
        self._forwarded: Headers = tuple(forwarded)

    def request(self, head: RequestHead) -> RequestHead:
        """Return the request as the application must see it."""
        headers = head.headers
        for name, _ in headers:
            if (_request_kinds.get(name) or _request_kind(name)) != _PASSES:
                headers = self._rewrite_request(headers)
                break
        forwarded = headers + self._forwarded
        return RequestHead(head.method, head.target, self._authority, forwarded, head.length, head.upgrade, head.digest)

    def _rewrite_request(self, before: Headers) -> Headers:
        headers: list[tuple[bytes, bytes]] = []
        for name, value in before:
            kind = _request_kinds.get(name) or _request_kind(name)
            if kind == _DROPPED:
                continue
            if kind == _URL:
                value = self._to_target.replace_start(value)
            elif kind == _COOKIE and not self._client.is_encrypted:
                value = _restore_cookie_names(value)
            headers.append((name, value))
        return tuple(headers)

    def response(self, head: ResponseHead) -> ResponseHead:
        """Return the response as the client must see it; the same object if nothing in it changes."""
        for name, _ in head.headers:
            if name in _REWRITTEN_RESPONSES:
                return head.with_headers(self._rewrite_response(head.headers))
        return head

    def _rewrite_response(self, before: Headers) -> Headers:
        encrypted = self._client.is_encrypted
        headers: list[tuple[bytes, bytes]] = []
        for name, value in before:
            if name == b"set-cookie":
                value = _rewrite_cookie(value, encrypted=encrypted)
            elif name in _RESPONSE_URLS:
                value = self._links_to_client.replace_start(value)
            elif name in _RESPONSE_TEXTS:
                value = self._links_to_client.replace_all(value)
            elif name in _RESPONSE_ORIGINS:
                value = self._to_client.replace_start(value)
            elif name in _POLICIES:
                value = self._rewrite_policy(value)
            elif name in _DROPPED_RESPONSES or (not encrypted and name in _DROPPED_WITHOUT_TLS):
                continue
            headers.append((name, value))
        return tuple(headers)

    def _rewrite_policy(self, policy: bytes) -> bytes:
        """Rewrite a Content-Security-Policy: sources that name the target, with or without a scheme. Without TLS,
        `upgrade-insecure-requests` would make a browser ask for everything by https."""
        directives = []
        for directive in policy.split(b";"):
            if not self._client.is_encrypted and directive.strip().lower() == b"upgrade-insecure-requests":
                continue
            directives.append(
                b" ".join([self._links_to_client.replace_source(token) for token in directive.split(b" ")])
            )
        return b";".join(directives)


class _OriginReplacer:
    """Replaces one origin by another.

    `either_scheme` is for links: an application behind a server that ends TLS may not know of it, and name itself
    `http://host` where the target is `https://host`. If the target has the default port of its scheme, a URL with the
    same host and the default port of the other scheme then counts as the same origin. Origins that are compared to
    reject forged requests are never taken for each other.
    """

    def __init__(self, before: HttpOrigin, after: HttpOrigin, *, either_scheme: bool = False) -> None:
        host = re.escape(before.host.encode())
        if not before.has_default_port:
            schemes, port = (rb"https?" if either_scheme else before.scheme.encode()), rb":%d" % before.port
            origins = rb"(?:(?:%s):)?//%s%s" % (schemes, host, port)
        else:
            names = ("http", "https") if either_scheme else (before.scheme,)
            ports = [(name.encode(), _DEFAULT_PORTS[name]) for name in names]
            origins = b"|".join([rb"(?:%s:)?//%s(?::%d)?" % (name, host, number) for name, number in ports])
            port = rb"(?::(?:%s))?" % b"|".join([b"%d" % number for _, number in ports])
        self._start = re.compile(rb"(?:%s)%s" % (origins, _END), re.IGNORECASE)
        self._anywhere = re.compile(rb"(?<![\w/:.-])(?:%s)%s" % (origins, _END), re.IGNORECASE)
        self._source = re.compile(rb"(?:(wss?|https?)://)?%s%s(?=/|$)" % (host, port), re.IGNORECASE)
        self._origin = str(after).encode()
        self._authority = after.authority.encode()
        self._socket = _SOCKETS[after.scheme].encode()

    def replace_start(self, url: bytes) -> bytes:
        """Return a URL with the other origin, if it has this one. Relative ones have none."""
        match = self._start.match(url)
        return url if match is None else self._replacement(match) + url[match.end() :]

    def replace_all(self, text: bytes) -> bytes:
        """Replace the origin of all URLs in `text`."""
        return self._anywhere.sub(self._replacement, text)

    def replace_source(self, source: bytes) -> bytes:
        """Return a source of a Content-Security-Policy, which can be a bare host, and can be for WebSockets."""
        match = self._source.match(source)
        if match is None:
            return source
        scheme = (match[1] or b"").lower()
        rest = source[match.end() :]
        if not scheme:
            return self._authority + rest
        return (self._socket + b"://" + self._authority if scheme.startswith(b"ws") else self._origin) + rest

    def _replacement(self, match: re.Match[bytes]) -> bytes:
        return b"//" + self._authority if match[0].startswith(b"//") else self._origin


def _rewrite_cookie(cookie: bytes, *, encrypted: bool) -> bytes:
    """Rewrite a Set-Cookie. Without `Domain` it is for the host that the client knows. A client without TLS gets it
    without what requires TLS."""
    pair, *attributes = cookie.split(b";")
    kept = []
    for attribute in attributes:
        name, _, value = attribute.partition(b"=")
        name, value = name.strip().lower(), value.strip().lower()
        if name == b"domain" or (not encrypted and name in (b"secure", b"partitioned")):
            continue
        if not encrypted and name == b"samesite" and value == b"none":
            attribute = b" SameSite=Lax"
        kept.append(attribute)
    if not encrypted and pair.lstrip().lower().startswith(_SECURE_NAMES):
        pair = _RENAMED + pair.lstrip()
    return b";".join([pair, *kept])


def _restore_cookie_names(cookies: bytes) -> bytes:
    """Give cookies that `_rewrite_cookie` has renamed their own names again."""
    if _RENAMED not in cookies:
        return cookies
    return b";".join([_restore_cookie_name(cookie) for cookie in cookies.split(b";")])


def _restore_cookie_name(cookie: bytes) -> bytes:
    stripped = cookie.lstrip()
    name = stripped[len(_RENAMED) :]
    if stripped.startswith(_RENAMED) and name.lower().startswith(_SECURE_NAMES):
        return cookie[: len(cookie) - len(stripped)] + name
    return cookie
