"""What the Oracle server for tests answers to clients that it does not serve, and to what is not Oracle's protocol."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.support.oracledb.database import Database
from tests.support.oracledb.listener_packets import (
    ACCEPT,
    CONNECT,
    DATA,
    MARKER,
    REDIRECT,
    REFUSE,
    BadPacket,
    Packet,
    PacketSplitter,
    packet_bytes,
)
from tests.support.oracledb.recorded_sessions import read_session, replay, session_files
from tests.support.oracledb.server_session import ServerOptions, ServerSession
from tests.support.oracledb.ttc_fields import BadMessage

SERVICE = "(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=ORCLPDB1)))"


def connect(descriptor: str, version: int = 319) -> bytes:
    head = struct.pack(">HHHHHHHH", version, 300, 0, 8192, 8192, 0x4F98, 0, 1)
    head += struct.pack(">HH", len(descriptor), 74) + bytes(74 - 8 - len(head) - 4)
    return packet_bytes(CONNECT, head + descriptor.encode(), False)


def answer(data: bytes, folder: Path, options: ServerOptions | None = None) -> bytes:
    return replay(ServerSession(Database(folder), options or ServerOptions()), data, len(data))


@pytest.mark.parametrize(
    ("descriptor", "kind", "text"),
    [
        (SERVICE, ACCEPT, b""),
        ("(DESCRIPTION = (CONNECT_DATA = (SID = orclpdb1)))", ACCEPT, b""),
        ("(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=other)))", REFUSE, b"(ERR=12514)"),
        ("(DESCRIPTION=(CONNECT_DATA=(SID=other)))", REFUSE, b"(ERR=12505)"),
        ("", REFUSE, b"(ERR=12514)"),
    ],
)
def test_listener_answers_to_the_name_of_a_service(descriptor: str, kind: int, text: bytes, tmp_path: Path) -> None:
    reply = answer(connect(descriptor), tmp_path)
    assert reply[4] == kind
    assert text in reply


def test_client_with_an_old_version_is_refused(tmp_path: Path) -> None:
    reply = answer(connect(SERVICE, version=314), tmp_path)
    assert reply[4] == REFUSE
    assert b"(ERR=12618)" in reply


def test_redirect_names_another_address(tmp_path: Path) -> None:
    address = "(ADDRESS=(PROTOCOL=tcp)(HOST=127.0.0.1)(PORT=1))"
    reply = answer(connect(SERVICE), tmp_path, ServerOptions(redirect=address))
    assert reply[4] == REDIRECT
    assert address.encode() + b"\0" + SERVICE.encode() in reply


@pytest.mark.parametrize(
    "data",
    [
        b"\0\7\0\0\1\0\0\0",  # shorter than its header
        packet_bytes(CONNECT, b"", False),
        packet_bytes(CONNECT, bytes(25), False),
        packet_bytes(CONNECT, connect(SERVICE)[8:-9], False),
    ],
)
def test_connect_that_is_cut_off_is_an_error(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadPacket):
        answer(data, tmp_path)


@pytest.mark.parametrize("kind", [REFUSE, ACCEPT, REDIRECT, 99])
def test_packet_that_only_servers_send_is_an_error(kind: int, tmp_path: Path) -> None:
    session = ServerSession(Database(tmp_path), ServerOptions())
    with pytest.raises(BadMessage, match=f"type {kind}"):
        session.receive(Packet(kind, 0, b""))


def test_break_is_confirmed_and_its_reset_ends_the_call(tmp_path: Path) -> None:
    session = ServerSession(Database(tmp_path), ServerOptions())
    assert session.receive(Packet(MARKER, 0, bytes([1, 0, 1]))) == packet_bytes(MARKER, bytes([1, 0, 1]), True)
    splitter = PacketSplitter()
    splitter.large = True
    splitter.feed(session.receive(Packet(MARKER, 0, bytes([1, 0, 2]))))
    reset, error = splitter.next_packet(), splitter.next_packet()
    assert (reset, error and error.kind) == (Packet(MARKER, 0, bytes([1, 0, 2])), DATA)
    assert error is not None
    assert b"ORA-01013" in error.body


def test_call_before_the_login_is_an_error(tmp_path: Path) -> None:
    session = read_session(session_files()[0])
    first = session.pieces[0][1]
    execute = packet_bytes(DATA, b"\0\0\3\x5e\1", True)
    with pytest.raises(BadMessage, match="PROTOCOL expected"):
        answer(first + execute, tmp_path)
