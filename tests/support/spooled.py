"""Recordings as workers write them, without a worker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import zstandard

from postern.domain.sessions.session import EndReason, Session, Verb
from postern.domain.targets.connection import TERMINAL
from postern.interception.events import End, Event
from postern.protocols.postgres.recorded.postgres_tables import PostgresResults
from postern.protocols.postgres.recorded.postgres_text_renderer import PostgresTextRenderer
from postern.protocols.postgres.wire import postgres_messages as pg
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_text import TerminalTextRenderer
from postern.recording.layout import sealed_path, spool_path
from postern.recording.record_format import Header, encode, encode_header
from postern.recording.recording_library import RecordingLibrary

if TYPE_CHECKING:
    from tests.api.conftest import Api


def library(home: Path) -> RecordingLibrary:
    """As the gateway has it."""
    return RecordingLibrary(
        home,
        {"postgres": PostgresTextRenderer, TERMINAL: TerminalTextRenderer},
        {"postgres": PostgresResults},
        framed=(TERMINAL,),
    )


def header_of(session: Session, protocol: str = "postgres", segment: int = 1) -> Header:
    who = (session.connection, session.user, session.start_date)
    return Header(session.id, session.org_id, protocol, *who, segment=segment)


def write_segment(
    home: Path,
    session: Session,
    events: Iterable[tuple[int, Event]],
    *,
    protocol: str = "postgres",
    segment: int = 1,
    sealed: bool = True,
) -> Path:
    """`events` with their microseconds; an End is the caller's."""
    plain = encode_header(header_of(session, protocol, segment)) + b"".join(encode(event, at) for at, event in events)
    if sealed:
        path = sealed_path(home, session.id, session.start_date, segment)
        plain = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(plain)
    else:
        path = spool_path(home, "w1", session.id, segment)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(plain)
    return path


def append(path: Path, *events: tuple[int, Event]) -> None:
    """To a spool."""
    with path.open("ab") as file:
        file.write(b"".join(encode(event, at) for at, event in events))


def ended(at: int, reason: str = "client_closed") -> tuple[int, Event]:
    return at, End(reason)


def printed(text: bytes, kind: int = m.STDOUT) -> bytes:
    return m.frames(kind, text)


def rows(*values: str) -> bytes:
    """What PostgreSQL answers a query for one column."""
    column = b"\0\1" + b"note\0" + bytes(6) + (25).to_bytes(4, "big") + b"\xff\xff" + bytes(6)
    parts = [pg.message(b"T", column)]
    for value in values:
        data = value.encode("utf-8", "surrogateescape")
        parts.append(pg.message(b"D", b"\0\1" + len(data).to_bytes(4, "big") + data))
    parts.append(pg.message(b"C", b"SELECT %d\0" % len(values)))
    return b"".join(parts)


async def recorded_session(
    api: Api,
    home: Path,
    events: list[tuple[int, Event]],
    *,
    protocol: str = "postgres",
    done: bool = True,
    verb: Verb = Verb.CONNECT,
) -> Session:
    if (await api.as_admin.get("/connections/shop")).status_code == 404:
        await api.make_connection()
    access = api.services.access
    permit = await access.admit_principal(api.users["ann"], "shop", verb=verb, source="127.0.0.1")
    session = await api.services.sessions.open(permit, session_id=uuid4(), worker="w1", metadata={})
    write_segment(home, session, [*events, ended(10**7)] if done else events, protocol=protocol, sealed=done)
    if done:
        await api.services.sessions.close(
            session.id, reason=EndReason.CLIENT_CLOSED, exit_code=3, metrics={}, event_size=1234
        )
    return session
