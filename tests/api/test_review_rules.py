"""Review rules over HTTP: bodies, lists, the audit log, groups that they need, and the explanation of what they ask."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.api.conftest import Api, message

RULES = "/access-requests/rules"
WHOLE: dict[str, Any] = {
    "name": "pairs",
    "description": "why",
    "access_type": "jit",
    "connection_names": ["shop"],
    "connection_tags": {"stage": "prod"},
    "approval_required_groups": [],
    "skip_review_groups": ["on-call"],
    "reviewers_groups": ["leads", "sre"],
    "all_groups_must_approve": True,
    "min_approvals": 2,
    "force_approval_groups": ["boss"],
    "access_max_duration": 600,
}


async def make(api: Api, name: str = "pairs", **fields: Any) -> dict[str, Any]:
    body = {"name": name, "access_type": "jit_command", "reviewers_groups": ["leads"], "connection_names": ["shop"]}
    answer = await api.as_admin.post(RULES, json=body | fields)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def reviews(client: httpx.AsyncClient, user: str | None = None) -> dict[str, Any]:
    """What is said of each way in."""
    answer = await client.get("/connections/shop/access", params={"user": user} if user else {})
    assert answer.status_code == 200, answer.text
    return {one["verb"]: one for one in answer.json()["reviews"]}


async def test_a_rule_from_its_making_to_its_end(api: Api) -> None:
    shop = await api.make_connection()
    made = await make(api, **WHOLE)
    assert {name: made[name] for name in WHOLE} == WHOLE
    for key in ("pairs", made["id"]):
        for reader in (api.as_admin, api.as_auditor):
            assert (await reader.get(f"{RULES}/{key}")).json() == made
    kept = await api.as_admin.patch(f"{RULES}/pairs", json={"reviewers_groups": ["sre", "leads", "sre"]})
    assert kept.json() | {"updated_at": ""} == made | {"updated_at": ""}
    cleared = {
        "name": "none",
        "description": "",
        "access_type": "command",
        "connection_names": [shop["id"]],
        "connection_tags": {},
        "skip_review_groups": [],
        "all_groups_must_approve": False,
        "min_approvals": 1,
        "force_approval_groups": [],
        "access_max_duration": None,
        "approval_required_groups": ["interns"],
    }
    changed = (await api.as_admin.patch(f"{RULES}/{made['id']}", json=cleared)).json()
    assert {name: changed[name] for name in cleared} == cleared | {"connection_names": ["shop"]}
    again = await api.as_admin.patch(f"{RULES}/none", json={**changed, "connection_tags": {"a": "b"}})
    assert again.json()["connection_tags"] == {"a": "b"}  # an answer, edited, is a valid request
    assert (await api.as_admin.delete(f"{RULES}/none")).status_code == 204
    message(await api.as_admin.get(f"{RULES}/none"), 404)
    groups = {one["name"] for one in (await api.as_ann.get("/users/groups")).json()["data"]}
    assert {"leads", "sre", "boss", "on-call", "interns"} <= groups


async def test_what_is_left_out_means_one_person_of_anybody_for_everybody(api: Api) -> None:
    await api.make_connection()
    made = await make(api)
    assert (made["min_approvals"], made["all_groups_must_approve"], made["access_max_duration"]) == (1, False, None)
    assert made["approval_required_groups"] == made["skip_review_groups"] == made["force_approval_groups"] == []
    every = await make(api, "every", all_groups_must_approve=True, min_approvals=0)
    assert every["min_approvals"] == 1  # as elsewhere: where each group must agree, no number is needed


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"connection_names": ["shop", "shpo"]}, 422, "connection_names: there is no connection 'shpo'"),
        ({"connection_names": [str(uuid4())]}, 422, "connection_names: there is no connection '"),
        ({"connection_names": ["shop"] * 501}, 422, "connection_names: at most 500"),
        ({"connection_names": []}, 422, "connection_names: list at least one connection"),
        ({"connection_tags": {"a b": "c"}}, 422, "connection_tags: key 'a b'"),
        ({"connection_tags": {"a": 1}}, 400, "connection_tags"),
        ({"reviewers_groups": []}, 422, "reviewers_groups: must have 1 to 100"),
        ({"reviewers_groups": [f"g{number}" for number in range(101)]}, 422, "reviewers_groups: at most 100"),
        ({"reviewers_groups": [" dba"]}, 422, "reviewers_groups: ' dba'"),
        ({"reviewers_groups": ["a\u202eb"]}, 422, "reviewers_groups: 'a\\u202eb' must have printable characters"),
        ({"reviewers_groups": ["a\nb"]}, 422, "reviewers_groups: 'a\\nb'"),
        ({"reviewers_groups": "dba"}, 400, "reviewers_groups"),
        ({"force_approval_groups": ["a\u2066b"]}, 422, "force_approval_groups"),
        ({"approval_required_groups": [""]}, 422, "approval_required_groups"),
        ({"skip_review_groups": ["x" * 129]}, 422, "skip_review_groups"),
        (
            {"skip_review_groups": ["a"], "approval_required_groups": ["b"]},
            422,
            "skip_review_groups: can only be used with",
        ),
        ({"min_approvals": 0}, 422, "min_approvals: must be 1 to 20"),
        ({"min_approvals": 21}, 422, "min_approvals: must be 1 to 20"),
        ({"min_approvals": "2"}, 400, "min_approvals"),
        ({"min_approvals": True}, 400, "min_approvals"),
        ({"access_max_duration": 0}, 422, "access_max_duration: must be 1 to 172800"),
        ({"access_max_duration": 172_801}, 422, "access_max_duration: must be 1 to 172800"),
        ({"access_max_duration": 10**30}, 422, "access_max_duration"),
        ({"access_type": "everything"}, 400, "access_type"),
        ({"name": ""}, 422, "name"),
        ({"name": "a/b"}, 422, "name"),
        ({"name": "x" * 129}, 422, "name"),
        ({"name": str(uuid4())}, 422, "name: must not look like an identifier"),
        ({"description": "x" * 10_001}, 422, "description: at most"),
        ({"reviewers": ["dba"]}, 400, "reviewers"),
    ],
)
async def test_what_is_wrong_is_named_and_changes_nothing(api: Api, body: Any, status: int, says: str) -> None:
    await api.make_connection()
    given = {"name": "pairs", "access_type": "jit", "reviewers_groups": ["leads"], "connection_names": ["shop"]}
    assert says in message(await api.as_admin.post(RULES, json=given | body), status)
    before = await make(api, "other")
    assert says in message(await api.as_admin.patch(f"{RULES}/other", json=body), status)
    assert (await api.as_admin.get(RULES)).json()["data"] == [before]


@pytest.mark.parametrize("field", ["name", "access_type", "reviewers_groups"])
async def test_what_a_rule_cannot_do_without(api: Api, field: str) -> None:
    await api.make_connection()
    given = {"name": "pairs", "access_type": "jit", "reviewers_groups": ["leads"], "connection_names": ["shop"]}
    del given[field]
    assert field in message(await api.as_admin.post(RULES, json=given), 400)


async def test_a_repeated_request_makes_one_rule(api: Api) -> None:
    await api.make_connection()
    body = {"name": "pairs", "access_type": "jit", "reviewers_groups": ["leads"], "connection_names": ["shop"]}
    answers = [await api.as_admin.post(RULES, json=body, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()


async def test_access_says_who_must_agree_first(api: Api) -> None:
    await api.make_connection(reviewers=["owners"])
    await make(api, "both", reviewers_groups=["leads", "sre"], min_approvals=2, force_approval_groups=["boss"])
    await make(api, "jit", access_type="jit", approval_required_groups=["dba"], access_max_duration=600)
    own = await reviews(api.as_ann)
    connect, ran = own["connect"], own["exec"]
    assert [one["rule"] for one in connect["demands"]] == [None, "both", "jit"]
    assert [one["rule"] for one in ran["demands"]] == [None, "both"]
    assert connect["demands"][1] == {
        "rule": "both",
        "groups": ["leads", "sre"],
        "min_approvals": 2,
        "all_groups_must_approve": False,
        "force_approval_groups": ["boss"],
    }
    assert (connect["needed"], connect["access_max_duration"]) == (True, 600)
    assert (ran["needed"], ran["access_max_duration"]) == (True, None)
    assert ran["reason"] == (
        "needs a review: 1 member of the group 'owners' must approve (the connection's reviewers), and "
        "2 members of the groups 'leads' or 'sre' must approve, or force it as a member of 'boss' (rule 'both')"
    )
    assert connect["reason"].endswith("(rule 'jit'); access lasts at most 10 minutes")
    assert await reviews(api.as_auditor, "ann@example.com") == own
    other = await reviews(api.as_admin, "bob@example.com")
    assert [one["rule"] for one in other["connect"]["demands"]] == [None, "both"]  # he is in no group that it asks
    assert (await reviews(api.as_admin))["connect"]["needed"]  # administrators are no exception
    message(await api.as_bob.get("/connections/shop/access?user=ann@example.com"), 403)


async def test_access_says_that_nobody_must_agree(api: Api) -> None:
    await api.make_connection()
    for found in (await reviews(api.as_ann)).values():
        assert (found["needed"], found["demands"], found["access_max_duration"]) == (False, [], None)
        assert found["reason"] == "no approval is required"


async def test_access_says_that_reviews_are_switched_off(api: Api) -> None:
    await api.make_connection(reviewers=["owners", "sre"])
    assert (await api.as_admin.put("/feature-flags/reviews", json={"enabled": False})).status_code == 200
    found = (await reviews(api.as_ann))["exec"]
    assert found["needed"]
    assert "one member of each of the groups 'owners' and 'sre' must approve" in found["reason"]
    assert found["reason"].endswith("reviews are switched off in this organisation, so it is denied")


async def test_whom_access_is_hidden_from_learns_nothing_of_its_reviewers(api: Api) -> None:
    await api.make_connection()
    await make(api)
    assert (await api.as_admin.put("/feature-flags/access-control", json={"enabled": True})).status_code == 200
    hidden = message(await api.as_bob.get("/connections/shop/access"), 404)
    assert hidden.replace("shop", "none") == message(await api.as_bob.get("/connections/none/access"), 404)


async def test_attack_a_group_that_must_agree_is_not_deleted(api: Api) -> None:
    """Nor by a provisioning system; and its rule, or connection, is named."""
    await api.make_connection(reviewers=["owners"])
    await make(api)
    for name in ("owners", "other"):
        assert (await api.as_admin.post("/users/groups", json={"name": name})).status_code == 201
    groups = {one["name"]: one["id"] for one in (await api.as_admin.get("/users/groups")).json()["data"]}
    for name, says in (
        ("leads", "'pairs' needs the group 'leads'"),
        ("owners", "the group 'owners' reviews connection 'shop'"),
    ):
        assert says in message(await api.as_admin.delete(f"/users/groups/{name}"), 409)
        answer = await api.as_admin.delete(f"/scim/v2/Groups/{groups[name]}")
        assert (answer.status_code, says in answer.json()["detail"]) == (409, True)
    assert (await api.as_admin.delete("/users/groups/other")).status_code == 204
    assert (await reviews(api.as_ann))["exec"]["needed"]


async def test_a_renamed_group_goes_on_reviewing(api: Api) -> None:
    await api.make_connection(reviewers=["leads"], force_approve_groups=["leads"])
    await make(api)
    assert (await api.as_admin.put("/users/groups/leads", json={"name": "chiefs"})).status_code == 200
    assert (await api.as_admin.get(f"{RULES}/pairs")).json()["reviewers_groups"] == ["chiefs"]
    connection = (await api.as_admin.get("/connections/shop")).json()
    assert connection["reviewers"] == connection["force_approve_groups"] == ["chiefs"]
    assert [one["groups"] for one in (await reviews(api.as_ann))["exec"]["demands"]] == [["chiefs"], ["chiefs"]]


@pytest.mark.parametrize("field", ["reviewers", "force_approve_groups"])
async def test_the_reviewers_of_a_connection_are_names_of_groups(api: Api, field: str) -> None:
    await api.make_connection()
    for given, says in ((["a\u202eb"], "printable"), ([""], "1 to 128"), ([f"g{n}" for n in range(101)], "at most")):
        answer = await api.as_admin.patch("/connections/shop", json={field: given})
        assert f"{field}: " in message(answer, 422)
        assert says in message(answer, 422)
    answer = await api.as_admin.patch("/connections/shop", json={field: ["e\u0301quipe", "b", "\u00e9quipe"]})
    assert answer.json()[field] == ["\u00e9quipe", "b"]  # one spelling, once
