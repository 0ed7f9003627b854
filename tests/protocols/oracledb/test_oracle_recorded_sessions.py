"""Recorded sessions of Oracle: each is well formed, and the test server answers those of its own as it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.oracledb.database import Database
from tests.support.oracledb.listener_packets import ACCEPT, CONNECT, DATA, MARKER, BadPacket, Packet, PacketSplitter
from tests.support.oracledb.recorded_sessions import (
    CLOCK,
    RecordedSession,
    read_session,
    repeatable_options,
    replay,
    session_files,
)
from tests.support.oracledb.server_replies import ORACLE_12, ORACLE_19, ORACLE_23
from tests.support.oracledb.server_session import ServerOptions, ServerSession
from tests.support.oracledb.ttc_fields import BadMessage

LEVELS = {"12c": ORACLE_12, "19c": ORACLE_19, "23ai": ORACLE_23}
FILES = session_files()
OWN = [file for file in FILES if read_session(file).is_own]


def own_server(session: RecordedSession, folder: Path) -> ServerSession:
    options = repeatable_options(ServerOptions(level=LEVELS[session.level], sdu=2048))
    return ServerSession(Database(folder, lambda: CLOCK), options)


def packets_of(session: RecordedSession, by_client: bool) -> Iterator[Packet]:
    """Split one direction: packets have long lengths once the listener has accepted the client."""
    splitter = PacketSplitter()
    splitter.feed(session.sent(by_client))
    while packet := splitter.next_packet():
        splitter.large = splitter.large or packet.kind in (CONNECT, ACCEPT)
        yield packet


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_session_is_well_formed(file: Path) -> None:
    session = read_session(file)
    client, server = list(packets_of(session, True)), list(packets_of(session, False))
    assert client[0].kind == CONNECT
    assert server[0].kind == ACCEPT
    assert {packet.kind for packet in (*client[1:], *server[1:])} <= {DATA, MARKER}
    assert session.client
    assert session.about


@pytest.mark.parametrize("size", [1, 13, 1024, 1 << 20])
@pytest.mark.parametrize("file", OWN, ids=lambda file: file.stem)
def test_server_answers_a_recorded_client_as_before(file: Path, size: int, tmp_path: Path) -> None:
    session = read_session(file)
    server = own_server(session, tmp_path)
    assert replay(server, session.sent(by_client=True), size) == session.sent(by_client=False)
    assert server.closed
    server.end()


@pytest.mark.parametrize("position", range(60, 12_000, 331))
@pytest.mark.parametrize("file", OWN[:1], ids=lambda file: file.stem)
def test_changed_byte_is_answered_or_refused(file: Path, position: int, tmp_path: Path) -> None:
    session = read_session(file)
    data = bytearray(session.sent(by_client=True))
    position %= len(data)
    data[position] ^= 0xFF
    server = own_server(session, tmp_path)
    answered = session.sent(by_client=False)
    with suppress(BadMessage, BadPacket):  # no other error, and no endless loop
        answered = replay(server, bytes(data), 4096)
    server.end()
    assert answered[:1] == b"\0"  # the length of an ACCEPT or a REFUSE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 9, "client": "c", "server": "s", "about": "a"}\n', "not a recorded session of format 1"),
        ('{"format": 1, "client": "c", "server": "s", "about": "a"}\n{"from": "x", "hex": ""}\n', "piece from 'x'"),
    ],
)
def test_file_of_another_format_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_session(file)


def test_recorded_session_is_read_as_written(tmp_path: Path) -> None:
    session = RecordedSession("client 1", "server 2", "a login", [(True, b"\0\1"), (False, b""), (True, b"\xff")])
    session.write(tmp_path / "session.jsonl")
    assert read_session(tmp_path / "session.jsonl") == session
