"""Each link that a protocol violation ends logs one line: the session, the side, and what was wrong and where.

The line never contains text of a statement or a row."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import asyncssh
import pytest
from tests.support.muxes import Pair, run, settle
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.sessions.session import EndReason
from postern.errors import CarrierBroke, ProtocolViolation
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.mysql.wire import mysql_messages as mm
from postern.protocols.mysql.wire.mysql_wire import MysqlWire
from postern.protocols.postgres.wire.postgres_messages import message as pm
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.ssh.listener.ssh_client_channel import ClientChannel, carrier_error
from postern.protocols.terminal import terminal_frames as tm
from postern.protocols.terminal.files.copying import CopyingWire
from postern.protocols.terminal.files.sftp import SftpWire
from postern.protocols.terminal.terminal_wire import ScriptWire, TypedWire
from postern.protocols.wire_base import Side, Wire
from postern.relay import endpoint
from postern.relay.driver import Driver
from postern.relay.link import Close, Link
from postern.relay.orders import decode_error, encode_error
from postern.transport import frames
from postern.transport.frames import header
from postern.transport.mux import Refused

SESSION = UUID(int=4711)
SECRET = "hunter2-secret"
Step = tuple[Side, bytes]


def client(*data: bytes) -> Step:
    return Side.CLIENT, b"".join(data)


def target(*data: bytes) -> Step:
    return Side.TARGET, b"".join(data)


def postgres() -> Wire:
    return PostgresWire(max_message=1 << 20)


def mysql() -> Wire:
    return MysqlWire(max_message=1 << 20)


def terminal() -> Wire:
    return TypedWire(size=(80, 24))


def script() -> Wire:
    return ScriptWire()


def sftp() -> Wire:
    return SftpWire()


def scp() -> Wire:
    return CopyingWire("scp -t x")


@dataclass
class Case:
    """The last step breaks the protocol. The log's line holds `seen`."""

    wire: Callable[[], Wire]
    steps: list[Step]
    seen: str


QUERY = client(pg.query(f"select '{SECRET}'"))
MY_QUERY = client(my.query(f"select '{SECRET}'"))
STARTED = client(tm.START_FRAME)
TOO_LONG = b"\0\xff\xff\xff\xff" + SECRET.encode()
ROW = pg.data_row(SECRET.encode())

