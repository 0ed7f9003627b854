"""The keys of this machine's store: listing them with their master key, and replacing them.

Works on the store itself and needs no login: a user who can read the master key can do this. The gateway can run
meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from postern.domain.lists import Page
from postern.errors import Misconfigured, NotFound
from postern.services.server.audit import Audit
from postern.services.server.audit_context import collect_change, record_change
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import make_file_key
from postern.store.ports.common_ports import Topic
from postern.store.ports.keys import DataKey, MasterKey
from postern.store.signals import SocketSignals
from postern.store.sql.identity.sql_organisations import SqlOrganisations
from postern.store.sql.recordings.sql_segments import SqlSegments
from postern.store.sql.resealing import count_by_key, reseal
from postern.store.sql.sql_audit import SqlAudit
from postern.store.sql.sql_data_keys import SqlDataKeys
from postern.wiring import masters_wiring, paths

GROUP = 50  # data keys that are encrypted in one transaction
_TOLD = 1.0  # seconds in which a running gateway must learn of new keys


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """A data key; `organisation` is None for the server's. `values` is the number of values that it encrypts,
    `segments` that of recordings."""

    id: UUID
    organisation: str | None
    master: str
    is_readable: bool
    created_at: datetime
    retired_at: datetime | None
    values: int
    segments: int


@dataclass(frozen=True, slots=True)
class MasterKeyStatus:
    """`master` is the master key in force by the settings."""

    master: str
    keys: tuple[KeyStatus, ...]

    @property
    def is_rotated(self) -> bool:
        return all(key.master == self.master for key in self.keys)


@dataclass(frozen=True, slots=True)
class Renewed:
    organisation: str | None
    values: int


def status(settings: Settings) -> MasterKeyStatus:
    """Raises Misconfigured, Unavailable."""
    return asyncio.run(_status(settings))


def rotate(settings: Settings, to: str, tell: Callable[[int], None] = lambda _: None) -> tuple[str, int]:
    """Encrypt all data keys with the master key at `to`; return its id, and how many were under a different one.

    After an interruption, start it again with the same `to`: finished keys stay finished. Raises Misconfigured if a
    data key opens with neither the master key in force nor the new one, Unavailable. `tell` gets the number of further
    encrypted keys.
    """
    if to.startswith("file:"):
        make_file_key(Path(to.removeprefix("file:")).expanduser())
    return asyncio.run(_rotate(settings, to, tell))


def renew(settings: Settings, organisation: str | None, tell: Callable[[int], None] = lambda _: None) -> list[Renewed]:
    """Create new data keys, for all organisations and the server or for the named one, and encrypt every value with
    them.

    After an interruption, start it again: it creates a new data key and encrypts all that is left. `tell` gets the
    number of further encrypted values. Raises NotFound, Misconfigured, Unavailable.
    """
    return asyncio.run(_renew(settings, organisation, tell))


async def _status(settings: Settings) -> MasterKeyStatus:
    async with _database(settings) as database:
        readable = {master_key.id for master_key in _readable(settings)}
        names = {key: name for name, key in await _organisations(database)}
        counts, stored = await count_by_key(database), await SqlSegments(database).count_by_key()
        keys = [
            KeyStatus(
                id=key.id,
                organisation=names.get(key.org_id) if key.org_id else None,
                master=key.master,
                is_readable=key.master in readable,
                created_at=key.created_at,
                retired_at=key.retired_at,
                values=counts.get(key.id, 0),
                segments=stored.get(key.id, 0),
            )
            for key in await SqlDataKeys(database).all()
        ]
        return MasterKeyStatus(masters_wiring.master(settings).id, tuple(keys))


async def _rotate(settings: Settings, to: str, tell: Callable[[int], None]) -> tuple[str, int]:
    new = masters_wiring.master_of(to, "master_key")
    async with _database(settings) as database:
        store = SqlDataKeys(database)
        keys = {master_key.id: master_key for master_key in (*_readable(settings), new)}
        done = 0
        # Until none is left: a running gateway can have created one under the old master key meanwhile.
        while left := [key for key in await store.all() if key.master != new.id][:GROUP]:
            wrapped = await asyncio.to_thread(_rewrap_keys, left, keys, new)
            rewrapped = await store.rewrap(wrapped, {key.id: key.master for key in left})
            tell(rewrapped)
            done += rewrapped
        with collect_change() as trail:
            record_change(None, {"master": new.id, "wrapped": done})
        await _audit(database).on_host(
            "postern keys rotate", action="rotate", resource_type="keys", audit_context=trail
        )
    return new.id, done


def _rewrap_keys(keys: list[DataKey], masters: dict[str, MasterKey], new: MasterKey) -> list[DataKey]:
    """Return the keys encrypted by `new`. Each is decrypted again before its old form is replaced."""
    rewrapped = []
    for key in keys:
        if key.master not in masters:
            raise Misconfigured(
                f"the data key {key.id} is encrypted by {key.master}, which is neither the current master "
                "key nor the new one; give it in POSTERN_MASTER_KEY_OLD"
            )
        material = masters[key.master].unwrap(key.wrapped, key.context)
        wrapped = new.wrap(material, key.context)
        if new.unwrap(wrapped, key.context) != material:
            raise Misconfigured(f"the new master key {new.id} cannot decrypt what it encrypted; nothing was changed")
        rewrapped.append(replace(key, wrapped=wrapped, master=new.id))
    return rewrapped


async def _renew(settings: Settings, organisation: str | None, tell: Callable[[int], None]) -> list[Renewed]:
    async with _database(settings) as database:
        owners: list[tuple[str | None, UUID | None]] = [*await _organisations(database)]
        if organisation is None:
            owners.append((None, None))
        else:
            owners = [owner for owner in owners if owner[0] == organisation]
        if not owners:
            raise NotFound(f"there is no organisation {organisation!r}")
        encryption = masters_wiring.open_encryption(settings, database)
        await encryption.load()
        for _, org_id in owners:
            await encryption.renew(org_id)
        await _notify_gateway(settings)
        done = [Renewed(name, await reseal(database, encryption, org_id, tell)) for name, org_id in owners]
        with collect_change() as trail:
            record_change(None, {renewed.organisation or "server": renewed.values for renewed in done})
        await _audit(database).on_host("postern keys renew", action="renew", resource_type="keys", audit_context=trail)
        return done


def _audit(database: Database) -> Audit:
    return Audit(SqlAudit(database), SqlOrganisations(database), lambda: datetime.now(UTC))


async def _notify_gateway(settings: Settings) -> None:
    """Notify a running gateway, so that it uses the new keys before the old values are searched for."""
    path = paths.signals_socket(settings)
    if not path.exists():
        return
    signals = SocketSignals(path)
    await signals.publish(Topic.DATA_KEYS_CHANGED)
    await signals.start()
    await asyncio.sleep(_TOLD)
    await signals.stop()


def _readable(settings: Settings) -> list[MasterKey]:
    keys = [masters_wiring.master(settings)]
    if settings.master_key_old:
        keys.append(masters_wiring.master_of(settings.master_key_old, "master_key_old"))
    return keys


async def _organisations(database: Database) -> list[tuple[str, UUID]]:
    store, organisations = SqlOrganisations(database), list[tuple[str, UUID]]()
    while True:
        listed = await store.find(Page(offset=len(organisations)))
        organisations += [(item.name, item.id) for item in listed.items]
        if not listed.items or len(organisations) >= listed.total:
            return organisations


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[Database]:
    if not settings.database_url and not paths.store(settings).exists():
        raise NotFound(f"there is no store in {settings.home} yet; start the gateway once, or give --home")
    database = Database(settings.url)
    try:
        yield database
    finally:
        await database.close()
