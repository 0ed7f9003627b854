"""The claim of this data folder on its store (services.store_claim)."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import UTC, datetime
from uuid import UUID, uuid4

from postern.errors import Misconfigured, PosternError
from postern.services.store_claim import StoreClaim
from postern.settings import Settings
from postern.store.database import Database
from postern.store.sql.sql_leases import SqlLeases
from postern.wiring import paths

log = logging.getLogger(__name__)

_PATIENCE = 5.0  # seconds


def build_claim(settings: Settings, database: Database) -> StoreClaim:
    """Raises Misconfigured if the data folder cannot be used."""
    place = str(settings.home.resolve())
    return StoreClaim(SqlLeases(database), _identity(settings), place, lambda: datetime.now(UTC))


async def require_free(settings: Settings) -> None:
    """Claim the store before its schema is migrated, which a running gateway would not survive. Raises Conflict."""
    database = Database(settings.url)
    try:
        if await database.has_table("leases"):
            await build_claim(settings, database).take()
    finally:
        await database.close()


def release(settings: Settings) -> None:
    """Release the claim, so that a different gateway can use the store, after all processes of this one ended."""
    if not paths.gateway_id(settings).exists():  # the start failed before the claim
        return
    try:
        asyncio.run(asyncio.wait_for(_release(settings), _PATIENCE))
    except (PosternError, TimeoutError) as error:
        log.warning(
            "the claim on the store could not be released, so a different gateway can use it only in a minute: %s",
            error,
        )


async def _release(settings: Settings) -> None:
    database = Database(settings.url, pool_size=1)
    try:
        await build_claim(settings, database).release()
    finally:
        await database.close()


def _identity(settings: Settings) -> str:
    """Return the id of this data folder, created once; a folder that is moved with its volume keeps it."""
    file = paths.gateway_id(settings)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = file.with_name(f".gateway-id.{os.getpid()}")
        if not file.exists():
            draft.write_text(str(uuid4()))
            try:
                os.link(draft, file)  # one of several processes is first
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return str(UUID(file.read_text().strip()))
    except ValueError:
        raise Misconfigured(f"{file} is damaged; remove it while the gateway is stopped", field="home") from None
    except OSError as error:
        raise Misconfigured(f"{file} cannot be used: {error.strerror}", field="home") from None
