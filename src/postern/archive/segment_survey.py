"""One look through a sealed segment: everything that its row, its proof and the search need."""

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
# Bytes of statements that are kept of a segment for the search, which takes 1 MiB of a whole session.
MOST_TEXT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentSurvey:
    """`digest` (SHA-256) and `size` are of all plain bytes that can be had; `begins` and `ends` in milliseconds since
    the session's start. `damage` is empty, or says what cannot be read; `is_last` is then what the end record said, if
    there was one."""

    digest: bytes
    size: int
    begins: int = 0
    ends: int = 0
    refused: int = 0
    is_last: bool = False
    damage: str = ""
    texts: tuple[Piece, ...] = ()


def survey(source: Path | BinaryIO, session: UUID, number: int) -> SegmentSurvey:
    """Of a segment that should be this one. Decompresses once, in memory that does not grow with it. Blocks.

    Raises OSError, and what reading `source` raises; damage raises nothing.
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
        return _told(reader, hashed[0], session, number)


def _told(reader: SegmentReader, hashed: Hashed, session: UUID, number: int) -> SegmentSurvey:
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
            if room >= 0:  # one more than fits, so that the search knows that it was cut
                texts.append(piece_of(micros, event))
                room -= len(texts[-1][1].encode("utf-8", "replace")) + 1
        elif isinstance(event, Refusal):
            refused += 1
    _drain(hashed)
    damages = [damage, reader.damage]
    if reader.end is None and not reader.damage:
        damages.append("it ends without a word")
    return SegmentSurvey(
        hashed.digest,
        hashed.size,
        first or 0,
        last,
        refused,
        reader.end is not None and not reader.end.goes_on,
        "; ".join(filter(None, damages)),
        tuple(texts),
    )


def _drain(hashed: Hashed) -> None:
    """The digest is of all bytes, those behind damage too."""
    with contextlib.suppress(zstandard.ZstdError):
        while hashed.read(_PIECE):
            pass
