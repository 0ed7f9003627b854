"""The routes of target tasks: what they answer, and with which status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.api.conftest import Api, message
from tests.support.target_tasks import answer_target_tasks

from postern.domain.targets.target_task import Failure, TargetTaskAnswer, TargetTaskKind


def answered(api: Api, answer: TargetTaskAnswer) -> list[Mapping[str, str]]:
    """From now on a worker answers this; what it was asked is in the list."""
    return answer_target_tasks(api.world, api.services.target_tasks, dict.fromkeys(TargetTaskKind, answer))


async def test_a_test_that_went_well(api: Api) -> None:
    await api.make_connection()
    answered(api, TargetTaskAnswer({"success": True}))
    answer = await api.as_ann.get("/connections/shop/test")
    assert (answer.status_code, answer.json()) == (200, {"success": True})


async def test_a_test_that_did_not_says_why(api: Api) -> None:
    await api.make_connection()
    answered(api, TargetTaskAnswer({}, failure=Failure.FAILED, reason="the target refused: no such role (28000)"))
    refused = await api.as_ann.get("/connections/shop/test")
    assert "no such role" in message(refused, 400)
    assert "Postern-Error" not in refused.headers


async def test_target_that_does_not_answer_is_told_apart_by_a_header(api: Api) -> None:
    await api.make_connection()
    answered(api, TargetTaskAnswer({}, failure=Failure.AWAY, reason="the target at db:5432 cannot be reached"))
    away = await api.as_ann.get("/connections/shop/test")
    assert "cannot be reached" in message(away, 400)
    assert away.headers["Postern-Error"] == "unreachable"


async def test_last_test_is_shown_and_its_reason_only_to_administrators(api: Api) -> None:
    made = await api.make_connection()
    assert (made["target_status"], made["last_test"]) == ("untested", None)
    answered(api, TargetTaskAnswer({}, failure=Failure.AWAY, reason="the target at db:5432 cannot be reached"))
    await api.as_ann.get("/connections/shop/test")
    for caller, reason in ((api.as_admin, "the target at db:5432 cannot be reached"), (api.as_ann, None)):
        shown = (await caller.get("/connections/shop")).json()
        assert shown["target_status"] == "failed"
        assert (shown["last_test"]["status"], shown["last_test"]["reason"]) == ("failed", reason)
        assert (await caller.get("/connections")).json()["data"] == [shown | {"access": None, "activity": None}]


@pytest.mark.parametrize(
    ("path", "result", "given"),
    [
        ("databases", {"databases": ["a"]}, {}),
        (
            "tables?database=d%27b&schema=s",
            {"schemas": [{"name": "s", "tables": []}]},
            {"database": "d'b", "schema": "s"},
        ),
        ("columns?table=t", {"columns": [{"name": "a", "type": "text", "nullable": True}]}, {"table": "t"}),
    ],
)
async def test_the_shapes(api: Api, path: str, result: dict[str, Any], given: dict[str, str]) -> None:
    await api.make_connection()
    asked = answered(api, TargetTaskAnswer(result, truncated=True))
    answer = await api.as_ann.get(f"/connections/shop/{path}")
    assert (answer.status_code, answer.json()) == (200, {**result, "truncated": True})
    assert asked == [given]


async def test_names_that_cannot_be(api: Api) -> None:
    await api.make_connection()
    assert "table" in message(await api.as_ann.get("/connections/shop/columns?table=a%0Ab"), 422)
    assert "schema" in message(await api.as_ann.get("/connections/shop/tables?schema="), 422)
    assert "table" in message(await api.as_ann.get("/connections/shop/columns"), 422)


async def test_what_is_not_there(api: Api) -> None:
    assert "no connection" in message(await api.as_ann.get("/connections/nothing/test"), 404)
    await api.make_connection()
    answered(api, TargetTaskAnswer({}, failure=Failure.MISSING, reason="there is no such table"))
    assert "no such table" in message(await api.as_ann.get("/connections/shop/columns?table=t"), 404)


async def test_a_schema_that_is_switched_off(api: Api) -> None:
    await api.make_connection(access_schema="disabled")
    for path in ("databases", "tables", "columns?table=t", "schema"):
        assert "access_schema is disabled" in message(await api.as_admin.get(f"/connections/shop/{path}"), 403)


async def test_target_tasks_leave_no_entry_in_the_audit_log_and_no_session(api: Api) -> None:
    await api.make_connection()
    answered(api, TargetTaskAnswer({"success": True}))
    before = (await api.as_admin.get("/audit/logs")).json()["total"]
    assert (await api.as_ann.get("/connections/shop/test")).status_code == 200
    assert (await api.as_admin.get("/audit/logs")).json()["total"] == before
    assert (await api.as_admin.get("/sessions")).json()["total"] == 0


WHOLE: dict[str, Any] = {
    "database": "shop",
    "databases": ["shop"],
    "schemas": [
        {
            "name": "public",
            "tables": [
                {"name": "v", "kind": "view", "columns": [{"name": "größe", "type": "text", "nullable": True}]},
            ],
        }
    ],
}


async def test_whole_schema_is_cached_and_answered_with_304_while_unchanged(api: Api) -> None:
    await api.make_connection()
    asked = answered(api, TargetTaskAnswer(WHOLE))
    first = await api.as_ann.get("/connections/shop/schema?database=shop")
    assert (first.status_code, first.json()) == (200, {**WHOLE, "truncated": False})
    assert first.headers["Cache-Control"] == "private, no-cache"
    tag = first.headers["ETag"]
    again = await api.as_ann.get("/connections/shop/schema?database=shop", headers={"If-None-Match": f'"x", W/{tag}'})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert asked == [{"database": "shop"}]
    fresh = await api.as_ann.get("/connections/shop/schema?database=shop&fresh=true", headers={"If-None-Match": tag})
    assert (fresh.status_code, len(asked)) == (304, 2)
    api.world.clock.forward(seconds=31)
    await api.as_ann.get("/connections/shop/schema?database=shop")
    assert len(asked) == 3
    await api.as_ann.get("/connections/shop/schema")
    assert asked[3:] == [{}]


async def test_changed_schema_has_a_different_etag(api: Api) -> None:
    await api.make_connection()
    answered(api, TargetTaskAnswer(WHOLE, truncated=True))
    first = await api.as_ann.get("/connections/shop/schema")
    assert first.json()["truncated"] is True
    other = await api.as_ann.get("/connections/shop/schema", headers={"If-None-Match": '"an older one"'})
    assert (other.status_code, other.headers["ETag"]) == (200, first.headers["ETag"])


async def test_cached_schema_is_not_given_to_users_who_lost_access_or_after_a_change(api: Api) -> None:
    await api.make_connection()
    asked = answered(api, TargetTaskAnswer(WHOLE))
    assert (await api.as_ann.get("/connections/shop/schema")).status_code == 200
    api.world.clock.forward(seconds=1)
    changed = await api.as_admin.patch("/connections/shop", json={"connection_tags": {"env": "test"}})
    assert changed.status_code == 200
    assert (await api.as_ann.get("/connections/shop/schema")).status_code == 200
    assert len(asked) == 2
    api.world.clock.forward(seconds=1)
    await api.as_admin.patch("/connections/shop", json={"access_schema": "disabled"})
    assert "access_schema is disabled" in message(await api.as_ann.get("/connections/shop/schema"), 403)
