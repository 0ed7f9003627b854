"""The preview of a script: its shape, who can ask, and its limits. Judgement: tests/gateway/test_script_judge.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.conftest import Api, message
from tests.support.target_tasks import SMALL, answer_target_tasks

from postern.domain.features import Feature
from postern.domain.targets.target_task import Failure, TargetTaskAnswer, TargetTaskKind
from postern.services.targets import script_previews as module

PREVIEW: dict[str, Any] = {
    "outcome": "hold",
    "messages": [{"rule": "care / four eyes", "message": "held by it", "hint": ""}],
    "held_by": ["dba", "admin"],
    "statements": [
        {
            "offset": 0,
            "length": 8,
            "tag": "SELECT",
            "effects": ["read"],
            "objects": [{"kind": "table", "schema": "public", "name": "t"}],
            "without_where": False,
            "reason": "",
            "outcome": "allow",
            "messages": [],
            "held_by": [],
        }
    ],
    "statements_truncated": False,
    "syntax_error": {"message": "syntax error", "offset": 3},
}
PATH = "/connections/shop/preview"


def answered(api: Api, answer: TargetTaskAnswer = SMALL[TargetTaskKind.PREVIEW]) -> list[Any]:
    return answer_target_tasks(api.world, api.services.target_tasks, {TargetTaskKind.PREVIEW: answer})


async def test_preview_has_the_judgement_and_no_review(api: Api) -> None:
    await api.make_connection()
    asked = answered(api, TargetTaskAnswer(PREVIEW))
    answer = await api.as_ann.post(PATH, json={"script": "select 1", "database": "d'b"})
    assert (answer.status_code, answer.json()) == (200, {**PREVIEW, "review": {"required": False, "approvers": []}})
    assert asked == [{"script": "select 1", "database": "d'b"}]


async def test_script_can_have_any_characters_and_names_cannot(api: Api) -> None:
    await api.make_connection()
    asked = answered(api)
    script = "select 'ü\u2028\U0001f600'\r\n\t-- " + "x" * 1000
    assert (await api.as_ann.post(PATH, json={"script": script})).status_code == 200
    assert asked == [{"script": script}]
    assert "database" in message(await api.as_ann.post(PATH, json={"script": "", "database": "a\nb"}), 422)


async def test_parameters_are_checked_before_a_worker_is_asked(api: Api) -> None:
    await api.make_connection()
    asked = answered(api)
    body = {"script": "select :a, :b", "parameters": {"a": "x", "b": None}}
    assert (await api.as_ann.post(PATH, json=body)).status_code == 200
    assert json.loads(asked[0]["parameters"]) == {"a": "x", "b": None}
    for parameters, reason in (({"a": 1}, "uses :b without a value"), ({"a": 1, "b": 1, "c": 1}, "does not use 'c'")):
        assert reason in message(await api.as_ann.post(PATH, json={**body, "parameters": parameters}), 422)
    assert len(asked) == 1


async def test_preview_says_which_approvals_the_script_needs_first(api: Api) -> None:
    await api.make_connection(reviewers=["dba", "ops"], force_approve_groups=["chiefs"])
    answered(api)
    review = (await api.as_ann.post(PATH, json={"script": "select 1"})).json()["review"]
    assert review == {
        "required": True,
        "approvers": [
            {
                "rule": "",
                "groups": ["dba", "ops"],
                "min_approvals": 1,
                "all_groups_must_approve": True,
                "force_approval_groups": ["chiefs"],
            }
        ],
    }


async def test_script_that_could_not_be_submitted_has_no_preview(api: Api) -> None:
    await api.make_connection(reviewers=["dba"])
    answered(api)
    await api.as_admin.put(f"/feature-flags/{Feature.REVIEWS}", json={"enabled": False})
    assert "reviews are switched off" in message(await api.as_ann.post(PATH, json={"script": "x"}), 403)
    await api.as_admin.patch("/connections/shop", json={"reviewers": [], "access_mode_exec": "disabled"})
    assert "access mode exec is disabled" in message(await api.as_ann.post(PATH, json={"script": "x"}), 403)
    await api.as_admin.patch("/connections/shop", json={"access_mode_exec": "enabled"})
    await api.as_admin.put(f"/feature-flags/{Feature.SCRIPT_RUNS}", json={"enabled": False})
    assert message(await api.as_ann.post(PATH, json={"script": "x"}), 403)


async def test_rights_are_checked_again_when_a_worker_claims(api: Api) -> None:
    await api.make_connection()
    answered(api, TargetTaskAnswer({}, failure=Failure.REFUSED, reason="access mode exec is disabled"))
    assert "exec is disabled" in message(await api.as_ann.post(PATH, json={"script": "x"}), 403)


async def test_commands_have_no_preview(api: Api) -> None:
    await api.make_connection("shell", type="custom", subtype="", command=["sh"], secret={})
    answer = await api.as_ann.post("/connections/shell/preview", json={"script": "x"})
    assert "is a command and has no preview" in message(answer, 400)


async def test_preview_is_bounded_in_size(api: Api) -> None:
    await api.make_connection()
    answered(api)
    assert (await api.as_ann.post(PATH, json={"script": "x" * 65_536})).status_code == 200
    assert "at most 65,536" in message(await api.as_ann.post(PATH, json={"script": "x" * 65_537}), 422)


async def test_preview_is_throttled_for_each_person(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.make_connection()
    answered(api)
    for _ in range(module.EACH_MINUTE):
        assert (await api.as_ann.post(PATH, json={"script": "x"})).status_code == 200
    throttled = await api.as_ann.post(PATH, json={"script": "x"})
    assert "too many previews; try again in 1 minute" in message(throttled, 429)
    assert (await api.as_admin.post(PATH, json={"script": "x"})).status_code == 200
    api.world.clock.forward(seconds=61)
    assert (await api.as_ann.post(PATH, json={"script": "x"})).status_code == 200
    monkeypatch.setattr(module, "AT_ONCE", 0)
    busy = await api.as_ann.post(PATH, json={"script": "x"})
    assert "previews of yours are running" in message(busy, 429)
    assert busy.headers["Retry-After"] == "1"


async def test_preview_leaves_no_entry_in_the_audit_log_and_no_session(api: Api) -> None:
    await api.make_connection()
    answered(api)
    before = (await api.as_admin.get("/audit/logs")).json()["total"]
    assert (await api.as_ann.post(PATH, json={"script": "select 1"})).status_code == 200
    assert (await api.as_admin.get("/audit/logs")).json()["total"] == before
    assert (await api.as_admin.get("/sessions")).json()["total"] == 0
