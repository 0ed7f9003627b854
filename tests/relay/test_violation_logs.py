"""Each link that ends because of a protocol violation says so in the log: one line with the session, the side, what was
seen and where, and never what a statement or a row holds."""

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
        postgres, [client(b"~\0\0\0\x30" + SECRET.encode())], r"message type '~' at byte 0, while nothing is owed"),
    "postgres: a client's length that is none": Case(
        postgres, [QUERY, client(b"Q\0\0\0\3" + SECRET.encode())],
        r"'Q' at byte \d+, while the answer to Query is owed"),
    "postgres: a Query with two texts": Case(
        postgres, [client(pg.query("select 1")), client(pm(b"Q", b"a\0" + SECRET.encode() + b"\0"))],
        r"'Q' at byte 14"),
    "postgres: a Describe of nothing": Case(
        postgres, [client(pm(b"D", b"X" + SECRET.encode() + b"\0"), pg.sync())], r"'D' at byte 0"),
    "postgres: an Execute that is cut": Case(
        postgres, [client(pm(b"E", b"\0\0")), ], r"'E' at byte 0"),
    "postgres: a query while data is copied": Case(
        postgres, [client(pg.query("copy t from stdin")), target(pg.copy_in()), QUERY],
        r"'Q' at byte \d+, while data is copied in"),
    "postgres: a row that nobody asked for": Case(postgres, [target(ROW)], r"'D' at byte 0, while nothing is owed"),
    "postgres: an answer out of its turn": Case(
        postgres, [QUERY, target(pm(b"1", SECRET.encode()))], r"'1' at byte 0, while the answer to Query"),
    "postgres: a second ReadyForQuery": Case(
        postgres, [QUERY, target(pg.command_complete("SELECT 1"), pg.ready(), pg.ready())], r"'Z' at byte \d+, while"),
    "postgres: a target's message of unknown type": Case(
        postgres, [QUERY, target(pm(b"~", SECRET.encode()))], r"'~' at byte 0"),
    # MySQL
    "mysql: a client's packet out of order": Case(
        mysql, [client(mm.packet(7, b"\3" + SECRET.encode()))], r"packet number 7 of 15 bytes at byte 0"),
    "mysql: an empty command": Case(mysql, [MY_QUERY, client(mm.packet(0, b""))], r"packet number 0 of 0 bytes at b"),
    "mysql: a ping with a text": Case(
        mysql, [client(mm.command(mm.COM_PING, SECRET.encode()))], r"command 0x0e in packet number 0 of 15 bytes"),
    "mysql: a command that names no statement": Case(
        mysql, [client(mm.command(mm.COM_STMT_EXECUTE, b"\1"))], r"command 0x17"),
    "mysql: an answer that nobody asked for": Case(
        mysql, [target(mm.packet(1, SECRET.encode()))], r"packet number 1 of 14 bytes at byte 0, owing no answer"),
    "mysql: a target's packet out of order": Case(
        mysql, [MY_QUERY, target(mm.packet(9, SECRET.encode()))], r"number 9 .* answering a query \(its start\)"),
    "mysql: an OK packet that is none": Case(
        mysql, [MY_QUERY, target(mm.packet(1, b"\0\xfb" + SECRET.encode()))], r"answering a query \(its start\)"),
    "mysql: an end of rows that is none": Case(
        mysql, [MY_QUERY, target(my.AnswerPackets().columns("a").row(SECRET).add(b"\xfe\0").bytes)], r"\(its rows\)"),
    "mysql: an end of columns that is none": Case(
        mysql, [MY_QUERY, target(my.AnswerPackets().add(b"\1").add(b"def").add(SECRET.encode()).bytes)],
        r"\(its columns\)"),
    # programs, terminals and SSH
    "terminal: a client's frame that is too long": Case(terminal, [client(TOO_LONG)], r"the program has not begun"),
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
def test_a_link_that_ends_by_a_violation_is_in_the_log(name: str, size: int, caplog: pytest.LogCaptureFixture) -> None:
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
    "a frame for a stream that never was": header(frames.END, 77, 0),
    "data for a stream that never was": header(frames.DATA, 77, 14) + SECRET.encode(),
    "credit that cannot be read": header(frames.CREDIT, 1, 14) + SECRET.encode(),
    "a second answer": header(frames.ACCEPT, 1, 2) + b"{}",
    "a message that is no JSON": header(frames.OPEN, 3, 14) + SECRET.encode(),
}


@pytest.mark.parametrize("chunk", [1, 7, 4096])
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("what", BREAKS)
def test_sessions_of_a_tunnel_that_breaks_the_protocol_are_in_the_log(
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
    assert "a tunnel with 1 streams is given up" in tunnel.getMessage()
    assert SECRET not in caplog.text


def test_a_tunnel_that_is_lost_otherwise_is_no_offence(caplog: pytest.LogCaptureFixture) -> None:
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
async def test_channels_of_an_ssh_connection_that_breaks_the_protocol_are_in_the_log(
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


def test_a_target_that_breaks_the_protocol_at_an_agent_is_known_as_such() -> None:
    refused = Refused(*encode_error(ProtocolViolation("the target says nonsense")))
    error = decode_error(refused)
    assert isinstance(error, ProtocolViolation)
    assert error.message == "the target says nonsense"
