"""A gateway from a backup: `postern restore`. It fills an empty data folder and an empty store, or changes nothing."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import zstandard
from sqlalchemy import Connection, and_, delete, make_url, or_, update
from sqlalchemy.exc import SQLAlchemyError

from postern.backup.backup_format import RECORDINGS
from postern.backup.backup_reader import BackupReader
from postern.domain.sessions.session import SessionStatus
from postern.errors import BackupFailed, Conflict, Malformed, Misconfigured
from postern.recording.layout import FILE_MODE, make_folder, sync_folder
from postern.recording.space import free_bytes
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import LocalMaster, file_key
from postern.store.schema.recording_tables import leases
from postern.store.schema.session_tables import sessions
from postern.store.store_rows import MAX_ROW, Kind, TableShape, clear_tables, load_rows
from postern.wiring import masters_wiring, paths
from postern.wiring.blobs import local_folder
from postern.wiring.host.backup import GATEWAY, STORE, UNSTORED

FIRST_WORKER = "w1"  # every gateway has it
_IGNORED = {"lost+found"}  # of an empty volume


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What was restored. `needs_key` is the master key that is still missing; empty if it is there."""

    home: str
    created_at: str
    postern: str
    rows: int
    unstored: int
    segments: int
    recordings: str
    missing: int
    needs_key: str


@dataclass(frozen=True, slots=True)
class _Table:
    shape: TableShape
    rows: int


