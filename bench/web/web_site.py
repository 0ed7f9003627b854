"""A gateway with the demo and with much of everything: sessions, tables, rows, and a recorded terminal."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from bench.session_data import fill
from bench.web.sizes import WebSizes
from tests.support.postgres import PostgresServer
from tests.support.running import Gateway, started
from tests.support.world import World
from tests.web.people import ADMIN, People

from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.interception.events import ClientOutput, End, Resized
from postern.protocols.registry import COMMAND_PROTOCOL
from postern.protocols.terminal import terminal_frames
from postern.recording.layout import sealed_path, spool_path
from postern.recording.record_format import Header, encode
from postern.recording.sealing import seal
from postern.recording.spool import Spool
from postern.store.database import Database
from postern.store.ports.target_ports import SecretUse, SessionEnd

LARGE, SHELL, DEMO = "large", "shell", "shop-demo"
COLUMNS, ROWS = 120, 40  # of the recorded terminal
CHUNK = 590  # bytes of output at a time, as a shell's coloured listings have them
_MODES = (
    "access_mode_connect",
    "access_mode_exec",
    "access_mode_runbooks",
    "access_schema",
    "access_mode_web_terminal",
)
_ARCHIVED = 120.0  # seconds that the archiver has for the recording


@dataclass(frozen=True, slots=True)
class WebSite:
    """`recording` is the session of the recorded terminal, which has `chunks` pieces of output over `sizes.hour`."""

    gateway: Gateway
    people: People
    sizes: WebSizes
    recording: str
    chunks: int

    @property
    def url(self) -> str:
        return self.gateway.told["api_url"]


@contextmanager
def web_site(sizes: WebSizes) -> Iterator[WebSite]:
    """The store is filled while the gateway stands still."""
    target = PostgresServer(settings={"max_locks_per_transaction": "4096"})
    target.start()
    try:
        _fill_target(target, sizes)
        with started("--gateway-commands", again=True) as gateway:
            people = People(gateway)
            _connect(people, target)
            gateway.stop()
            recording = asyncio.run(_fill_store(gateway.home, sizes))
            gateway.start()
            _wait_for_recording(people, recording)
            yield WebSite(gateway, people, sizes, recording, _chunks(sizes))
    finally:
        target.stop()


def _fill_target(target: PostgresServer, sizes: WebSizes) -> None:
    columns = ", ".join(f"column_{number} text" for number in range(sizes.table_columns))
    cells = ", ".join(f"(row_number * {place + 7}) % 9973 as c{place}" for place in range(sizes.columns))
    with psycopg.connect(target.dsn()) as owner:
        for number in range(sizes.tables):
            owner.execute(f"create table table_{number} ({columns})")
        owner.execute(f"create table cells as select {cells} from generate_series(1, {sizes.rows}) row_number")


def _connect(people: People, target: PostgresServer) -> None:
    (agent,) = people.ask("GET", "/agents")["data"]
    facts = {"HOST": "127.0.0.1", "PORT": str(target.port), "USER": "postgres", "PASS": "", "DB": "postgres"}
    secret = {f"envvar:{name}": base64.b64encode(value.encode()).decode() for name, value in facts.items() if value}
    large: dict[str, Any] = {"name": LARGE, "type": "database", "subtype": "postgres", "secret": secret}
    shell: dict[str, Any] = {"name": SHELL, "type": "custom", "command": ["bash", "--norc"], "secret": {}}
    for body in (large, shell):
        people.ask(
            "POST",
            "/connections",
            body | {"agent_id": agent["id"]} | dict.fromkeys((*_MODES, "access_schema"), "enabled"),
        )


async def _fill_store(home: Path, sizes: WebSizes) -> str:
    """Return the session of the recorded terminal."""
    database = Database(f"sqlite:///{home / 'postern.db'}")
    world = await World.make(database)
    try:
        await fill(world, sizes.sessions)
        return await _record(world, home, sizes)
    finally:
        await database.close()


async def _record(world: World, home: Path, sizes: WebSizes) -> str:
    """Write a terminal as a worker does; the archiver finds it when the gateway starts."""
    admin = await world.stores.principals.by_email(world.org_id, ADMIN)
    shell = await world.stores.connections.get(world.org_id, SHELL, SecretUse.NONE)
    assert admin is not None
    assert shell is not None
    user = admin.principal
    session = Session(
        id=uuid4(),
        org_id=world.org_id,
        connection_id=shell.id,
        connection=shell.name,
        connection_subtype=shell.subtype,
        connection_tags={},
        type=shell.type,
        verb=Verb.CONNECT,
        status=SessionStatus.OPEN,
        user=user.email,
        user_id=user.subject,
        user_name=user.name,
        start_date=world.clock(),
        worker="w1",
    )
    await world.stores.sessions.add(session, principal_id=user.id, source="::1")
    spool = Spool.create(
        spool_path(home, "w1", session.id, 1),
        Header(session.id, session.org_id, COMMAND_PROTOCOL, session.connection, session.user, session.start_date, 1),
    )
    spool.append(encode(Resized(COLUMNS, ROWS), 0))
    for number in range(_chunks(sizes)):
        output = terminal_frames.frame(terminal_frames.STDOUT, recorded_chunk(number))
        spool.append(encode(ClientOutput(output), chunk_at(number, sizes)))
    spool.append(encode(End(EndReason.CLIENT_CLOSED), sizes.hour * 1_000_000))
    spool.close()
    seal(spool.path, sealed_path(home, session.id, session.start_date, 1))
    world.clock.forward(seconds=sizes.hour)
    end = SessionEnd(world.clock(), EndReason.CLIENT_CLOSED, exit_code=0, event_size=sizes.recorded)
    await world.stores.sessions.end(session.id, end)
    return str(session.id)


def _chunks(sizes: WebSizes) -> int:
    return sizes.recorded // CHUNK


def chunk_at(number: int, sizes: WebSizes) -> int:
    """Return the time of a chunk, in microseconds."""
    return number * sizes.hour * 1_000_000 // _chunks(sizes)


def recorded_chunk(number: int) -> bytes:
    """Some lines of a coloured listing, of which the last says the number, so that a screen tells where it is."""
    lines = b""
    while len(lines) < CHUNK - 40:
        colour = 31 + (number + len(lines)) % 6
        lines += b"\x1b[1;%dmdrwxr-xr-x\x1b[0m  4 root  %8d  file-%d-%d\r\n" % (colour, number * 37, number, len(lines))
    return lines + b"\x1b[32m#%07d\x1b[0m\r\n" % number


def _wait_for_recording(people: People, session: str) -> None:
    end = time.monotonic() + _ARCHIVED
    while not people.admin.get(f"/sessions/{session}?expand=event_stream&limit=1").is_success:
        if time.monotonic() > end:
            raise RuntimeError(f"the recording of session {session} cannot be read after {_ARCHIVED:g} s")
        time.sleep(0.2)
