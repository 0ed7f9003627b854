"""Writes that are sent again, on both engines: one deed, one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from tests.api.conftest import Api, make_api, message
from tests.api.test_access_control import UNAUDITED

from postern.api.audited import _ACTIONS
from postern.services.server.idempotency import IdempotencyTicket, StoredAnswer
from postern.store.database import Database
from postern.store.schema.server_tables import idempotency_keys
from postern.store.schema.target_tables import connections, credentials

KEY = {"Idempotency-Key": "0d2f7c9e"}


@pytest.fixture
async def both(database: Database) -> Api:
    return await make_api(database)


async def count(api: Api, table: Any) -> int:
    async with api.world.database.statement() as connection:
        return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def test_sent_again_it_is_answered_as_before_and_not_done_again(both: Api) -> None:
    body = both.connection_body()
    first = await both.as_admin.post("/connections", json=body, headers=KEY)
    again = await both.as_admin.post("/connections", json=body, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["content-type"] == first.headers["content-type"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert await count(both, connections) == 1


async def test_a_password_that_is_shown_once_is_replayed_and_never_stored_in_clear(both: Api) -> None:
    await both.make_connection()
    first = await both.as_ann.post("/connections/shop/credentials", headers=KEY)
    again = await both.as_ann.post("/connections/shop/credentials", headers=KEY)
    assert again.json()["password"] == first.json()["password"]
    assert await count(both, credentials) == 1
    async with both.world.database.statement() as connection:
        row = (await connection.execute(select(*idempotency_keys.c))).one()
    assert first.json()["password"].encode() not in row.body
    assert KEY["Idempotency-Key"].encode() not in row.digest


async def test_a_token_in_a_header_is_replayed_from_what_is_sealed(both: Api) -> None:
    body = {"current_password": "a long enough password", "new_password": "another long password"}
    first = await both.as_bob.put("/users/self/password", json=body, headers=KEY)
    assert first.status_code == 200
    token = first.headers["Token"]
    both.as_bob.headers["Authorization"] = f"Bearer {token}"
    again = await both.as_bob.put("/users/self/password", json=body, headers=KEY)
    assert again.headers["Token"] == token
    async with both.world.database.statement() as connection:
        row = (await connection.execute(select(*idempotency_keys.c))).one()
    assert token.encode() not in row.body


async def test_the_same_key_for_another_body_or_route_is_refused(both: Api) -> None:
    await both.as_admin.post("/connections", json=both.connection_body(), headers=KEY)
    other = await both.as_admin.post("/connections", json=both.connection_body("other"), headers=KEY)
    assert message(other, 422).startswith("Idempotency-Key: ")
    assert message(await both.as_admin.delete("/connections/shop", headers=KEY), 422).startswith("Idempotency-Key: ")
    assert await count(both, connections) == 1


async def test_two_callers_with_the_same_key_do_not_meet(both: Api) -> None:
    await both.make_connection()
    of_ann = await both.as_ann.post("/connections/shop/credentials", headers=KEY)
    of_bob = await both.as_bob.post("/connections/shop/credentials", headers=KEY)
    assert of_ann.json()["username"] != of_bob.json()["username"]
    assert "Idempotency-Replayed" not in of_bob.headers


async def test_a_refusal_is_replayed_too(both: Api) -> None:
    first = await both.as_ann.post("/connections", json=both.connection_body(), headers=KEY)
    again = await both.as_ann.post("/connections", json=both.connection_body(), headers=KEY)
    assert (first.status_code, again.status_code) == (403, 403)
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_many_at_once_are_carried_out_once(both: Api) -> None:
    body = both.connection_body()
    answers = await asyncio.gather(
        *(both.as_admin.post("/connections", json=body, headers=KEY) for _ in range(12)), return_exceptions=False
    )
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {201, 409}
    done = [answer for answer in answers if answer.status_code == 201]
    assert len({answer.content for answer in done}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in done) == 1
    for answer in answers:
        if answer.status_code == 409:
            assert answer.headers["Retry-After"] == "2"
    assert await count(both, connections) == 1
    assert (await both.as_admin.post("/connections", json=body, headers=KEY)).content == done[0].content


async def test_one_that_is_under_way_is_a_conflict_until_whoever_answered_it_is_long_gone(
    both: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    create = both.services.users.create

    async def slow(*arguments: Any) -> Any:
        reached.set()
        await go_on.wait()
        return await create(*arguments)

    monkeypatch.setattr(type(both.services.users), "create", lambda _self, *arguments: slow(*arguments))
    body = {"email": "new@example.com", "name": "New", "groups": []}
    first = asyncio.create_task(both.as_admin.post("/users", json=body, headers=KEY))
    await reached.wait()
    meanwhile = await both.as_admin.post("/users", json=body, headers=KEY)
    assert "in progress" in message(meanwhile, 409)
    assert meanwhile.headers["Retry-After"] == "2"
    go_on.set()
    assert (await first).status_code == 201
    assert (await both.as_admin.post("/users", json=body, headers=KEY)).headers["Idempotency-Replayed"] == "true"


async def test_one_that_failed_inside_is_forgotten(both: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as broken:
        broken.setattr(both.services.connections, "create", fail)
        answer = await both.as_admin.post("/connections", json=both.connection_body(), headers=KEY)
        assert answer.status_code == 500
    answer = await both.as_admin.post("/connections", json=both.connection_body(), headers=KEY)
    assert (answer.status_code, "Idempotency-Replayed" in answer.headers) == (201, False)


async def test_after_a_day_the_key_is_free_and_a_lost_request_is_after_minutes(both: Api) -> None:
    await both.make_connection()
    first = await both.as_ann.post("/connections/shop/credentials", headers=KEY)
    both.world.clock.forward(hours=24, seconds=1)
    principal = both.users["ann"]
    begin = both.services.idempotency.begin
    ticket = await begin(principal, KEY["Idempotency-Key"], "POST", "/x?", b"")
    assert isinstance(ticket, IdempotencyTicket)
    both.world.clock.forward(minutes=3)
    assert isinstance(await begin(principal, KEY["Idempotency-Key"], "POST", "/x?", b""), IdempotencyTicket)
    assert first.status_code == 201


async def test_who_writes_a_lot_is_never_refused_and_only_the_oldest_answers_are_forgotten(
    both: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.store.sql.sql_idempotency.MOST", 3)
    monkeypatch.setattr("postern.store.sql.sql_idempotency.FORGOTTEN_AT_ONCE", 2)

    async def make(number: int) -> httpx.Response:
        both.world.clock.forward(seconds=1)
        body = {"name": f"group {number}"}
        return await both.as_admin.post("/users/groups", json=body, headers={"Idempotency-Key": str(number)})

    assert [(await make(number)).status_code for number in range(6)] == [201] * 6
    assert await count(both, idempotency_keys) == 2
    assert (await make(5)).headers["Idempotency-Replayed"] == "true"
    assert (await make(0)).status_code == 409  # carried out again: the name is taken


async def test_attack_keys_of_requests_under_way_are_bounded(both: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postern.store.sql.sql_idempotency.MOST", 2)
    service, admin = both.services.idempotency, both.users["admin"]
    for key in ("a", "b"):
        assert isinstance(await service.begin(admin, key, "POST", "/api/x?", b""), IdempotencyTicket)
    message(await both.as_admin.post("/users/groups", json={"name": "dbas"}, headers=KEY), 429)
    both.world.clock.forward(minutes=3)  # nobody answers those any more
    assert (await both.as_admin.post("/users/groups", json={"name": "dbas"}, headers=KEY)).status_code == 201


async def test_an_answer_too_large_to_keep_is_not_carried_out_again(both: Api) -> None:
    service, ann = both.services.idempotency, both.users["ann"]
    ticket = await service.begin(ann, "k", "POST", "/x?", b"")
    assert isinstance(ticket, IdempotencyTicket)
    await service.finish(ticket, 200, {}, b"x" * 300_000)
    kept = await service.begin(ann, "k", "POST", "/x?", b"")
    assert isinstance(kept, StoredAnswer)
    assert (kept.status, b"was carried out" in kept.body) == (409, True)


@pytest.mark.parametrize("key", ["", "two words", "x" * 256, "\x7f"])
async def test_a_key_that_is_none_is_refused(api: Api, key: str) -> None:
    answer = await api.as_admin.post("/connections", json=api.connection_body(), headers={"Idempotency-Key": key})
    assert message(answer, 422).startswith("Idempotency-Key: ")


async def test_the_header_is_declared_for_every_write_of_somebody_known(api: Api) -> None:
    for path, methods in api.app.openapi()["paths"].items():
        for method, operation in methods.items():
            if method.upper() not in _ACTIONS or not operation.get("security") or (method.upper(), path) in UNAUDITED:
                continue
            names = [one["name"] for one in operation.get("parameters", ())]
            assert names.count("Idempotency-Key") == 1, (method, path)
            assert {"409", "422", "429"} <= set(operation["responses"]), (method, path)


async def test_reads_and_open_routes_take_no_key(api: Api) -> None:
    await api.make_connection()
    for _ in range(2):
        answer: httpx.Response = await api.as_admin.get("/connections/shop", headers=KEY)
        assert (answer.status_code, "Idempotency-Replayed" in answer.headers) == (200, False)
