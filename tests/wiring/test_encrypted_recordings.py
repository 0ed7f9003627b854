"""Recordings under the keys of a store: renewed, rotated, away, lost, and what a bucket alone tells."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.aws import BUCKET, ObjectStorage, object_storage
from tests.support.recordings import Made, events_of, new_session
from tests.support.world import World

from postern.archive.archiver import Archiver, Round
from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import Segment
from postern.errors import Misconfigured, Unavailable
from postern.recording.blob import read_preamble
from postern.recording.layout import recordings_folder
from postern.recording.recording_copies import StoredCopies
from postern.recording.recording_library import Gap, RecordingLibrary
from postern.recording.stored import StoredSegments
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import Encryption, LocalMaster
from postern.store.ports.keys import MasterKey
from postern.store.ports.recording_ports import Blobs
from postern.store.sql.sql_data_keys import SqlDataKeys
from postern.wiring import masters_wiring
from postern.wiring.blobs import KeysForThreads, open_blobs, open_segments
from postern.wiring.host import key_commands as commands

MASTER = os.urandom(32)


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database, MASTER)


@pytest.fixture
async def made(world: World, tmp_path: Path) -> Made:
    return await new_session(world, tmp_path / "home")


def keys_of(encryption: Encryption) -> KeysForThreads:
    return KeysForThreads(encryption, asyncio.get_running_loop())


def opened(world: World, master: MasterKey | None = None, *old: MasterKey) -> Encryption:
    """As another process has it, that has read nothing yet."""
    return Encryption(SqlDataKeys(world.database), master or LocalMaster(MASTER), old=old)


async def store(made: Made, encryption: Encryption | None = None, blobs: Blobs | None = None) -> Round:
    keys = keys_of(encryption or made.world.encryption)
    folder = FolderBlobs(recordings_folder(made.home))
    return await Archiver(made.home, blobs or folder, made.world.stores.segments, keys).round()


async def read(made: Made, encryption: Encryption | None = None, blobs: Blobs | None = None) -> list[Any]:
    rows = await made.rows()
    folder = FolderBlobs(recordings_folder(made.home))
    stored = StoredSegments(lambda _session: rows, blobs or folder, keys_of(encryption or opened(made.world)))
    library = RecordingLibrary(made.home, {}, stored=stored)
    found = [event for _, event in await asyncio.to_thread(list, library.records(made.id))]
    return [event for event in found if type(event).__name__ != "End"]


def wanted(*numbers: int) -> list[Any]:
    return [event for number in numbers for _, event in events_of(number)]


def path_of(made: Made, row: Segment) -> Path:
    return recordings_folder(made.home) / row.place


async def test_who_has_the_folder_without_the_master_key_reads_nothing(made: Made) -> None:
    made.seal_all(3)
    assert (await store(made)).stored == 3
    files = [path for path in recordings_folder(made.home).rglob("*") if path.is_file()]
    assert len(files) == 3
    for file in files:
        content = file.read_bytes()
        for said in (b"select", b"row ", made.session.user.encode(), b"shop", b"\x28\xb5\x2f\xfd", b"POSTREC"):
            assert said not in content
    assert await read(made) == wanted(1, 2, 3)
    assert {row.data_key for row in await made.rows()} == {await made.world.encryption.in_use(made.world.org_id)}
    assert [row.stored_size for row in await made.rows()] == [
        path_of(made, row).stat().st_size for row in await made.rows()
    ]


async def test_a_renewed_data_key_encrypts_what_comes_and_the_old_one_opens_what_was(made: Made) -> None:
    made.seal(1)
    await store(made)
    reader, writer = opened(made.world), opened(made.world)
    assert (await read(made, reader))[:7] == wanted(1)
    await made.world.encryption.renew(made.world.org_id)
    made.seal(2, last=True)
    await store(made, writer)
    first, second = await made.rows()
    assert first.data_key != second.data_key == await made.world.encryption.in_use(made.world.org_id)
    assert await read(made, reader) == wanted(1, 2), "it reads the data keys again by itself"
    counts = await made.world.stores.segments.count_by_key()
    assert counts == {first.data_key: 1, second.data_key: 1}


async def test_attack_a_blob_of_an_older_key_generation(made: Made, tmp_path: Path) -> None:
    """What was encrypted before the renewal, for this very place, is put back: it is what was recorded, or it is found
    to be something else."""
    made.seal(1, [(0, events_of(7)[0][1])], last=True)
    await store(made, blobs=FolderBlobs(tmp_path / "older"))
    (older,) = await made.rows()
    await made.world.encryption.renew(made.world.org_id)
    other = await new_session(made.world, made.home)
    other.seal(1, last=True)
    await store(other)
    (row,) = await other.rows()
    old = (tmp_path / "older" / older.place).read_bytes()
    path_of(other, row).write_bytes(old)
    (gap,) = await read(other)
    assert isinstance(gap, Gap)
    assert "it was" in gap.reason
    path_of(other, row).write_bytes(old[:5] + row.data_key.bytes + old[21:])  # type: ignore[union-attr]
    (gap,) = await read(other)
    assert "it was" in gap.reason


async def test_a_rotated_master_key_changes_no_blob(made: Made) -> None:
    made.seal_all(2)
    await store(made)
    before = {path: path.read_bytes() for path in recordings_folder(made.home).rglob("*.zst")}
    new, old, rows = LocalMaster(os.urandom(32)), LocalMaster(MASTER), SqlDataKeys(made.world.database)
    wrapped = [
        replace(key, master=new.id, wrapped=new.wrap(old.unwrap(key.wrapped, key.context), key.context))
        for key in await rows.all()
    ]
    await rows.rewrap(wrapped, {key.id: old.id for key in wrapped})
    assert await read(made, opened(made.world, new)) == wanted(1, 2)
    assert {path: path.read_bytes() for path in recordings_folder(made.home).rglob("*.zst")} == before
    with pytest.raises(Misconfigured, match="set it to the former"):
        await read(made, opened(made.world))


class AwayMaster:
    """A key service that does not answer while it is `away`."""

    def __init__(self) -> None:
        self._inner = LocalMaster(MASTER)
        self.away = True
        self.id = self._inner.id

    def wrap(self, key: bytes, context: str) -> bytes:
        self._ask()
        return self._inner.wrap(key, context)

    def unwrap(self, wrapped: bytes, context: str) -> bytes:
        self._ask()
        return self._inner.unwrap(wrapped, context)

    def _ask(self) -> None:
        if self.away:
            raise Unavailable("the key service does not answer")


async def test_while_the_key_service_is_away_segments_wait_and_can_be_read(made: Made) -> None:
    master = AwayMaster()
    made.seal_all(2)
    encryption = opened(made.world, master)
    done = await store(made, encryption)
    assert (done.stored, done.set_aside, done.trouble) == (0, 0, "the key service does not answer")
    assert await read(made, encryption) == wanted(1, 2), "from this machine's disk"
    assert not list(recordings_folder(made.home).rglob("*.zst"))
    master.away = False
    done = await store(made, encryption)
    assert (done.stored, done.trouble) == (2, "")
    master.away = True
    assert await read(made, encryption) == wanted(1, 2), "data keys that were opened are kept"
    with pytest.raises(Unavailable, match="key service"):
        await read(made, opened(made.world, master))


async def test_another_master_key_stores_nothing_and_says_why(made: Made) -> None:
    made.seal(1, last=True)
    await made.world.encryption.in_use(made.world.org_id)
    done = await store(made, opened(made.world, LocalMaster(os.urandom(32))))
    assert (done.stored, done.set_aside) == (0, 0), "that is not this segment's fault"
    assert "set it to the former" in done.trouble
    assert made.path(1).exists()


async def test_a_data_key_that_is_lost_is_said(made: Made) -> None:
    """As of a store from a backup that is older than the recording."""
    made.seal_all(2)
    await store(made)
    rows = await made.rows()
    file = path_of(made, rows[0])
    lost = uuid4()
    file.write_bytes(file.read_bytes()[:5] + lost.bytes + file.read_bytes()[21:])
    gap, *rest = await read(made)
    assert gap.reason == (
        f"it is encrypted with the data key {lost}, which this store does not have: the segment was changed, or the "
        "store is older than it"
    )
    assert rest == wanted(2)


async def test_attack_plain_or_foreign_blobs_are_gaps_and_hurt_only_themselves(made: Made) -> None:
    made.seal_all(4)
    plain = made.path(1).read_bytes()
    await store(made)
    rows = await made.rows()
    path_of(made, rows[0]).write_bytes(plain)
    second, third = path_of(made, rows[1]), path_of(made, rows[2])
    swapped = second.read_bytes(), third.read_bytes()
    second.write_bytes(swapped[1])
    third.write_bytes(swapped[0])
    found = await read(made)
    gaps = {event.segment: event.reason for event in found if isinstance(event, Gap)}
    assert set(gaps) == {1, 2, 3}
    assert gaps[1] == "the stored file is not encrypted: the gateway did not write it"
    assert found[-7:] == wanted(4)


@pytest.mark.parametrize("what", ["plain", "changed", "of another session"])
async def test_attack_what_lies_in_a_segments_place_before_it_is_stored(
    made: Made, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """It is not taken for what an archiver left that was killed."""
    other = await new_session(made.world, made.home)
    other.seal(1, last=True)
    await store(other)
    (row,) = await other.rows()
    made.seal(1, last=True)
    place = recordings_folder(made.home) / row.place.replace(str(other.id), str(made.id))
    place.parent.mkdir(parents=True)
    content = path_of(other, row).read_bytes()
    if what == "plain":
        content = made.path(1).read_bytes()
    elif what == "changed":
        content = content[:-1] + bytes([content[-1] ^ 1])
    place.write_bytes(content)
    assert (await store(made)).set_aside == 1
    assert "is already stored with different content (" in caplog.text
    assert ("not encrypted" if what == "plain" else "cannot be decrypted") in caplog.text
    assert place.read_bytes() == content
    assert made.path(1).exists()
    assert await made.rows() == []


async def test_a_retry_after_a_renewal_keeps_what_lies_there(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archiver was killed before the row, and the data key was renewed before it ran again."""

    class Killed(BaseException):
        pass

    async def killed(_row: Segment) -> bool:
        raise Killed

    made.seal(1, last=True)
    with monkeypatch.context() as patch:
        patch.setattr(made.world.stores.segments, "add", killed)
        with pytest.raises(Killed):
            await store(made)
    old = await made.world.encryption.in_use(made.world.org_id)
    await made.world.encryption.renew(made.world.org_id)
    assert (await store(made)).stored == 1
    (row,) = await made.rows()
    blobs = FolderBlobs(recordings_folder(made.home))
    assert row.data_key == old == read_preamble(blobs, row.place).data_key
    assert row.stored_size == blobs.size(row.place)
    assert await read(made) == wanted(1)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStorage]:
    with object_storage() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


