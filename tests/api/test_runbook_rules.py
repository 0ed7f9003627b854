"""Runbook rules over HTTP: bodies, lists, the audit log, and the groups and connections that they name."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Api, message

RULES = "/runbooks/rules"
OPS = "git.example.com/acme/ops"
LEAST: dict[str, Any] = {"runbooks": [{"repository": OPS}], "connections": [], "user_groups": []}
WHOLE: dict[str, Any] = {
    "name": "deploys",
    "description": "why",
    "runbooks": [{"repository": OPS, "name": "deploy/"}, {"repository": OPS, "name": "x"}],
    "connections": ["shop"],
    "user_groups": ["dev", "sre"],
}


async def make(api: Api, name: str = "deploys", **fields: Any) -> dict[str, Any]:
    answer = await api.as_admin.post(RULES, json={**LEAST, "name": name, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_rule_from_its_making_to_its_end(api: Api) -> None:
    shop = await api.make_connection()
    made = await make(api, **WHOLE)
    assert {name: made[name] for name in WHOLE} == WHOLE
    for key in ("deploys", made["id"]):
        for reader in (api.as_admin, api.as_auditor):
            assert (await reader.get(f"{RULES}/{key}")).json() == made
    kept = await api.as_admin.patch(f"{RULES}/deploys", json={"user_groups": ["sre", "dev", "sre"]})
    assert kept.json() | {"updated_at": ""} == made | {"updated_at": ""}
    cleared = {**LEAST, "name": "all", "description": "", "connections": [shop["id"]]}
    changed = (await api.as_admin.patch(f"{RULES}/{made['id']}", json=cleared)).json()
    assert {name: changed[name] for name in cleared} == cleared | {
        "connections": ["shop"],
        "runbooks": [{"repository": OPS, "name": ""}],
    }
    again = await api.as_admin.patch(f"{RULES}/all", json={**changed, "connections": []})
    assert (again.json()["connections"], again.json()["nowhere"]) == ([], False)  # an edited answer is a valid request
    assert (await api.as_admin.delete(f"{RULES}/all")).status_code == 204
    message(await api.as_admin.get(f"{RULES}/all"), 404)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"runbooks": []}, 422, "runbooks: must be 1 to 100"),
        ({"runbooks": [{"repository": OPS, "name": str(n)} for n in range(101)]}, 422, "runbooks: at most 100"),
        ({"runbooks": [{"repository": " "}]}, 422, "runbooks: repository: ' ' is not host/owner/repository"),
        *(
            ({"runbooks": [{"repository": f"https://{host}/ops/runbooks"}]}, 422, "runbooks: repository: 'https://")
            for host in ("[::1", "h:x", "h:65536")
        ),
        ({"runbooks": [{"repository": "x" * 513}]}, 422, "runbooks: repository"),
        ({"runbooks": [{"repository": "a\u202eb"}]}, 422, "runbooks: repository: 'a\\u202eb'"),
        ({"runbooks": [{"repository": OPS, "name": "x" * 1025}]}, 422, "runbooks: name"),
        ({"runbooks": [{"repository": OPS, "name": "a\nb"}]}, 422, "runbooks: name"),
        ({"runbooks": [{"name": "x"}]}, 400, "repository"),
        ({"runbooks": [{"repository": OPS, "path": "x"}]}, 400, "path"),
        ({"runbooks": "x"}, 400, "runbooks"),
        ({"connections": ["shop", "shpo"]}, 422, "connections: there is no connection 'shpo'"),
        ({"connections": ["shop"] * 501}, 422, "connections: at most 500; make another rule"),
        ({"user_groups": [" dev"]}, 422, "user_groups: ' dev'"),
        ({"user_groups": ["a\u2066b"]}, 422, "user_groups"),
        ({"user_groups": [f"g{number}" for number in range(101)]}, 422, "user_groups: at most 100"),
        ({"name": ""}, 422, "name"),
        ({"name": str(uuid4())}, 422, "name: must not look like an identifier"),
        ({"description": "x" * 10_001}, 422, "description: at most"),
        ({"groups": ["dev"]}, 400, "groups"),
    ],
)
async def test_what_is_wrong_is_named_and_changes_nothing(api: Api, body: Any, status: int, says: str) -> None:
    await api.make_connection()
    assert says in message(await api.as_admin.post(RULES, json={**LEAST, "name": "deploys", **body}), status)
    before = await make(api, "other")
    assert says in message(await api.as_admin.patch(f"{RULES}/other", json=body), status)
    assert (await api.as_admin.get(RULES)).json()["data"] == [before]


@pytest.mark.parametrize("field", ["name", "runbooks", "connections", "user_groups"])
async def test_what_a_rule_cannot_do_without(api: Api, field: str) -> None:
    given = {"name": "deploys", **LEAST}
    del given[field]
    assert field in message(await api.as_admin.post(RULES, json=given), 400)


async def test_attack_what_a_rule_names_does_not_go_and_leave_it_open(api: Api) -> None:
    await api.make_connection()
    await make(api, connections=["shop"], user_groups=["dev"])
    groups = {one["name"]: one["id"] for one in (await api.as_admin.get("/users/groups")).json()["data"]}
    says = "runbook rule 'deploys' needs the group 'dev'"
    assert says in message(await api.as_admin.delete("/users/groups/dev"), 409)
    answer = await api.as_admin.delete(f"/scim/v2/Groups/{groups['dev']}")
    assert (answer.status_code, says in answer.json()["detail"]) == (409, True)
    assert (await api.as_admin.delete("/connections/shop")).status_code == 204
    left = (await api.as_admin.get(f"{RULES}/deploys")).json()
    assert (left["connections"], left["nowhere"]) == ([], True)
    sent_back = message(await api.as_admin.patch(f"{RULES}/deploys", json=left), 422)
    assert "connections: all connections of this rule were deleted" in sent_back
