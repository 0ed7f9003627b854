"""Sessions that were kept long enough, and who purges them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import UUID

from tests.support.recorded import Records
from tests.support.recordings import BrokenBlobs

from postern.archive.folder import FolderBlobs
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.retention import Retention
from postern.proof.proof_findings import VerificationReport
from postern.recording.purged import delete_local
from postern.services.bundle import Services
from postern.services.recordings.purger import Purger
from postern.store.ports.recording_ports import Blobs
from postern.store.ports.server_ports import AuditEntry, AuditFilter


@dataclass
class Keeping:
    """`records` in a store whose clock tests move, and a purger that has been at it for long."""

    records: Records
    services: Services
    home: Path
    admin: Principal
    blobs: BrokenBlobs

    @classmethod
    async def make(cls, records: Records, home: Path) -> Self:
        services = records.services()
        blobs = BrokenBlobs(FolderBlobs(records.folder))
        made = cls(records, services, home, records.user, blobs)
        await made.round()
        await made.days(1.5)
        return made

    def another(self) -> Purger:
        """As after a start of the process."""
        return purger_of(self.records, self.records.services(), self.blobs, self.home)

    async def round(self) -> int:
        """Of a process that starts, purges, and stops."""
        purger = self.another()
        done = await purger.once()
        await purger.stop()
        return done

    async def days(self, count: float) -> None:
        """Go by, with a gateway that is there all the time."""
        world = self.records.world
        while count > 0:
            world.clock.forward(days=min(count, 0.5))
            await world.stores.purges.tick(world.clock.now, 86_400.0, 86_400.0)
            count -= 0.5

    async def sessions(self, count: int, segments: int = 2) -> list[UUID]:
        """Ended, stored, counted, and closed in the ledger."""
        made = [await self.records.recorded(segments) for _ in range(count)]
        await self.settle()
        return made

    async def settle(self) -> None:
        while await self.services.postprocessing.once():
            pass
        await self.services.ledger.write()

    async def keep(self, recordings: int | None, sessions: int | None, connection: str | None = None) -> None:
        wanted = Retention(recordings, sessions)
        if connection is None:
            await self.services.retention.set_organisation(self.admin, wanted)
        else:
            await self.services.retention.set_connection(self.admin, connection, wanted)

    async def there(self, sessions: Sequence[UUID]) -> list[tuple[bool, int, int]]:
        """Of each: whether its row is there, how many rows of segments, how many files."""
        found = []
        for key in sessions:
            row = await self.records.world.stores.sessions.get(self.records.world.org_id, key)
            rows = await self.records.world.stores.segments.of(key)
            found.append((row is not None, len(rows), len(list(self.records.folder.glob(f"{key}.*")))))
        return found

    async def entries(self, kind: EntryKind) -> list[UUID | None]:
        found = await self.records.world.stores.ledger.entries(self.records.world.org_id, 1, 1_000_000)
        return [one.session_id for one in found if one.kind is kind]

    async def audit(self) -> list[AuditEntry]:
        page = await self.records.world.stores.audit.find(self.records.world.org_id, AuditFilter(), Page())
        return list(page.items)

    async def verified(self) -> VerificationReport:
        await self.services.checkpoints.make(self.admin)
        return await self.services.verifier.verify(self.records.world.org_id)


def purger_of(records: Records, services: Services, blobs: Blobs, home: Path) -> Purger:
    stores = records.world.stores
    clean = functools.partial(delete_local, home)
    return Purger(
        leases=stores.leases,
        retentions=stores.retentions,
        store=stores.purges,
        register=services.purge_register,
        blobs=blobs,
        clean=clean,
        now=records.world.clock,
    )
