"""Verification of this machine's store and recordings. No login is needed, and the gateway can run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from postern.domain.lists import Page
from postern.errors import NotFound
from postern.proof.proof_findings import VerificationReport
from postern.recording.recording_copies import StoredCopies
from postern.services.recordings.verifier import RecordVerifier
from postern.settings import Settings
from postern.store.database import Database
from postern.store.sql.identity.sql_organisations import SqlOrganisations
from postern.store.sql.recordings.sql_checkpoints import SqlLedgerKeys
from postern.store.sql.recordings.sql_ledger import SqlLedger
from postern.wiring import masters_wiring, paths
from postern.wiring.blobs import KeysForThreads, open_blobs


def verify(
    settings: Settings,
    organisation: str | None,
    *,
    keys: Sequence[bytes],
    anchors: Sequence[bytes],
    with_segments: bool,
    progress: Callable[[int], None],
) -> Mapping[str, VerificationReport]:
    """Return the results by the names of the organisations, all or one. `keys` and `anchors` are as in
    `RecordVerifier.verify`.

    Raises NotFound, Misconfigured, Unavailable.
    """
    return asyncio.run(_verify(settings, organisation, keys, anchors, with_segments, progress))


async def _verify(
    settings: Settings,
    organisation: str | None,
    keys: Sequence[bytes],
    anchors: Sequence[bytes],
    with_segments: bool,
    progress: Callable[[int], None],
) -> dict[str, VerificationReport]:
    if not settings.database_url and not paths.store(settings).exists():
        raise NotFound(f"there is no store in {settings.home} yet; start the gateway once, or give --home")
    database = Database(settings.url)
    try:
        encryption = masters_wiring.open_encryption(settings, database)
        copies = StoredCopies(open_blobs(settings), KeysForThreads(encryption, asyncio.get_running_loop()))
        verifier = RecordVerifier(
            SqlLedger(database), SqlLedgerKeys(database, encryption), copies, lambda: datetime.now(UTC)
        )
        reports = {}
        store, offset = SqlOrganisations(database), 0
        while (listed := await store.find(Page(offset=offset))).items:
            offset += len(listed.items)
            for item in listed.items:
                if organisation is None or item.name == organisation:
                    material = {"keys": keys, "anchors": anchors}
                    reports[item.name] = await verifier.verify(
                        item.id, **material, with_segments=with_segments, progress=progress
                    )
        if not reports:
            raise NotFound(f"there is no organisation {organisation!r}")
        return reports
    finally:
        await database.close()
