"""Requests to providers over HTTP: with limits, and without following redirects."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from postern.errors import Unavailable
from postern.integrations.secrets.source import DEADLINE, LIMIT


@dataclass(frozen=True, slots=True)
class SecretServiceResponse:
    """A response. `fields` is its JSON object; empty if it is not one."""

    status: int
    fields: Mapping[str, Any]


async def ask(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    trust: ssl.SSLContext | None = None,
    body: Mapping[str, str] | None = None,
) -> SecretServiceResponse:
    """Send a request. `trust` replaces the public authorities. Raises Unavailable. The response is never in a message,
    because it may contain secrets."""
    verified = await asyncio.to_thread(_public_authorities) if trust is None else trust
    # A compressed answer could be far larger than the bytes that are counted here.
    all_headers = {"Accept": "application/json", **headers, "Accept-Encoding": "identity"}
    try:
        async with (
            httpx.AsyncClient(verify=verified, timeout=DEADLINE) as client,
            client.stream(method, url, headers=all_headers, json=body) as answer,
        ):
            content = await _content(answer)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise Unavailable(f"{_host(url)} cannot be reached: {type(error).__name__}") from None
    if answer.is_redirect:
        raise Unavailable(f"{_host(url)} answered with a redirect, which is not followed")
    return SecretServiceResponse(answer.status_code, object_of(content))


@functools.cache
def _public_authorities() -> ssl.SSLContext:
    """Load the public CAs, once: that takes longer than most requests."""
    return ssl.create_default_context()


async def _content(answer: httpx.Response) -> bytes:
    received = bytearray()
    async for chunk in answer.aiter_raw():
        received += chunk
        if len(received) > LIMIT:
            raise Unavailable(f"the answer is larger than {LIMIT} bytes")
    return bytes(received)


def object_of(content: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def checked_address(url: str, variable: str) -> str:
    """Return the URL without its last slash. Raises Unavailable: credentials of a secret store are sent there."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))):
        raise Unavailable(f"{variable} must be an https:// URL where the agent runs; http:// is for loopback only")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Unavailable(f"{variable} must be a plain URL, without user, query or fragment")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(url: str) -> str:
    return urlsplit(url).netloc
