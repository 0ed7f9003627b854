"""The server's log over HTTP: its last lines, and as it is written, for as long as the login lasts."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tests.api.conftest import Api, make_api, message
from tests.support.promises import until

from postern import logs
from postern.api.routes.server import server_log_routes
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.server_logs import MAX_FOLLOWERS
from postern.store.database import Database
from postern.store.journal import FileJournal

log = logging.getLogger("postern.gateway.processes.supervisor")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    """This process logs to where the API reads."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    logs.configure("info", "json", "api", folder=tmp_path / "logs")
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers = handlers
    root.setLevel(level)


@pytest.fixture
async def api(sqlite_database: Database, tmp_path: Path) -> Api:
    return await make_api(sqlite_database, machine=MachineFacts(journal=FileJournal(tmp_path / "logs")))


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """Over a real socket, since answers in process come all at once."""
    config = uvicorn.Config(api.app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"Authorization": api.as_admin.headers["Authorization"]}
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api", headers=headers, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        await running


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """(id, line) of each event."""
    key = ""
    async for line in answer.aiter_lines():
        if line.startswith("id: "):
            key = line[4:]
        elif line.startswith("data: "):
            yield key, json.loads(line[6:])


async def test_the_last_lines(api: Api) -> None:
    log.info("one", extra={"port": 7432, "token": "hunter2"})
    log.warning("two")
    everything = await api.as_admin.get("/server-logs")
    found = {line["message"]: line for line in everything.json()["data"]}
    assert found["one"]["process"] == "api"
    assert found["one"]["logger"] == "gateway.processes.supervisor"
    assert found["one"]["more"] == {"port": 7432, "token": "***"}
    assert "hunter2" not in everything.text
    only = (await api.as_admin.get("/server-logs?level=warning")).json()["data"]
    assert [line["message"] for line in only] == ["two"]
    assert (await api.as_admin.get("/server-logs?process=w1")).json() == {"data": []}
    last = (await api.as_admin.get("/server-logs?limit=1&level=info")).json()["data"]
    assert "GET /api/server-logs" in last[0]["message"]
    for query in ("level=loud", "limit=1001", "since=1"):
        message(await api.as_admin.get(f"/server-logs?{query}"), 422)


async def test_only_who_runs_the_server_reads_it(api: Api) -> None:
    for path in ("/server-logs", "/server-logs/stream"):
        for client in (api.as_ann, api.as_auditor):
            message(await client.get(path), 403)
        message(await api.nobody.get(path), 401)


async def test_lines_come_as_they_are_written_and_again_after_a_break(api: Api) -> None:
    async with served(api) as client:
        async with client.stream("GET", "/server-logs/stream?level=warning") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            log.info("noise")
            log.warning("first")
            key, line = await anext(events(answer))
            assert (line["message"], line["id"]) == ("first", key)
        log.warning("while away")
        headers = {"Last-Event-ID": key}
        async with client.stream("GET", "/server-logs/stream?level=warning", headers=headers) as answer:
            assert (await anext(events(answer)))[1]["message"] == "while away"


async def test_a_stream_ends_with_the_login_that_asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_log_routes, "_ASK_EVERY", 0.1)
    monkeypatch.setattr(server_log_routes, "_READ_EVERY", 0.05)
    async with served(api) as client, client.stream("GET", "/server-logs/stream") as answer:
        await api.services.logins.end_all(api.users["admin"].id)
        async with asyncio.timeout(60):
            async for _ in answer.aiter_lines():
                pass


async def test_a_stream_ends_by_itself(api: Api) -> None:
    api.app.state.stream_life = 0.1
    async with asyncio.timeout(60):
        assert (await api.as_admin.get("/server-logs/stream")).status_code == 200


async def test_followers_are_bounded_and_leave_room(api: Api) -> None:
    async with served(api) as client:
        streams = [client.stream("GET", "/server-logs/stream") for _ in range(MAX_FOLLOWERS)]
        reading = []
        for stream in streams:
            reading.append((await stream.__aenter__()).aiter_raw())
            await anext(reading[-1])
        assert "already follow the server's log" in message(await client.get("/server-logs/stream"), 429)
        for stream in streams:
            await stream.__aexit__(None, None, None)
        api.app.state.stream_life = 0.1

        async def let_in() -> bool:
            return (await client.get("/server-logs/stream")).status_code != 429

        await until(let_in)
