"""Measures the list of runbooks: 2,000 of 5 repositories, as the API's process answers it from what it keeps; and how
long its event loop stands still while templates are read and filled in.

    make bench ARGS="--only runbooks"    # as the other sections, with a description of the machine
    python -m bench.runbooks             # by itself, about 1 minute

The real application with its middleware, access checks and rules over a SQLite store, called in this process: the
client's work is among it. What reads the repositories is not git: how soon that is does not matter here.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import click
import httpx
from tests.api.conftest import Api, make_api
from tests.api.test_access_rules import switch_on
from tests.support.runbooks import snapshot_of

from postern.domain.runbook import RunbookPattern, RunbookRule, Snapshot, repository_id
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


# Half of the processor time that a template may take, on a quick machine.
_COSTLY = "select {{ range 10000 }}{{ $.id | squote }}, {{ end }}0"


@dataclass(frozen=True, slots=True)
class Figure:
    """`case` is None for how long the event loop stood still while `route` was done; else what was asked, and by whom.
    In milliseconds: of the clock, the median and the longest; `work` of this process. Of `runbooks` in `size` bytes."""

    route: str
    longest: float
    case: str | None = None
    median: float = 0.0
    work: float = 0.0
    runbooks: int = 0
    size: int = 0


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


async def measure(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'postern.db'}")
        await database.migrate()
        api = await make_api(database)
        await fill(api)
        gc.collect()
        gc.freeze()  # as the API's process does before it serves
        figures = [Figure("2,000 runbooks, for the first time", await longest_stall(api.as_ann.get("/runbooks")))]
        for who, client in (("an administrator", api.as_admin), ("by access rules and 100 runbook rules", api.as_ann)):
            for what, query in QUERIES.items():
                figures.append(await _listed(api, who, what, client, query, rounds))
        figures += await _stalls(api)
        await database.close()
        return figures


async def _stalls(api: Api) -> list[Figure]:
    remotes = api.world.fetcher.remotes
    url, made = next(iter(remotes.items()))
    assert isinstance(made, Snapshot)
    remotes[url] = snapshot_of({one.path: one.text or "" for one in made.files} | {"costly.runbook.sql": _COSTLY})
    again = api.as_admin.post(f"/runbooks/configurations/{repository_id(url)}/refresh")
    figures = [Figure("400 runbooks of another commit, one of which is new", await longest_stall(again))]
    body = {"connection_name": "c0", "repository": url, "file_name": "costly.runbook.sql", "parameters": {"id": "'"}}

    async def fill_in() -> None:
        answers = await asyncio.gather(*(api.as_admin.post("/runbooks/render", json=body) for _ in range(4)))
        assert {one.status_code for one in answers} == {200}, answers[0].text

    return [*figures, Figure("a costly template filled in, four times at once", await longest_stall(fill_in()))]


async def _listed(api: Api, who: str, what: str, client: httpx.AsyncClient, query: str, rounds: int) -> Figure:
    """Every other request asks the store anew what is the newest, as after a second of nobody asking."""
    spent, worked = [], []
    for number in range(rounds + 1):
        if number % 2:
            api.world.clock.forward(seconds=2)
        took, work, answer = await timed(lambda: client.get(f"/runbooks{query}"))
        spent.append(took)
        worked.append(work)
    items = sum(len(one["items"]) for one in answer.json()["repositories"])
    median, work = statistics.median(spent[1:]), statistics.median(worked[1:])
    return Figure(who, max(spent[1:]), what, median, work, items, len(answer.content))


def _row(one: Figure) -> str:
    return (
        f"| {one.route}, {one.case} | {one.runbooks:,} | {one.size / 1000:,.0f} "
        f"| {one.work:.1f} | {one.median:.1f} | {one.longest:.1f} |"
    )


@click.command()
@click.option("--rounds", default=200, show_default=True, help="Requests of each kind.")
@click.option("--as-json", is_flag=True, help="For programs.")
def main(rounds: int, as_json: bool) -> None:
    figures = asyncio.run(measure(rounds))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in figures]))
        return
    click.echo("| | runbooks | KB | CPU ms | p50 ms | worst ms |\n|---|---:|---:|---:|---:|---:|")
    click.echo("\n".join(_row(one) for one in figures if one.case is not None))
    click.echo("\n| the event loop stands still for, at most | ms |\n|---|---:|")
    click.echo("\n".join(f"| {one.route} | {one.longest:.0f} |" for one in figures if one.case is None))


if __name__ == "__main__":
    main()
