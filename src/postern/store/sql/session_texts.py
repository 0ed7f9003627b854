"""What was asked in sessions: written once for each segment, found by session_search.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, delete, insert, literal, select, text, update

from postern.domain.session import Session, SessionStatus
from postern.domain.words import folded
from postern.store.database import Database
from postern.store.ports import Piece
from postern.store.schema import session_texts, sessions, unread_sessions
from postern.store.sql.rows import session_of
from postern.store.sql.session_search import keys_of, place_of

MAX_TEXT = 1024 * 1024  # bytes of one session
MAX_WORDS = 1_000_000  # bytes of different words
_NEIGHBOURS = 16  # places that are tried where another session has the first one
WHOLE = 0  # the number that stands for all segments


class SqlSessionTexts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def index(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> bool:
        return await self._database.together(
            lambda connection: _index(connection, session_id, segment, pieces, is_last=is_last)
        )

    async def unread(self, most: int) -> list[Session]:
        wanted = select(*sessions.c).join(unread_sessions, unread_sessions.c.session_id == sessions.c.id).limit(most)
        async with self._database.statement() as connection:
            return [session_of(row) for row in (await connection.execute(wanted)).mappings()]

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


def _index(connection: Connection, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> bool:
    # Locked, so that two who index the same session do so one after the other.
    wanted = select(*sessions.c).where(sessions.c.id == session_id).with_for_update()
    row = connection.execute(wanted).mappings().one_or_none()
    if row is None:
        return False
    held = connection.execute(select(*session_texts.c).where(session_texts.c.session_id == session_id))
    known = held.mappings().one_or_none()
    done = set() if known is None else set(known["segments"])
    is_new = WHOLE not in done and segment not in done
    if is_new:
        before = [] if known is None or segment == WHOLE else _read(known["pieces"])
        kept, is_cut = _cut([*before, *pieces])
        values = _values(connection, kept) | {
            "segments": sorted({segment} if segment == WHOLE else done | {segment}),
            "is_cut": is_cut or (known is not None and segment != WHOLE and known["is_cut"]),
            "keys": _keys(connection, session_of(row), row["refused"], row["masked"]),
        }
        _write(connection, session_of(row), None if known is None else known["place"], values)
    elif known is not None and row["status"] == SessionStatus.DONE and is_last:
        _write(
            connection,
            session_of(row),
            known["place"],
            {"keys": _keys(connection, session_of(row), row["refused"], row["masked"])},
        )
    if is_last and row["status"] == SessionStatus.DONE:
        connection.execute(delete(unread_sessions).where(unread_sessions.c.session_id == session_id))
    return is_new


def _write(connection: Connection, session: Session, place: int | None, values: dict[str, Any]) -> None:
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


def _values(connection: Connection, pieces: list[Piece]) -> dict[str, Any]:
    found = folded([said for _, said in pieces])
    values: dict[str, Any] = {
        "pieces": json.dumps(pieces, separators=(",", ":")),  # in ASCII: no engine minds what is in it
        "folded": found,
        "size": sum(len(said.encode("utf-8", "replace")) for _, said in pieces),
    }
    if connection.dialect.name != "sqlite":
        words = _some(found.split())
        values["words"] = text("array_to_tsvector(cast(:words as text[]))").bindparams(words=words)
    return values


def _some(words: Sequence[str]) -> list[str]:
    """Each once, as many of the first as a tsvector holds (https://postgresql.org/docs/current/textsearch-limitations)."""
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
    """As many as fit, the last one in part. A byte for each piece makes many empty ones have an end, too."""
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
