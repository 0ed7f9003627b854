"""What is to be done with the sealed segments that lie here: in which order, and which step is next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import groupby
from pathlib import Path
from uuid import UUID

from postern.archive.survey import SegmentSurvey
from postern.domain.sessions.segment import Segment, first_link, key_of, next_link
from postern.recording.layout import read_sealed_name

PATIENCE = 3600.0  # seconds that a segment waits for one before it that is not here


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed segment on this machine's disk."""

    session: UUID
    number: int
    path: Path


class Step(Enum):
    STORE = auto()
    WAIT = auto()  # for the one before
    DELETE = auto()  # it is stored
    REFUSE = auto()  # another one is stored under its number


def by_session(files: Iterable[Path]) -> list[list[Sealed]]:
    """Each session's segments in order of their numbers; what is not named like a segment is left out."""
    found = []
    for path in files:
        name = read_sealed_name(path.name)
        if name is not None:
            found.append(Sealed(*name, path))
    found.sort(key=lambda one: (one.session, one.number))
    return [list(group) for _, group in groupby(found, key=lambda one: one.session)]


def next_step(sealed: Sealed, digest: bytes, rows: Sequence[Segment], age: float) -> Step:
    """`rows` are the session's stored segments, `age` in seconds since the file was sealed."""
    own = next((row for row in rows if row.number == sealed.number), None)
    if own is not None:
        return Step.DELETE if own.digest == digest else Step.REFUSE
    if _is_next(sealed.number, rows) or age > PATIENCE:
        return Step.STORE
    return Step.WAIT


def row_of(
    sealed: Sealed, told: SegmentSurvey, rows: Sequence[Segment], org_id: UUID, started_at: datetime, at: datetime
) -> Segment:
    """Its row, but for `stored_size`, which is known once it is stored. The chain goes on from the nearest one before
    it."""
    before = max((row for row in rows if row.number < sealed.number), key=lambda row: row.number, default=None)
    link = first_link(org_id, sealed.session) if before is None else before.chain
    damages = [told.damage]
    if not _is_next(sealed.number, rows):
        damages.append(f"segment {sealed.number - 1} was missing when this one was stored")
    if any(row.number > sealed.number for row in rows):
        damages.append("later segments were stored before this one: their chain leaves it out")
    return Segment(
        session_id=sealed.session,
        org_id=org_id,
        number=sealed.number,
        digest=told.digest,
        chain=next_link(link, sealed.number, told.size, told.digest),
        size=told.size,
        stored_size=0,
        begins=told.begins,
        ends=told.ends,
        operations=len(told.texts),
        is_last=told.is_last,
        place=key_of(org_id, sealed.session, sealed.number, started_at),
        stored_at=at,
        damage="; ".join(filter(None, damages)),
        refused=told.refused,
    )


def _is_next(number: int, rows: Sequence[Segment]) -> bool:
    return number == 1 or any(row.number == number - 1 for row in rows)
