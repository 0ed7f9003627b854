"""Sessions with recordings in a store, as workers and the archiver leave them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import insert, text
from tests.support.proofs import segment_bytes, stored
from tests.support.recordings import KEYS, encrypt
from tests.support.world import MACHINE, World

from postern.archive.folder import FolderBlobs
from postern.domain.identity.principal import Principal
from postern.domain.sessions.ledger import Checkpoint
from postern.domain.sessions.segment import Segment, first_link, next_link
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.domain.targets.connection import Connection
from postern.errors import Unavailable
from postern.proof.proof_copies import measure
from postern.recording.recording_copies import StoredCopies
from postern.services.bundle import Services
from postern.services.server.machine_facts import MachineFacts
from postern.store.ports.keys import SegmentKeys
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.recording_tables import segments


@dataclass
class HeldAnchor:
    """Keeps what it is given, unless it is `away`."""

    name: str = "held"
    away: bool = False
    lines: list[bytes] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, checkpoint: Checkpoint, line: bytes) -> None:
        if self.away:
            raise Unavailable("the anchor is away")
        self.lines.append(line)
        self.reached.set()


@dataclass
class Records:
    """Of one world; recordings lie in `folder`."""

    world: World
    folder: Path
    user: Principal
    connection: Connection
    anchor: HeldAnchor = field(default_factory=HeldAnchor)
    keys: SegmentKeys = KEYS

    @classmethod
    async def make(cls, world: World, folder: Path) -> Records:
        world.clock.tick = timedelta(milliseconds=1)
        user = await world.add_user("ann", "admin")
        return cls(world, folder, user, await world.add_connection())

    def copies(self) -> StoredCopies:
        return StoredCopies(FolderBlobs(self.folder), self.keys)

    def machine(self) -> MachineFacts:
        return replace(MACHINE, copies=self.copies(), anchors=lambda: (self.anchor,))

    def services(self) -> Services:
        return self.world.services(self.machine())

    async def open(self, *, status: SessionStatus = SessionStatus.OPEN, script: str | None = None) -> UUID:
        session = Session(
            id=uuid4(),
            org_id=self.world.org_id,
            connection_id=self.connection.id,
            connection=self.connection.name,
            connection_subtype="postgres",
            connection_tags={},
            type="database",
            verb=Verb.CONNECT if script is None else Verb.EXEC,
            status=status,
            user=self.user.email,
            user_id=self.user.subject,
            user_name=self.user.name,
            start_date=self.world.clock(),
            script=script,
        )
        await self.world.stores.sessions.add(session, principal_id=self.user.id, source="192.0.2.7")
        return session.id

    async def end(self, session: UUID, *, size: int = 1000) -> None:
        ended = SessionEnd(self.world.clock(), EndReason.CLIENT_CLOSED, exit_code=0, event_size=size)
        assert await self.world.stores.sessions.end(session, ended)

    async def store(
        self, session: UUID, count: int, *, numbers: Sequence[int] | None = None, is_last: bool = True, damage: str = ""
    ) -> None:
        """`count` segments, of which `numbers` have reached the store."""
        chain = first_link(self.world.org_id, session)
        for number in range(1, count + 1):
            ends = is_last and number == count
            plain = segment_bytes(session, number, is_last=ends)
            size, digest = measure([plain])
            chain = next_link(chain, number, size, digest)
            if numbers is not None and number not in numbers:
                continue
            packed, place = stored(plain), f"{session}.{number:06}.rec.zst"
            data_key = await self.keys.in_use(self.world.org_id)
            packed = encrypt(packed, self.world.org_id, session, number, data_key, self.keys)
            (self.folder / place).write_bytes(packed)
            at = self.world.clock()
            row = Segment(
                *(
                    session,
                    self.world.org_id,
                    number,
                    digest,
                    chain,
                    size,
                    len(packed),
                    0,
                    10,
                    1,
                    ends,
                    place,
                    at,
                    damage,
                    0,
                    data_key,
                )
            )
            async with self.world.database.statement() as connection:
                values = {column.name: getattr(row, column.name) for column in segments.c}
                await connection.execute(insert(segments).values(values))

    async def recorded(self, count: int = 2, *, script: str | None = None) -> UUID:
        """A session from its opening to its last stored segment."""
        session = await self.open(script=script)
        if count:
            await self.store(session, count)
        await self.end(session, size=1000 * count)
        return session

    async def sql(self, statement: str, **values: object) -> int:
        """What somebody does by hand who has the database; how many rows that changed."""
        async with self.world.database.statement() as connection:
            return (await connection.execute(text(statement), values)).rowcount

    def key_of(self, session: UUID) -> str:
        """As the store's engine has it."""
        return session.hex if self.world.database.is_sqlite else str(session)
