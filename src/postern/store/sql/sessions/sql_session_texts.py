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
    Select,
    bindparam,
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
from postern.store.prepared import PreparedStatement, Row
from postern.store.schema.session_tables import session_texts, sessions
from postern.store.sql.rows import SESSION_COLUMNS, session_of
from postern.store.sql.sessions.pending import waiting
from postern.store.sql.sessions.session_search import keys_of, place_of

MAX_TEXT = 1024 * 1024  # bytes of one session
MAX_WORDS = 1_000_000  # bytes of different words
_NEIGHBOURS = 16  # places that are tried where another session has the first one
_TRIES = 20
_SHORT = 16 * 1024  # characters; folding longer texts would block the event loop
_NOTHING_AWAITED = update(sessions).values(pending=literal_column(f"pending & {ALL & ~UNREAD}", Integer))


class SqlSessionTexts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def index(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> bool:
        """Index a segment. Words are found before the transaction begins: for a long text that takes longest, and
        would block other writers."""
        for _ in range(_TRIES):
            rows = await self._database.run_direct(
                lambda connection: _FIND.rows(connection, {"session": session_id}), writes=False
            )
            if not rows:
                return False
            row = rows[0]
            is_new = _is_new(row, segment)
            if not (is_new or is_last):
                return False
            values = await self._values_of(row, segment, pieces) if is_new else {}
            awaited = not is_last or _missing(values.get("segments", row["segments"]) or (), segment)
            write = functools.partial(_write, session_id=session_id, known_row=row, values=values)
            work = functools.partial(write, is_last=is_last, is_awaited=awaited)
            if await self._database.together(work):
                return is_new and segment > 0
        raise Unavailable("other processes index this session at the same time; try again")

    async def unread(self, ended_before: datetime, after: Position | None, most: int) -> list[UnindexedSession]:
        conditions = [sessions.c.end_date < ended_before]
        if after is not None:
            behind = tuple_(sessions.c.end_date, sessions.c.id)
            conditions.append(behind > tuple_(after.at, after.id, types=[sessions.c.end_date.type, sessions.c.id.type]))
        query = waiting(SESSION_COLUMNS, UNREAD, most, *conditions)
        async with self._database.statement() as connection:
            found_sessions = [session_of(row) for row in (await connection.execute(query)).mappings()]
            read = select(session_texts.c.session_id, session_texts.c.segments)
            rows = await connection.execute(
                read.where(session_texts.c.session_id.in_([session.id for session in found_sessions]))
            )
        segments_by_session = {row.session_id: frozenset(row.segments) for row in rows}
        return [
            UnindexedSession(session, segments_by_session.get(session.id, frozenset())) for session in found_sessions
        ]

    async def pieces(self, session_ids: Sequence[UUID], most: int) -> Mapping[UUID, list[Piece]]:
        sizes = select(session_texts.c.session_id, session_texts.c.size).where(
            session_texts.c.session_id.in_(session_ids)
        )
        query = select(session_texts.c.session_id, session_texts.c.pieces)
        async with self._database.statement() as connection:
            sizes_by_session = {row.session_id: row.size for row in await connection.execute(sizes)}
            chosen = list(_as_many(sizes_by_session, session_ids, most))
            rows = await connection.execute(query.where(session_texts.c.session_id.in_(chosen)))
            return {row.session_id: _read(row.pieces) for row in rows}

    async def _values_of(self, row: Row, segment: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the row after a segment is added, by a thread for long texts."""
        length = sum(len(piece_text) for _, piece_text in pieces) + len(row["pieces"] or row["script"] or "")
        if length > _SHORT:
            return await asyncio.to_thread(self._values, row, segment, pieces)
        return self._values(row, segment, pieces)

    def _values(self, row: Row, segment: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the row after a segment is added."""
        script: str | None = row["script"]
        before = _read(row["pieces"]) if row["place"] is not None else [(0.0, script)] if script else []
        # A script is recorded as what its client sends, too.
        added = [piece for piece in pieces if piece[1] != script]
        kept_pieces, is_cut = _cut(sorted([*before, *added], key=lambda piece: piece[0]))
        done = set(row["segments"] or ())
        values: dict[str, Any] = {
            "pieces": json.dumps(kept_pieces, separators=(",", ":")),  # in ASCII: no engine minds what is in it
            "folded": fold_text([piece_text for _, piece_text in kept_pieces]),
            "size": sum(len(piece_text.encode("utf-8", "replace")) for _, piece_text in kept_pieces),
            "segments": sorted(done | {segment} - {0}),
            "is_cut": is_cut or bool(row["is_cut"]),
        }
        if not self._database.is_sqlite:
            words = distinct_words(values["folded"].split())
            values["words"] = text("array_to_tsvector(cast(:words as text[]))").bindparams(words=words)
        return values


def _select_texts() -> Select[Any]:
    """Return the session, and its index row."""
    texts = (session_texts.c[name] for name in ("place", "pieces", "segments", "is_cut"))
    query = select(sessions.c.script, *texts).join_from(sessions, session_texts, isouter=True)
    return query.where(sessions.c.id == bindparam("session"))


_FIND = PreparedStatement(_select_texts())


def _is_new(row: Row, segment: int) -> bool:
    """Return whether to add a row; a session without any segment gets one once its index is complete."""
    return row["place"] is None if segment == 0 else segment not in (row["segments"] or ())


def _missing(segments: Sequence[int], last: int) -> bool:
    return not set(segments).issuperset(range(1, last + 1))


def _write(
    connection: Connection,
    *,
    session_id: UUID,
    known_row: Row,
    values: dict[str, Any],
    is_last: bool,
    is_awaited: bool,
) -> bool:
    """Write the row; False when another process has written meanwhile."""
    # Locked, so that concurrent processes index the same session one after the other.
    row = connection.execute(select(*sessions.c).where(sessions.c.id == session_id).with_for_update()).mappings()
    found_row = row.one_or_none()
    if found_row is None:
        return True
    current = select(session_texts.c.segments).where(session_texts.c.session_id == session_id)
    segments = connection.execute(current).scalar_one_or_none()
    if segments != known_row["segments"]:
        return False
    is_done = is_last and found_row["status"] == SessionStatus.DONE
    if values or is_done:
        keys = _keys(connection, session_of(found_row), found_row["refused"], found_row["masked"])
        _put(connection, session_of(found_row), known_row["place"], values | {"keys": keys})
    if is_done and not is_awaited and found_row["pending"] & UNREAD:
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
    used_places = set(connection.execute(near).scalars())
    place = next((number for number in range(first, first + _NEIGHBOURS) if number not in used_places), first)
    values = values | {"place": place, "session_id": session.id, "org_id": session.org_id}
    connection.execute(insert(session_texts).values(values))


def distinct_words(words: Sequence[str]) -> list[str]:
    """Return each word once, as many of the first as a tsvector holds
    (https://postgresql.org/docs/current/textsearch-limitations)."""
    distinct_words: dict[str, None] = {}
    size = 0
    for word in words:
        if word not in distinct_words:
            size += len(word.encode())
            if size > MAX_WORDS:
                break
            distinct_words[word] = None
    return sorted(distinct_words)


def _keys(connection: Connection, session: Session, refused: int, masked: int) -> Any:
    session_keys = keys_of(session, refused=refused, masked=masked)
    return (
        " ".join(session_keys)
        if connection.dialect.name == "sqlite"
        else literal(session_keys, session_texts.c["keys"].type)
    )


def _cut(pieces: Sequence[Piece]) -> tuple[list[Piece], bool]:
    """Return as many pieces as fit, the last one in part. Each counts at least one byte, so that empty ones end,
    too."""
    kept_pieces: list[Piece] = []
    left = MAX_TEXT
    for at, piece_text in pieces:
        size = len(piece_text.encode("utf-8", "replace")) + 1
        if size > left:
            part = piece_text.encode("utf-8", "replace")[: max(left - 1, 0)].decode("utf-8", "ignore")
            return ([*kept_pieces, (at, part)] if part else kept_pieces), True
        kept_pieces.append((at, piece_text))
        left -= size
    return kept_pieces, False


def _as_many(sizes: Mapping[UUID, int], session_ids: Sequence[UUID], most: int) -> Iterator[UUID]:
    for session_id in session_ids:
        most -= sizes.get(session_id, 0)
        if most < 0:
            return
        yield session_id


def _read(stored: str) -> list[Piece]:
    return [(at, piece_text) for at, piece_text in json.loads(stored)]
