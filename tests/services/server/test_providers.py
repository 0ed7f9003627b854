"""Which of the clients is asked, and that none is made up."""

from __future__ import annotations

import pytest

from postern.domain.auth_config import AuthConfig, OidcConfig, SamlConfig
from postern.domain.login import LoginMethod
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.services.server.providers import Providers

OIDC = AuthConfig(LoginMethod.OIDC, OidcConfig("https://login.example", "postern", Secret("x")))
SAML = AuthConfig(LoginMethod.SAML, saml=SamlConfig("https://saml.example/metadata"))


class OpenId:
    """At the port: a provider that is there, or is not."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.is_there = is_there

    async def begin(self, config: OidcConfig, *, redirect_uri: str, state: Secret) -> object:
        if not self.is_there:
            raise Unavailable("the identity provider does not answer")
        return config, redirect_uri, state


class Saml:
    async def entity_id(self, config: SamlConfig) -> str:
        return "urn:of:" + config.idp_metadata_url


async def test_the_issuer_is_what_users_will_carry() -> None:
    providers = Providers(OpenId(), Saml())
    assert await providers.check(OIDC) == "https://login.example"
    assert await providers.check(SAML) == "urn:of:https://saml.example/metadata"


async def test_what_is_not_there_is_said() -> None:
    with pytest.raises(Unavailable):
        await Providers(OpenId(is_there=False)).check(OIDC)
    for config in (OIDC, SAML, AuthConfig(LoginMethod.OIDC)):
        with pytest.raises(Invalid, match="no client for"):
            await Providers().check(config)
