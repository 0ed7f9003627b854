"""An OpenID provider's published metadata (OpenID Connect Discovery 1.0) and keys (RFC 7517), with a cache."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from postern.errors import Invalid, Unavailable
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.identity_addresses import checked_url, is_loopback_host
from postern.store.ports.common_ports import Clock

PublicKey = RSAKey | ECKey | OKPKey

FRESH = timedelta(minutes=10)  # lifetime of cached metadata and keys
PAUSE = timedelta(seconds=10)  # between two lookups of an unknown key, so that forged key ids cost nothing
_PROVIDERS, _KEYS = 200, 100
_WEAKEST_RSA = 2048  # bits


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata. `loopback`: the provider is on this machine, so its endpoints can be, too. `names_itself`: answers
    have `iss` (RFC 9207)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    secret_in_body: bool
    names_itself: bool
    loopback: bool


@dataclass(slots=True)
class _Known:
    metadata: Metadata
    until: datetime
    keys: list[PublicKey] = field(default_factory=list)
    keys_at: datetime | None = None


class Directory:
    """A cache of the last used providers' metadata and keys, for FRESH.

    `keys_only`: for issuers without a login page, such as CI systems, whose tokens are verified; their metadata need no
    endpoints for logins.
    """

    def __init__(self, fetcher: ProviderFetcher, now: Clock, *, keys_only: bool = False) -> None:
        self._fetcher = fetcher
        self._now = now
        self._keys_only = keys_only
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def metadata(self, issuer: str) -> Metadata:
        """Return the metadata. Raises Invalid for an invalid issuer, Unavailable."""
        return (await self._provider(issuer)).metadata

    async def keys(self, issuer: str, kid: str | None) -> list[PublicKey]:
        """Return the keys with that id; all for a token without one. An unknown key causes another fetch, at most once
        per PAUSE. Raises as `metadata` does."""
        provider = await self._provider(issuer)
        async with self._locks.setdefault(issuer, asyncio.Lock()):
            keys = _with_id(provider.keys, kid)
            age = None if provider.keys_at is None else self._now() - provider.keys_at
            if age is None or age >= FRESH or (not keys and age >= PAUSE):
                provider.keys = await self._fetch_keys(provider.metadata)
                provider.keys_at = self._now()
                keys = _with_id(provider.keys, kid)
            return keys

    async def _provider(self, issuer: str) -> _Known:
        async with self._locks.setdefault(issuer, asyncio.Lock()):
            provider = self._known.get(issuer)
            if provider is None or self._now() >= provider.until:
                fetched = await self._fetch_metadata(issuer)
                if provider is None or fetched != provider.metadata:
                    provider = self._known[issuer] = _Known(fetched, self._now() + FRESH)
                provider.until = self._now() + FRESH
            self._known.move_to_end(issuer)
        while len(self._known) > _PROVIDERS:
            oldest, _ = self._known.popitem(last=False)
            self._locks.pop(oldest, None)
        return provider

    async def _fetch_metadata(self, issuer: str) -> Metadata:
        loopback = is_loopback_host(checked_url(issuer, loopback=True).hostname or "")
        url = issuer.removesuffix("/") + "/.well-known/openid-configuration"
        answer = await self._fetcher.get(url, loopback=loopback)
        if answer.status != 200:
            raise Unavailable(f"the identity provider answered {answer.status} to the request for its metadata: {url}")
        return _metadata_of(issuer, answer.json(), loopback=loopback, keys_only=self._keys_only)

    async def _fetch_keys(self, metadata: Metadata) -> list[PublicKey]:
        answer = await self._fetcher.get(metadata.jwks_uri, loopback=metadata.loopback)
        if answer.status != 200:
            raise Unavailable(f"the identity provider answered {answer.status} to the request for its keys")
        content = answer.json()
        if not isinstance(content.get("keys"), list):
            raise Unavailable("the identity provider's key set has no list of keys")
        return keys_of(content, None)


def keys_of(jwks: Mapping[str, Any], kid: str | None) -> list[PublicKey]:
    """Return the keys of a set that can verify signatures here, with that id; all for a token without one."""
    return _with_id([key for key in map(_key_of, jwks["keys"][:_KEYS]) if key is not None], kid)


def _metadata_of(issuer: str, document: dict[str, Any], *, loopback: bool, keys_only: bool) -> Metadata:
    if document.get("issuer") != issuer:
        raise Unavailable(
            f"the identity provider's issuer is {str(document.get('issuer'))[:200]!r}; issuer_url must be exactly the "
            "same, including a slash at the end"
        )
    names = ("jwks_uri",) if keys_only else ("authorization_endpoint", "token_endpoint", "jwks_uri")
    endpoints = {name: document.get(name) for name in names}
    if document.get("userinfo_endpoint") is not None and not keys_only:
        endpoints["userinfo_endpoint"] = document["userinfo_endpoint"]
    for name, url in endpoints.items():
        if not isinstance(url, str):
            raise Unavailable(f"the identity provider's metadata has no {name}")
        try:
            checked_url(url, loopback=loopback)
        except Invalid as error:
            raise Unavailable(f"{name} of the identity provider: {error.message}") from None
    methods = document.get("token_endpoint_auth_methods_supported")
    if not isinstance(methods, list):
        methods = ["client_secret_basic"]  # the default, Discovery section 3
    if not keys_only and not {"client_secret_basic", "client_secret_post"} & {str(method) for method in methods}:
        raise Unavailable("the identity provider accepts neither client_secret_basic nor client_secret_post")
    return Metadata(
        issuer=issuer,
        authorization_endpoint=str(endpoints.get("authorization_endpoint", "")),
        token_endpoint=str(endpoints.get("token_endpoint", "")),
        jwks_uri=str(endpoints["jwks_uri"]),
        userinfo_endpoint=endpoints.get("userinfo_endpoint"),
        secret_in_body="client_secret_basic" not in methods,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        loopback=loopback,
    )


def _key_of(content: Any) -> PublicKey | None:
    """Return the key; None if it cannot verify signatures here: secrets, encryption keys, weak or unknown ones."""
    if (
        not isinstance(content, dict)
        or content.get("use", "sig") != "sig"
        or content.get("kty") not in ("RSA", "EC", "OKP")
    ):
        return None
    public = {name: value for name, value in content.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "oth")}
    public.pop("key_ops", None)
    try:
        key = JWKRegistry.import_key(public)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey) and key.raw_value.key_size < _WEAKEST_RSA:
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None


def _with_id(keys: list[PublicKey], kid: str | None) -> list[PublicKey]:
    return keys if kid is None else [key for key in keys if key.get("kid") == kid]