def verify_backup(path: Path, progress: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
    """Read all of a backup; return its manifest. Raises Malformed, NotFound, BackupFailed."""
    with BackupReader(path) as reader:
        _tables(reader)
        reader.verify(progress)
        return {**reader.manifest, "bytes": reader.total}


def restore_backup(
    settings: Settings, source: Path, *, keys: Path | None = None, progress: Callable[[int], None] = lambda _: None
) -> RestoreResult:
    """Restore into the empty data folder and store of the settings. `keys` is the file of the master key.

    Raises Conflict if one is not empty, BackupFailed, Malformed, Misconfigured, NotFound; then nothing has changed.
    """
    return asyncio.run(_restore(settings, source, keys, progress))


async def _restore(
    settings: Settings, source: Path, keys: Path | None, progress: Callable[[int], None]
) -> RestoreResult:
    with BackupReader(source) as reader:
        tables = _tables(reader)
        recordings = _recordings_folder(settings, reader)
        _require_empty(settings.home, "data folder")
        needs_key = _check_keys(settings, keys, reader.manifest)
        database = Database(settings.url, pool_size=1)
        try:
            await _require_empty_store(database)
            counts, rows = await _fill(settings, database, reader, tables, keys, recordings, progress)
        finally:
            await database.close()
        manifest = reader.manifest
        return RestoreResult(
            home=str(settings.home),
            created_at=str(manifest.get("created_at")),
            postern=str(manifest.get("postern")),
            rows=rows,
            unstored=counts[UNSTORED],
            segments=counts[RECORDINGS],
            recordings=str(manifest.get("recordings")),
            missing=len(manifest.get("missing", ())),
            needs_key=needs_key,
        )


async def _fill(
    settings: Settings,
    database: Database,
    reader: BackupReader,
    tables: list[_Table],
    keys: Path | None,
    recordings: Path,
    progress: Callable[[int], None],
) -> tuple[dict[str, int], int]:
    """Extract all files, then load the rows, and move the files to their places before the rows are committed.

    The staging folder is there until all is done: no gateway starts with it.
    """
    staging = paths.restoring(settings)
    try:
        make_folder(settings.home)
    except OSError as error:
        raise BackupFailed(f"the data folder {settings.home} cannot be created: {error.strerror}") from None
    _require_space(settings.home, reader)
    try:
        counts = _extract(reader, staging, progress)
        if keys is not None:
            _write(staging / GATEWAY / "keys" / "encryption.key", [file_key(keys)])

        def work(connection: Connection) -> int:
            rows = _load(connection, reader, tables, staging / STORE)
            _move(staging / GATEWAY, settings.home)
            _gather_spools(staging / UNSTORED / "spool")
            _move(staging / UNSTORED, settings.home)
            _move(staging / RECORDINGS, recordings)
            return rows

        rows = await database.fill(work)
    except BaseException:
        await database.close()
        _remove_all(settings, recordings)
        raise
    shutil.rmtree(staging)
    sync_folder(settings.home)
    return counts, rows


def _tables(reader: BackupReader) -> list[_Table]:
    """Return the tables. Raises Malformed."""
    try:
        return [_read_table(table) for table in reader.manifest["tables"]]
    except (KeyError, TypeError, ValueError):
        raise Malformed(f"the backup {reader.path} cannot be used: its manifest does not describe a store") from None


def _read_table(table: dict[str, Any]) -> _Table:
    columns = tuple((str(name), Kind(kind)) for name, kind in table["columns"])
    counter = None if table["counter"] is None else (str(table["counter"][0]), int(table["counter"][1]))
    return _Table(TableShape(str(table["name"]), columns, counter), int(table["rows"]))


def _recordings_folder(settings: Settings, reader: BackupReader) -> Path:
    """Return the folder for the backup's recordings, which is empty."""
    own = settings.home / "recordings"
    if not any(member.name.startswith(RECORDINGS) for member in reader.members()):
        return own
    folder = local_folder(settings)
    if folder is None:
        raise Misconfigured(
            "this backup contains recordings, but POSTERN_RECORDINGS_URL is not a folder; restore without that "
            "setting, then copy the recordings there",
            field="recordings_url",
        )
    if folder != own:
        _require_empty(folder, "folder of recordings")
    return folder


def _require_empty(folder: Path, what: str) -> None:
    try:
        found = next((child for child in folder.iterdir() if child.name not in _IGNORED), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackupFailed(f"the {what} {folder} cannot be read: {error.strerror}") from None
    if found is not None:
        raise Conflict(
            f"the {what} {folder} is not empty (it has {found.name}); a backup is restored into an empty one: choose "
            "a different one, or move what is in it away"
        )


async def _require_empty_store(database: Database) -> None:
    if table := await database.find_table():
        raise Conflict(
            f"the store is not empty (it has the table {table}); a backup is restored into an empty one: choose a "
            "different POSTERN_DATABASE_URL"
        )


def _require_space(home: Path, reader: BackupReader) -> None:
    needed, free = reader.total, free_bytes(home)
    if needed > free:
        raise Conflict(
            f"the backup has {needed >> 20} MiB, and the disk of {home} has {free >> 20} MiB left; free some space, or "
            "choose a different disk"
        )


def _check_keys(settings: Settings, keys: Path | None, manifest: dict[str, Any]) -> str:
    """Return the master key that is missing. Raises Misconfigured if the given one is a different key."""
    masters = [str(master) for master in manifest.get("masters", ())]
    if keys is None and not settings.master_key:
        return ", ".join(masters)
    given = LocalMaster(file_key(keys)) if keys is not None else masters_wiring.master_of(settings.master_key)
    if any(master != given.id for master in masters):
        raise Misconfigured(
            f"this is the master key {given.id}, and the backup needs {', '.join(masters)}; find the key that was "
            "exported with it",
            field="master_key",
        )
    return ""


def _extract(reader: BackupReader, staging: Path, progress: Callable[[int], None]) -> dict[str, int]:
    """Write all files into the staging folder, and compare each with its hash. Return how many there are, by kind."""
    counts = {GATEWAY: 0, UNSTORED: 0, STORE: 0, RECORDINGS: 0}
    make_folder(staging)
    for kind in counts:
        make_folder(staging / kind)
    for member in reader.members():
        kind = next((kind for kind in counts if member.name.startswith(kind)), "")
        if not kind or member.name == f"{GATEWAY}keys/encryption.key":
            raise Malformed(f"the backup {reader.path} cannot be used: it contains {member.name}, which no backup has")
        _write(staging / member.name, _count_bytes(reader.read(member), progress))
        counts[kind] += 1
    return counts


def _count_bytes(pieces: Iterator[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    for piece in pieces:
        progress(len(piece))
        yield piece


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    try:
        make_folder(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BackupFailed(f"{path.name} cannot be written: {error.strerror or error}; nothing was restored") from error


def _load(connection: Connection, reader: BackupReader, tables: list[_Table], folder: Path) -> int:
    """Create the schema of the backup, and load its rows."""
    from postern.store.schema_versions import create  # Alembic takes half a second to load

    versions = reader.manifest.get("schema")
    if not isinstance(versions, list) or len(versions) != 1:
        raise Malformed(f"the backup {reader.path} cannot be used: its schema has no version")
    create(connection, str(versions[0]))
    clear_tables(connection)
    count = 0
    for table in tables:
        rows = _load_table(connection, table, folder)
        if rows != table.rows:
            raise Malformed(f"the backup cannot be used: the table {table.shape.name} has {rows} rows of {table.rows}")
        count += rows
    _forget_processes(connection)
    return count


def _load_table(connection: Connection, table: _Table, folder: Path) -> int:
    """Return the number of rows: at most one more than there should be."""
    name = table.shape.name
    try:
        return load_rows(connection, table.shape, islice(_lines(folder / name), table.rows + 1))
    except SQLAlchemyError as error:  # such as a zero byte in a text, which only SQLite can have
        reason = str(getattr(error, "orig", error)).partition("\n")[0]
        raise Malformed(f"the backup cannot be used: a row of the table {name} does not fit: {reason}") from error


def _forget_processes(connection: Connection) -> None:
    """Give the sessions that were running to the worker that every gateway has, which closes them at its start. So does
    it with scripts that were about to run: they have run since then."""
    about_to_run = and_(sessions.c.status == SessionStatus.READY, sessions.c.review_id.is_(None))
    running = or_(sessions.c.status == SessionStatus.OPEN, about_to_run)
    connection.execute(update(sessions).where(running).values(status=SessionStatus.OPEN, worker=FIRST_WORKER))
    connection.execute(delete(leases))  # the claim of the old gateway on the store among them


def _lines(folder: Path) -> Iterator[bytes]:
    for part in sorted(folder.glob("*")):
        with part.open("rb") as file:
            plain = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))
            try:
                while line := plain.readline(MAX_ROW):
                    if len(line) == MAX_ROW:
                        raise Malformed(f"the backup cannot be used: a row of {folder.name} is too long")
                    yield line
            except zstandard.ZstdError as error:
                raise Malformed(f"the backup cannot be used: {folder.name}/{part.name}: {error}") from None


def _gather_spools(folder: Path) -> None:
    """Give all spools to one worker, as their sessions."""
    for spool in list(folder.glob("*/*")):
        if spool.parent.name != FIRST_WORKER:
            make_folder(folder / FIRST_WORKER)
            spool.rename(folder / FIRST_WORKER / spool.name)


def _move(source: Path, target: Path) -> None:
    """Move what is in a folder, also to a different disk."""
    try:
        make_folder(target)
        for child in source.iterdir():
            shutil.move(child, target / child.name)
        sync_folder(target)
    except OSError as error:
        raise BackupFailed(f"{target} cannot be written: {error.strerror or error}; nothing was restored") from error


def _remove_all(settings: Settings, recordings: Path) -> None:
    """Remove what was restored so far. All folders were empty before; the staging folder goes last."""
    if settings.database_url.startswith("sqlite"):
        file = make_url(settings.database_url).database
        for suffix in ("", "-wal", "-shm", ".lock"):
            _remove(Path(f"{file}{suffix}"))
    staging = paths.restoring(settings)
    for folder in {recordings, settings.home}:
        for child in (child for child in folder.glob("*") if child.name not in _IGNORED):
            _remove(child)
    _remove(staging)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
