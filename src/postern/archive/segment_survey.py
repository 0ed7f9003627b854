"""Survey of a sealed segment: one pass that collects what its row, its proof and the search index need."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from uuid import UUID

import zstandard

from postern.errors import Malformed
from postern.interception.events import Operation, Refusal
from postern.recording.reader import SegmentReader
from postern.recording.recording_rendering import piece_of
from postern.recording.stored import Hashed
from postern.store.ports.target_ports import Piece

_BUFFER = 256 * 1024
_PIECE = 65_536
# Bytes of statements per segment for the search index, which takes 1 MiB of a whole session.
MOST_TEXT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentSurvey:
    """Facts about a segment.

    `digest` (SHA-256) and `size` cover all plain bytes that can be read. `begins` and `ends` are milliseconds since the
    session's start. `damage` says what cannot be read; it is empty for an intact segment. `is_last` comes from the end
    record, if there is one.
    """

    digest: bytes
    size: int
    begins: int = 0
    ends: int = 0
    refused: int = 0
    is_last: bool = False
    damage: str = ""
    texts: tuple[Piece, ...] = ()


def survey(source: Path | BinaryIO, session: UUID, number: int) -> SegmentSurvey:
    """Survey the segment that should have this session and number.

    Decompresses once, in constant memory. Blocks. Raises OSError and whatever reading `source` raises. Damage does not
    raise; it is part of the result.
    """
    hashed: list[Hashed] = []

    def through(plain: BinaryIO) -> BinaryIO:
        hashed.append(Hashed(plain))
        return cast(BinaryIO, io.BufferedReader(hashed[0], _BUFFER))

    with source.open("rb") if isinstance(source, Path) else contextlib.nullcontext(source) as file:
        try:
            reader = SegmentReader(file, name=f"{session}.{number:06}", through=through)
        except Malformed as error:
            if not hashed:
                return SegmentSurvey(Hashed(io.BytesIO()).digest, 0, damage=error.message)
            _drain(hashed[0])
            return SegmentSurvey(hashed[0].digest, hashed[0].size, damage=error.message)
        return _survey_events(reader, hashed[0], session, number)


def _survey_events(reader: SegmentReader, hashed: Hashed, session: UUID, number: int) -> SegmentSurvey:
    header = reader.header
    damage = "" if (header.session, header.segment) == (session, number) else "its header names another segment"
    texts: list[Piece] = []
    room = MOST_TEXT
    refused = 0
    first: int | None = None
    last = 0
    for micros, event in reader:
        last = micros // 1000
        if first is None:
            first = last
        if isinstance(event, Operation):
            if room >= 0:  # one more than fits, so that the search knows that the text was cut
                texts.append(piece_of(micros, event))
                room -= len(texts[-1][1].encode("utf-8", "replace")) + 1
        elif isinstance(event, Refusal):
            refused += 1
    _drain(hashed)
    damages = [damage, reader.damage]
    if reader.end is None and not reader.damage:
        damages.append("it has no end record")
    return SegmentSurvey(
        hashed.digest,
        hashed.size,
        first or 0,
        last,
        refused,
        reader.end is not None and not reader.end.continues,
        "; ".join(filter(None, damages)),
        tuple(texts),
    )


def _drain(hashed: Hashed) -> None:
    """Read to the end: the digest covers all bytes, also those after damage."""
    with contextlib.suppress(zstandard.ZstdError):
        while hashed.read(_PIECE):
            pass
