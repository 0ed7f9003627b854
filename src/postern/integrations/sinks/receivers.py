"""Requests to receivers of events: allowed addresses, and limits of time and size.

Administrators of an organisation choose addresses that this server then connects to. These must not reach what only
this machine, its cloud or its network can reach, unless the machine's settings name that network.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache

import httpx

from postern.domain.addresses import Network, check_resolved, is_within
from postern.domain.sink import Sink
from postern.errors import Denied, NotFound, TooMany, Unavailable
from postern.integrations.identity.fetch import Resolve, resolve

LIMIT = 64 * 1024  # bytes of an answer
DEADLINE = 10.0  # seconds for each step of a request
SETTING = "POSTERN_SINK_NETWORKS"
_CLIENTS = 100
_UNWANTED = frozenset({400, 413, 415, 422})  # statuses by which a receiver rejects this very event


class Receivers:
    """The client. `allowed` are private networks in which receivers may be, including loopback."""

    def __init__(self, allowed: tuple[Network, ...] = (), *, resolver: Resolve = resolve) -> None:
        self._allowed = allowed
        self._resolve = resolver
        self._clients: OrderedDict[tuple[object, ...], httpx.AsyncClient] = OrderedDict()

    async def address_of(self, host: str, port: int, *, private: bool = False) -> str:
        """Return the checked address; with `private` it must be in a network of the settings. Raises Unavailable."""
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"the host name {host} cannot be resolved: {error}") from None
        check_resolved(host, addresses, self._allowed, SETTING)
        outside = [text for text in addresses if not is_within(text, self._allowed)]
        if private and outside:
            raise Unavailable(
                f"{host} has the address {outside[0]}; without TLS, events are sent only to "
                f"networks that {SETTING} names"
            )
        return addresses[0]

    async def post(self, sink: Sink, body: bytes, headers: Mapping[str, str], *, url: str | None = None) -> bytes:
        """Send a request and return the answer. `url` replaces the sink's URL. Raises Denied when the receiver rejects
        this event, NotFound when it wants no events any more, TooMany when it requests a pause, Unavailable."""
        whole = httpx.URL(url or sink.address)
        host = whole.host
        address = await self.address_of(host, whole.port or (443 if whole.scheme == "https" else 80))
        custom = {name: value.reveal() for name, value in sink.headers.items()}
        # The certificate must be for the name, although the connection is to the address.
        request = self._client(sink).build_request(
            "POST",
            whole.copy_with(host=address),
            headers={**custom, **headers, "Host": whole.netloc.decode(), "Accept-Encoding": "identity"},
            content=body,
            extensions={"sni_hostname": host},
        )
        try:
            answer = await self._client(sink).send(request, stream=True, follow_redirects=False)
            try:
                content = await _read_limited(answer)
            finally:
                await answer.aclose()
        except (OSError, httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
            raise Unavailable(f"{host} cannot be reached: {str(error) or type(error).__name__}") from None
        _check(host, answer.status_code, answer.headers.get("Retry-After", ""))
        return content

    def _client(self, sink: Sink) -> httpx.AsyncClient:
        key = (sink.id, sink.address, sink.authority)
        if key not in self._clients:
            self._clients[key] = httpx.AsyncClient(
                verify=trust(sink.authority),
                trust_env=False,
                timeout=DEADLINE,
                limits=httpx.Limits(max_connections=1, keepalive_expiry=30),
            )
            while len(self._clients) > _CLIENTS:
                # Current users keep it; its connections end with it.
                self._clients.popitem(last=False)
        self._clients.move_to_end(key)
        return self._clients[key]

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].aclose()


@cache
def _system_trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def trust(authority: str) -> ssl.SSLContext:
    """Return the context that trusts only the sink's own authority if it has one, else those of this system."""
    return ssl.create_default_context(cadata=authority) if authority else _system_trust()


async def _read_limited(answer: httpx.Response) -> bytes:
    """Return a limited part of the answer; the rest is not read."""
    received = bytearray()
    async for chunk in answer.aiter_raw():
        received += chunk
        if len(received) >= LIMIT:
            break
    return bytes(received[:LIMIT])


def _check(host: str, status: int, retry_after: str) -> None:
    if 200 <= status < 300:
        return
    if status == 429:
        pause = int(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 7 else None
        raise TooMany(f"{host} answered 429: too many requests", retry_after=pause)
    if status == 410:
        raise NotFound(f"{host} answered 410: it no longer accepts events")
    if status in _UNWANTED:
        raise Denied(f"{host} answered {status}: it rejected this event")
    if 300 <= status < 400:
        raise Unavailable(f"{host} answered {status}: redirects are not followed; set the address that it leads to")
    raise Unavailable(f"{host} answered {status}")
