"""A backup of a gateway on disk, and what is restored from it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import zstandard
from click.testing import CliRunner
from sqlalchemy import delete, insert, update
from tests.support.filled import all_rows
from tests.support.kms import kms
from tests.support.postgres import PostgresServer
from tests.support.recordings import Made, new_session
from tests.support.world import START, World

from postern.archive.archiver import Archiver
from postern.archive.folder import FolderBlobs
from postern.backup.backup_reader import BackupReader
from postern.backup.backup_writer import BackupWriter
from postern.cli.main import cli
from postern.errors import BackupFailed, Conflict, Malformed, Misconfigured, NotFound, PosternError
from postern.interception.events import Operation
from postern.recording.blob import open_blob
from postern.recording.layout import recordings_folder
from postern.recording.reader import SegmentReader
from postern.settings import Settings
from postern.store import migration_files, schema_versions
from postern.store.database import Database
from postern.store.schema.recording_tables import leases, segments
from postern.store.schema.server_tables import audit_log, installation
from postern.store.schema.session_tables import sessions
from postern.store.sql.recordings.sql_segments import SqlSegments
from postern.wiring import masters_wiring, paths
from postern.wiring.blobs import KeysForThreads
from postern.wiring.host import backup, key_commands, restore
from postern.wiring.host.backup import BackupResult, create_backup, export_keys
from postern.wiring.host.restore import RestoreResult, restore_backup, verify_backup
from postern.wiring.processes import prepare

MASTER = os.urandom(32)
FILES = ("gateway-id", "tls/ca.crt", "tls/ca.key", "keys/ssh_host_ed25519.key")


@pytest.fixture
async def world(database: Database) -> World:
    return await World.make(database, MASTER)


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    for name in FILES:
        write(home / name, name.encode())
    write(home / "keys" / "encryption.key", MASTER)
    write(home / "first-run.json", b"a password")
    return Settings(home=home, database_url=database_url)


@pytest.fixture(params=["to-sqlite", "to-postgres"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Settings]:
    """An empty data folder and an empty store."""
    if request.param == "to-sqlite":
        yield Settings(home=tmp_path / "restored")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"t{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name}")
    yield Settings(home=tmp_path / "restored", database_url=server.dsn(name, scheme="postgresql+asyncpg"))
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)


async def archive(world: World, settings: Settings) -> None:
    keys = KeysForThreads(world.encryption, asyncio.get_running_loop())
    await Archiver(settings.home, FolderBlobs(recordings_folder(settings.home)), world.stores.segments, keys).round()


async def stored_session(world: World, settings: Settings, count: int = 2) -> Made:
    made = await new_session(world, settings.home)
    made.seal_all(count)
    await archive(world, settings)
    assert len(await made.rows()) == count
    return made


async def back_up(settings: Settings, path: Path, **more: Any) -> BackupResult:
    return await asyncio.to_thread(create_backup, settings, path, **more)


async def restored(settings: Settings, path: Path, **more: Any) -> RestoreResult:
    return await asyncio.to_thread(restore_backup, settings, path, **more)


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have `work` done after the snapshot of the store, and before recordings are copied."""
    copy_gateway = backup._copy_gateway

    def changed(settings: Settings, writer: BackupWriter) -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, work()).result()
        copy_gateway(settings, writer)

    monkeypatch.setattr(backup, "_copy_gateway", changed)


async def statements(settings: Settings) -> list[str]:
    """What all stored recordings of a data folder say, read with its own keys."""
    database = Database(settings.url)
    encryption = masters_wiring.open_encryption(settings, database)
    keys = KeysForThreads(encryption, asyncio.get_running_loop())
    blobs = FolderBlobs(recordings_folder(settings.home))
    found: list[str] = []
    async with database.statement() as statement:
        ids = set((await statement.execute(segments.select())).scalars())
    for session_id in ids:
        for row in await SqlSegments(database).of(session_id):
            found += await asyncio.to_thread(read, await asyncio.to_thread(open_blob, blobs, keys, row))
    await database.close()
    return sorted(found)


