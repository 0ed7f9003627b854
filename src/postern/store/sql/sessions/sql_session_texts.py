"""The search index of sessions: written once for each segment, searched by session_search.py."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Connection,
    Integer,
    RowMapping,
    Select,
    insert,
    literal,
    literal_column,
    select,
    text,
    tuple_,
    update,
)

from postern.domain.lists import Position
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.sessions.words import fold_text
from postern.errors import Unavailable
from postern.store.database import Database
from postern.store.ports.notification_ports import ALL, UNREAD
from postern.store.ports.target_ports import Piece, UnindexedSession
from postern.store.schema.session_tables import session_texts, sessions
from postern.store.sql.rows import SESSION_COLUMNS, session_of
from postern.store.sql.sessions.pending import waiting
from postern.store.sql.sessions.session_search import keys_of, place_of

MAX_TEXT = 1024 * 1024  # bytes of one session
MAX_WORDS = 1_000_000  # bytes of different words
_NEIGHBOURS = 16  # places that are tried where another session has the first one
_TRIES = 20
_NOTHING_AWAITED = update(sessions).values(pending=literal_column(f"pending & {ALL & ~UNREAD}", Integer))


class SqlSessionTexts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def index(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> bool:
        """Index a segment. Words are found before the transaction begins: for a long text that takes longest, and
        would block other writers."""
        for _ in range(_TRIES):
            async with self._database.statement() as connection:
                known = (await connection.execute(_select_texts(session_id))).mappings().one_or_none()
            if known is None:
                return False
            is_new = _is_new(known, segment)
            if not (is_new or is_last):
                return False
            values = await asyncio.to_thread(self._values, known, segment, pieces) if is_new else {}
            awaited = not is_last or _missing(values.get("segments", known["segments"]), segment)
            write = functools.partial(_write, session_id=session_id, known=known, values=values)
            work = functools.partial(write, is_last=is_last, is_awaited=awaited)
            if await self._database.together(work):
                return is_new and segment > 0
        raise Unavailable("others index the same session at the same time; try again")

    async def unread(self, ended_before: datetime, after: Position | None, most: int) -> list[UnindexedSession]:
        conditions = [sessions.c.end_date < ended_before]
        if after is not None:
            behind = tuple_(sessions.c.end_date, sessions.c.id)
            conditions.append(behind > tuple_(after.at, after.id, types=[sessions.c.end_date.type, sessions.c.id.type]))
        wanted = waiting(SESSION_COLUMNS, UNREAD, most, *conditions)
        async with self._database.statement() as connection:
            found = [session_of(row) for row in (await connection.execute(wanted)).mappings()]
            read = select(session_texts.c.session_id, session_texts.c.segments)
            rows = await connection.execute(read.where(session_texts.c.session_id.in_([one.id for one in found])))
        known = {row.session_id: frozenset(row.segments) for row in rows}
        return [UnindexedSession(session, known.get(session.id, frozenset())) for session in found]

    async def pieces(self, session_ids: Sequence[UUID], most: int) -> Mapping[UUID, list[Piece]]:
        sizes = select(session_texts.c.session_id, session_texts.c.size).where(
            session_texts.c.session_id.in_(session_ids)
        )
        wanted = select(session_texts.c.session_id, session_texts.c.pieces)
        async with self._database.statement() as connection:
            known = {row.session_id: row.size for row in await connection.execute(sizes)}
            chosen = list(_as_many(known, session_ids, most))
            rows = await connection.execute(wanted.where(session_texts.c.session_id.in_(chosen)))
            return {row.session_id: _read(row.pieces) for row in rows}

    def _values(self, known: RowMapping, segment: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the row after a segment is added."""
        script: str | None = known["script"]
        before = _read(known["pieces"]) if known["place"] is not None else [(0.0, script)] if script else []
        # A script is recorded as what its client sends, too.
        added = [piece for piece in pieces if piece[1] != script]
        kept, is_cut = _cut(sorted([*before, *added], key=lambda piece: piece[0]))
        done = set(known["segments"] or ())
        values: dict[str, Any] = {
            "pieces": json.dumps(kept, separators=(",", ":")),  # in ASCII: no engine minds what is in it
            "folded": fold_text([said for _, said in kept]),
            "size": sum(len(said.encode("utf-8", "replace")) for _, said in kept),
            "segments": sorted(done | {segment} - {0}),
            "is_cut": is_cut or bool(known["is_cut"]),
        }
        if not self._database.is_sqlite:
            words = _some(values["folded"].split())
            values["words"] = text("array_to_tsvector(cast(:words as text[]))").bindparams(words=words)
        return values


