"""The OpenID Connect client alone: the check of an administrator's settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.support.oidc_site import config_of
from tests.support.openid import OpenIdProvider, json_reply, openid_provider
from tests.support.world import FakeClock

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.oidc import OpenIdClient, challenge_of


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with openid_provider("http://localhost/callback") as running:
        yield running


@pytest.fixture
def client() -> OpenIdClient:
    return OpenIdClient(ProviderFetcher(), FakeClock(datetime.now(UTC)))


async def test_provider_settings_are_checked_against_the_provider(
    provider: OpenIdProvider, client: OpenIdClient
) -> None:
    config = AuthConfig(LoginMethod.OIDC, oidc=config_of(provider))
    assert await client.check(config) == provider.issuer
    for other in (AuthConfig(), AuthConfig(LoginMethod.OIDC), replace(config, method=LoginMethod.SAML)):
        with pytest.raises(Invalid):
            await client.check(other)


async def test_provider_without_keys_or_unreachable_is_rejected(provider: OpenIdProvider, client: OpenIdClient) -> None:
    provider.replies["/jwks"] = lambda _: json_reply({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]})
    with pytest.raises(Invalid, match="no key"):
        await client.check(AuthConfig(LoginMethod.OIDC, oidc=config_of(provider)))
    away = config_of(provider, issuer_url="http://127.0.0.1:1")
    with pytest.raises(Unavailable):
        await client.check(AuthConfig(LoginMethod.OIDC, oidc=away))


async def test_offline_access_scope_requests_consent(provider: OpenIdProvider, client: OpenIdClient) -> None:
    async def url(*scopes: str, prompt: str = "") -> str:
        config = config_of(provider, scopes=scopes)
        begun = await client.begin(config, redirect_uri="http://x/", state=Secret("s"), prompt=prompt)
        return begun.url

    assert "prompt" not in await url("profile")
    assert "scope=openid+profile&" in await url("profile")
    assert (await url("offline_access")).endswith("prompt=consent")
    assert (await url("offline_access", prompt="login")).endswith("prompt=login+consent")
    assert (await url("offline_access", prompt="none")).endswith("prompt=none")


def test_pkce_challenge_matches_the_rfc_example() -> None:
    """RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
