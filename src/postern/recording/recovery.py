"""Recovery: recordings that a dead worker left are marked, sealed and reported."""

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
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class EndMark:
    """What is noted at the end of a recording that has none, and the reason that it is given."""

    note: str
    reason: EndReason


CRASHED = EndMark(GATEWAY_STOPPED, EndReason.GATEWAY_CRASHED)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What is known of a session from its recording.

    `ended_at` is when the last thing was recorded; None when the file tells nothing. `size` is in
    bytes, uncompressed. `damage` is empty, or says what could not be read or done.
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
    """Marks and seals every spool in a dead worker's folder (`layout.spool_folder`), or `only` those. May block.

    `stored` gives the rows of a session's segments that were moved away before, or are while this runs; it may block.
    Safe to repeat. A segment that cannot be read is kept under another name and reported by the `damage` of its
    session; it never stands in the way of the others.
    """
    left: dict[UUID, dict[int, Path]] = {}
    for path in sorted(folder.glob(f"*{SPOOL_SUFFIX}")):
        if only is not None and path not in only:
            continue
        named = read_spool_name(path.name)
        if named is None:
            log.warning("the file %s is not named like a recording; it is left alone", path)
            continue
        session, segment = named
        if (segment == 1 or segment - 1 in left.get(session, {})) and _never_began(path):
            continue
        left.setdefault(session, {})[segment] = path
    home = home_of(folder)
    return [_recover_session(session, spools, home, stored, mark) for session, spools in left.items()]


def _never_began(path: Path) -> bool:
    """Its worker died between making the file and writing its header: nothing was shown of what it was for, and the
    one before it is the last. Then it is removed, or the next time, where the disk takes nothing now."""
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            with contextlib.suppress(OSError):
                path.unlink()
            return True
    return False


def _recover_session(
    session: UUID, spools: dict[int, Path], home: Path, stored: Callable[[UUID], Sequence[Segment]], mark: EndMark
) -> Recovered:
    """Of all its segments, those too that were sealed or stored before."""
    found = Recovered(session)
    started_at: datetime | None = None
    for path in spools.values():  # all of them know when it started
        with contextlib.suppress(Malformed, OSError), SegmentReader(path) as reader:
            started_at = reader.header.started_at
            break
    for segment in range(1, max(spools) + 1):
        spool = spools.get(segment)
        if spool is None and started_at is not None:
            sealed = sealed_path(home, session, started_at, segment)
            # A file goes only after its row is there.
            rows = () if sealed.exists() else stored(session)
            row = next((one for one in rows if one.number == segment), None)
            if row is None:
                found = _with(found, _read, sealed, segment)
            else:
                found = _joined(found, _known(row, started_at), segment)
        elif spool is not None:
            found = _with(found, _mark_and_seal, spool, segment, mark=mark if segment == max(spools) else None)
    return found if found.ended_at else replace(found, ended_at=started_at)


def _known(row: Segment, started_at: datetime) -> Recovered:
    ended_at = started_at + timedelta(milliseconds=row.ends)
    return Recovered(row.session_id, ended_at, row.operations, row.refused, row.size, row.damage)


def _with(found: Recovered, step: Callable[..., Recovered], path: Path, segment: int, **options: object) -> Recovered:
    """`found` and what `step` tells of one more segment. What fails is reported, and the next one has its turn."""
    try:
        more = step(found.session, path, **options)
    except Malformed as error:
        if path.name.endswith(SPOOL_SUFFIX):
            path.rename(path.with_name(path.name + BROKEN_SUFFIX))
        log.error("the recording %s cannot be read: %s", path, error.message)
        more = Recovered(found.session, damage=error.message)
    except OSError as error:
        log.error("the recording %s cannot be recovered now: %s", path, error)
        more = Recovered(found.session, damage=str(error))
    return _joined(found, more, segment)


def _joined(found: Recovered, more: Recovered, segment: int) -> Recovered:
    damage = f"segment {segment}: {more.damage}" if more.damage else ""
    return Recovered(
        found.session,
        more.ended_at or found.ended_at,
        found.operations + more.operations,
        found.refused + more.refused,
        found.size + more.size,
        "; ".join(filter(None, (found.damage, damage))),
    )


def _read(session: UUID, path: Path) -> Recovered:
    with SegmentReader(path) as reader:
        found, _ = _told(session, reader)
    return found


def _mark_and_seal(session: UUID, path: Path, *, mark: EndMark | None) -> Recovered:
    """`mark` of the last segment."""
    with SegmentReader(path) as reader:
        found, marked = _told(session, reader, mark)
    if reader.end is None:
        micros = 0 if found.ended_at is None else round((found.ended_at - reader.header.started_at) / _MICROSECOND)
        records = _marks(reader.damage, micros, mark, marked=marked)
        found = replace(found, size=found.size + _append(path, reader.intact, records))
    header = reader.header
    seal(path, sealed_path(home_of(path.parent), session, header.started_at, header.segment))
    return found


def _told(session: UUID, reader: SegmentReader, mark: EndMark | None = None) -> tuple[Recovered, bool]:
    """What the segment tells, and whether it has been marked already."""
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
    """Return the time of a record. Raises Malformed for one beyond the year 9999."""
    try:
        return started_at + timedelta(microseconds=micros)
    except OverflowError:
        raise Malformed(f"a record says it was made {micros} microseconds after the start") from None


def _marks(damage: str, micros: int, mark: EndMark | None, *, marked: bool) -> bytes:
    if mark is None:
        return encode(End("", goes_on=True), micros)
    note = b"" if marked else encode(Note(mark.note, {"cut": damage} if damage else {}), micros)
    return note + encode(End(mark.reason), micros)


def _append(path: Path, intact: int, records: bytes) -> int:
    """Replaces what lies behind the last good record; answers how many bytes were added."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, intact)
        os.pwrite(descriptor, records, intact)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    return len(records)
