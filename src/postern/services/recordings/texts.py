"""The search index of sessions: scripts and recorded statements."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from postern.domain.lists import Position
from postern.domain.sessions.matches import Match, matches_in
from postern.domain.sessions.session import Session
from postern.domain.sessions.words import Search
from postern.errors import NotFound, PosternError, Unavailable
from postern.store.ports.common_ports import Clock
from postern.store.ports.target_ports import Piece, Recordings, SessionTextStore, UnindexedSession

log = logging.getLogger(__name__)

AWAY = timedelta(minutes=3)  # how long after its end a session is left to who stores its segments
MAX_READ = 1024 * 1024  # bytes of one session's statements
MAX_SHOWN = 4 * 1024 * 1024  # bytes of texts that are looked through for one page of matches
ROUND = 50  # sessions that are asked for at once
PATIENCE = 1.0  # seconds; a round that takes longer begins no other session


class SessionTexts:
    def __init__(self, store: SessionTextStore, recordings: Recordings, now: Clock) -> None:
        self._store = store
        self._recordings = recordings
        self._now = now
        self._place: Position | None = None  # of the last one that was looked at

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
            log.warning("session %s cannot be made searchable yet: %s", session_id, error)
            return False
        except Exception:  # one that no engine takes must not come again and again
            log.exception("session %s cannot be made searchable", session_id)
        await self._store.index(session_id, 0, [], is_last=True)
        return True

    async def matches(self, sessions: Sequence[Session], search: Search) -> Mapping[UUID, Sequence[Match]]:
        """Return the first matching statements of sessions that the reader can see.

        Sessions after the first MAX_SHOWN bytes of text have none.
        """
        held = await self._store.pieces([session.id for session in sessions], MAX_SHOWN)
        return await asyncio.to_thread(lambda: {key: matches_in(pieces, search) for key, pieces in held.items()})

    def _read(self, unread: UnindexedSession) -> list[tuple[int, list[Piece]]]:
        """Read as much as is indexed, and a little more, so that truncation is known. Raises Unavailable.

        A damaged recording is indexed as far as it can be read.
        """
        found: list[tuple[int, list[Piece]]] = []
        size = 0
        try:
            for segment, pieces in self._recordings.texts(unread.session, unread.segments):
                found.append((segment, pieces))
                size += sum(len(said) + 1 for _, said in pieces)
                if size > MAX_READ:
                    break
        except Unavailable:
            raise
        except NotFound:
            pass  # it never had one, or it is of another machine, which takes its segments itself
        except (PosternError, OSError) as error:
            log.info("session %s is searchable without all of its recording: %s", unread.session.id, error)
        return found
