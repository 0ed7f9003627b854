"""What the archiver costs, and what recordings take: of short queries as pgbench asks them, and of large results.

    python bench/archive.py [folder]

For each kind of traffic: MB/s and processor time of the archiver over full segments and over short sessions, and bytes
stored for each MB of traffic. Everything lies in `folder` (the temporary folder when not given), the store is SQLite.
"""

from __future__ import annotations

import asyncio
import random
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.recordings import Made, new_session
from tests.support.world import World

from postern.archive.archiver import Archiver
from postern.archive.folder import FolderBlobs
from postern.interception.events import ClientOutput, Completed, End, Event, Operation
from postern.recording.layout import recordings_folder, spool_path
from postern.recording.record_format import encode
from postern.recording.sealing import seal
from postern.recording.segments import MOST
from postern.recording.spool import Spool
from postern.store.database import Database
from postern.wiring.blobs import KeysForThreads

SEGMENTS, SESSIONS, SHORT = 6, 300, 10_000  # full ones; short sessions, and the bytes of each
_SELECT = "SELECT abalance FROM pgbench_accounts WHERE aid = {}"


def queries(chance: random.Random) -> Iterator[Event]:
    """Exchanges of `pgbench -S` over the simple protocol."""
    exchange = 0
    while True:
        exchange += 1
        value = str(chance.randint(-5000, 5000)).encode()
        row = b"D" + struct.pack("!IHI", 10 + len(value), 1, len(value)) + value
        head = b"T\0\0\0\x21\0\1abalance\0\0\0\x40\x02\0\3\0\0\0\x17\0\4\xff\xff\xff\xff\0\0"
        yield Operation(exchange, _SELECT.format(chance.randint(1, 10_000_000)))
        yield ClientOutput(head + row + b"C\0\0\0\rSELECT 1\0Z\0\0\0\5I")
        yield Completed(exchange, "SELECT 1", 1, micros=chance.randint(100, 900))


def texts(chance: random.Random) -> Iterator[Event]:
    """One result of many rows: an id, a name, an address, a date and a price, 32 KiB at a time."""
    yield Operation(1, "select * from customers")
    names = ["Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Niklaus", "Radia", "Leslie", "Tim"]
    while True:
        rows = []
        for _ in range(400):
            name = chance.choice(names)
            columns = (
                str(chance.randint(1, 10**7)),
                name,
                f"{name.lower()}{chance.randint(1, 9999)}@example.com",
                f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
                f"{chance.random() * 1000:.2f}",
            )
            body = b"".join(struct.pack("!I", len(one)) + one.encode() for one in columns)
            rows.append(b"D" + struct.pack("!IH", len(body) + 6, len(columns)) + body)
        yield ClientOutput(b"".join(rows))


def write(made: Made, number: int, events: Iterator[Event], *, most: int, last: bool) -> int:
    """One sealed segment of at most `most` bytes; answers its bytes of traffic: statements and what was shown."""
    spool = Spool.create(spool_path(made.home, "w1", made.id, number), made.header(number))
    traffic = count = 0
    for event in events:
        traffic += len(event.text) if isinstance(event, Operation) else 0
        traffic += len(event.data) if isinstance(event, ClientOutput) else 0
        count += isinstance(event, Completed)
        spool.append(encode(event, count * 500))
        if spool.size >= most:
            break
    spool.append(encode(End("", continues=not last), count * 500))
    spool.close()
    seal(spool.path, made.path(number))
    return traffic


async def measure(world: World, made: list[Made], traffic: int, name: str) -> None:
    """Lets the archiver take all that is sealed."""
    home = made[0].home
    keys = KeysForThreads(world.encryption, asyncio.get_running_loop())
    archiver = Archiver(home, FolderBlobs(recordings_folder(home)), world.stores.segments, keys)
    began, processor = time.perf_counter(), time.process_time()
    done = await archiver.round()
    spent, processor = time.perf_counter() - began, time.process_time() - processor
    assert not done.trouble
    rows = [row for one in made for row in await one.rows()]
    plain, kept = sum(row.size for row in rows), sum(row.stored_size for row in rows)
    assert done.stored == len(rows)
    print(
        f"{name:34} {len(rows):8} {plain / spent / 1e6:9.1f} {processor / len(rows) * 1000:9.2f} "
        f"{len(rows) / spent:10.0f} {plain / traffic:9.2f} {kept / traffic * 1000:10.0f}"
    )


async def run(folder: Path) -> None:
    heads = ("segments", "MB/s", "CPU ms", "segments/s", "recorded", "stored KB")
    print(f"{'':34} {heads[0]:>8} {heads[1]:>9} {heads[2]:>9} {heads[3]:>10} {heads[4]:>9} {heads[5]:>10}")
    print(f"{'':34} {'':8} {'plain':>9} {'each':>9} {'':10} {'/traffic':>9} {'/MB traffic':>10}")
    for name, events in (("queries", queries), ("texts", texts)):
        for kind, sessions, segments, most in (
            ("full segments", 1, SEGMENTS, MOST),
            ("short sessions", SESSIONS, 1, SHORT),
        ):
            home = folder / f"{name}-{sessions}"
            database = Database(f"sqlite:///{home / 'postern.db'}")
            await database.migrate()
            world = await World.make(database)
            connection, source = await world.add_connection(), events(random.Random(1))
            made = [await new_session(world, home, connection) for _ in range(sessions)]
            traffic = sum(
                write(one, number, source, most=most, last=number == segments)
                for one in made
                for number in range(1, segments + 1)
            )
            await measure(world, made, traffic, f"{name}, {kind}")
            await database.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as place:
        asyncio.run(run(Path(place)))
