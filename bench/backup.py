"""How long a backup and a restore take, and how large store and backup are.

    python -m bench.backup                    # 20,000 sessions on both engines, a minute or two
    python -m bench.backup --sessions 200000

Sessions as in `bench.sessions`, without recordings: those are copied as they are. Then the store's growth by sessions
with as much text as is indexed of one, of a point query with changing values.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path

import click
from bench.session_data import fill
from bench.sessions import open_store
from sqlalchemy import text
from tests.support.recordings import new_session
from tests.support.world import World

from postern.settings import Settings
from postern.store.database import Database
from postern.store.sql.sessions.sql_session_texts import SqlSessionTexts
from postern.wiring import paths
from postern.wiring.host.backup import create_backup
from postern.wiring.host.restore import restore_backup

_LONG, _STATEMENTS = 40, 14_000  # more statements than are indexed of one session
_POINT_QUERY = "SELECT abalance FROM pgbench_accounts WHERE aid = "


@click.command(help=__doc__)
@click.option("--sessions", "count", default=20_000, show_default=True)
@click.option("--engine", "engines", type=click.Choice(["sqlite", "postgresql"]), multiple=True)
def main(count: int, engines: tuple[str, ...]) -> None:
    print("| engine | bytes of store per session | of backup | backup, s | restore into SQLite, s | memory, MB |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for engine in engines or ("sqlite", "postgresql"):
        asyncio.run(_run(engine, count))


async def _run(engine: str, count: int) -> None:
    async with open_store(engine) as database:
        await fill(await World.make(database), count)
        size = await _size(database)
        url = database.engine.sync_engine.url.render_as_string(hide_password=False)
        await asyncio.to_thread(_measure, engine, Settings(home=Path(), database_url=url), size, count)
        await database.engine.dispose()
        print(f"\n{engine}: {await _add_long_sessions(database) / 1e6:.1f} MB of store for each long session\n")


def _measure(engine: str, settings: Settings, size: int, count: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = Settings(home=folder / "home", database_url=settings.database_url)
        paths.lock(source).parent.mkdir(parents=True)
        paths.lock(source).touch()
        begin = time.monotonic()
        create_backup(source, folder / "b.tar")
        middle = time.monotonic()
        restore_backup(Settings(home=folder / "restored"), folder / "b.tar")
        end = time.monotonic()
        stored = (folder / "b.tar").stat().st_size
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    figures = (f"{size // count:,}", f"{stored // count:,}", f"{middle - begin:.1f}", f"{end - middle:.1f}", memory)
    print(f"| {engine} | {' | '.join(map(str, figures))} |", flush=True)


async def _add_long_sessions(database: Database) -> float:
    """Return the bytes that the store grows by for each."""
    world, before = await World.make(database), await _size(database)
    with tempfile.TemporaryDirectory() as home:
        for number in range(_LONG):
            made = await new_session(world, Path(home))
            pieces = [(n * 100.0, f"{_POINT_QUERY}{n * 7919 % 100_000 + number}") for n in range(_STATEMENTS)]
            await SqlSessionTexts(database).index(made.id, 1, pieces, is_last=True)
    return (await _size(database) - before) / _LONG


async def _size(database: Database) -> int:
    query = "pragma page_count" if database.is_sqlite else "select pg_database_size(current_database())"
    async with database.statement() as statement:
        size = int((await statement.execute(text(query))).scalar_one())
    return size * 4096 if database.is_sqlite else size


if __name__ == "__main__":
    main()
