"""Running sessions, watched over a real socket."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tests.api.conftest import Api, message
from tests.support.promises import until
from tests.support.spooled import append, ended, recorded_session

from postern.api import event_streams
from postern.api.routes.sessions import session_stream_routes
from postern.api.sessions import following
from postern.domain.features import Feature
from postern.domain.sessions.session import EndReason, Session
from postern.interception.events import ClientOutput, Event, Operation
from postern.recording.layout import spool_path
from postern.services.recordings.recording_services import WATCHES_EACH

pytestmark = pytest.mark.ci

START: list[tuple[int, Event]] = [(1_000, Operation(1, "one")), (2_000, Operation(2, "two"))]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(following, "ASK_EVERY", 0.2)
    monkeypatch.setattr(following, "SETTLED", 0.1)


@asynccontextmanager
async def served(api: Api, who: httpx.AsyncClient) -> AsyncIterator[httpx.AsyncClient]:
    config = uvicorn.Config(api.app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"Authorization": who.headers["Authorization"]}
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api", headers=headers, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        await running


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Name, id, data."""
    name = key = ""
    async for line in answer.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            key = value
        elif field == "data":
            yield name, key, json.loads(value)
            name = key = ""


def text(data: Mapping[str, Any]) -> str:
    return base64.b64decode(data["payload"]).decode()


@pytest.fixture
async def running(real: Api, home: Path) -> Session:
    return await recorded_session(real, home, START, done=False)


def spool(home: Path, session: Session) -> Path:
    return spool_path(home, "w1", session.id)


async def close(api: Api, session: Session, reason: EndReason = EndReason.CLIENT_CLOSED) -> None:
    await api.services.sessions.close(session.id, reason=reason, exit_code=0, metrics={}, event_size=9)