def _select_texts(session_id: UUID) -> Select[Any]:
    """Return the session, and its index row."""
    texts = (session_texts.c[name] for name in ("place", "pieces", "segments", "is_cut"))
    query = select(sessions.c.script, *texts).join_from(sessions, session_texts, isouter=True)
    return query.where(sessions.c.id == session_id)


def _is_new(known: RowMapping, segment: int) -> bool:
    """Return whether to add a row; a session without any segment gets one once its index is complete."""
    return known["place"] is None if segment == 0 else segment not in (known["segments"] or ())


def _missing(segments: Sequence[int], last: int) -> bool:
    return not set(segments).issuperset(range(1, last + 1))


def _write(
    connection: Connection,
    *,
    session_id: UUID,
    known: RowMapping,
    values: dict[str, Any],
    is_last: bool,
    is_awaited: bool,
) -> bool:
    """Write the row; False when another process has written meanwhile."""
    # Locked, so that two who index the same session do so one after the other.
    row = connection.execute(select(*sessions.c).where(sessions.c.id == session_id).with_for_update()).mappings()
    found = row.one_or_none()
    if found is None:
        return True
    current = select(session_texts.c.segments).where(session_texts.c.session_id == session_id)
    segments = connection.execute(current).scalar_one_or_none()
    if segments != known["segments"]:
        return False
    is_done = is_last and found["status"] == SessionStatus.DONE
    if values or is_done:
        keys = _keys(connection, session_of(found), found["refused"], found["masked"])
        _put(connection, session_of(found), known["place"], values | {"keys": keys})
    if is_done and not is_awaited and found["pending"] & UNREAD:
        connection.execute(_NOTHING_AWAITED.where(sessions.c.id == session_id))
    return True


def _put(connection: Connection, session: Session, place: int | None, values: dict[str, Any]) -> None:
    if place is not None:
        connection.execute(update(session_texts).where(session_texts.c.place == place).values(values))
        return
    first = place_of(session.start_date, session.id)
    near = select(session_texts.c.place).where(
        session_texts.c.place >= first, session_texts.c.place < first + _NEIGHBOURS
    )
    taken = set(connection.execute(near).scalars())
    place = next((one for one in range(first, first + _NEIGHBOURS) if one not in taken), first)
    values = values | {"place": place, "session_id": session.id, "org_id": session.org_id}
    connection.execute(insert(session_texts).values(values))


def _some(words: Sequence[str]) -> list[str]:
    """Return each word once, as many of the first as a tsvector holds
    (https://postgresql.org/docs/current/textsearch-limitations)."""
    kept: dict[str, None] = {}
    size = 0
    for word in words:
        if word not in kept:
            size += len(word.encode())
            if size > MAX_WORDS:
                break
            kept[word] = None
    return sorted(kept)


def _keys(connection: Connection, session: Session, refused: int, masked: int) -> Any:
    found = keys_of(session, refused=refused, masked=masked)
    return " ".join(found) if connection.dialect.name == "sqlite" else literal(found, session_texts.c["keys"].type)


def _cut(pieces: Sequence[Piece]) -> tuple[list[Piece], bool]:
    """Return as many pieces as fit, the last one in part. Each counts at least one byte, so that empty ones end,
    too."""
    kept: list[Piece] = []
    left = MAX_TEXT
    for at, said in pieces:
        size = len(said.encode("utf-8", "replace")) + 1
        if size > left:
            part = said.encode("utf-8", "replace")[: max(left - 1, 0)].decode("utf-8", "ignore")
            return ([*kept, (at, part)] if part else kept), True
        kept.append((at, said))
        left -= size
    return kept, False


def _as_many(sizes: Mapping[UUID, int], session_ids: Sequence[UUID], most: int) -> Iterator[UUID]:
    for session_id in session_ids:
        most -= sizes.get(session_id, 0)
        if most < 0:
            return
        yield session_id


def _read(stored: str) -> list[Piece]:
    return [(at, said) for at, said in json.loads(stored)]
