"""Recovery: recordings that a dead worker left are marked, sealed and reported."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from postern.errors import Malformed
from postern.interception.events import Note, Operation, Refusal, Shown
from postern.recording.archive import seal
from postern.recording.layout import SPOOL_SUFFIX, archive_path, home_of
from postern.recording.reader import RecordingReader
from postern.recording.records import encode

log = logging.getLogger(__name__)

GATEWAY_STOPPED = "gateway stopped without closing this session; closed at next start"
BROKEN_SUFFIX = ".broken"


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
    output_bytes: int = 0
    size: int = 0
    damage: str = ""


def recover(folder: Path) -> list[Recovered]:
    """Marks and seals every spool in a dead worker's folder (`layout.spool_folder`). May block.

    Safe to repeat. A recording that cannot be read is kept under another name and reported by its
    `damage`; it never stands in the way of the others.
    """
    found: list[Recovered] = []
    for path in sorted(folder.glob(f"*{SPOOL_SUFFIX}")):
        try:
            session = UUID(path.name.removesuffix(SPOOL_SUFFIX))
        except ValueError:
            log.warning("the file %s is not named like a recording; it is left alone", path)
            continue
        try:
            found.append(_recover_one(path, home_of(folder)))
        except Malformed as error:
            path.rename(path.with_name(path.name + BROKEN_SUFFIX))
            log.error("the recording %s cannot be read (%s); it is kept as %s%s", path, error, path.name, BROKEN_SUFFIX)
            found.append(Recovered(session, damage=error.message))
        except OSError as error:
            log.error("the recording %s cannot be recovered now: %s", path, error)
            found.append(Recovered(session, damage=str(error)))
    return found


def _recover_one(path: Path, home: Path) -> Recovered:
    operations = refused = output = micros = 0
    marked = False
    with RecordingReader(path) as reader:
        for at, event in reader:
            marked = isinstance(event, Note) and event.text == GATEWAY_STOPPED
            micros = micros if marked else at
            operations += isinstance(event, Operation)
            refused += isinstance(event, Refusal)
            output += len(event.data) if isinstance(event, Shown) else 0
    size = reader.intact
    if not marked:
        size += _append_mark(path, reader.intact, micros, reader.damage)
    seal(path, archive_path(home, reader.header.session, reader.header.started_at))
    ended_at = reader.header.started_at + timedelta(microseconds=micros)
    return Recovered(reader.header.session, ended_at, operations, refused, output, size, reader.damage)


def _append_mark(path: Path, intact: int, micros: int, damage: str) -> int:
    """Replaces what lies behind the last good record by the marker; answers the marker's size."""
    mark = encode(Note(GATEWAY_STOPPED, {"cut": damage} if damage else {}), micros)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, intact)
        os.pwrite(descriptor, mark, intact)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    return len(mark)
