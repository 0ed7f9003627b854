"""A change of a group is a change of all that names the group: whoever has read one of those before, and writes it now,
must not undo the change unseen. On both engines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from tests.api.conftest import Api, make_api, message

from postern.store.database import Database

USER, SERVICE, KEY = "/users/ann@example.com", "/serviceaccounts/deployer", "/api-keys/ci"
GROUP = "/users/groups"
SCIM = "/scim/v2/Groups"


@pytest.fixture
async def api(database: Database) -> Api:
    """The user ann, the service account deployer and the key ci are in the group dba. SCIM has put ann in crew."""
    api = await make_api(database)
    for path, key in (("/serviceaccounts", {"subject": "deployer"}), ("/api-keys", {"name": "ci"})):
        answer = await api.as_admin.post(path, json={**key, "groups": ["dba"]})
        assert answer.status_code == 201, answer.text
    body = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "crew"}
    made = await api.as_admin.post(SCIM, json=body | {"members": [{"value": str(api.users["ann"].id)}]})
    assert made.status_code == 201, made.text
    return api


async def group_id(api: Api, name: str) -> str:
    rows = (await api.as_admin.get(GROUP)).json()["data"]
    return str(next(row["id"] for row in rows if row["name"] == name))


async def rename(api: Api) -> httpx.Response:
    return await api.as_admin.put(f"{GROUP}/dba", json={"name": "data"})


async def delete(api: Api) -> httpx.Response:
    return await api.as_admin.delete(f"{GROUP}/dba")


async def provision(api: Api, deed: str, name: str) -> httpx.Response:
    member = {"value": str(api.users["ann"].id)}
    operation: dict[str, Any] = {"op": deed, "path": "members", "value": [member]}
    body = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [operation]}
    return await api.as_admin.patch(f"{SCIM}/{await group_id(api, name)}", json=body)


async def add_by_scim(api: Api) -> httpx.Response:
    return await provision(api, "add", "dba")


async def remove_by_scim(api: Api) -> httpx.Response:
    return await provision(api, "remove", "crew")


async def give_a_role(api: Api) -> httpx.Response:
    """Members of the auditors' group become members of the new one."""
    return await api.as_admin.put("/orgs/self", json={"auditor_role_name": "watchers"})


CHANGES: dict[str, tuple[str, Callable[[Api], Awaitable[httpx.Response]]]] = {
    **{f"renamed, {path}": (path, rename) for path in (USER, SERVICE, KEY)},
    **{f"deleted, {path}": (path, delete) for path in (USER, SERVICE, KEY)},
    "member added by SCIM": (USER, add_by_scim),
    "member removed by SCIM": (USER, remove_by_scim),
    "role moved": ("/users/auditor@example.com", give_a_role),
}


@pytest.mark.parametrize("which", CHANGES)
async def test_who_read_a_member_before_does_not_undo_the_change_of_its_group(api: Api, which: str) -> None:
    path, change = CHANGES[which]
    read = await api.as_admin.get(path)
    answer = await change(api)
    assert answer.status_code in (200, 204), answer.text
    changed = (await api.as_admin.get(path)).json()
    body = {"groups": read.json()["groups"]}
    stale = await api.as_admin.patch(path, json=body, headers={"If-Match": read.headers["ETag"]})
    assert "read it again" in message(stale, 412)
    assert (await api.as_admin.get(path)).json() == changed
