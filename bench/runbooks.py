"""Measures the list of runbooks: 2,000 of 5 repositories, as the API's process answers it from what it keeps.

    python -m bench.runbooks             # about 1 minute
    python -m bench.runbooks --rounds 20

The real application with its middleware, access checks and rules over a SQLite store, called in this process, so that
no client's work is among it. What reads the repositories is not git: how soon that is does not matter here.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import click
import httpx
from tests.api.conftest import Api, make_api
from tests.api.test_access_rules import switch_on
from tests.support.runbooks import snapshot_of

from postern.domain.runbook import RunbookPattern, RunbookRule
from postern.store.database import Database

REPOSITORIES, RUNBOOKS = 5, 400  # of each
CONNECTIONS, RULES = 200, 100
QUERIES = {
    "names alone": "",
    "with connections": "?list_connections=true",
    "of one connection": "?connection_name=c17",
    "all, with connections": "?list_connections=true&remove_empty_connections=false",
}
_TEXT = """#!/bin/bash
# {number}
psql -v id={{{{ .id | required "which order" | type "number" | description "the order to look at" | squote }}}} \\
  -v state={{{{ .state | type "select" | options "open" "paid" "sent" | default "open" | squote }}}} \\
  -v day={{{{ .day | type "date" | description "of the delivery" | squote }}}} \\
  -v note={{{{ .note | placeholder "why" | maxlength 200 | squote }}}} <<< 'select * from orders'
"""


async def fill(api: Api) -> None:
    """Rules of access and of runbooks for the group of one user, `ann`."""
    world, at = api.world, api.world.clock()
    ids = [(await world.add_connection(f"c{number}", api.agent)).id for number in range(CONNECTIONS)]
    await switch_on(api)
    body = {"name": "for dbas", "groups": ["dba"], "connection_names": [f"c{one}" for one in range(0, CONNECTIONS, 2)]}
    assert (await api.as_admin.post("/access-rules", json=body)).status_code == 201
    for number in range(REPOSITORIES):
        url = f"https://git.example.com/team/{number}"
        files = {f"area{one % 20}/job{one}.runbook.sh": _TEXT.format(number=one) for one in range(RUNBOOKS)}
        world.fetcher.remotes[url] = snapshot_of(files)
        answer = await api.as_admin.post("/runbooks/configurations", json={"git_url": url})
        assert answer.status_code == 201, answer.text
    for number in range(RULES):
        pattern = RunbookPattern(f"git.example.com/team/{number % REPOSITORIES}", f"area{number % 20}/")
        some = frozenset(ids[number : number + 40])
        rule = RunbookRule(
            uuid4(), world.org_id, f"r{number}", "", (pattern,), some, frozenset({"dba"}), created_at=at, updated_at=at
        )
        await world.stores.runbook_rules.add(rule)


async def timed(call: Callable[[], Awaitable[httpx.Response]]) -> tuple[float, float, httpx.Response]:
    """Milliseconds of the clock and of this process, and what came."""
    began, worked = time.perf_counter(), time.process_time()
    answer = await call()
    spent, work = time.perf_counter() - began, time.process_time() - worked
    assert answer.status_code == 200, answer.text
    return spent * 1000, work * 1000, answer


async def longest_stall(work: Awaitable[object]) -> float:
    """Milliseconds that the event loop did not turn meanwhile."""
    worst, last = 0.0, time.perf_counter()

    async def watch() -> None:
        nonlocal worst, last
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            worst, last = max(worst, now - last), now

    watching = asyncio.create_task(watch())
    await work
    watching.cancel()
    return worst * 1000


async def measure(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'postern.db'}")
        await database.migrate()
        api = await make_api(database)
        await fill(api)
        first = 0.0

        async def cold() -> None:
            nonlocal first
            first, _, _ = await timed(lambda: api.as_ann.get("/runbooks"))

        stall = await longest_stall(cold())
        click.echo(f"first list, reading and parsing all: {first:.0f} ms; the loop stood still for {stall:.0f} ms\n")
        click.echo("| | runbooks | KB | CPU ms | p50 ms | p99 ms | worst ms |\n|---|---:|---:|---:|---:|---:|---:|")
        for who, client in (("administrator", api.as_admin), ("by rules", api.as_ann)):
            for what, query in QUERIES.items():
                click.echo(await _row(api, f"{who}, {what}", client, query, rounds))
        await database.close()


async def _row(api: Api, title: str, client: httpx.AsyncClient, query: str, rounds: int) -> str:
    """Every other request asks the store anew what is the newest, as after a second of nobody asking."""
    spent, worked = [], []
    for number in range(rounds + 1):
        if number % 2:
            api.world.clock.forward(seconds=2)
        took, work, answer = await timed(lambda: client.get(f"/runbooks{query}"))
        spent.append(took)
        worked.append(work)
    spent = sorted(spent[1:])
    items = sum(len(one["items"]) for one in answer.json()["repositories"])
    p99 = spent[min(len(spent) - 1, int(len(spent) * 0.99))]
    return (
        f"| {title} | {items:,} | {len(answer.content) / 1000:,.0f} "
        f"| {statistics.median(worked):.1f} | {statistics.median(spent):.1f} | {p99:.1f} | {spent[-1]:.1f} |"
    )


@click.command()
@click.option("--rounds", default=200, show_default=True, help="Requests of each kind.")
def main(rounds: int) -> None:
    asyncio.run(measure(rounds))


if __name__ == "__main__":
    main()
