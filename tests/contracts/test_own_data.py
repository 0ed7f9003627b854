"""What users have of their own: preferences and credentials, on both engines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.conftest import Api, make_api, message

from postern.domain.identity.preferences import MAX_DEPTH, MAX_PREFERENCES
from postern.store.database import Database

PATH = "/users/self/preferences"


@pytest.fixture
async def api(database: Database) -> Api:
    return await make_api(database)


async def test_preferences_are_empty_at_first_and_read_back(api: Api) -> None:
    first = await api.as_ann.get(PATH)
    assert (first.status_code, first.json(), first.headers["ETag"]) == (200, {}, '"0"')
    chosen = {"theme": "dark", "pins": ["shop", "ü\u2028"], "columns": {"sessions": [1, 2.5, None, True]}}
    for version in ('"1"', '"2"'):
        put = await api.as_ann.put(PATH, json=chosen)
        assert (put.status_code, put.json(), put.headers["ETag"]) == (200, chosen, version)
    shown = await api.as_ann.get(PATH)
    assert (shown.json(), shown.headers["ETag"]) == (chosen, '"2"')
    assert (await api.as_bob.get(PATH)).json() == {}


async def test_preferences_are_replaced_only_in_the_version_that_was_read(api: Api) -> None:
    assert (await api.as_ann.put(PATH, json={"a": 1}, headers={"If-Match": '"0"'})).headers["ETag"] == '"1"'
    assert "has version 1 now, not 0" in message(
        await api.as_ann.put(PATH, json={"a": 2}, headers={"If-Match": '"0"'}), 412
    )
    assert (await api.as_ann.put(PATH, json={"a": 3}, headers={"If-Match": '"1"'})).headers["ETag"] == '"2"'
    assert (await api.as_ann.get(PATH)).json() == {"a": 3}


@pytest.mark.parametrize("version", [0, 1])
async def test_one_of_two_writes_of_the_same_version_succeeds(api: Api, version: int) -> None:
    if version:
        await api.as_ann.put(PATH, json={})
    headers = {"If-Match": f'"{version}"'}
    both = await asyncio.gather(*(api.as_ann.put(PATH, json={"n": n}, headers=headers) for n in (1, 2)))
    assert sorted(answer.status_code for answer in both) == [200, 412]
    (winner,) = [answer for answer in both if answer.status_code == 200]
    shown = await api.as_ann.get(PATH)
    assert (shown.json(), shown.headers["ETag"]) == (winner.json(), f'"{version + 1}"')


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"x": value}
    return value


async def test_preferences_have_bounds(api: Api) -> None:
    fits = {"x": "y" * (MAX_PREFERENCES - len('{"x":""}'))}
    assert (await api.as_ann.put(PATH, json=fits)).status_code == 200
    assert "the maximum is 65,536" in message(await api.as_ann.put(PATH, json={"x": fits["x"] + "y"}), 422)
    assert (await api.as_ann.put(PATH, json=nested(MAX_DEPTH))).status_code == 200
    assert "levels deep" in message(await api.as_ann.put(PATH, json=nested(MAX_DEPTH + 1)), 422)
    assert (await api.as_ann.get(PATH)).json() == nested(MAX_DEPTH)


@pytest.mark.parametrize(
    "content", ["[]", '"x"', "null", '{"x": NaN}', '{"x": Infinity}', '{"x": "a\\u0000b"}', '{"x": "\\ud800"}', "{"]
)
async def test_preferences_must_be_a_json_object(api: Api, content: str) -> None:
    answer = await api.as_ann.put(PATH, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["message"]
    assert (await api.as_ann.get(PATH)).json() == {}


async def test_audit_log_has_the_change_of_preferences_without_their_content(api: Api) -> None:
    await api.as_ann.put(PATH, json={"note": "private words"})
    (entry,) = (await api.as_admin.get("/audit/logs?resource_type=users/self/preferences")).json()["data"]
    assert (entry["actor_email"], entry["action"], entry["body"]) == ("ann@example.com", "update", {})
    assert "private words" not in str(entry)


async def test_preferences_are_deleted_with_their_user(api: Api) -> None:
    await api.as_ann.put(PATH, json={"a": 1})
    assert (await api.as_admin.delete(f"/users/{api.users['ann'].id}")).status_code == 204
    stored = await api.world.stores.preferences.get(api.users["ann"].id)
    assert (stored.content, stored.version) == ("{}", 0)


async def test_own_credentials_are_in_pages_and_only_valid_ones_on_request(api: Api) -> None:
    await api.make_connection()
    issued = [(await api.as_ann.post("/connections/shop/credentials")).json()["id"] for _ in range(3)]
    await api.as_ann.post(f"/credentials/{issued[0]}/revoke")
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await api.as_ann.get("/credentials", params=query)).json()
        seen += [one["id"] for one in page["data"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert sorted(seen) == sorted(issued)
    valid = (await api.as_ann.get("/credentials?status=active")).json()
    assert sorted(one["id"] for one in valid["data"]) == sorted(issued[1:])
    assert {one["connection_name"] for one in valid["data"]} == {"shop"}
