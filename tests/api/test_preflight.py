"""A provider is asked, for real, before it is made the way in."""

from __future__ import annotations

import pytest
from tests.support.oidc_site import Site
from tests.support.openid import CLIENT_ID, CLIENT_SECRET
from tests.support.postgres import free_port

from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.oidc import OpenIdClient
from postern.services.server.auth_settings import AuthFields, AuthSettings, OidcFields
from postern.services.server.operators import Operators


def fields(issuer: str) -> AuthFields:
    return AuthFields(LoginMethod.OIDC, oidc=OidcFields(issuer, CLIENT_ID, Secret(CLIENT_SECRET)), confirm=True)


async def test_a_provider_that_is_there_is_taken_and_others_change_nothing(site: Site) -> None:
    world, stores, configs = site.world, site.world.stores, site.services.auth_configs
    provider = OpenIdClient(ProviderFetcher(), world.clock)
    settings = AuthSettings(
        configs=configs,
        organisations=stores.organisations,
        principals=stores.principals,
        api_keys=stores.api_keys,
        operators=Operators(stores.organisations),
        signals=world.signals,
        now=world.clock,
        provider=provider,
    )
    admin = await site.world.add_user("root", "admin")
    config, _ = await settings.put(admin, fields(site.provider.issuer))
    for issuer in (f"http://127.0.0.1:{free_port()}", f"{site.provider.issuer}/elsewhere"):
        with pytest.raises((Invalid, Unavailable)):
            await settings.put(admin, fields(issuer))
    assert await site.services.auth_configs.of(admin.org_id) == config