CASES = {
    # PostgreSQL
    "postgres: a client's message of unknown type": Case(
        postgres, [client(b"~\0\0\0\x30" + SECRET.encode())], r"message type '~' at byte 0, with no pending response"),
    "postgres: an invalid length from a client": Case(
        postgres, [QUERY, client(b"Q\0\0\0\3" + SECRET.encode())],
        r"'Q' at byte \d+, while the response to Query is pending"),
    "postgres: a Query with two texts": Case(
        postgres, [client(pg.query("select 1")), client(pm(b"Q", b"a\0" + SECRET.encode() + b"\0"))],
        r"'Q' at byte 14"),
    "postgres: a Describe of an unknown kind": Case(
        postgres, [client(pm(b"D", b"X" + SECRET.encode() + b"\0"), pg.sync())], r"'D' at byte 0"),
    "postgres: a truncated Execute": Case(
        postgres, [client(pm(b"E", b"\0\0")), ], r"'E' at byte 0"),
    "postgres: a query while data is copied": Case(
        postgres, [client(pg.query("copy t from stdin")), target(pg.copy_in()), QUERY],
        r"'Q' at byte \d+, while the client sends COPY data"),
    "postgres: an unrequested row": Case(postgres, [target(ROW)], r"'D' at byte 0, with no pending response"),
    "postgres: an answer out of its turn": Case(
        postgres, [QUERY, target(pm(b"1", SECRET.encode()))], r"'1' at byte 0, while the response to Query"),
    "postgres: a second ReadyForQuery": Case(
        postgres, [QUERY, target(pg.command_complete("SELECT 1"), pg.ready(), pg.ready())], r"'Z' at byte \d+, with"),
    "postgres: a target's message of unknown type": Case(
        postgres, [QUERY, target(pm(b"~", SECRET.encode()))], r"'~' at byte 0"),
    # MySQL
    "mysql: a client's packet out of order": Case(
        mysql, [client(mm.packet(7, b"\3" + SECRET.encode()))], r"packet number 7 of 15 bytes at byte 0"),
    "mysql: an empty command": Case(mysql, [MY_QUERY, client(mm.packet(0, b""))], r"packet number 0 of 0 bytes at b"),
    "mysql: a ping with a text": Case(
        mysql, [client(mm.command(mm.COM_PING, SECRET.encode()))], r"command 0x0e in packet number 0 of 15 bytes"),
    "mysql: a command without a statement id": Case(
        mysql, [client(mm.command(mm.COM_STMT_EXECUTE, b"\1"))], r"command 0x17"),
    "mysql: an unrequested answer": Case(
        mysql, [target(mm.packet(1, SECRET.encode()))],
        r"packet number 1 of 14 bytes at byte 0, with no pending response"),
    "mysql: a target's packet out of order": Case(
        mysql, [MY_QUERY, target(mm.packet(9, SECRET.encode()))],
        r"number 9 .* in the response to a query \(its start\)"),
    "mysql: an invalid OK packet": Case(
        mysql, [MY_QUERY, target(mm.packet(1, b"\0\xfb" + SECRET.encode()))],
        r"in the response to a query \(its start\)"),
    "mysql: an invalid end of rows": Case(
        mysql, [MY_QUERY, target(my.AnswerPackets().columns("a").row(SECRET).add(b"\xfe\0").bytes)], r"\(its rows\)"),
    "mysql: an invalid end of columns": Case(
        mysql, [MY_QUERY, target(my.AnswerPackets().add(b"\1").add(b"def").add(SECRET.encode()).bytes)],
        r"\(its columns\)"),
    # programs, terminals and SSH
    "terminal: a client's frame that is too long": Case(terminal, [client(TOO_LONG)], r"the program has not started"),
    "terminal: a client's frame of unknown kind": Case(
        terminal, [client(tm.frame(99, SECRET.encode()))], r"a frame up to byte 19"),
    "terminal: a program that is started twice": Case(terminal, [STARTED, STARTED], r"a frame up to byte 10"),
    "terminal: a target's frame of unknown kind": Case(
        terminal, [STARTED, target(tm.frame(99, SECRET.encode()))], r"a frame up to byte 19, the program"),
    "terminal: an end without a code": Case(
        terminal, [STARTED, target(tm.frame(tm.EXIT, b""))], r"a frame up to byte 5"),
    "script: a client's frame of unknown kind": Case(script, [client(tm.frame(99, SECRET.encode()))], r"byte 19"),
    "sftp: a client's frame of unknown kind": Case(sftp, [client(tm.frame(99, SECRET.encode()))], r"byte 19"),
    "sftp: a packet that is too long": Case(
        sftp, [STARTED, client(tm.frame(tm.STDIN, b"\xff\xff\xff\xff" + SECRET.encode()))], r"a frame up to byte"),
    "scp: a target's frame that is too long": Case(scp, [STARTED, target(TOO_LONG)], r"the program"),
}  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("name", CASES)
def test_protocol_violation_that_ends_a_link_is_logged_without_content(
    name: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    case = CASES[name]
    caplog.set_level(logging.DEBUG)
    view = SessionView(SESSION, "ada@example.com", frozenset(), "shop", "database", "", {})
    link = Link(case.wire(), Pipeline([], view), clock=lambda: 0)
    ends: list[EndReason] = []
    for side, data in case.steps:
        assert ends == [], "only the last step breaks the protocol"
        for at in range(0, len(data), size or len(data)):
            effects = link.receive(side, data[at : at + (size or len(data))])
            ends += [effect.reason for effect in effects if isinstance(effect, Close)]
    assert ends == [EndReason.PROTOCOL_VIOLATION]
    [line] = [record for record in caplog.records if record.name == "postern.relay.link"]
    text = line.getMessage()
    assert line.levelno == logging.WARNING
    assert "\n" not in text
    assert text.startswith(f"session {SESSION} ends: its {case.steps[-1][0].value} broke the protocol: ")
    assert re.search(case.seen, text), text
    assert SECRET not in text
    assert SECRET.encode().hex() not in text


# What carries a link: a tunnel, an SSH connection


class Drives:
    """In the place of a driver: what it is told of its sides."""

    def __init__(self) -> None:
        self.link = SimpleNamespace(session_id=SESSION)
        self.gone: list[Side] = []

    def attach(self, side: Side, transport: asyncio.Transport) -> None: ...

    def from_client(self, data: bytes) -> None: ...

    from_target = from_client

    def handle_loss(self, side: Side) -> None:
        self.gone.append(side)


def session_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if str(SESSION) in record.getMessage()]