async def archive(settings: Settings, world: World) -> Round:
    held = open_segments(settings, world.stores.segments, world.encryption)
    return await Archiver(settings.home, held.blobs, world.stores.segments, held.keys).round()


async def test_a_bucket_is_read_by_library_and_copies_and_tells_nothing_by_itself(
    world: World, storage: ObjectStorage, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path, recordings_url=f"s3://{BUCKET}/kept?allow_http=true")
    made = await new_session(world, tmp_path)
    made.seal_all(2)
    sealed = [made.path(number).read_bytes() for number in (1, 2)]
    assert (await archive(settings, world)).stored == 2
    rows, blobs, keys = await made.rows(), open_blobs(settings), keys_of(opened(world))
    held = storage.keys()
    assert held == [f"kept/{row.place}" for row in rows]
    objects = [storage.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in held]
    assert not any(b"\x28\xb5\x2f\xfd" in one or b"select" in one for one in objects)
    assert await read(made, blobs=blobs) == wanted(1, 2)
    copies = StoredCopies(blobs, keys)
    found = await asyncio.to_thread(lambda: [b"".join(copies.read(row)) for row in rows])
    assert found == sealed


def test_the_status_of_keys_counts_segments(database_url: str, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=database_url)

    async def fill() -> None:
        database = Database(settings.url)
        await database.migrate()
        masters_wiring.master(settings)
        world = await World.make(database, (tmp_path / "keys" / "encryption.key").read_bytes())
        made = await new_session(world, tmp_path)
        made.seal_all(3)
        await archive(settings, world)
        await database.close()

    asyncio.run(fill())
    commands.renew(settings, None)
    found = [key for key in commands.status(settings).keys if key.organisation == "default"]
    assert sorted((bool(key.retired_at), key.segments) for key in found) == [(False, 0), (True, 3)]
