"""Requests to identity providers: each with a deadline and a size limit, to the checked address, without following
redirects."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

import httpx

from postern.domain.addresses import Network, check_resolved
from postern.errors import Unavailable
from postern.integrations.identity.identity_addresses import checked_url

DEADLINE = 10.0  # seconds, for name, connection, request and whole answer
LIMIT = 1024 * 1024  # bytes of an answer
SETTING = "POSTERN_PROVIDER_NETWORKS"
_PROVIDER = "the identity provider"
_ADDRESSES = 2  # attempted addresses of a host

Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    status: int
    media_type: str
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the JSON object. Raises Unavailable when it is not one."""
        try:
            content = json.loads(self.body)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise Unavailable("the identity provider did not answer with a JSON object")
        return content


async def resolve(host: str, port: int) -> list[str]:
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


@cache
def _system_trust() -> ssl.SSLContext:
    """Load the system's CAs, once per process: that takes longer than most requests."""
    return ssl.create_default_context()


class ProviderFetcher:
    """The client. `allowed` are private networks in which providers may be; addresses of this machine are allowed only
    if the configured issuer itself is one (`loopback`)."""

    def __init__(
        self,
        *,
        allowed: tuple[Network, ...] = (),
        deadline: float = DEADLINE,
        limit: int = LIMIT,
        resolver: Resolve = resolve,
    ) -> None:
        self._allowed = allowed
        self._deadline = deadline
        self._limit = limit
        self._resolve = resolver
        self._trust: ssl.SSLContext | None = None

    async def get(self, url: str, *, loopback: bool, headers: Mapping[str, str] | None = None) -> ProviderResponse:
        """Send a GET. Raises Invalid for a disallowed address, Unavailable."""
        return await self._ask("GET", url, loopback, headers or {}, None)

    async def post(
        self, url: str, form: Mapping[str, str], *, loopback: bool, headers: Mapping[str, str]
    ) -> ProviderResponse:
        """Send a POST. Raises as `get` does."""
        all_headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        return await self._ask("POST", url, loopback, all_headers, urlencode(form).encode())

    async def _ask(
        self, method: str, url: str, loopback: bool, headers: Mapping[str, str], content: bytes | None
    ) -> ProviderResponse:
        parts = checked_url(url, loopback=loopback)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        # A compressed answer could be far larger than the bytes that are counted here.
        all_headers = {"Accept": "application/json", **headers, "Host": parts.netloc, "Accept-Encoding": "identity"}
        try:
            async with asyncio.timeout(self._deadline):
                addresses = await self._resolve(host, port)
                check_resolved(_PROVIDER, addresses, self._allowed, SETTING, loopback=loopback)
                return await self._first(method, httpx.URL(url), host, addresses, all_headers, content)
        except TimeoutError:
            raise Unavailable(f"the identity provider at {host} did not answer in {self._deadline:g} seconds") from None
        except (OSError, UnicodeError, httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise Unavailable(f"the identity provider at {host} cannot be reached: {why}") from None

    async def _first(
        self,
        method: str,
        url: httpx.URL,
        host: str,
        addresses: list[str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> ProviderResponse:
        """Use the first address that accepts a connection. The name was resolved and checked before, and is not
        resolved again, because it could change; the certificate must still be for the name."""
        if self._trust is None:
            self._trust = await asyncio.to_thread(_system_trust)
        problem: httpx.HTTPError | None = None
        for address in addresses[:_ADDRESSES]:
            async with httpx.AsyncClient(verify=self._trust, trust_env=False, timeout=self._deadline) as client:
                request = client.build_request(
                    method,
                    url.copy_with(host=address),
                    headers=dict(headers),
                    content=body,
                    extensions={"sni_hostname": host},
                )
                try:
                    answer = await client.send(request, stream=True, follow_redirects=False)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    problem = error
                    continue
                return await self._read(answer)
        raise problem or Unavailable(f"the identity provider at {host} has no address")

    async def _read(self, answer: httpx.Response) -> ProviderResponse:
        if answer.is_redirect:
            raise Unavailable(
                "the identity provider answered with a redirect, which is not followed; set the "
                "address that it leads to"
            )
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Unavailable("the identity provider compressed its answer, which was not requested")
        received = bytearray()
        async for chunk in answer.aiter_raw():
            received += chunk
            if len(received) > self._limit:
                raise Unavailable(f"the identity provider's answer is larger than {self._limit} bytes")
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return ProviderResponse(answer.status_code, media_type, bytes(received))
