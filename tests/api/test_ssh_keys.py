"""SSH keys of users, host keys of targets, and what SSH clients may ask for, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Api, message
from tests.support.public_keys import ed25519_line, private_key

from postern.domain.lists import Page
from postern.store.ports.common_ports import Topic
from postern.store.ports.server_ports import AuditEntry, AuditFilter

SSH = {"type": "application", "subtype": "ssh"}


async def audited(api: Api, resource_type: str) -> list[AuditEntry]:
    """Oldest first; a test with several ticks the clock."""
    wanted = AuditFilter(resource_type=resource_type)
    found = (await api.services.audit.find(api.users["admin"], wanted, Page(100))).items
    return sorted(found, key=lambda one: one.at)


async def test_a_key_is_added_shown_and_removed(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    line = ed25519_line()
    made = await api.as_ann.post("/sshkeys", json={"name": "laptop", "public_key": f"{line} ann@laptop"})
    assert made.status_code == 201, made.text
    shown = made.json()
    assert shown["public_key"] == line
    assert (shown["algorithm"], shown["user_id"]) == ("ssh-ed25519", str(api.users["ann"].id))
    assert shown["fingerprint"].startswith("SHA256:")
    assert shown["last_used_at"] is None
    listed = {"data": [shown], "total": 1, "has_next_page": False}
    assert (await api.as_ann.get("/sshkeys")).json() == listed
    assert (await api.as_admin.get("/users/ann@example.com/sshkeys")).json() == listed
    assert (await api.as_bob.get("/sshkeys")).json()["data"] == []
    assert (await api.as_ann.delete(f"/sshkeys/{shown['id']}")).status_code == 204
    message(await api.as_ann.delete(f"/sshkeys/{shown['id']}"), 404)
    added, removed = [one for one in await audited(api, "sshkeys") if one.status < 300]
    assert (added.action, added.resource, added.before) == ("create", "laptop", None)
    assert (removed.action, removed.resource, removed.after) == ("delete", shown["id"], None)
    for noted in (added.after, removed.before):
        assert noted is not None
        assert (noted["fingerprint"], noted["name"]) == (shown["fingerprint"], "laptop")


async def test_a_private_key_is_refused_and_is_in_no_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    pasted = private_key()
    answer = await api.as_ann.post("/sshkeys", json={"name": "laptop", "public_key": pasted})
    body = pasted.splitlines()[2]
    assert "this is a private key" in message(answer, 422)
    assert body not in answer.text + caplog.text
    (entry,) = await audited(api, "sshkeys")
    assert entry.outcome == "failure"
    assert body not in repr(entry)


async def test_an_authority_is_added_shown_and_removed(api: Api) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    line = ed25519_line()
    made = await api.as_admin.post("/sshauthorities", json={"name": "people", "public_key": line + " users"})
    assert made.status_code == 201, made.text
    shown = made.json()
    assert (shown["name"], shown["public_key"]) == ("people", line)
    assert (await api.as_auditor.get("/sshauthorities")).json()["data"] == [shown]
    message(await api.as_admin.post("/sshauthorities", json={"name": "others", "public_key": line}), 409)
    assert (await api.as_admin.delete("/sshauthorities/people")).status_code == 204
    added, refused, removed = await audited(api, "sshauthorities")
    assert (added.action, refused.outcome, removed.action) == ("create", "failure", "delete")
    assert added.after is not None
    assert added.after["fingerprint"] == shown["fingerprint"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"public_key": "ssh-ed25519 AAAA"}, 400, "name: is required"),
        ({"name": "x", "public_key": "ssh-ed25519 AAAA"}, 422, "public_key: "),
        ({"name": "", "public_key": "{key}"}, 422, "name: "),
        ({"name": "x", "public_key": "{key}", "user": "bob"}, 400, "user: unknown field"),
    ],
)
async def test_what_is_wrong_is_named(api: Api, body: dict[str, str], status: int, says: str) -> None:
    given = {name: value.replace("{key}", ed25519_line()) for name, value in body.items()}
    assert says in message(await api.as_ann.post("/sshkeys", json=given), status)


async def test_a_pinned_host_key_is_shown_and_forgotten(api: Api) -> None:
    await api.make_connection("web-1", **SSH)
    connection = await api.services.connections.get(api.users["admin"], "web-1")
    empty = {"data": [], "total": 0, "has_next_page": False}
    assert (await api.as_admin.get("/connections/web-1/hostkeys")).json() == empty
    line, session = ed25519_line(), uuid4()
    await api.services.host_keys.pin(connection, line, session)
    (shown,) = (await api.as_auditor.get(f"/connections/{connection.id}/hostkeys")).json()["data"]
    assert (shown["connection_name"], shown["public_key"]) == ("web-1", line)
    assert UUID(shown["session_id"]) == session
    assert (await api.as_admin.delete("/connections/web-1/hostkeys")).status_code == 204
    assert (await api.as_admin.get("/connections/web-1/hostkeys")).json() == empty
    (entry,) = await audited(api, "connections/hostkeys")
    assert (entry.action, entry.resource) == ("delete", "web-1")
    assert entry.before == {"fingerprints": [f"ssh-ed25519 {shown['fingerprint']}"]}


async def test_what_ssh_clients_may_ask_for_is_switched_like_the_rest(api: Api) -> None:
    made = await api.make_connection("web-1", **SSH, access_forward_local="enabled", access_file_transfer="disabled")
    names = ("access_forward_local", "access_forward_remote", "access_forward_agent", "access_file_transfer")
    assert [made[name] for name in names] == ["enabled", "disabled", "disabled", "disabled"]
    before = len(api.world.signals.of(Topic.POLICY_CHANGED))
    patched = await api.as_admin.patch("/connections/web-1", json={"access_forward_agent": "enabled"})
    assert [patched.json()[name] for name in names] == ["enabled", "disabled", "enabled", "disabled"]
    assert api.world.signals.of(Topic.POLICY_CHANGED)[before:] == [
        {"connection_id": made["id"], "org_id": str(api.world.org_id)}
    ]
    put = await api.as_admin.put("/connections/web-1", json=api.connection_body("web-1", **SSH))
    assert [put.json()[name] for name in names] == ["disabled", "disabled", "disabled", "enabled"]
    refused = await api.as_admin.patch("/connections/web-1", json={"access_forward_agent": "on"})
    assert "access_forward_agent: " in message(refused, 400)
