"""A backup of this machine's gateway, taken on its machine while it runs: `postern backup`.

Everything belongs to one time: that of the store's snapshot (archive/unstored_segments.py has the order, and why).
Recordings of the blob store are copied by the snapshot's rows, whose data keys the snapshot has. Master keys never get
into it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import zstandard
from sqlalchemy import Connection, select

from postern import __version__, descriptors
from postern.archive.unstored_segments import UnstoredSegment, close_all, complete_size, no_deletions, open_unstored
from postern.backup.backup_reader import BackupReader
from postern.backup.backup_writer import BackupWriter
from postern.errors import BackupFailed, Conflict, Malformed, NotFound
from postern.recording.space import free_bytes
from postern.services.server.audit import Audit
from postern.services.server.audit_context import collect_change
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import LocalMaster
from postern.store.schema.recording_tables import segments
from postern.store.schema.server_tables import data_keys
from postern.store.schema.session_tables import sessions
from postern.store.sql.identity.sql_organisations import SqlOrganisations
from postern.store.sql.sql_audit import SqlAudit
from postern.store.sql.sql_installation import BACKUP, SqlInstallation
from postern.store.store_rows import TableShape, dump_rows, schema_versions, shape_of, store_tables
from postern.wiring import masters_wiring, paths
from postern.wiring.blobs import local_folder
from postern.wiring.host.host_folder import require_own_gateway

PART = 4 * 1024 * 1024  # bytes of rows in one file
GATEWAY, UNSTORED, STORE = "gateway/", "unstored/", "store/"
_CHECK_EVERY = 16 * 1024 * 1024  # bytes
_MAX_RESOURCE = 255  # characters of a name in the audit log
MOST_MISSING = 100  # recordings that are named
_SUFFIX = ".jsonl.zst"


@dataclass(frozen=True, slots=True)
class BackupResult:
    """What is in a backup. `recordings` says where they are: in the file, in the folder, elsewhere, or left out.

    `missing`: the store has them, but not the blob store. `purged`: the gateway purged them meanwhile.
    """

    path: str
    created_at: datetime
    tables: int
    rows: int
    unstored: int
    recordings: str
    segments: int
    segment_bytes: int
    new_segments: int
    purged: int
    missing: tuple[str, ...]
    keys: str


@dataclass(slots=True)
class _Snapshot:
    """What was read of the store. `places` has the stored segments, on disk."""

    schema: list[str] = field(default_factory=list)
    shapes: list[TableShape] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    masters: list[str] = field(default_factory=list)
    unstored: list[UnstoredSegment] = field(default_factory=list)
    places: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect("", check_same_thread=False))


def create_backup(
    settings: Settings,
    target: Path,
    *,
    with_recordings: bool = True,
    keys: Path | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> BackupResult:
    """Back up into the file `target`. If it is a folder, the backup gets a name by its time there, and recordings are
    kept beside it, each once. `keys`: also export the master key into that file.

    Raises BackupFailed, Conflict, Denied, Malformed, Misconfigured, NotFound, Unavailable; then nothing is left of it.
    """
    require_own_gateway(settings)
    if keys is not None:
        _require_new(keys)
    descriptors.raise_limit()
    return asyncio.run(_create(settings, target, with_recordings, keys, progress))


def export_keys(settings: Settings, target: Path) -> str:
    """Write the master key into a file of its own, for its owner only; return the key's id.

    Raises Conflict if the file exists, Misconfigured also if the key is in a KMS, BackupFailed, Denied, NotFound.
    """
    require_own_gateway(settings)
    key = masters_wiring.export_master(settings)
    _require_new(target)
    asyncio.run(_record_export(settings, target))
    _write_key(target, key)
    return LocalMaster(key).id


def _require_new(target: Path) -> None:
    if target.exists():
        raise Conflict(f"{target} exists already; choose a different name")


async def _record_export(settings: Settings, target: Path) -> None:
    database = Database(settings.url, pool_size=1)
    try:
        await _record(database, "postern keys export", action="export", resource_type="keys", resource=str(target))
    finally:
        await database.close()


async def _record(database: Database, command: str, *, action: str, resource_type: str, resource: str) -> None:
    """Add an entry to the audit log."""
    audit = Audit(SqlAudit(database), SqlOrganisations(database), lambda: datetime.now(UTC))
    with collect_change() as context:
        names = {"resource_type": resource_type, "resource": resource[-_MAX_RESOURCE:]}
        await audit.on_host(command, action=action, audit_context=context, **names)


def _write_key(target: Path, key: bytes) -> None:
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(f"{target} exists already; choose a different name") from None
    except OSError as error:
        raise BackupFailed(f"{target} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        target.unlink()
        raise BackupFailed(f"{target} cannot be written: {error.strerror}") from None


async def _create(
    settings: Settings, target: Path, with_recordings: bool, keys: Path | None, progress: Callable[[int], None]
) -> BackupResult:
    at, is_folder = datetime.now(UTC), await asyncio.to_thread(target.is_dir)
    path = target / f"postern-{at:%Y%m%dT%H%M%S.%fZ}.tar" if is_folder else target
    source = local_folder(settings) if with_recordings else None
    database = Database(settings.url, pool_size=1)
    snapshot = _Snapshot()
    try:
        if not await database.has_table("alembic_version") or not await database.is_current():
            raise Conflict(
                f"the store does not have the schema of this version of Postern ({__version__}); back up with the "
                "version that the gateway runs"
            )
        _require_outside(settings, path, source)
        folder, previous = (target / "recordings", _last_backup(target)) if is_folder else (None, None)
        progress = _spare_recordings(settings, path, progress)
        with BackupWriter(path, folder=folder, previous=previous, progress=progress) as writer:
            await _copy_store(settings, database, writer, snapshot)
            _check_masters(settings, keys, snapshot.masters)
            _copy_gateway(settings, writer)
            _copy_unstored(writer, snapshot.unstored)
            purged, missing = await _copy_recordings(source, database, writer, snapshot) if source else (0, [])
            where = _where(settings, with_recordings, is_folder)
            result = BackupResult(
                path=str(path),
                created_at=at,
                tables=len(snapshot.shapes),
                rows=sum(snapshot.rows.values()),
                unstored=len(snapshot.unstored),
                recordings=where,
                segments=writer.recordings,
                segment_bytes=writer.recording_bytes,
                new_segments=writer.new_recordings,
                purged=purged,
                missing=tuple(missing),
                keys=str(keys or ""),
            )
            if keys is not None:
                await _record(
                    database, "postern backup --keys", action="export", resource_type="keys", resource=str(keys)
                )
            with _export_key(settings, keys):
                writer.finish(_manifest(result, snapshot, database.is_sqlite))
        await _record(database, "postern backup", action="create", resource_type="backups", resource=str(path))
        await SqlInstallation(database).put(BACKUP, at.isoformat(), at)
        return result
    finally:
        close_all(snapshot.unstored)
        snapshot.places.close()
        await database.close()


def _require_outside(settings: Settings, path: Path, source: Path | None) -> None:
    """Check that the backup does not lie in what it backs up. Raises Conflict."""
    parent = path.parent.resolve()
    is_inside = parent.is_relative_to(settings.home.resolve())
    if is_inside or (source is not None and (parent / "recordings").is_relative_to(source.resolve())):
        raise Conflict(f"{path.parent} belongs to the gateway; choose a different place for the backup")


async def _copy_store(settings: Settings, database: Database, writer: BackupWriter, snapshot: _Snapshot) -> None:
    with ExitStack() as lock:
        lock.enter_context(no_deletions(settings.home))

        def work(connection: Connection) -> None:
            snapshot.unstored = open_unstored(settings.home)
            lock.close()
            snapshot.unstored = _select_needed(connection, snapshot.unstored)
            snapshot.schema = schema_versions(connection)
            snapshot.masters = sorted(connection.execute(select(data_keys.c.master).distinct()).scalars())
            for table in store_tables():
                shape = shape_of(connection, table)
                snapshot.shapes.append(shape)
                for number, part in enumerate(_parts(_count(snapshot.rows, shape, dump_rows(connection, shape)))):
                    writer.add(f"{STORE}{shape.name}/{number:06}{_SUFFIX}", part)
            _list_places(connection, snapshot.places)

        await database.snapshot(work)


def _select_needed(connection: Connection, unstored: list[UnstoredSegment]) -> list[UnstoredSegment]:
    """Leave out segments of sessions that began later, and spools that are stored already."""
    needed = []
    for segment in unstored:
        has_session = connection.execute(select(sessions.c.id).where(sessions.c.id == segment.session)).first()
        row = select(segments.c.number).where(
            segments.c.session_id == segment.session, segments.c.number == segment.number
        )
        if has_session and not (segment.is_spool and connection.execute(row).first()):
            needed.append(segment)
        else:
            segment.file.close()
    return needed


def _count(rows: dict[str, int], shape: TableShape, lines: Iterator[bytes]) -> Iterator[bytes]:
    rows[shape.name] = 0
    for line in lines:
        rows[shape.name] += 1
        yield line


def _parts(lines: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    part = bytearray()
    for line in lines:
        part += line
        if len(part) >= PART:
            yield compressor.compress(bytes(part))
            part.clear()
    if part:
        yield compressor.compress(bytes(part))


def _list_places(connection: Connection, places: sqlite3.Connection) -> None:
    places.execute("create table places (place, session, number)")
    query = select(segments.c.place, segments.c.session_id, segments.c.number)
    for row in connection.execute(query, execution_options={"yield_per": 1000}):
        places.execute("insert into places values (?, ?, ?)", (row.place, str(row.session_id), row.number))


def _check_masters(settings: Settings, keys: Path | None, masters: list[str]) -> None:
    """Check that the master key to export decrypts what was backed up. Raises Conflict, Misconfigured."""
    if keys is None:
        return
    current = LocalMaster(masters_wiring.export_master(settings)).id
    if any(master != current for master in masters):
        raise Conflict(
            f"the data keys of this store are encrypted by {', '.join(masters)}, and POSTERN_MASTER_KEY names "
            f"{current}; finish `postern keys rotate`, and back up again"
        )


@contextmanager
def _export_key(settings: Settings, keys: Path | None) -> Iterator[None]:
    """Export the master key, unless the backup fails."""
    if keys is not None:
        _write_key(keys, masters_wiring.export_master(settings))
    try:
        yield
    except BaseException:
        if keys is not None:
            keys.unlink()
        raise


def _spare_recordings(settings: Settings, target: Path, progress: Callable[[int], None]) -> Callable[[int], None]:
    """Return a `progress` that ends the backup before running sessions would end for lack of space.

    It raises Conflict on the disk of the data folder.
    """
    is_shared = target.parent.exists() and target.parent.stat().st_dev == settings.home.stat().st_dev
    written = 0

    def count(size: int) -> None:
        nonlocal written
        progress(size)
        is_due = written // _CHECK_EVERY != (written + size) // _CHECK_EVERY
        written += size
        if is_shared and is_due and free_bytes(settings.home) < settings.recording_least_free:
            raise Conflict(
                "the backup would fill the disk of the data folder, and end running sessions; choose a different disk "
                "for it"
            )

    return count


def _copy_gateway(settings: Settings, writer: BackupWriter) -> None:
    """Copy what clients know the gateway by: certificates, host keys, and its identity. Never the master key."""
    files = [
        paths.gateway_id(settings),
        *sorted((settings.home / "keys").glob("ssh_host_*")),
        *sorted(paths.certificates_folder(settings).rglob("*")),
    ]
    for file in files:
        if file.is_file() and not file.name.startswith("."):  # those are being written
            writer.add(GATEWAY + file.relative_to(settings.home).as_posix(), file.read_bytes())


def _copy_unstored(writer: BackupWriter, unstored: list[UnstoredSegment]) -> None:
    known = {(segment.session, segment.number) for segment in unstored}
    for segment in unstored:
        size = complete_size(segment, has_next=(segment.session, segment.number + 1) in known)
        if size:
            writer.add_file(UNSTORED + segment.place, segment.file, size)
        segment.file.close()


async def _copy_recordings(
    source: Path, database: Database, writer: BackupWriter, snapshot: _Snapshot
) -> tuple[int, list[str]]:
    """Copy the recordings that the snapshot has rows of. Return how many were purged meanwhile, and what is missing."""
    purged, missing = 0, list[str]()
    for place, session, number in snapshot.places.execute("select place, session, number from places"):
        try:
            with (source / place).open("rb", buffering=0) as file:
                writer.add_recording(place, file, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            query = select(segments.c.number).where(segments.c.session_id == UUID(session), segments.c.number == number)
            async with database.statement() as connection:
                is_kept = (await connection.execute(query)).first() is not None
            purged += not is_kept
            if is_kept and len(missing) < MOST_MISSING:
                missing.append(place)
        except OSError as error:
            raise BackupFailed(f"the recording {place} cannot be read: {error.strerror}") from error
    return purged, missing


def _last_backup(folder: Path) -> Path | None:
    """Return the newest backup in the folder that can be read."""
    for path in sorted(folder.glob("postern-*.tar"), reverse=True):
        try:
            BackupReader(path).close()
        except (Malformed, NotFound, BackupFailed):
            continue
        return path
    return None


def _where(settings: Settings, with_recordings: bool, is_folder: bool) -> str:
    if not with_recordings:
        return "left out"
    if local_folder(settings) is None:
        url = urlsplit(settings.recordings_url)
        return f"not copied: they are in {url.scheme}://{url.hostname or ''}"
    return "in the folder" if is_folder else "in the file"


def _manifest(result: BackupResult, snapshot: _Snapshot, is_sqlite: bool) -> dict[str, Any]:
    return {
        "postern": __version__,
        "created_at": result.created_at.isoformat(),
        "engine": "sqlite" if is_sqlite else "postgresql",
        "schema": snapshot.schema,
        "masters": snapshot.masters,
        "recordings": result.recordings,
        "segments": result.segments,
        "purged": result.purged,
        "missing": list(result.missing),
        "tables": [
            {
                "name": shape.name,
                "columns": [[name, str(kind)] for name, kind in shape.columns],
                "counter": shape.counter,
                "rows": snapshot.rows[shape.name],
            }
            for shape in snapshot.shapes
        ],
    }
