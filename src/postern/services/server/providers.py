"""Asks an identity provider before it is made the way in, by what logs people in there afterwards."""

from __future__ import annotations

from typing import Protocol

from postern.domain.auth_config import AuthConfig, OidcConfig, SamlConfig
from postern.domain.login import LoginMethod
from postern.domain.secret import Secret
from postern.errors import Invalid

_NOWHERE = "https://localhost/callback"  # nobody is sent there: what is begun here is not gone on with


class OpenIdStart(Protocol):
    async def begin(self, config: OidcConfig, *, redirect_uri: str, state: Secret) -> object:
        """The first step of a login, for which the provider's metadata are fetched and checked.

        Raises Invalid, Unavailable."""


class SamlMetadata(Protocol):
    async def entity_id(self, config: SamlConfig) -> str:
        """Of the identity provider, by its metadata, which are fetched and checked. Raises Invalid, Unavailable."""


class Providers:
    """A `ProviderCheck`. None: this server has no client for that kind."""

    def __init__(self, openid: OpenIdStart | None = None, saml: SamlMetadata | None = None) -> None:
        self._openid = openid
        self._saml = saml

    async def check(self, config: AuthConfig) -> str:
        """The issuer that the provider's users will carry. Raises Invalid, Unavailable."""
        if config.method is LoginMethod.OIDC and config.oidc is not None and self._openid is not None:
            await self._openid.begin(config.oidc, redirect_uri=_NOWHERE, state=Secret("preflight"))
            return config.oidc.issuer_url
        if config.method is LoginMethod.SAML and config.saml is not None and self._saml is not None:
            return await self._saml.entity_id(config.saml)
        raise Invalid(
            f"auth_method: this server has no client for {config.method}; choose another", field="auth_method"
        )
