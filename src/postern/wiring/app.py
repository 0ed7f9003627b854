"""Services over the store, as every process but the supervisor has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from postern.inspection.patterns import compiles
from postern.integrations.identity.addresses import networks_of
from postern.integrations.identity.fetch import Fetcher
from postern.integrations.identity.oidc import OpenIdClient
from postern.integrations.identity.saml import METADATA_DEADLINE, METADATA_LIMIT, SamlAdapter
from postern.protocols.postgres.lens import PostgresLens
from postern.recording.library import Library
from postern.services.bundle import Services, build_services
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports import Signals
from postern.store.sql import SqlStores
from postern.wiring import paths

ENFORCEABLE = frozenset({"postgres"})  # the subtypes that have a relay


@dataclass(frozen=True, slots=True)
class App:
    database: Database
    stores: SqlStores
    services: Services


@asynccontextmanager
async def open_app(settings: Settings, signals: Signals, *, migrate: bool = False) -> AsyncIterator[App]:
    """Raises Misconfigured when the key is unusable, Unavailable when the store does not answer."""
    database = Database(settings.url)
    try:
        if migrate:
            await database.migrate()
        stores = SqlStores(database, Encryption.from_file(paths.encryption_key(settings)))
        recordings = Library(settings.home, {"postgres": PostgresLens})
        networks = networks_of(settings.provider_networks)
        services = build_services(
            stores,
            signals,
            recordings,
            now,
            compiles=compiles,
            enforceable=ENFORCEABLE,
            openid=OpenIdClient(Fetcher(allowed=networks), now),
            saml=SamlAdapter(Fetcher(allowed=networks, deadline=METADATA_DEADLINE, limit=METADATA_LIMIT), now),
        )
        yield App(database, stores, services)
    finally:
        await database.close()


def now() -> datetime:
    return datetime.now(UTC)