async def test_what_is_there_then_what_comes_then_how_it_ended(real: Api, running: Session, home: Path) -> None:
    async with served(real, real.as_ann) as client, client.stream("GET", f"/sessions/{running.id}/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer)
        assert await anext(found) == ("event", "1000-1", {"time": 1.0, "type": "i", "payload": "b25l"})
        assert text((await anext(found))[2]) == "two"
        append(spool(home, running), (3_000, Operation(3, "three")), (3_000, Operation(4, "at once")))
        assert text((await anext(found))[2]) == "three"
        name, key, data = await anext(found)
        assert (name, key, text(data)) == ("event", "3000-2", "at once")
        append(spool(home, running), ended(4_000, "killed"))
        await close(real, running, EndReason.KILLED)
        assert await anext(found) == ("session_end", "", {"reason": "killed", "detail": None, "exit_code": 0})
        with pytest.raises(StopAsyncIteration):
            await anext(found)


async def test_it_goes_on_where_it_was(real: Api, running: Session, home: Path) -> None:
    append(spool(home, running), (2_000, Operation(3, "also")), (5_000, Operation(4, "last")), ended(6_000))
    await close(real, running)
    async with served(real, real.as_ann) as client:
        url = f"/sessions/{running.id}/stream"
        async with client.stream("GET", url) as answer:
            whole = [one async for one in events(answer)]
        assert [key for _, key, _ in whole] == ["1000-1", "2000-1", "2000-2", "5000-1", ""]
        for number, (_, key, _) in enumerate(whole[:-1]):
            async with client.stream("GET", url, headers={"Last-Event-ID": key}) as answer:
                assert [one async for one in events(answer)] == whole[number + 1 :]
        message(await client.get(url, headers={"Last-Event-ID": "x"}), 422)


async def test_a_session_that_has_ended_without_its_recording_ends_the_stream(real: Api, running: Session) -> None:
    """As a worker that was killed leaves it, before it is recovered."""
    await close(real, running, EndReason.GATEWAY_CRASHED)
    async with served(real, real.as_ann) as client, client.stream("GET", f"/sessions/{running.id}/stream") as answer:
        async with asyncio.timeout(60):
            assert [name for name, _, _ in [one async for one in events(answer)]] == ["event", "event", "session_end"]


async def test_who_may_not_see_a_session_may_not_watch_it(real: Api, running: Session) -> None:
    """Attack 24: the live view without the check of its twin."""
    url = f"/sessions/{running.id}/stream"
    message(await real.as_bob.get(url), 404)
    message(await real.nobody.get(url), 401)
    message(await real.as_admin.get("/sessions/x/stream"), 404)


@pytest.mark.parametrize("how", ["logged out", "role taken", "made inactive"])
async def test_a_watcher_who_loses_the_right_is_cut(real: Api, running: Session, how: str) -> None:
    """Attack 40: within a stated bound."""
    url = f"/sessions/{running.id}/stream"
    async with served(real, real.as_auditor) as client, client.stream("GET", url) as answer:
        found = events(answer)
        await anext(found)
        auditor = real.users["auditor"]
        if how == "logged out":
            await real.services.logins.end_all(auditor.id)
        elif how == "role taken":
            await real.as_admin.put("/users/auditor@example.com", json={"groups": []})
        else:
            await real.as_admin.put("/users/auditor@example.com", json={"status": "inactive"})
        async with asyncio.timeout(60):
            rest = [name async for name, _, _ in found]
        assert rest[-1] == "cut"


async def test_watchers_are_bounded_and_leave_room(real: Api, running: Session) -> None:
    url = f"/sessions/{running.id}/stream"
    async with served(real, real.as_ann) as client:
        streams = [client.stream("GET", url) for _ in range(WATCHES_EACH)]
        reading = []
        for stream in streams:
            reading.append((await stream.__aenter__()).aiter_raw())
            await anext(reading[-1])
        assert "you already watch sessions in 4 requests" in message(await client.get(url), 429)
        for stream in streams:
            await stream.__aexit__(None, None, None)
        real.app.state.stream_life = 0.1

        async def let_in() -> bool:
            return (await client.get(url)).status_code != 429

        await until(let_in)


async def test_a_slow_watcher_is_cut_and_the_session_is_not(
    real: Api, running: Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that had caught up, and then reads nothing while much happens."""
    monkeypatch.setattr(session_stream_routes, "_MOST_BEHIND", 200_000)
    async with served(real, real.as_ann) as client, client.stream("GET", f"/sessions/{running.id}/stream") as answer:
        found = events(answer)
        await anext(found)
        await anext(found)
        await asyncio.sleep(0.2)
        for at in range(3_000, 3_400):
            append(spool(home, running), (at, ClientOutput(bytes(100_000))), (at, Operation(at, "x" * 50_000)))
        names = [name async for name, _, _ in found]
    assert names[-1] == "cut"
    assert set(names[:-1]) <= {"event"}  # none, where it looked only after all of it


async def test_one_who_takes_nothing_is_left(
    real: Api, running: Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "_SEND_WITHIN", 0.3)
    for at in range(3_000, 3_400):
        append(spool(home, running), (at, Operation(at, "x" * 100_000)))
    async with served(real, real.as_ann) as client:
        port = client.base_url.port
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        token = real.as_ann.headers["Authorization"]
        lines = (
            f"GET /api/sessions/{running.id}/stream HTTP/1.1",
            "Host: localhost",
            f"Authorization: {token}",
            "",
            "",
        )
        writer.write("\r\n".join(lines).encode())
        watchers = real.services.watchers
        ann = real.users["ann"].id
        await until(lambda: watchers._taken[ann])
        await until(lambda: not watchers._taken[ann])
        writer.close()


async def test_live_views_go_on_where_downloads_are_switched_off(real: Api, running: Session, home: Path) -> None:
    await real.as_admin.put(f"/feature-flags/{Feature.SESSION_DOWNLOAD}", json={"enabled": False})
    append(spool(home, running), ended(9_000))
    await close(real, running)
    answer = await real.as_ann.get(f"/sessions/{running.id}/stream")
    assert answer.text.count("event: event") == 2
    message(await real.as_ann.get(f"/sessions/{running.id}/export"), 403)
