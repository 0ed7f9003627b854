"""A gateway on each test's own store, and one identity provider for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.saml_flow import SamlGateway
from tests.support.saml_idp import ANN, PERSISTENT, SamlIdp

from postern.store.database import Database


@pytest.fixture(scope="session")
def idp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SamlIdp]:
    with SamlIdp.make(tmp_path_factory.mktemp("idp")).serving() as serving:
        yield serving


@pytest.fixture
def idp(idp_server: SamlIdp) -> SamlIdp:
    idp_server.person, idp_server.name_id, idp_server.name_format = dict(ANN), "ann-0001", PERSISTENT
    idp_server.options, idp_server.metadata_requests = {}, 0
    idp_server.asked.clear()
    return idp_server


@pytest.fixture
async def gateway(idp: SamlIdp, sqlite_database: Database) -> SamlGateway:
    return await SamlGateway.make(sqlite_database, idp)
