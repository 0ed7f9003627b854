"""What was asked in sessions, made searchable: scripts and recorded statements."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from postern.domain.matches import Match, matches_in
from postern.domain.session import Session
from postern.domain.words import Search
from postern.errors import PosternError
from postern.store.ports import Piece, Recordings, SessionTextStore

log = logging.getLogger(__name__)

MAX_READ = 1024 * 1024  # bytes of one session's statements
MAX_SHOWN = 4 * 1024 * 1024  # bytes of texts that are looked through for one page of matches
ROUND = 50  # sessions that are asked for at once
PATIENCE = 1.0  # seconds; a round that takes longer begins no other session
WHOLE = 0  # the number that stands for all segments


class SessionTexts:
    def __init__(self, store: SessionTextStore, recordings: Recordings) -> None:
        self._store = store
        self._recordings = recordings

    async def index(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool = False) -> bool:
        """Takes the statements of a segment, in milliseconds since the session's start; see SessionTextStore. `is_last`
        says that no other is to come: a session of which nobody says that is read by `catch_up` once it has ended."""
        return await self._store.index(session_id, segment, pieces, is_last=is_last)

    async def catch_up(self) -> int:
        """Reads ended sessions that nobody has indexed, for about PATIENCE seconds. Answers how many it read."""
        done, begin = 0, time.monotonic()
        for session in await self._store.unread(ROUND):
            pieces = await asyncio.to_thread(self._read, session)
            try:
                await self._store.index(session.id, WHOLE, pieces, is_last=True)
            except PosternError:
                raise
            except Exception:  # one that no engine takes must not come again and again, before all others
                log.exception("session %s cannot be made searchable", session.id)
                await self._store.index(session.id, WHOLE, [], is_last=True)
            done += 1
            if time.monotonic() - begin > PATIENCE:
                break
        return done

    async def matches(self, sessions: Sequence[Session], search: Search) -> Mapping[UUID, Sequence[Match]]:
        """The first statements in which something was found, of sessions that their reader may see. None of those that
        come after MAX_SHOWN bytes of text."""
        held = await self._store.pieces([session.id for session in sessions], MAX_SHOWN)
        return await asyncio.to_thread(lambda: {key: matches_in(pieces, search) for key, pieces in held.items()})

    def _read(self, session: Session) -> list[Piece]:
        """As much as is indexed, and a little more, so that it is known to be cut."""
        found: list[Piece] = []
        size = 0
        for piece in self._pieces(session):
            found.append(piece)
            size += len(piece[1]) + 1
            if size > MAX_READ:
                break
        return found

    def _pieces(self, session: Session) -> Iterator[Piece]:
        """A recording that cannot be read further must not keep the rest from being found."""
        if session.script:
            yield 0.0, session.script
        try:
            for at, content in self._recordings.operations(session):
                said = content.decode("utf-8", "replace")
                if said != session.script:
                    yield at, said
        except (PosternError, OSError) as error:
            log.info("session %s is searchable without all of its recording: %s", session.id, error)
