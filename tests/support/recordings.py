"""Sealed segments on a disk, sessions that they belong to, and blob stores that misbehave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from tests.support.world import START, World

from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import Session, SessionStatus, Verb
from postern.domain.targets.connection import Connection
from postern.errors import Malformed, Unavailable
from postern.interception.events import ClientOutput, End, Event, Operation, Refusal
from postern.recording.blob import open_blob
from postern.recording.cipher import SALT, Preamble, encrypt_blob, key_info
from postern.recording.layout import sealed_path, spool_path
from postern.recording.record_format import Header, encode
from postern.recording.sealing import seal
from postern.recording.spool import Spool
from postern.recording.stored import StoredSegments
from postern.store.ports.keys import SegmentKeys
from postern.store.ports.recording_ports import Blobs


class HeldKeys:
    """One data key for each organisation, the same in every test."""

    async def in_use(self, org_id: UUID) -> UUID:
        return uuid5(NAMESPACE_OID, org_id.hex)

    def derive(self, data_key: UUID, org_id: UUID, *, salt: bytes, info: bytes) -> bytes:
        if data_key != uuid5(NAMESPACE_OID, org_id.hex):
            raise Malformed(f"it is encrypted with the data key {data_key}, which this store does not have")
        return HKDF(SHA256(), 32, salt=salt, info=info).derive(data_key.bytes)


KEYS = HeldKeys()


def encrypt(sealed: bytes, org_id: UUID, session: UUID, number: int, data_key: UUID, keys: SegmentKeys = KEYS) -> bytes:
    """A blob, as the archiver makes it."""
    preamble = Preamble(data_key, os.urandom(SALT))
    key = keys.derive(data_key, org_id, salt=preamble.salt, info=key_info(org_id, session, number))
    return b"".join(encrypt_blob(key, preamble, [sealed]))


def decrypt(blobs: Blobs, row: Segment, keys: SegmentKeys = KEYS) -> bytes:
    """The segment as it was sealed."""
    with open_blob(blobs, keys, row) as blob:
        return blob.read()


def events_of(number: int, count: int = 3) -> list[tuple[int, Event]]:
    """What segment `number` records: one second for each segment, with a statement, an answer and a refusal."""
    start = (number - 1) * 1_000_000
    found: list[tuple[int, Event]] = []
    for one in range(count):
        found.append((start + one * 1000, Operation(one, f"select {number}.{one}")))
        found.append((start + one * 1000, ClientOutput(f"row {number}.{one}\n".encode())))
    return [*found, (start + 900_000, Refusal(9, "drop", "blocked"))]


@dataclass
class Made:
    """A session of `world`, whose segments are put into `home`."""

    world: World
    home: Path
    session: Session

    @property
    def id(self) -> UUID:
        return self.session.id

    def header(self, number: int = 1) -> Header:
        session = self.session
        return Header(session.id, session.org_id, "postgres", "shop", session.user, session.start_date, number)

    def path(self, number: int = 1) -> Path:
        return sealed_path(self.home, self.id, self.session.start_date, number)

    def spool(
        self, number: int = 1, events: Sequence[tuple[int, Event]] | None = None, *, end: End | None = None
    ) -> Path:
        """A spool with what `events_of` says, that goes on unless `end` says otherwise."""
        spool = Spool.create(spool_path(self.home, "w1", self.id, number), self.header(number))
        events = events_of(number) if events is None else events
        for micros, event in events:
            spool.append(encode(event, micros))
        if end is not None:
            spool.append(encode(end, events[-1][0]))
        spool.close()
        return spool.path

    def seal(self, number: int = 1, events: Sequence[tuple[int, Event]] | None = None, *, last: bool = False) -> Path:
        path = self.spool(number, events, end=End("client_closed") if last else End("", continues=True))
        seal(path, self.path(number))
        return self.path(number)

    def seal_all(self, count: int) -> None:
        for number in range(1, count + 1):
            self.seal(number, last=number == count)

    async def rows(self) -> list[Segment]:
        return await self.world.stores.segments.of(self.id)


async def new_session(world: World, home: Path, connection: Connection | None = None) -> Made:
    connection = connection or await world.add_connection(f"c{uuid4().hex}")
    ann = await world.add_user(f"u{uuid4().hex}")
    session = Session(
        id=uuid4(),
        org_id=world.org_id,
        connection_id=connection.id,
        connection=connection.name,
        connection_subtype="postgres",
        connection_tags={},
        type="database",
        verb=Verb.CONNECT,
        status=SessionStatus.OPEN,
        user=ann.email,
        user_id=ann.subject,
        user_name=ann.name,
        start_date=START + timedelta(seconds=1),
        worker="w1",
    )
    await world.stores.sessions.add(session, principal_id=ann.id, source="::1")
    return Made(world, home, session)


@dataclass
class BrokenBlobs:
    """A folder whose doors can be shut: `trouble` is raised by all that is asked of it, `hang` is waited for."""

    inner: FolderBlobs
    trouble: str = ""
    hang: asyncio.Event | None = None
    puts: list[str] = field(default_factory=list)
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    deletes: list[str] = field(default_factory=list)
    name: str = "the folder of a test"

    def _ask(self) -> None:
        if self.trouble:
            raise Unavailable(self.trouble)

    async def put(self, key: str, content: Iterable[bytes]) -> bool:
        self.puts.append(key)
        if self.hang is not None:
            await self.hang.wait()
        self._ask()
        return await self.inner.put(key, content)

    async def delete(self, key: str) -> None:
        self.deletes.append(key)
        if self.hang is not None:
            await self.hang.wait()
        self._ask()
        await self.inner.delete(key)

    def size(self, key: str) -> int:
        self._ask()
        return self.inner.size(key)

    def read(self, key: str, start: int, length: int) -> bytes:
        self.reads.append((key, start, length))
        self._ask()
        return self.inner.read(key, start, length)


def stored_of(rows: Sequence[Segment], blobs: BrokenBlobs) -> StoredSegments:
    """What a library asks, with rows that stay as they are."""
    return StoredSegments(lambda session_id: [row for row in rows if row.session_id == session_id], blobs, KEYS)
