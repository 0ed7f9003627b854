"""A session of 2 GB: read by page, from the middle, as a file, all in an API process whose memory stays as it is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.api.conftest import Api, make_api
from tests.support.promises import within
from tests.support.spooled import ended, library, recorded_session, write_segment

from postern.domain.sessions.session import Session
from postern.interception.events import ClientOutput, Completed, End, Event, Operation
from postern.protocols.postgres.wire import postgres_messages as pg
from postern.store.database import Database

SEGMENTS = int(os.environ.get("POSTERN_TEST_SEGMENTS", "128"))
EACH = 16 << 20  # bytes of a segment
EXCHANGES = 256  # in a segment
BROKEN = SEGMENTS // 2
MASTER = b"\x07" * 32
MOST_GROWTH = 150 << 20  # bytes

SERVER = """
import asyncio, sys
from pathlib import Path
import uvicorn
from tests.api.conftest import INFO
from tests.support.application import application
from tests.support.spooled import library
from tests.support.world import World
from postern.store.database import Database

async def main(store, home):
    world = await World.make(Database(f"sqlite:///{store}"), b"\\x07" * 32)
    world.recordings = library(Path(home))
    app = application(world.services(), INFO, exec_wait=1.0, stream_life=60.0)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await task

asyncio.run(main(*sys.argv[1:]))
"""


def segment(number: int) -> Iterator[tuple[int, Event]]:
    """16 MiB of rows that zstd does not make nothing of."""
    cell = os.urandom(EACH // EXCHANGES // 2).hex().encode()
    for one in range(EXCHANGES):
        exchange = (number - 1) * EXCHANGES + one + 1
        yield exchange * 1_000, Operation(exchange, f"select {exchange}")
        row = pg.message(b"D", b"\0\1" + len(cell).to_bytes(4, "big") + cell)
        yield exchange * 1_000 + 500, ClientOutput(row + pg.message(b"C", b"SELECT 1\0"))
        yield exchange * 1_000 + 500, Completed(exchange, "SELECT 1", 1, micros=500)
    if number < SEGMENTS:
        yield ((number * EXCHANGES) * 1_000 + 900), End("", continues=True)
    else:
        yield ended(number * EXCHANGES * 1_000 + 900)


async def made(folder: Path) -> tuple[Api, Session]:
    database = Database(f"sqlite:///{folder / 'store.db'}")
    await database.migrate()
    api = await make_api(database, master=MASTER, recordings=library(folder / "home"))
    session = await recorded_session(api, folder / "home", [])
    for number in range(1, SEGMENTS + 1):
        path = write_segment(folder / "home", session, segment(number), segment=number)
        if number == BROKEN:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
    await database.close()
    return api, session


def memory(process: int, name: str) -> int:
    """Bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


@pytest.mark.huge
def test_two_gigabytes(tmp_path: Path) -> None:
    api, session = asyncio.run(made(tmp_path))
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "store.db"), str(tmp_path / "home")],
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            headers = {"Authorization": api.as_ann.headers["Authorization"]}
            with httpx.Client(base_url=f"http://127.0.0.1:{port}/api", headers=headers, timeout=120) as client:
                look(client, session, process.pid)
        finally:
            process.terminate()


def look(client: httpx.Client, session: Session, process: int) -> None:
    assert client.get("/sessions").json()["total"] == 1
    url = f"/sessions/{session.id}"
    assert client.get(f"{url}/timeline?limit=1").status_code == 200
    before = memory(process, "VmRSS")
    last = SEGMENTS * EXCHANGES  # milliseconds
    began = time.monotonic()
    page = client.get(f"{url}/timeline?from={last * 3 // 4}&limit=10&output=100").json()["data"]
    assert [one["statement"] for one in page] == [f"select {last * 3 // 4 + number}" for number in range(10)]
    page = client.get(f"{url}?expand=event_stream&from={last - 10}&limit=5").json()["event_stream"]
    assert (page[0][0], len(page)) == (last - 10, 5)
    assert time.monotonic() - began < within(5)
    assert client.get(f"{url}?expand=event_stream").status_code == 422
    size, damaged = 0, 0
    with client.stream("GET", f"{url}/export?format=file&extension=txt") as answer:
        for piece in answer.iter_bytes():
            size += len(piece)
            damaged += piece.count(b"[note] segment")
    assert damaged == 1
    assert (SEGMENTS - 1) * EACH < size < (SEGMENTS + 1) * EACH
    with client.stream("GET", f"{url}/export?format=timeline&from={last // 2}") as answer:
        statements = sum(json.loads(line)["statement"] is not None for line in answer.iter_lines())
    assert statements >= last // 2 - EXCHANGES
    link = urlsplit(client.post(f"{url}/download?extension=txt").json()["download_url"])
    path = f"{link.path.removeprefix('/api')}?{link.query}"
    answer = client.get(path, headers={"Range": "bytes=-100"})
    assert (answer.status_code, len(answer.content)) == (206, 100)
    with client.stream("GET", f"{url}/stream") as answer:
        size = sum(map(len, answer.iter_bytes()))
    assert size > (SEGMENTS - 1) * EACH
    grown = memory(process, "VmHWM") - before
    print(f"{SEGMENTS} segments: the API process grew by {grown >> 20} MiB at most")
    assert grown < MOST_GROWTH
