"""One check for the identity provider of an organisation, whichever protocol it speaks."""

from __future__ import annotations

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.integrations.identity.oidc import OpenIdClient
from postern.integrations.identity.saml_adapter import SamlAdapter


class Providers:
    def __init__(self, openid: OpenIdClient, saml: SamlAdapter) -> None:
        self._openid = openid
        self._saml = saml

    async def check(self, config: AuthConfig) -> str:
        """The issuer that its users will carry. Raises Invalid, Unavailable."""
        if config.method is LoginMethod.SAML and config.saml is not None:
            return await self._saml.entity_id(config.saml)
        return await self._openid.check(config)
