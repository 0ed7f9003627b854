from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.oidc_site import Site, make_site, provider_for_site
from tests.support.openid import OpenIdProvider

from postern.store.database import Database


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    """A real OpenID provider on loopback."""
    with provider_for_site() as running:
        yield running


@pytest.fixture
async def site(database: Database, provider: OpenIdProvider) -> Site:
    """Our API in front of it, on both engines."""
    return await make_site(database, provider)
