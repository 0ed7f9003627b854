"""What proof costs: entries told in a second, MB of an export verified in a second.

    PYTHONPATH=src:. python bench/proof.py [sessions]

The ledger is written to SQLite in the temporary folder, for sessions of one segment each; verification reads an export
of compressed segments of 1 MB, and one of many small sessions.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from sqlalchemy import insert
from tests.support.proofs import Made, segment_bytes, stored
from tests.support.recorded import Records
from tests.support.world import World

from postern.domain.sessions.segment import first_link, next_link
from postern.domain.sessions.session import SessionStatus
from postern.proof.export_reading import verify_package
from postern.proof.proof_copies import measure
from postern.proof.proof_sessions import ListedSegment
from postern.store.database import Database
from postern.store.schema.recording_tables import segments
from postern.store.schema.session_tables import sessions

SESSIONS = 5000
LARGE = 100  # segments of 1 MB


async def tell(folder: Path, count: int) -> tuple[float, float]:
    """(entries a second, sessions that the gateway's own verification looks at in a second, without recordings)"""
    database = Database(f"sqlite:///{folder / 'postern.db'}")
    await database.migrate()
    world = await World.make(database)
    records = await Records.make(world, folder)
    template = await world.stores.sessions.get(world.org_id, await records.open())
    assert template is not None
    rows, parts = [], []
    for _ in range(count):
        one = replace(template, id=uuid4(), start_date=world.clock(), end_date=world.clock(), status=SessionStatus.DONE)
        row = {column.name: getattr(one, column.name, None) for column in sessions.c}
        maps: dict[str, dict[str, str]] = {
            name: {} for name in ("connection_tags", "integrations_metadata", "labels", "metadata", "metrics")
        }
        rows.append(
            {**row, **maps, "principal_id": one.id, "source": "::1", "end_reason": "client_closed", "event_size": 1}
        )
        digest = one.id.bytes * 2
        chain = next_link(first_link(world.org_id, one.id), 1, 1000, digest)
        parts.append(
            {
                "session_id": one.id,
                "number": 1,
                "org_id": world.org_id,
                "digest": digest,
                "chain": chain,
                "size": 1000,
                "stored_size": 300,
                "begins": 0,
                "ends": 9,
                "operations": 1,
                "is_last": True,
                "place": "x",
                "stored_at": world.clock(),
                "damage": "",
            }
        )
    async with database.transaction() as transaction:
        await transaction.execute(insert(sessions), rows)
        await transaction.execute(insert(segments), parts)
    services = records.services()
    begin = time.perf_counter()
    told = 0
    while more := await services.ledger.write():
        told += more
    rate = told / (time.perf_counter() - begin)
    await services.checkpoints.make(records.user)
    begin = time.perf_counter()
    report = await services.verifier.verify(world.org_id, with_segments=False)
    assert report.is_good, report.findings
    verified = count / (time.perf_counter() - begin)
    await database.close()
    return rate, verified


def check(made: Made, folder: Path) -> tuple[float, int]:
    """(seconds, bytes of the export)"""
    made.checkpoint()
    path = folder / "export.tar"
    path.write_bytes(made.pack(part=4 << 20))
    begin = time.perf_counter()
    report = verify_package(path, [made.key.public])
    assert report.is_good, report.findings
    return time.perf_counter() - begin, report.bytes_proven


def large() -> Made:
    made = Made(suffix=".rec.zst")
    session = made.add_session(1, 0, is_closed=False)
    texts = [f"select {at}, '{uuid4()}{uuid4()}'" for at in range(4700)]
    plain = segment_bytes(session, 1, is_last=True, texts=texts)
    packed, measured = stored(plain), ListedSegment(1, *measure([plain]))
    made.sessions[session] = (made.sessions[session][0], [replace(measured, number=at + 1) for at in range(LARGE)])
    for number in range(1, LARGE + 1):
        made.segments[session, number] = packed
    return made


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    folder = Path(tempfile.mkdtemp())
    try:
        rate, verified = asyncio.run(tell(folder, count))
        print(f"ledger, SQLite, {count} sessions: {rate:.0f} entries/s")
        print(f"verification of the store without recordings: {verified:.0f} sessions/s")
        made = large()
        size = sum(one.size for _, listed in made.sessions.values() for one in listed)
        seconds, _ = check(made, folder)
        print(f"verification of an export, {size / 1e6:.0f} MB as written: {size / 1e6 / seconds:.0f} MB/s")
        many = Made(suffix=".rec.zst")
        for number in range(count):
            many.add_session(number, 1)
        seconds, _ = check(many, folder)
        print(f"the same, {count} sessions of one small segment: {count / seconds:.0f} sessions/s")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
