"""Recordings as workers write them, without a worker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import zstandard

from postern.domain.connection import TERMINAL
from postern.domain.session import Session
from postern.interception.events import End, Event
from postern.protocols.postgres.lens import PostgresLens
from postern.protocols.terminal import messages as m
from postern.protocols.terminal.lens import TerminalLens
from postern.recording.layout import archive_path, spool_path
from postern.recording.library import Library
from postern.recording.records import Header, encode, encode_header


def library(home: Path) -> Library:
    """As the gateway has it."""
    return Library(home, {"postgres": PostgresLens, TERMINAL: TerminalLens}, framed=(TERMINAL,))


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
        path = archive_path(home, session.id, session.start_date, segment)
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
