"""The stream of changes, over a real socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.conftest import Api, message
from tests.api.test_session_stream import events, served
from tests.support.promises import until

from postern.api.routes.server import event_routes
from postern.services.notifications.change_feed import STREAMS_EACH
from postern.store.ports.common_ports import Topic

pytestmark = pytest.mark.ci
URL = "/events/stream"


@pytest.fixture
async def shop(real: Api) -> dict[str, Any]:
    return await real.make_connection(reviewers=["dba"])


async def request_access(api: Api) -> str:
    """Bob's request for the shop, which Ann can approve; return the review's id."""
    answer = await api.as_bob.post("/reviews", json={"connection": "shop"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["review"]["id"])


async def test_changes_arrive_without_content(real: Api, shop: dict[str, Any]) -> None:
    async with served(real, real.as_ann) as client, client.stream("GET", URL) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer)
        name, position, data = await anext(found)
        assert (name, data) == ("ready", {})
        assert position
        review = await request_access(real)
        name, key, data = await anext(found)
        assert (name, data) == ("review", {"id": review, "change": "PENDING", "session_id": None})
        assert key != position
        await real.as_admin.patch("/connections/shop", json={"tags": ["x"]})
        assert (await anext(found))[::2] == (
            "connection",
            {"id": shop["id"], "change": "changed", "session_id": None},
        )


async def test_client_continues_after_its_last_event(real: Api, shop: dict[str, Any]) -> None:
    async with served(real, real.as_ann) as client:
        async with client.stream("GET", URL) as answer:
            position = (await anext(events(answer)))[1]
        review = await request_access(real)
        async with client.stream("GET", URL, headers={"Last-Event-ID": position}) as answer:
            found = events(answer)
            assert await anext(found) == ("ready", "", {})
            name, _, data = await anext(found)
            assert (name, data["id"]) == ("review", review)
        async with client.stream("GET", URL, headers={"Last-Event-ID": "of another process"}) as answer:
            found = events(answer)
            assert (await anext(found))[0] == "ready"
            name, key, _ = await anext(found)
            assert (name, key.partition("-")[0]) == ("resync", position.partition("-")[0])
        message(await client.get(URL, headers={"Last-Event-ID": "x" * 65}), 422)


async def test_client_follows_from_what_it_has_read(real: Api, shop: dict[str, Any]) -> None:
    async with served(real, real.as_ann) as client:
        position = (await client.get("/userinfo")).json()["changes_position"]
        async with client.stream("GET", URL, params={"after": position}) as answer:
            found = events(answer)
            assert await anext(found) == ("ready", "", {})
            review = await request_access(real)
            name, _, data = await anext(found)
            assert (name, data["id"]) == ("review", review)
        earlier = (await client.get("/userinfo")).json()["changes_position"]
        await real.as_admin.patch("/connections/shop", json={"tags": ["x"]})
        latest = (await client.get("/userinfo")).json()["changes_position"]
        assert latest != earlier
        async with client.stream("GET", URL, params={"after": earlier}) as answer:
            found = events(answer)
            assert [(await anext(found))[0] for _ in range(2)] == ["ready", "connection"]
        async with client.stream("GET", URL, params={"after": earlier}, headers={"Last-Event-ID": latest}) as answer:
            found = events(answer)
            await anext(found)
            await real.as_admin.patch(f"/users/{real.users['ann'].id}", json={"groups": []})
            assert (await anext(found))[0] == "login"
        message(await client.get(URL, params={"after": "x" * 65}), 422)


async def test_changes_that_nobody_followed_are_a_gap(real: Api, shop: dict[str, Any]) -> None:
    async with served(real, real.as_ann) as client:
        position = (await client.get("/userinfo")).json()["changes_position"]
        await real.as_admin.patch("/connections/shop", json={"tags": ["x"]})
        async with client.stream("GET", URL, params={"after": position}) as answer:
            found = events(answer)
            assert [(await anext(found))[0] for _ in range(2)] == ["ready", "resync"]


@pytest.mark.parametrize("how", ["logged out", "made inactive", "signal lost"])
async def test_stream_ends_with_its_login(real: Api, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "signal lost":
        monkeypatch.setattr(event_routes, "_HEARTBEAT", 0.1)
    async with served(real, real.as_ann) as client, client.stream("GET", URL) as answer:
        found = events(answer)
        await anext(found)
        if how == "logged out":
            await real.as_ann.post("/logout")
        elif how == "made inactive":
            await real.as_admin.patch(f"/users/{real.users['ann'].id}", json={"status": "inactive"})
        else:
            await real.world.stores.logins.end_all(real.users["ann"].id, real.world.clock())
        rest = [event async for event in found]
        assert rest[-1][0] == "cut"
        assert rest[-1][2]["reason"]
        assert {name for name, _, _ in rest[:-1]} <= {"login"}


async def test_attack_changed_groups_take_effect_before_the_next_event(real: Api, shop: dict[str, Any]) -> None:
    """Attack 40: a reviewer who has lost the group hears of no further review."""
    async with served(real, real.as_ann) as client, client.stream("GET", URL) as answer:
        found = events(answer)
        await anext(found)
        answered = await real.as_admin.patch(f"/users/{real.users['ann'].id}", json={"groups": []})
        assert answered.status_code == 200, answered.text
        await request_access(real)
        await real.as_admin.patch("/connections/shop", json={"tags": ["x"]})
        names = []
        async for name, _, _ in found:
            names.append(name)
            if name == "connection":
                break
        assert "review" not in names


async def test_heartbeat_moves_the_position(real: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_routes, "_HEARTBEAT", 0.05)
    async with served(real, real.as_bob) as client, client.stream("GET", URL) as answer:
        lines = answer.aiter_lines()
        async for line in lines:
            if line == ": still here":
                break
        await real.world.signals.publish(Topic.LOGIN_CHANGED, principal_id=str(real.users["ann"].id), change="started")
        position = real.services.changes.position()
        async with asyncio.timeout(60):
            async for line in lines:
                if line == f"id: {position}":
                    break
            assert await anext(lines) == ": still here"


async def test_stream_ends_by_itself(real: Api) -> None:
    real.app.state.stream_life = 0.1
    async with asyncio.timeout(60):
        assert "event: ready" in (await real.as_ann.get(URL)).text


async def test_streams_are_bounded_and_leave_room(real: Api) -> None:
    async with served(real, real.as_ann) as client:
        streams = [client.stream("GET", URL) for _ in range(STREAMS_EACH)]
        reading = []  # an iterator that is dropped closes its connection
        for stream in streams:
            reading.append((await stream.__aenter__()).aiter_raw())
            await anext(reading[-1])
        answer = await client.get(URL)
        assert "you already follow changes in 8 requests; end one of them" in message(answer, 429)
        assert answer.headers["Retry-After"]
        assert (await real.as_bob.get("/connections")).status_code == 200
        for stream in streams:
            await stream.__aexit__(None, None, None)
        real.app.state.stream_life = 0.1

        async def let_in() -> bool:
            return (await client.get(URL)).status_code != 429

        await until(let_in)


async def test_stream_needs_a_login(real: Api) -> None:
    message(await real.nobody.get(URL), 401)