BREAKS = {
    "a frame of unknown kind": header(99, 0, 4) + b"....",
    "a control frame that is too long": header(frames.OPEN, 3, 0xFFFFFF),
    "a frame for an unknown stream": header(frames.END, 77, 0),
    "data for an unknown stream": header(frames.DATA, 77, 14) + SECRET.encode(),
    "credit that cannot be read": header(frames.CREDIT, 1, 14) + SECRET.encode(),
    "a second answer": header(frames.ACCEPT, 1, 2) + b"{}",
    "a message that is not JSON": header(frames.OPEN, 3, 14) + SECRET.encode(),
}


@pytest.mark.parametrize("chunk", [1, 7, 4096])
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("what", BREAKS)
def test_protocol_violation_of_a_tunnel_is_logged_for_its_sessions(
    what: str, side: Side, chunk: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def work() -> None:
        pair = Pair(chunk)
        near, far = await pair.open()
        drives = Drives()
        far.stream.set_protocol(endpoint.connect(cast("Driver", drives), side, far.stream))
        await settle()
        pair.up.write(BREAKS[what])
        await settle(200)
        assert drives.gone == [side]
        assert await pair.gateway.lost
        await near.lost

    run(work)
    [line] = session_lines(caplog)
    assert line.startswith(f"session {SESSION} ends: the connection to its {side.value} failed: the tunnel was lost: ")
    [tunnel] = [record for record in caplog.records if "its peer broke the protocol" in record.getMessage()]
    assert tunnel.levelno == logging.WARNING
    assert "closing a tunnel with 1 streams" in tunnel.getMessage()
    assert SECRET not in caplog.text


def test_lost_tunnel_is_not_logged_as_a_protocol_violation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def work() -> None:
        pair = Pair()
        _, far = await pair.open()
        drives = Drives()
        far.stream.set_protocol(endpoint.connect(cast("Driver", drives), Side.TARGET, far.stream))
        pair.up.close()
        await settle()
        assert drives.gone == [Side.TARGET]
        pair.close()

    run(work)
    assert session_lines(caplog) == []


@pytest.mark.parametrize(
    ("error", "is_offence"),
    [
        (asyncssh.ProtocolError("Invalid\nrequest"), True),
        (asyncssh.MACError("MAC verification failed"), True),
        (asyncssh.CompressionError("Decompression failed"), True),
        (asyncssh.KeyExchangeFailed("no"), True),
        (asyncssh.ConnectionLost("Connection lost"), False),
        (ConnectionResetError("reset"), False),
        (None, False),
    ],
    ids=repr,
)
async def test_protocol_violation_of_an_ssh_connection_is_logged_for_its_channels(
    error: Exception | None, is_offence: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    channel = cast("Any", SimpleNamespace(close=lambda: None, pause_reading=lambda: None, resume_reading=lambda: None))
    transport = ClientChannel(channel, "192.0.2.1")
    drives = Drives()
    transport.set_protocol(endpoint.connect(cast("Driver", drives), Side.CLIENT, transport))
    transport.handle_close(error=error)
    await asyncio.sleep(0)
    assert drives.gone == [Side.CLIENT]
    assert isinstance(carrier_error(error), CarrierBroke) is is_offence
    lines = session_lines(caplog)
    assert len(lines) == is_offence
    assert not any("\n" in line for line in lines)


def test_protocol_violation_seen_by_an_agent_is_decoded_as_one() -> None:
    refused = Refused(*encode_error(ProtocolViolation("the target says nonsense")))
    error = decode_error(refused)
    assert isinstance(error, ProtocolViolation)
    assert error.message == "the target says nonsense"
