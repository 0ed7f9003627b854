"""Recovery of recordings from a dead worker: they are marked, sealed and reported."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from postern.domain.sessions.segment import Segment
from postern.domain.sessions.session import EndReason
from postern.errors import Malformed
from postern.interception.events import End, Note, Operation, Refusal
from postern.recording.layout import SPOOL_SUFFIX, home_of, read_spool_name, sealed_path
from postern.recording.reader import SegmentReader
from postern.recording.record_format import encode
from postern.recording.sealing import seal

log = logging.getLogger(__name__)

GATEWAY_STOPPED = "gateway stopped without closing this session; closed at next start"
BROKEN_SUFFIX = ".broken"
_CHUNK = 1024 * 1024
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class EndMark:
    """Note and reason at the end of a recording that has no end record."""

    note: str
    reason: EndReason


CRASHED = EndMark(GATEWAY_STOPPED, EndReason.GATEWAY_CRASHED)


@dataclass(frozen=True, slots=True)
class Recovered:
    """Facts about a session, read from its recording.

    `ended_at` is the time of the last record; None if there is none. `size` is in bytes, uncompressed. `damage` says
    what could not be read or done; it is empty if all was well.
    """

    session: UUID
    ended_at: datetime | None = None
    operations: int = 0
    refused: int = 0
    size: int = 0
    damage: str = ""


def recover(
    folder: Path,
    stored: Callable[[UUID], Sequence[Segment]] = lambda _session: (),
    *,
    mark: EndMark = CRASHED,
    only: Collection[Path] | None = None,
) -> list[Recovered]:
    """Mark and seal every spool in a dead worker's folder (`layout.spool_folder`), or `only` some. Can block.

    `stored` returns the rows of a session's segments that were moved before, or are being moved; it can block. Safe to
    repeat. An unreadable segment is renamed and reported as `damage` of its session; the others are not affected.
    """
    spools_by_session: dict[UUID, dict[int, Path]] = {}
    for path in sorted(folder.glob(f"*{SPOOL_SUFFIX}")):
        if only is not None and path not in only:
            continue
        parsed_name = read_spool_name(path.name)
        if parsed_name is None:
            log.warning("a file that is not named like a recording was ignored: file=%s", path)
            continue
        session, segment = parsed_name
        if (segment == 1 or segment - 1 in spools_by_session.get(session, {})) and _never_began(path):
            continue
        spools_by_session.setdefault(session, {})[segment] = path
    home = home_of(folder)
    return [_recover_session(session, spools, home, stored, mark) for session, spools in spools_by_session.items()]


def _never_began(path: Path) -> bool:
    """Return whether the spool is empty, and try to remove it.

    Its worker died between creating the file and writing its header: the client received nothing that belongs here, and
    the previous segment is the last. If the disk rejects the removal now, it is repeated next time.
    """
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            with contextlib.suppress(OSError):
                path.unlink()
            return True
    return False


def _recover_session(
    session: UUID, spools: dict[int, Path], home: Path, stored: Callable[[UUID], Sequence[Segment]], mark: EndMark
) -> Recovered:
    """Recover a session, counting also segments that were sealed or stored before."""
    recovered = Recovered(session)
    started_at: datetime | None = None
    for path in spools.values():  # each has the start time
        with contextlib.suppress(Malformed, OSError), SegmentReader(path) as reader:
            started_at = reader.header.started_at
            break
    for segment in range(1, max(spools) + 1):
        spool = spools.get(segment)
        if spool is None and started_at is not None:
            sealed = sealed_path(home, session, started_at, segment)
            # A file is deleted only after its row exists.
            rows = () if sealed.exists() else stored(session)
            row = next((segment_row for segment_row in rows if segment_row.number == segment), None)
            if row is None:
                recovered = _add_segment(recovered, _read, sealed, segment)
            else:
                recovered = _join(recovered, _from_row(row, started_at), segment)
        elif spool is not None:
            recovered = _add_segment(
                recovered, _mark_and_seal, spool, segment, mark=mark if segment == max(spools) else None
            )
    return recovered if recovered.ended_at else replace(recovered, ended_at=started_at)


def _from_row(row: Segment, started_at: datetime) -> Recovered:
    ended_at = started_at + timedelta(milliseconds=row.ends)
    return Recovered(row.session_id, ended_at, row.operations, row.refused, row.size, row.damage)


def _add_segment(
    total: Recovered, step: Callable[..., Recovered], path: Path, segment: int, **options: object
) -> Recovered:
    """Add one segment to `total`. An error is reported, and does not affect the other segments."""
    try:
        addition = step(total.session, path, **options)
    except Malformed as error:
        if path.name.endswith(SPOOL_SUFFIX):
            path.rename(path.with_name(path.name + BROKEN_SUFFIX))
        log.error("a recording cannot be read: recording=%s error=%s", path, error.message)
        addition = Recovered(total.session, damage=error.message)
    except OSError as error:
        log.error("a recording cannot be recovered now: recording=%s error=%s", path, error)
        addition = Recovered(total.session, damage=str(error))
    return _join(total, addition, segment)


def _join(total: Recovered, addition: Recovered, segment: int) -> Recovered:
    damage = f"segment {segment}: {addition.damage}" if addition.damage else ""
    return Recovered(
        total.session,
        addition.ended_at or total.ended_at,
        total.operations + addition.operations,
        total.refused + addition.refused,
        total.size + addition.size,
        "; ".join(filter(None, (total.damage, damage))),
    )


def _read(session: UUID, path: Path) -> Recovered:
    with SegmentReader(path) as reader:
        recovered, _ = _survey(session, reader)
    return recovered


def _mark_and_seal(session: UUID, path: Path, *, mark: EndMark | None) -> Recovered:
    """Seal a segment. `mark` is only for the last one."""
    with SegmentReader(path) as reader:
        recovered, marked = _survey(session, reader, mark)
    damage = reader.damage
    if reader.end is None and not damage and not _is_empty_after(path, reader.intact):
        damage = f"damaged at byte {reader.intact}: a part is missing"
        recovered = replace(recovered, damage=damage)
    if reader.end is None:
        micros = (
            0 if recovered.ended_at is None else round((recovered.ended_at - reader.header.started_at) / _MICROSECOND)
        )
        records = _marks(damage, micros, mark, marked=marked)
        recovered = replace(recovered, size=recovered.size + _append(path, reader.intact, records))
    elif path.stat().st_size > reader.intact:  # its worker died before it gave back the space for more records
        os.truncate(path, reader.intact)
    header = reader.header
    seal(path, sealed_path(home_of(path.parent), session, header.started_at, header.segment))
    return recovered


def _is_empty_after(path: Path, intact: int) -> bool:
    """Return whether only zeros follow the records: space for more. After a crash of the machine, a part of what was
    not synced can be there without what preceded it."""
    with path.open("rb") as spool:
        spool.seek(intact)
        while part := spool.read(_CHUNK):
            if part.strip(b"\0"):
                return False
    return True


def _survey(session: UUID, reader: SegmentReader, mark: EndMark | None = None) -> tuple[Recovered, bool]:
    """Return the segment's facts, and whether it was already marked."""
    operations = refused = 0
    micros: int | None = None
    marked, notes = False, {GATEWAY_STOPPED, mark.note if mark else GATEWAY_STOPPED}
    for at, event in reader:
        marked = marked or (isinstance(event, Note) and event.text in notes)
        micros = micros if marked or isinstance(event, End) else at
        operations += isinstance(event, Operation)
        refused += isinstance(event, Refusal)
    ended_at = None if micros is None else _time_at(reader.header.started_at, micros)
    return Recovered(session, ended_at, operations, refused, reader.intact, reader.damage), marked


def _time_at(started_at: datetime, micros: int) -> datetime:
    """Return the time of a record. Raises Malformed after the year 9999."""
    try:
        return started_at + timedelta(microseconds=micros)
    except OverflowError:
        raise Malformed(f"a record has an impossible time, {micros} microseconds after the start") from None


def _marks(damage: str, micros: int, mark: EndMark | None, *, marked: bool) -> bytes:
    if mark is None:
        return encode(End("", continues=True), micros)
    note = b"" if marked else encode(Note(mark.note, {"cut": damage} if damage else {}), micros)
    return note + encode(End(mark.reason), micros)


def _append(path: Path, intact: int, records: bytes) -> int:
    """Replace what follows the last good record; return the number of added bytes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, intact)
        os.pwrite(descriptor, records, intact)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    return len(records)
