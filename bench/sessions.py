"""How long lists and searches of sessions take when there are many.

    python -m bench.sessions                         # 10,000 and 100,000 sessions on both engines, some minutes
    python -m bench.sessions --sessions 1000000      # some 2 GB of disk for each engine
    python -m bench.sessions --engine sqlite

Sessions of 500 users on 200 connections over nearly three years, five statements each, some of everything that is
filtered by. Each page is asked for again and again: of the services, which is what the store takes, and of the API, in
this process. Every time is measured by itself; the first two of each are left out.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import httpx
from bench.session_data import COMMON, PHRASE, RARE, User, fill
from tests.support.application import application
from tests.support.postgres import PostgresServer
from tests.support.world import CLIENT, World

from postern.api.info import StaticServerInfo
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.services.bundle import Services
from postern.services.sessions import SessionFilter
from postern.store.database import Database

_INFO = StaticServerInfo(
    host="localhost", tunnel_url="wss://localhost:7443", grpc_url="grpcs://localhost:7444", ca_certificate=None
)
SEARCHES = {
    "search, rare word": f"search={RARE}",
    "search, common word": f"search={COMMON}",
    "search, phrase": f'search="{PHRASE}"',
    "search, beginning of a word": "search=cust*",
    "search, common word without another": f"search={COMMON} -orders",
    "search, common word, one connection": f"search={COMMON}&connection=connection-150",
    "search, common word, filter that is no key": f"search={COMMON}&min_duration=3000",
    "search, phrase that is nowhere": 'search="orders customers select"',
    "search, common word, with matches": f"search={COMMON}&expand=matches",
}
LISTS = {
    "first page": "",
    "first page, not counted": "count=none",
    "page by cursor, in the middle": "cursor=*",
    "user": "user=user-007@example.com",
    "user with few sessions": "user=user-499@example.com",
    "connection": "connection=connection-003",
    "status open": "status=open",
    "status done, type, verb": "status=done&type=database&verb=connect",
    "end reason, rare": "end_reason=killed",
    "something refused": "refused=true",
    "something masked": "masked=true",
    "correlation id": "correlation_id=order-77",
    "dates: a week two years ago": "start_date=2024-06-01T00:00:00Z&end_date=2024-06-08T00:00:00Z",
    "label, in 1 of 50": "label=ticket:7",
    "label, nowhere": "label=ticket:none",
    "tag of the connection": "tag_selector=env=prod",
    "longer than 50 minutes": "min_duration=3000",
}


@dataclass
class Bench:
    services: Services
    admin: Principal
    user: User
    clients: dict[str, httpx.AsyncClient]
    middle: str = ""


@click.command(help=__doc__)
@click.option("--sessions", "counts", type=int, multiple=True, default=(10_000, 100_000), show_default=True)
@click.option("--engine", "engines", type=click.Choice(["sqlite", "postgresql"]), multiple=True)
@click.option("--times", default=40, show_default=True, help="How often each page is asked for.")
@click.option("--only", default="", help="Only pages whose names have this.")
def main(counts: tuple[int, ...], engines: tuple[str, ...], times: int, only: str) -> None:
    for engine in engines or ("sqlite", "postgresql"):
        for count in counts:
            asyncio.run(_run(engine, count, times, only))


async def _run(engine: str, count: int, times: int, only: str) -> None:
    async with open_store(engine) as database:
        world = await World.make(database)
        begin = time.monotonic()
        users = await fill(world, count)
        print(f"\n{engine}, {count:,} sessions (filled in {time.monotonic() - begin:.0f} s)\n", flush=True)
        print("| page | service p50 | p99 | API p50 | p99 |\n|---|---:|---:|---:|---:|")
        bench = await _bench(world, users[7])
        for who, pages in (("admin", {**LISTS, **SEARCHES}), ("user", {"own": "", **SEARCHES})):
            for name, query in pages.items():
                label = name if who == "admin" else f"{name}, by a user"
                query = query.replace("*", bench.middle) if "cursor" in query else query
                if only in label:
                    await _measure(
                        bench, who, label, query.replace("*", bench.middle) if "cursor" in query else query, times
                    )


async def _bench(world: World, user: User) -> Bench:
    services = world.services()
    app = application(services, _INFO)
    admin = await world.add_user("root", "admin")
    clients = {}
    for name, principal in (("admin", admin), ("user", user.principal)):
        opened = await services.logins.open(await services.users.own(principal), LoginMethod.LOCAL, CLIENT)
        clients[name] = httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://localhost/api",
            headers={"Authorization": f"Bearer {opened.token.reveal()}"},
            timeout=120,
        )
    bench = Bench(services, admin, user, clients)
    middle = await clients["admin"].get("/sessions?end_date=2025-01-01T00:00:00Z&limit=1&count=none")
    bench.middle = middle.json()["next_cursor"]
    return bench


async def _measure(bench: Bench, who: str, name: str, query: str, times: int) -> None:
    """Of the service by the filters that the route makes of the query."""
    client = bench.clients[who]
    principal = bench.admin if who == "admin" else bench.user.principal
    heard: list[tuple[SessionFilter, Page]] = []
    find = bench.services.sessions.find

    async def hear(caller: Principal, wanted: SessionFilter, page: Page) -> object:
        heard.append((wanted, page))
        return await find(caller, wanted, page)

    async def ask() -> None:
        answer = await client.get(f"/sessions?{query}")
        if answer.status_code != 200:
            raise RuntimeError(answer.text)

    object.__setattr__(bench.services.sessions, "find", hear)
    try:
        await ask()
    finally:
        object.__setattr__(bench.services.sessions, "find", find)
    wanted, page = heard[0]
    own = await _times(lambda: find(principal, wanted, page), times)
    whole = await _times(ask, times)
    print("| " + " | ".join([name, *(f"{value:.1f}" for value in (*own, *whole))]) + " |", flush=True)


async def _times(work: Callable[[], Awaitable[object]], times: int) -> tuple[float, float]:
    """p50 and p99 in milliseconds. A page that takes long is not asked for so often."""
    taken: list[float] = []
    for _ in range(times + 2):
        begin = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - begin) * 1000)
        if sum(taken) > 5_000:
            break
    kept = sorted(taken[2:] or taken)
    return statistics.median(kept), kept[min(len(kept) - 1, int(len(kept) * 0.99))]


@asynccontextmanager
async def open_store(engine: str) -> AsyncIterator[Database]:
    with tempfile.TemporaryDirectory() as folder:
        server = PostgresServer() if engine == "postgresql" else None
        if server is not None:
            server.start()
        try:
            url = server.dsn(scheme="postgresql+asyncpg") if server else f"sqlite:///{Path(folder) / 'postern.db'}"
            database = Database(url)
            await database.migrate()
            yield database
            await database.close()
        finally:
            if server is not None:
                server.stop()


if __name__ == "__main__":
    main()
