"""Access tokens of an organisation's identity provider as bearer tokens of this API.

They identify only users who have logged in before: a token neither creates an account nor changes groups.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import urlsafe_b64decode
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.auth_config import OidcConfig
from postern.domain.identity.principal import Principal
from postern.domain.lists import MAX_LIMIT, Page
from postern.domain.secret import Secret
from postern.errors import Invalid, Unauthenticated, Unavailable
from postern.services.identity.logins.openid_port import OpenId, provider_of
from postern.services.server.auth_configs import AuthConfigs
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.server_ports import OrganisationStore

OPAQUE_LIFE = timedelta(seconds=60)  # time for which a provider's answer about an opaque token is cached
_PROVIDERS_LIFE = timedelta(seconds=30)
_KEPT = 1_000
_AT_ONCE = 4  # concurrent checks of tokens at providers: a stranger can invent tokens
_LONGEST = 16 * 1024

Provider = tuple[UUID, OidcConfig]


class ProviderTokenAuthenticator:
    def __init__(
        self,
        openid: OpenId,
        configs: AuthConfigs,
        organisations: OrganisationStore,
        principals: PrincipalStore,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._openid = openid
        self._configs = configs
        self._organisations = organisations
        self._principals = principals
        self._now = now
        self._providers: tuple[datetime, list[Provider]] | None = None
        self._opaque: OrderedDict[bytes, tuple[datetime, str | None]] = OrderedDict()
        self._asking = asyncio.Semaphore(_AT_ONCE)
        signals.subscribe(Topic.SETTINGS_CHANGED, lambda _: self._forget())
        signals.subscribe(Topic.RESUMED, lambda _: self._forget())

    async def authenticate(self, token: Secret) -> Principal:
        """Return the principal of the token. Raises Unauthenticated, Unavailable."""
        text = token.reveal()
        if len(text) > _LONGEST or not text.isascii():
            raise _unknown()
        signed = text.count(".") == 2
        providers = await self._candidates(text if signed else None)
        principals = []
        for org_id, config in providers:
            subject = await (self._find_subject(config, token) if signed else self._find_opaque_subject(config, token))
            account = await self._principals.by_subject(org_id, config.issuer_url, subject) if subject else None
            if account is not None:
                principals.append(account.principal)
        if len(principals) != 1:  # with several, no choice is the right one
            raise _unknown()
        if not principals[0].is_active:
            raise Unauthenticated("this account is not active; ask an administrator")
        return principals[0]

    async def _candidates(self, signed: str | None) -> list[Provider]:
        """Return the providers that may have issued this token.

        An opaque token does not name its issuer. It is shown to a provider only if there is just one, so that no
        provider receives another's tokens.
        """
        providers = await self._all()
        if signed is not None:
            issuer = _claimed_issuer(signed)
            return [provider for provider in providers if provider[1].issuer_url == issuer]
        return providers if len(providers) == 1 else []

    async def _all(self) -> list[Provider]:
        if self._providers is None or self._now() >= self._providers[0]:
            providers, offset = [], 0
            while True:
                listed = await self._organisations.find(Page(MAX_LIMIT, offset))
                for organisation in listed.items:
                    config = await provider_of(self._configs, organisation.id)
                    if config is not None and config.audience:
                        providers.append((organisation.id, config))
                offset += MAX_LIMIT
                if offset >= listed.total:
                    break
            self._providers = (self._now() + _PROVIDERS_LIFE, providers)
        return self._providers[1]

    async def _find_subject(self, config: OidcConfig, token: Secret) -> str | None:
        try:
            return await self._openid.subject_of(config, token)
        except (Unauthenticated, Invalid):
            return None

    async def _find_opaque_subject(self, config: OidcConfig, token: Secret) -> str | None:
        digest = hashlib.sha256(f"{config.issuer_url} {token.reveal()}".encode()).digest()
        cached = self._opaque.get(digest)
        if cached is not None and self._now() < cached[0]:
            return cached[1]
        if self._asking.locked():
            raise Unavailable("too many tokens are being checked; try again in a few seconds")
        async with self._asking:
            subject = await self._find_subject(config, token)
        self._opaque[digest] = (self._now() + OPAQUE_LIFE, subject)
        self._opaque.move_to_end(digest)
        while len(self._opaque) > _KEPT:
            self._opaque.popitem(last=False)
        return subject

    def _forget(self) -> None:
        self._providers = None
        self._opaque.clear()


def _claimed_issuer(token: str) -> str | None:
    """Return the issuer that the token claims; its signature is verified later, with that issuer's keys."""
    try:
        part = token.split(".")[1]
        claims: Any = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None


def _unknown() -> Unauthenticated:
    return Unauthenticated(
        "the access token is not valid, has expired, or does not belong to a user who has logged in before"
    )
