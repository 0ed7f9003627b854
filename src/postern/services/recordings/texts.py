"""The search index of sessions: scripts and recorded statements."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from postern.domain.lists import Position
from postern.domain.sessions.matches import Match, matches_in
from postern.domain.sessions.recorded import INPUT, Moment, RecordedPosition, with_positions
from postern.domain.sessions.session import Session
from postern.domain.sessions.words import Search
from postern.errors import NotFound, PosternError, Unavailable
from postern.services.recordings.recording_pages import RecordingWindow
from postern.store.ports.common_ports import Clock
from postern.store.ports.target_ports import Piece, Recordings, SessionTextStore, UnindexedSession

log = logging.getLogger(__name__)

AWAY = timedelta(minutes=3)  # time after a session's end in which the process that stores its segments indexes it
MAX_READ = 1024 * 1024  # bytes of one session's statements
MAX_SHOWN = 4 * 1024 * 1024  # bytes of texts that are looked through for one page of matches
ROUND = 50  # sessions that are read at once
PAGE = 100  # matches, if no limit is given
MAX_SCANNED = 16 * 1024 * 1024  # bytes of statements that are looked through for one page of one session
MAX_SECONDS = 2.0  # after which a page ends with what was found
PATIENCE = 1.0  # seconds; a round that takes longer begins no other session


@dataclass(frozen=True, slots=True)
class MatchPage:
    """A page of matches; it can be empty. `next` is the position to continue after; None at the end."""

    matches: Sequence[Match]
    next: RecordedPosition | None


class SessionTexts:
    def __init__(self, store: SessionTextStore, recordings: Recordings, now: Clock) -> None:
        self._store = store
        self._recordings = recordings
        self._now = now
        self._place: Position | None = None  # of the last session that was read

    async def index(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool = False) -> bool:
        """Index the statements of a segment; see SessionTextStore. A session with all segments indexed needs nothing
        else."""
        return await self._store.index(session_id, segment, pieces, is_last=is_last)

    async def catch_up(self) -> int:
        """Index sessions that are still unindexed AWAY after their end; return how many were finished.

        Those have no recording, or indexing failed. Takes about PATIENCE seconds; the next round continues.
        """
        done, begin = 0, time.monotonic()
        sessions = await self._store.unread(self._now() - AWAY, self._place, ROUND)
        for session in sessions:
            assert session.session.end_date is not None
            self._place = Position(session.session.end_date, session.session.id)
            done += await self._finish(session)
            if time.monotonic() - begin > PATIENCE:
                return done
        if len(sessions) < ROUND:
            self._place = None
        return done

    async def _finish(self, unread: UnindexedSession) -> bool:
        """Index the session; False when it has to wait for the blob store."""
        session_id = unread.session.id
        try:
            for segment, pieces in await asyncio.to_thread(self._read, unread):
                await self._store.index(session_id, segment, pieces, is_last=False)
        except Unavailable as error:
            log.warning("session cannot be indexed for search yet: session=%s error=%s", session_id, error)
            return False
        except Exception:  # a session that the engine rejects must not be retried for ever
            log.exception("session cannot be indexed for search: session=%s", session_id)
        await self._store.index(session_id, 0, [], is_last=True)
        return True

    async def matches(self, sessions: Sequence[Session], search: Search) -> Mapping[UUID, Sequence[Match]]:
        """Return the first matching statements of sessions that the reader can see.

        Sessions after the first MAX_SHOWN bytes of text have none.
        """
        pieces_by_session = await self._store.pieces([session.id for session in sessions], MAX_SHOWN)
        return await asyncio.to_thread(
            lambda: {key: matches_in(pieces, search) for key, pieces in pieces_by_session.items()}
        )

    async def matches_of(self, session: Session, search: Search, window: RecordingWindow) -> MatchPage:
        """Return the matching statements of one session that the reader can see, from its recording. Raises NotFound,
        Gone."""
        return await asyncio.to_thread(_find_matches, self._recordings, session, search, window)

    def _read(self, unread: UnindexedSession) -> list[tuple[int, list[Piece]]]:
        """Read as much as is indexed, and a little more, so that truncation is known. Raises Unavailable.

        A damaged recording is indexed as far as it can be read.
        """
        read_segments: list[tuple[int, list[Piece]]] = []
        size = 0
        try:
            for segment, pieces in self._recordings.texts(unread.session, unread.segments):
                read_segments.append((segment, pieces))
                size += sum(len(text) + 1 for _, text in pieces)
                if size > MAX_READ:
                    break
        except Unavailable:
            raise
        except NotFound:
            pass  # it has none, or its recording is on another machine, which indexes it
        except (PosternError, OSError) as error:
            log.info(
                "session indexed for search without its whole recording: session=%s error=%s", unread.session.id, error
            )
        return read_segments


def _find_matches(recordings: Recordings, session: Session, search: Search, window: RecordingWindow) -> MatchPage:
    """Look through a bounded part of the recording, at least one statement, from a position on. Blocks."""
    limit = PAGE if window.limit is None else window.limit
    matches: list[Match] = []
    scanned, begin, last = 0, time.monotonic(), window.after
    for place, moment in with_positions(_statements(recordings, session, window.since), window.after):
        is_full = len(matches) >= limit or scanned >= MAX_SCANNED
        if is_full or (scanned and time.monotonic() - begin > MAX_SECONDS):
            return MatchPage(matches, last)
        matches += matches_in([(moment.micros / 1000, moment.content.decode(errors="replace"))], search)
        scanned += len(moment.content) + 1
        last = place
    return MatchPage(matches, None)


def _statements(recordings: Recordings, session: Session, since: int) -> Iterator[Moment]:
    return (Moment(round(at * 1000), INPUT, text) for at, text in recordings.operations(session, since))