def read(source: Any) -> list[str]:
    with SegmentReader(source) as reader:
        return [event.text for _, event in reader if isinstance(event, Operation)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def rows(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    database = Database(settings.url)
    try:
        found = await database.together(all_rows)
        # Processes that ran, and what a backup writes of itself.
        return {name: values for name, values in found.items() if name not in ("leases", "installation")}
    finally:
        await database.close()


async def test_restored_gateway_has_all_rows_files_and_recordings(
    world: World, settings: Settings, target: Settings, tmp_path: Path
) -> None:
    await stored_session(world, settings)
    waiting, running = await new_session(world, settings.home), await new_session(world, settings.home)
    sealed, spool = waiting.seal(1, last=True), running.spool(1)
    before, said = await rows(settings), await statements(settings)
    async with world.database.statement() as statement:
        await statement.execute(insert(leases).values(name="gateway", holder="x", until=START))
    path, keys = tmp_path / "b.tar", tmp_path / "master.key"
    made = await back_up(settings, path, keys=keys)
    assert (made.segments, made.unstored, made.missing, made.purged) == (2, 2, (), 0)
    shutil.move(settings.home, tmp_path / "destroyed")
    result = await restored(target, path, keys=keys)
    assert (result.segments, result.unstored, result.needs_key) == (2, 2, "")
    assert await rows(target) == before
    assert await statements(target) == said
    for name in FILES:
        assert (target.home / name).read_bytes() == name.encode()
    lost = tmp_path / "destroyed"
    for file in (sealed, spool):
        place = file.relative_to(settings.home)
        assert (target.home / place).read_bytes() == (lost / place).read_bytes()
    assert (target.home / "keys" / "encryption.key").read_bytes() == MASTER
    assert not (target.home / "first-run.json").exists()
    assert not paths.restoring(target).exists()
    assert all(path.stat().st_mode & 0o077 == 0 for path in [target.home, *target.home.rglob("*")])
    async with Database(target.url).statement() as statement:
        assert (await statement.execute(leases.select())).all() == []


async def test_backup_never_contains_the_master_key(world: World, settings: Settings, tmp_path: Path) -> None:
    keys = tmp_path / "master.key"
    await back_up(settings, tmp_path / "b.tar", keys=keys)
    assert MASTER not in (tmp_path / "b.tar").read_bytes()
    with BackupReader(tmp_path / "b.tar") as reader:
        assert not [member.name for member in reader.members() if "encryption" in member.name]
    assert keys.read_bytes() == MASTER
    assert keys.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", ["file", "env"])
async def test_master_key_outside_of_the_data_folder_is_exported(
    place: str, world: World, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "m.key", MASTER)
    monkeypatch.setenv("BACKUP_MASTER", base64.b64encode(MASTER).decode())
    master_key = {"file": f"file:{tmp_path / 'm.key'}", "env": "env:BACKUP_MASTER"}[place]
    outside = replace(settings, master_key=master_key)
    await asyncio.to_thread(export_keys, outside, tmp_path / "exported")
    assert (tmp_path / "exported").read_bytes() == MASTER
    with pytest.raises(Conflict, match="exists already"):
        await asyncio.to_thread(export_keys, outside, tmp_path / "exported")
    assert await audited(world) == [("export", "keys", "postern keys export")]


async def audited(world: World) -> list[tuple[str, str, str]]:
    async with world.database.statement() as statement:
        rows = await statement.execute(audit_log.select().order_by(audit_log.c.at, audit_log.c.action))
    return [(row.action, row.resource_type, row.path) for row in rows]


async def test_backup_and_export_of_the_key_are_in_the_audit_log(
    world: World, settings: Settings, tmp_path: Path
) -> None:
    await back_up(settings, tmp_path / "b.tar", keys=tmp_path / "k")
    assert await audited(world) == [
        ("export", "keys", "postern backup --keys"),
        ("create", "backups", "postern backup"),
    ]


@pytest.mark.ci
def test_master_key_in_a_kms_has_nothing_to_export(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kms(monkeypatch) as arn, pytest.raises(Misconfigured, match="nothing to export"):
        export_keys(replace(settings, master_key=f"aws-kms:{arn}"), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


async def test_keys_are_not_exported_while_their_rotation_is_unfinished(
    world: World, settings: Settings, tmp_path: Path
) -> None:
    await world.encryption.in_use(world.org_id)
    await asyncio.to_thread(key_commands.rotate, settings, f"file:{tmp_path / 'new.key'}")
    with pytest.raises(Conflict, match="finish `postern keys rotate`"):
        await back_up(settings, tmp_path / "b.tar", keys=tmp_path / "master.key")
    assert not (tmp_path / "b.tar").exists()
    assert not (tmp_path / "master.key").exists()


async def test_data_key_that_is_renewed_meanwhile_is_not_lost(
    world: World, settings: Settings, target: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recordings that are stored with the new key during the backup are not in it; all that are in it can be read."""
    await stored_session(world, settings)
    said = await statements(settings)
    waiting = await new_session(world, settings.home)
    waiting.seal(1, last=True)

    async def renew() -> None:
        database = Database(settings.url)
        encryption = masters_wiring.open_encryption(settings, database)
        for org in (world.org_id, None):
            await encryption.renew(org)
        keys = KeysForThreads(encryption, asyncio.get_running_loop())
        blobs = FolderBlobs(recordings_folder(settings.home))
        await Archiver(settings.home, blobs, SqlSegments(database), keys).round()
        await database.close()

    meanwhile(monkeypatch, renew)
    made = await back_up(settings, tmp_path / "b.tar", keys=tmp_path / "k")
    assert len(await waiting.rows()) == 1
    assert not list(settings.home.glob("sealed/*/*/*"))
    assert (made.segments, made.unstored) == (2, 1)
    await restored(target, tmp_path / "b.tar", keys=tmp_path / "k")
    assert await statements(target) == said
    # What the archiver deleted meanwhile is there, and is stored again.
    (sealed,) = target.home.glob("sealed/*/*/*")
    assert read(sealed) == ["select 1.0", "select 1.1", "select 1.2"]


async def test_recording_of_a_session_that_the_store_does_not_have_is_left_out(
    world: World, settings: Settings, tmp_path: Path
) -> None:
    """As of one that began after the snapshot: the archiver could never store it."""
    running = await new_session(world, settings.home)
    running.spool(1)
    async with world.database.statement() as statement:
        await statement.execute(delete(sessions))
    made = await back_up(settings, tmp_path / "b.tar")
    assert made.unstored == 0


@pytest.mark.parametrize("is_purged", [True, False])
async def test_recording_that_is_missing_is_named_unless_it_was_purged(
    is_purged: bool, world: World, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored_session(world, settings, 1)
    (blob,) = recordings_folder(settings.home).rglob("*.zst")
    place = blob.relative_to(recordings_folder(settings.home)).as_posix()

    async def purge() -> None:
        blob.unlink()
        if is_purged:
            database = Database(settings.url)
            async with database.statement() as statement:
                await statement.execute(delete(segments))
            await database.close()

    meanwhile(monkeypatch, purge)
    made = await back_up(settings, tmp_path / "b.tar")
    assert (made.purged, made.missing) == ((1, ()) if is_purged else (0, (place,)))
    assert verify_backup(tmp_path / "b.tar")["missing"] == list(made.missing)


async def test_folder_keeps_recordings_once_and_each_backup_can_be_restored(
    world: World, settings: Settings, target: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    await stored_session(world, settings)
    first = await back_up(settings, folder)
    os.rename(first.path, folder / "postern-20200101T000000Z.tar")
    await stored_session(world, settings, 1)
    second = await back_up(settings, folder)
    assert (first.segments, first.new_segments, second.segments, second.new_segments) == (2, 2, 3, 1)
    assert len(list((folder / "recordings").rglob("*.zst"))) == 3
    await restored(target, folder / "postern-20200101T000000Z.tar", keys=settings.home / "keys" / "encryption.key")
    assert len(await statements(target)) == 6


async def test_recordings_can_be_left_out(world: World, settings: Settings, tmp_path: Path) -> None:
    await stored_session(world, settings)
    made = await back_up(settings, tmp_path / "b.tar", with_recordings=False)
    assert (made.segments, made.recordings) == (0, "left out")


async def test_recordings_in_a_bucket_are_not_copied_and_that_is_said(
    world: World, settings: Settings, tmp_path: Path
) -> None:
    elsewhere = replace(settings, recordings_url="s3://bucket/prefix")
    made = await back_up(elsewhere, tmp_path / "b.tar")
    assert (made.segments, made.recordings) == (0, "not copied: they are in s3://bucket")


async def test_backup_does_not_lie_in_what_it_backs_up(world: World, settings: Settings, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    elsewhere = replace(settings, recordings_url=f"file://{shared / 'recordings'}")
    for chosen, target in ((settings, settings.home), (settings, settings.home / "b.tar"), (elsewhere, shared)):
        with pytest.raises(Conflict, match="choose a different place"):
            await back_up(chosen, target)
    assert names(shared) == []


async def test_time_of_the_last_backup_is_known(world: World, settings: Settings, tmp_path: Path) -> None:
    made = await back_up(settings, tmp_path / "b.tar")
    async with world.database.statement() as statement:
        (row,) = (await statement.execute(installation.select())).all()
    assert (row.name, row.value) == ("backup", made.created_at.isoformat())


async def test_store_of_a_different_version_is_not_backed_up(
    world: World, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.store.migration_files.newest", lambda: frozenset({"2"}))
    with pytest.raises(Conflict, match="the version that the gateway runs"):
        await back_up(settings, tmp_path / "b.tar")


async def test_sessions_that_were_running_go_to_the_first_worker(
    world: World, settings: Settings, target: Settings, tmp_path: Path
) -> None:
    """There may be fewer now. A script that was about to run is not run a second time; one that waits for a review
    still waits."""
    states = {name: await new_session(world, settings.home) for name in ("open", "ready", "reviewed", "done")}
    spool = states["open"].spool(1)
    other = spool.parent.parent / "w7" / spool.name
    other.parent.mkdir()
    spool.rename(other)
    async with world.database.statement() as statement:
        for name, made in states.items():
            values: dict[str, Any] = {"status": "ready" if name == "reviewed" else name, "worker": "w7"}
            values |= {"review_id": uuid4()} if name == "reviewed" else {}
            await statement.execute(update(sessions).where(sessions.c.id == made.id).values(values))
    await back_up(settings, tmp_path / "b.tar")
    await restored(target, tmp_path / "b.tar")
    database = Database(target.url)
    async with database.statement() as statement:
        found = {row.id: (row.status, row.worker) for row in await statement.execute(sessions.select())}
    await database.close()
    assert {name: found[made.id] for name, made in states.items()} == {
        "open": ("open", "w1"), "ready": ("open", "w1"), "reviewed": ("ready", "w7"), "done": ("done", "w7"),
    }  # fmt: skip
    assert [path.relative_to(target.home).as_posix() for path in target.home.glob("spool/*/*")] == [
        f"spool/w1/{spool.name}"
    ]


async def test_backup_ends_before_it_takes_the_space_of_recordings(
    world: World, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "_CHECK_EVERY", 1)
    await back_up(settings, tmp_path / "a.tar")
    scarce = replace(settings, recording_least_free=1 << 60)
    with pytest.raises(Conflict, match="would fill the disk of the data folder"):
        await back_up(scarce, tmp_path / "b.tar", keys=tmp_path / "k")
    assert names(tmp_path) == ["a.tar", "home"]


async def test_failed_backup_leaves_no_exported_key(
    world: World, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise BackupFailed("no space is left")

    monkeypatch.setattr(BackupWriter, "finish", fails)
    with pytest.raises(BackupFailed, match="no space is left"):
        await back_up(settings, tmp_path / "b.tar", keys=tmp_path / "k")
    assert names(tmp_path) == ["home"]


# What is refused changes nothing.


def left(settings: Settings) -> list[Path]:
    return list(settings.home.iterdir()) if settings.home.exists() else []


async def is_empty(settings: Settings) -> bool:
    database = Database(settings.url)
    try:
        return await database.find_table() is None
    finally:
        await database.close()


async def test_data_folder_with_files_is_refused(world: World, settings: Settings, tmp_path: Path) -> None:
    await back_up(settings, tmp_path / "b.tar")
    target = Settings(home=tmp_path / "restored")
    write(target.home / "precious", b"x")
    with pytest.raises(Conflict, match=r"not empty \(it has precious\)"):
        await restored(target, tmp_path / "b.tar")
    assert [path.name for path in left(target)] == ["precious"]
    assert await is_empty(target)


async def test_store_with_tables_is_refused(world: World, settings: Settings, tmp_path: Path) -> None:
    await back_up(settings, tmp_path / "b.tar")
    before = await rows(settings)
    target = Settings(home=tmp_path / "restored", database_url=settings.url)
    with pytest.raises(Conflict, match="the store is not empty"):
        await restored(target, tmp_path / "b.tar")
    assert left(target) == []
    assert await rows(settings) == before


async def test_wrong_master_key_is_refused(world: World, settings: Settings, tmp_path: Path) -> None:
    await world.encryption.in_use(world.org_id)
    await back_up(settings, tmp_path / "b.tar")
    write(tmp_path / "other.key", os.urandom(32))
    target = Settings(home=tmp_path / "restored")
    with pytest.raises(Misconfigured, match="and the backup needs local:"):
        await restored(target, tmp_path / "b.tar", keys=tmp_path / "other.key")
    assert left(target) == []


async def test_missing_master_key_is_named(world: World, settings: Settings, tmp_path: Path) -> None:
    await world.encryption.in_use(world.org_id)
    await back_up(settings, tmp_path / "b.tar")
    result = await restored(Settings(home=tmp_path / "restored"), tmp_path / "b.tar")
    assert result.needs_key == masters_wiring.master(settings).id


async def test_backup_of_a_newer_schema_is_refused(
    world: World, settings: Settings, target: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "schema_versions", lambda _: ["99"])
    await back_up(settings, tmp_path / "b.tar")
    with pytest.raises(Misconfigured, match="'99', which this version of Postern does not know"):
        await restored(target, tmp_path / "b.tar")
    assert left(target) == []
    assert await is_empty(target)


async def test_backup_of_an_older_schema_is_restored_as_it_was_and_upgraded_at_the_start(
    world: World, settings: Settings, target: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await rows(settings)
    await back_up(settings, tmp_path / "b.tar")
    newer = tmp_path / "migrations"
    shutil.copytree(migration_files.FOLDER, newer)
    (newer / "versions" / "v2_more.py").write_text(NEWER)
    monkeypatch.setattr(migration_files, "FOLDER", newer)
    schema_versions._script.cache_clear()
    try:
        await restored(target, tmp_path / "b.tar")
        database = Database(target.url)
        assert not await database.is_current()
        await database.migrate()
        assert await database.is_current()
        await database.close()
    finally:
        schema_versions._script.cache_clear()
    assert await rows(target) == before


NEWER = """
import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade():
    op.add_column("orgs", sa.Column("more", sa.Text))
"""


@pytest.mark.parametrize("step", ["_move", "load_rows", "_extract"])
async def test_restore_that_fails_leaves_nothing(
    step: str, world: World, settings: Settings, target: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored_session(world, settings)
    await back_up(settings, tmp_path / "b.tar")
    original, calls = getattr(restore, step), 0

    def fails_later(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        result = original(*arguments)
        if calls == 3 or step == "_extract":
            raise BackupFailed("no space is left")
        return result

    monkeypatch.setattr(restore, step, fails_later)
    with pytest.raises(BackupFailed, match="no space is left"):
        await restored(target, tmp_path / "b.tar")
    assert left(target) == []
    assert await is_empty(target)
    monkeypatch.setattr(restore, step, original)
    await restored(target, tmp_path / "b.tar")
    assert len(await statements(replace(target, master_key=f"file:{settings.home}/keys/encryption.key"))) == 6


@pytest.mark.parametrize("with_recordings", [True, False])
async def test_failed_restore_removes_no_recordings_that_were_there(
    with_recordings: bool, world: World, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored_session(world, settings, 1)
    await back_up(settings, tmp_path / "b.tar", with_recordings=with_recordings)
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / "precious", b"x")
    target = Settings(home=tmp_path / "restored", recordings_url=f"file://{elsewhere}")

    def fails(*_: Any) -> None:
        raise BackupFailed("no space is left")

    monkeypatch.setattr(restore, "load_rows", fails)
    with pytest.raises(PosternError, match="elsewhere is not empty" if with_recordings else "no space is left"):
        await restored(target, tmp_path / "b.tar")
    assert names(elsewhere) == ["precious"]
    assert left(target) == []


async def test_recordings_go_to_the_folder_of_the_settings(world: World, settings: Settings, tmp_path: Path) -> None:
    await stored_session(world, settings, 2)
    await back_up(settings, tmp_path / "b.tar")
    target = Settings(home=tmp_path / "restored", recordings_url=f"file://{tmp_path / 'elsewhere'}")
    await restored(target, tmp_path / "b.tar")
    assert len(list((tmp_path / "elsewhere").rglob("*.zst"))) == 2
    with pytest.raises(Misconfigured, match="is not a folder"):
        await restored(Settings(home=tmp_path / "r", recordings_url="s3://bucket"), tmp_path / "b.tar")


async def test_missing_master_key_is_not_replaced_by_a_new_one(
    world: World, settings: Settings, tmp_path: Path
) -> None:
    write(paths.lock(settings), b"")
    (settings.home / "keys" / "encryption.key").unlink()
    with pytest.raises(Misconfigured, match="there is no key"):
        await back_up(settings, tmp_path / "b.tar", keys=tmp_path / "k")
    assert names(settings.home / "keys") == ["ssh_host_ed25519.key"]
    assert names(tmp_path) == ["home"]


@pytest.mark.parametrize("name", ["keys/encryption.key", "elsewhere/x"])
async def test_attack_file_that_no_backup_has_is_refused(name: str, world: World, tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b.tar") as writer:
        writer.add(f"gateway/{name}" if name.startswith("keys") else name, b"x" * 32)
        writer.finish({"tables": [], "schema": ["1"]})
    target = Settings(home=tmp_path / "restored")
    with pytest.raises(Malformed, match="which no backup has"):
        await restored(target, tmp_path / "b.tar")
    assert left(target) == []


async def test_table_with_missing_rows_is_refused(world: World, settings: Settings, target: Settings) -> None:
    path = settings.home.parent / "b.tar"
    table = {"name": "orgs", "columns": [["id", "uuid"]], "counter": None, "rows": 1}
    with BackupWriter(path) as writer:
        writer.finish({"tables": [table], "schema": ["1"]})
    with pytest.raises(Malformed, match="orgs has 0 rows of 1"):
        await restored(target, path)
    assert left(target) == []
    assert await is_empty(target)


@pytest.mark.parametrize("name", ["nowhere", "orgs"])
async def test_attack_rows_that_do_not_fit_the_schema_are_refused(name: str, target: Settings, tmp_path: Path) -> None:
    table = {"name": name, "columns": [["id", "uuid"]], "counter": None, "rows": 1}
    with BackupWriter(tmp_path / "b.tar") as writer:
        content = zstandard.ZstdCompressor().compress(b'["00000000-0000-0000-0000-000000000001"]\n')
        writer.add(f"store/{name}/000000.jsonl.zst", content)
        writer.finish({"tables": [table], "schema": ["1"]})
    with pytest.raises(Malformed, match=f"a row of the table {name} does not fit"):
        await restored(target, tmp_path / "b.tar")
    assert left(target) == []
    assert await is_empty(target)


async def test_attack_compressed_row_without_end_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "MAX_ROW", 1_000_000)
    bomb = zstandard.ZstdCompressor().compress(b"x" * 50_000_000)
    assert len(bomb) < 10_000
    table = {"name": "orgs", "columns": [["id", "uuid"]], "counter": None, "rows": 1}
    with BackupWriter(tmp_path / "b.tar") as writer:
        writer.add("store/orgs/000000.jsonl.zst", bomb)
        writer.finish({"tables": [table], "schema": ["1"]})
    target = Settings(home=tmp_path / "restored")
    with pytest.raises(Malformed, match="too long"):
        await restored(target, tmp_path / "b.tar")
    assert left(target) == []


async def test_backup_that_is_larger_than_the_disk_is_refused(
    world: World, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await back_up(settings, tmp_path / "b.tar")
    monkeypatch.setattr(restore, "free_bytes", lambda _: 10)
    with pytest.raises(Conflict, match="free some space"):
        await restored(Settings(home=tmp_path / "restored"), tmp_path / "b.tar")


def test_gateway_does_not_start_in_a_half_restored_folder(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    paths.restoring(settings).mkdir()
    with pytest.raises(Misconfigured, match="was interrupted"):
        prepare.run(settings)


def test_folder_without_a_gateway_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no gateway has been started"):
        create_backup(Settings(home=tmp_path), tmp_path / "b.tar")


# The commands.


def run(settings: Settings, *arguments: str) -> Any:
    environment = {"POSTERN_HOME": str(settings.home), "POSTERN_DATABASE_URL": settings.database_url}
    return CliRunner().invoke(cli, arguments, env=environment)


def test_commands_say_what_they_did(migrated: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    write(settings.home / "keys" / "encryption.key", MASTER)
    shutil.copy(migrated, settings.home / "postern.db")
    path, target = tmp_path / "b.tar", tmp_path / "restored"
    done = run(settings, "backup", str(path))
    assert done.exit_code == 0, done.output
    assert "It was read back and verified." in done.stdout
    assert "keys export" in done.stderr
    assert run(settings, "keys", "export", str(tmp_path / "k")).exit_code == 0
    assert f"{path} is complete" in run(settings, "backup", "verify", str(path)).stdout
    again = run(settings, "backup", str(path))
    assert (again.exit_code, "exists already" in again.stderr) == (1, True)
    done = run(settings, "restore", str(path), "--home", str(target), "--keys", str(tmp_path / "k"))
    assert done.exit_code == 0, done.output
    assert "Restored the backup of" in done.stdout
    assert json.loads(run(settings, "backup", str(tmp_path / "c.tar"), "--json").stdout)["segments"] == 0
    path.write_bytes(path.read_bytes()[:-3000])
    assert run(settings, "backup", "verify", str(path)).exit_code == 1
