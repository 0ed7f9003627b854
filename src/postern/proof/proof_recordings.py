"""Verification of each session's segments against the chain in the ledger."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from postern.domain.sessions.segment import first_link, next_link
from postern.proof.chain import Stated
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_sessions import ListedSegment, VerifiedSession

_PACKED = struct.Struct(">QQ32s?")  # number, size, digest, whether it is proven
_WIDTH: int = _PACKED.size
_SEEN = b"\0" * 32


class SegmentCheck:
    def __init__(self, report: VerificationReport, *, with_segments: bool, is_live: bool) -> None:
        self._report = report
        self._with_segments = with_segments
        self._is_live = is_live
        self._expected: dict[UUID, bytearray] = {}
        self._left: set[UUID] = set()
        self._last: tuple[bytes, int] = (b"", 0)

    def skip(self, session: UUID) -> None:
        """Skip the segments of a session, for which the report already has a note."""
        self._left.add(session)

    def expect(self, org_id: UUID, session: VerifiedSession, stated: Stated, *, is_proven: bool) -> bool:
        """Compare the list of a session's segments with the one in the ledger; return whether it matches."""
        segments = [segment for segment in session.segments if len(segment.digest) == 32]
        if stated.is_recording_purged:
            return self._expect_purged(session.session_id, segments, stated)
        good = not stated.closed_entry or self._fits(org_id, session.session_id, segments, stated)
        proven = good and is_proven
        packed = b"".join(_PACKED.pack(segment.number, segment.size, segment.digest, proven) for segment in segments)
        if packed:
            self._expected[session.session_id] = bytearray(packed)
        if not self._with_segments or not proven:
            self._report.segments_unproven += len(segments)
        return good

    def _expect_purged(self, session: UUID, listed: list[ListedSegment], stated: Stated) -> bool:
        """Note segments of a purged recording. A purge deletes their rows last, so that they exist while it is
        unfinished.
        """
        if listed:
            self._report.purges_undone += 1
            self._report.notes.append(
                f"entry {stated.purged_entry} says that the recording of session {session} was purged, but "
                f"{len(listed)} of its segments are still listed: the purge is in progress, or was interrupted"
            )
            self.skip(session)
        return True

    def add(
        self,
        session: UUID,
        number: int,
        size: int,
        digest: bytes,
        problem: str,
        locate: Callable[[], tuple[int, int] | None],
    ) -> None:
        where: dict[str, Any] = {"session": session, "segment": number}
        place = (session.bytes, number)
        if place <= self._last:
            what = FindingKind.DOUBLED if place == self._last else FindingKind.REORDERED
            self._report.add(what, f"segment {number} of session {session} is out of order", **where)
            return
        self._last = place
        if session in self._left:
            return
        packed = self._expected.get(session, bytearray())
        offset = _offset(packed, number)
        # it arrived during the verification; the list of a closed session was compared
        if offset is None and self._is_live:
            self._report.segments_unproven += 1
            return
        if offset is None:
            message = f"segment {number} of session {session} exists but is not listed"
            self._report.add(FindingKind.FOREIGN, message, **where)
            return
        _, listed_size, listed_digest, proven = _PACKED.unpack_from(packed, offset)
        if problem:
            message = f"segment {number} of session {session} cannot be read: {problem}"
            self._report.add(FindingKind.UNREADABLE, message, **where, begin=0, end=listed_size)
        elif (size, digest) != (listed_size, listed_digest):
            begin, end = locate() or (0, listed_size)
            message = f"segment {number} of session {session} was changed in bytes {begin} to {end}"
            self._report.add(FindingKind.CHANGED, message, **where, begin=begin, end=end)
        elif proven:
            self._report.segments_proven += 1
            self._report.bytes_proven += size
        _PACKED.pack_into(packed, offset, number, 0, _SEEN, proven)

    def finish(self) -> None:
        if not self._with_segments:
            return
        for session, packed in self._expected.items():
            for number, size, digest, _ in _PACKED.iter_unpack(packed):
                if digest != _SEEN:
                    message = f"segment {number} of session {session} is missing"
                    where = {"session": session, "segment": number, "begin": 0, "end": size}
                    self._report.add(FindingKind.MISSING, message, **where)

    def _fits(self, org_id: UUID, session: UUID, listed: list[ListedSegment], stated: Stated) -> bool:
        good = True
        there = {listed_segment.number for listed_segment in listed}
        # An entry can claim any number of segments: only the first 100 missing ones are reported.
        missing = (number for number in range(1, stated.segments + 1) if number not in there)
        for number in itertools.islice(missing, 100):
            message = f"segment {number} of session {session} is no longer listed"
            self._report.add(FindingKind.MISSING, message, session=session, segment=number, entry=stated.closed_entry)
            good = False
        for segment in listed[stated.segments :] if good else ():
            message = f"segment {segment.number} of session {session} was added after the ledger closed the session"
            self._report.add(
                FindingKind.FOREIGN, message, session=session, segment=segment.number, entry=stated.closed_entry
            )
            good = False
        if not good:
            return False
        chain = first_link(org_id, session)
        for segment in listed:
            chain = next_link(chain, segment.number, segment.size, segment.digest)
        if chain != stated.last or sum(segment.size for segment in listed) != stated.size:
            message = f"the list of segments of session {session} is not the one in the ledger"
            self._report.add(FindingKind.CHANGED, message, session=session, entry=stated.closed_entry)
            return False
        return True


def _offset(packed: bytearray, number: int) -> int | None:
    """Return the offset of a segment: that of its number, unless earlier ones are missing."""
    at = (number - 1) * _WIDTH
    offsets: list[int] = [at, *range(0, len(packed), _WIDTH)]
    for offset in offsets:
        if 0 <= offset < len(packed):
            segment_number: int = _PACKED.unpack_from(packed, offset)[0]
            if segment_number == number:
                return offset
    return None
