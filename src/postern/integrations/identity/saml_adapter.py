"""SAML 2.0 Web Browser SSO, started by the service provider (Profiles 4.1): the request by HTTP-Redirect, the answer by
HTTP-POST.

The XML libraries are loaded when the first organisation uses SAML, so a gateway without it does not need them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import quoteattr

from postern.domain.identity.auth_config import SamlConfig
from postern.domain.identity.saml import Asserted, SamlLoginRequest, ServiceProvider
from postern.errors import Invalid, PosternError, Unauthenticated, Unavailable
from postern.integrations.identity.fetch import ProviderResponse
from postern.integrations.identity.identity_addresses import is_loopback_host
from postern.store.ports.common_ports import Clock

if TYPE_CHECKING:
    from postern.integrations.identity.saml_metadata import IdentityProvider

METADATA_DEADLINE = 15.0  # seconds
METADATA_LIMIT = 1024 * 1024  # bytes
METADATA_LIFE = timedelta(minutes=10)  # lifetime of fetched metadata
FAILURE_LIFE = timedelta(seconds=10)  # pause after a provider's failure
RESPONSE_LIMIT = 512 * 1024  # bytes of XML
_METADATA_TYPES = "application/samlmetadata+xml, application/xml;q=0.9, text/xml;q=0.8"
_MOST_PROVIDERS = 100  # providers with cached metadata
_CHECKS = 2  # answers that are verified at a time


class Fetch(Protocol):
    """The port for requests. It applies METADATA_DEADLINE and METADATA_LIMIT by itself."""

    async def get(self, url: str, *, loopback: bool, headers: Mapping[str, str] | None = None) -> ProviderResponse:
        """Send a GET. Raises Invalid for a disallowed address, Unavailable."""


@dataclass(frozen=True, slots=True)
class _Kept:
    found: IdentityProvider | PosternError
    until: datetime


class SamlAdapter:
    def __init__(self, fetch: Fetch, now: Clock) -> None:
        self._fetch = fetch
        self._now = now
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._fetching: dict[tuple[str, str], asyncio.Lock] = {}
        self._checks = asyncio.Semaphore(_CHECKS)

    async def login_url(self, config: SamlConfig, us: ServiceProvider, request: SamlLoginRequest) -> str:
        provider = await self._provider(config)
        message = _authn_request(us, provider.login_url, request, self._now())
        squeezed = zlib.compressobj(wbits=-15)  # raw DEFLATE, Bindings 3.4.4.1
        encoded = base64.b64encode(squeezed.compress(message.encode()) + squeezed.flush()).decode()
        query = urlencode({"SAMLRequest": encoded, "RelayState": request.relay_state})
        return f"{provider.login_url}{'&' if urlsplit(provider.login_url).query else '?'}{query}"

    async def verify_response(
        self, config: SamlConfig, us: ServiceProvider, request_id: str, response: str
    ) -> Asserted:
        content = _decode_answer(response)
        provider = await self._provider(config)
        checks = _responses()
        expected = checks.Expected(us, provider, request_id, self._now())
        async with self._checks:
            asserted: Asserted = await asyncio.to_thread(checks.asserted_by, content, expected, config)
        return asserted

    async def entity_id(self, config: SamlConfig) -> str:
        return (await self._provider(config)).entity_id

    def metadata(self, us: ServiceProvider) -> bytes:
        content: bytes = _documents().service_provider_metadata(us)
        return content

    async def _provider(self, config: SamlConfig) -> IdentityProvider:
        """Return the provider. Metadata by URL is fetched once for all concurrent callers, and again after
        METADATA_LIFE. A failure is cached too: otherwise waiting callers would each wait for one more deadline."""
        key = (config.idp_metadata_url, config.idp_metadata)
        lock = self._fetching.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                entry = self._kept.get(key)
                if entry is None or self._now() >= entry.until:
                    entry = self._kept[key] = await self._read_or_failed(config)
                self._kept.move_to_end(key)
                while len(self._kept) > _MOST_PROVIDERS:
                    self._kept.popitem(last=False)
        finally:
            if not lock.locked():
                self._fetching.pop(key, None)
        if isinstance(entry.found, PosternError):
            raise type(entry.found)(entry.found.message, field=entry.found.field)
        return entry.found

    async def _read_or_failed(self, config: SamlConfig) -> _Kept:
        try:
            return await self._read(config)
        except PosternError as problem:
            return _Kept(problem, self._now() + FAILURE_LIFE)

    async def _read(self, config: SamlConfig) -> _Kept:
        url = config.idp_metadata_url
        if config.idp_metadata:
            content, loopback = config.idp_metadata.encode(errors="replace"), True
            if len(content) > METADATA_LIMIT:
                raise Invalid(f"idp_metadata: is larger than {METADATA_LIMIT} bytes", field="idp_metadata")
        elif url:
            loopback = is_loopback_host(urlsplit(url).hostname or "")
            answer = await self._fetch.get(url, loopback=loopback, headers={"Accept": _METADATA_TYPES})
            if answer.status != 200:
                raise Unavailable(f"the identity provider answered {answer.status} to the request for its metadata")
            content = answer.body
        else:
            raise Invalid("SAML needs idp_metadata_url or idp_metadata", field="idp_metadata_url")
        now = self._now()
        read = _documents().identity_provider_of
        provider: IdentityProvider = await asyncio.to_thread(read, content, now, loopback=loopback)
        until = now + METADATA_LIFE
        return _Kept(provider, min(until, provider.valid_until) if provider.valid_until else until)


def _authn_request(us: ServiceProvider, destination: str, request: SamlLoginRequest, now: datetime) -> str:
    """Return an AuthnRequest (Core 3.4.1). It is not signed, because it contains nothing that is not in our
    metadata."""
    issued = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    force = ' ForceAuthn="true"' if request.force_authn else ""
    return (
        '<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol"'
        ' xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" Version="2.0"'
        f" ID={quoteattr(request.id)} IssueInstant={quoteattr(issued)} Destination={quoteattr(destination)}"
        f" AssertionConsumerServiceURL={quoteattr(us.acs_url)}"
        f' ProtocolBinding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"{force}>'
        f"<saml:Issuer>{_escape_xml(us.entity_id)}</saml:Issuer>"
        '<samlp:NameIDPolicy AllowCreate="true"/></samlp:AuthnRequest>'
    )


def _escape_xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _decode_answer(response: str) -> bytes:
    """Decode an answer, which is never compressed: only the binding HTTP-Redirect compresses, and answers use
    another."""
    if len(response) > RESPONSE_LIMIT * 4 // 3 + RESPONSE_LIMIT // 16:  # with line ends in between
        raise Unauthenticated(f"the answer is larger than {RESPONSE_LIMIT} bytes")
    try:
        content = base64.b64decode("".join(response.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Unauthenticated("the answer is not in Base64") from None
    if len(content) > RESPONSE_LIMIT:
        raise Unauthenticated(f"the answer is larger than {RESPONSE_LIMIT} bytes")
    return content


@contextmanager
def _libraries() -> Iterator[None]:
    try:
        yield
    except ImportError as problem:
        raise Unavailable(
            f"SAML needs the Python packages lxml and signxml, which cannot be loaded here ({problem}); "
            "install them, or choose another way to log in"
        ) from None


def _documents() -> ModuleType:
    with _libraries():
        from postern.integrations.identity import saml_metadata
    return saml_metadata


def _responses() -> ModuleType:
    with _libraries():
        from postern.integrations.identity import saml_response
    return saml_response
