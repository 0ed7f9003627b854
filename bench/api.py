"""What a call of the API costs, in ratio to a bare FastAPI route on the same machine in the same run.

    python -m bench.api            # about a minute
    python -m bench.api --quick

A gateway of its own with 1,000 connections and 200 users is asked over kept-alive HTTP connections: for the caller
alone (which is what checking a token costs), for a page of the connections, and by an API key. Access control is on,
with 40 access rules, half of them by tag: an administrator sees all connections, and a user who is in one group, and
logged in by password, the 52 that two of the rules give. A login with a password costs what argon2id is set to cost,
on purpose: it is there to see that nothing else makes it dear.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import httpx
import uvloop
from bench.processes import child_with, cpu_seconds
from tests.support.postgres import free_port

CONNECTIONS, USERS, CLIENTS, TEAMS = 1000, 200, 8, 20
GIVEN = CONNECTIONS // TEAMS + 2  # connections that the rules give to a user of one team
PASSWORD = "a password of the benchmark"

_BARE = """
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/bare")
async def bare() -> dict[str, str]:
    return {"email": "ann@example.com", "name": "Ann"}
uvicorn.run(app, port=%d, log_config=None, access_log=False)
"""


@dataclass
class Route:
    """One thing to ask for, and the process that answers."""

    name: str
    port: int
    path: str
    token: str
    pid: int
    body: str = ""  # JSON, sent by POST; a GET without one


@dataclass
class Measured:
    per_second: float
    p50: float  # ms
    p99: float  # ms
    cpu: float  # ms of the server's processor time for each answer


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="One short round.")
def main(quick: bool) -> None:
    rounds, seconds = (1, 1.0) if quick else (5, 2.0)
    with _bare() as bare, _gateway() as routes:
        found: dict[str, list[Measured]] = {}
        for _ in range(rounds):
            for route in (bare, *routes):
                found.setdefault(route.name, []).append(uvloop.run(_measure(route, seconds)))
    _print(found, bare.name)


def _print(found: dict[str, list[Measured]], bare: str) -> None:
    print(f"{CLIENTS} clients; {CONNECTIONS} connections and {USERS} users; medians of {len(found[bare])} rounds\n")
    print("| route | requests/s | p50 ms | p99 ms | CPU ms | requests/s of bare |\n|---|---:|---:|---:|---:|---:|")
    base = statistics.median(one.per_second for one in found[bare])
    for name, measured in found.items():
        rate, p50, p99, cpu = (
            statistics.median(getattr(one, field) for one in measured) for field in ("per_second", "p50", "p99", "cpu")
        )
        print(f"| {name} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {cpu:.2f} | {rate / base:.2f} |")


@contextmanager
def _bare() -> Iterator[Route]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", _BARE % port])
    try:
        _wait(f"http://localhost:{port}/bare")
        yield Route("bare FastAPI route", port, "/bare", "", process.pid)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _gateway() -> Iterator[list[Route]]:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        environment = {
            **os.environ,
            "POSTERN_HOME": f"{folder}/home",
            "POSTERN_API_PORT": str(port),
            "POSTERN_POSTGRES_PORT": str(free_port()),
            "POSTERN_MYSQL_PORT": str(free_port()),
            "POSTERN_TUNNEL_PORT": str(free_port()),
            "POSTERN_CONTROL_PORT": str(free_port()),
            "POSTERN_DEMO": "no",
            "POSTERN_LOG_LEVEL": "warning",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        with open(f"{folder}/log", "wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "postern", "gateway"], env=environment, stdout=log)
        try:
            _wait(f"http://localhost:{port}/api/healthz")
            yield _populated(port, Path(folder), child_with(process.pid, "api"))
        finally:
            process.terminate()
            process.wait()


def _populated(port: int, folder: Path, pid: int) -> list[Route]:
    first = json.loads((folder / "home" / "first-run.json").read_text())
    with httpx.Client(base_url=f"http://localhost:{port}/api", timeout=30) as client:
        credentials = {"email": first["admin_email"], "password": first["admin_password"]}
        token = client.post("/localauth/login", json=credentials).raise_for_status().headers["Token"]
        client.headers["Authorization"] = f"Bearer {token}"
        agent = client.get("/agents").raise_for_status().json()["data"][0]["id"]
        modes = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")
        body = {"type": "database", "subtype": "postgres", "agent_id": agent, **dict.fromkeys(modes, "enabled")}
        for number in range(CONNECTIONS):
            tags = {"team": f"team-{number % TEAMS}"}
            made = {**body, "name": f"connection-{number:04}", "connection_tags": tags}
            client.post("/connections", json=made).raise_for_status()
        for number in range(USERS):
            user = {"email": f"user-{number:03}@example.com", "groups": [f"team-{number % TEAMS}"]}
            client.post("/users", json=user).raise_for_status()
        key = client.post("/api-keys", json={"name": "bench", "groups": ["admin"]}).raise_for_status().json()["key"]
        standard = _ruled(client)
    return [
        Route("who am I, by token", port, "/api/userinfo", token, pid),
        Route("who am I, by API key", port, "/api/userinfo", key, pid),
        Route("connections, 20 of 1,000, administrator", port, "/api/connections?limit=20", token, pid),
        Route("connections, 100 of 1,000, administrator", port, "/api/connections?limit=100&offset=500", token, pid),
        Route("connections, 20 of the 52 that rules give, user", port, "/api/connections?limit=20", standard, pid),
        Route("login with a password", port, "/api/localauth/login", "", pid, json.dumps(credentials)),
    ]


def _ruled(client: httpx.Client) -> str:
    """Switches access control on, with two rules for each team: one by tag and one that lists connections of the next
    team. Answers the token of a user of one team."""
    for team in range(TEAMS):
        groups = [f"team-{team}"]
        by_tag = {"name": f"own {team}", "groups": groups, "connection_tags": {"team": f"team-{team}"}}
        neighbours = [f"connection-{(team + 1) % TEAMS + TEAMS * number:04}" for number in range(2)]
        listed = {"name": f"neighbours of {team}", "groups": groups, "connection_names": neighbours}
        for rule in (by_tag, listed):
            client.post("/access-rules", json=rule).raise_for_status()
    client.put("/feature-flags/access-control", json={"enabled": True}).raise_for_status()
    email = "user-007@example.com"
    client.put(f"/users/{email}", json={"password": PASSWORD}).raise_for_status()
    own = client.post("/localauth/login", json={"email": email, "password": PASSWORD}).raise_for_status()
    token = own.headers["Token"]
    seen = client.get("/connections", headers={"Authorization": f"Bearer {token}"}).raise_for_status().json()["total"]
    if seen != GIVEN:
        raise RuntimeError(f"the rules give {seen} connections, not {GIVEN}")
    return token


async def _measure(route: Route, seconds: float) -> Measured:
    await _clients(route, 0.2)
    before, started = cpu_seconds(route.pid), time.perf_counter()
    took = await _clients(route, seconds)
    cpu, lasted = cpu_seconds(route.pid) - before, time.perf_counter() - started
    took.sort()
    return Measured(
        len(took) / lasted, took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3, cpu / len(took) * 1e3
    )


async def _clients(route: Route, seconds: float) -> list[float]:
    until = time.perf_counter() + seconds
    found = await asyncio.gather(*(_client(route, until) for _ in range(CLIENTS)))
    return [one for times in found for one in times]


async def _client(route: Route, until: float) -> list[float]:
    """A client that does no more than it must, so that it does not hide the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", route.port)
    headers = f"Host: localhost:{route.port}\r\n"
    if route.token:
        headers += f"Authorization: Bearer {route.token}\r\n"
    if route.body:
        headers += f"Content-Type: application/json\r\nContent-Length: {len(route.body)}\r\n"
    request = f"{'POST' if route.body else 'GET'} {route.path} HTTP/1.1\r\n{headers}\r\n{route.body}".encode()
    took = []
    while (begun := time.perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{route.name} answered {head!r}")
        length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        took.append(time.perf_counter() - begun)
    writer.close()
    return took


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            if httpx.get(url).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{url} did not answer within 30 seconds")


if __name__ == "__main__":
    main()
