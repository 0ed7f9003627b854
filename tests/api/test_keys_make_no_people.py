"""An administrator's API key is a program's: it makes no administrator, and no login of a person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message
from tests.api.test_authorisation_matrix import OPEN, SCIM_GROUP, SCIM_PATCH, SCIM_USER, SSH_KEY, TABLE
from tests.support.application import routed_once

NEEDS_PERSON = re.compile(r"an API key cannot .*; log in as an administrator")
OIDC = {"issuer_url": "https://idp.example.com", "client_id": "postern", "client_secret": "x"}


@pytest.fixture
async def key(api: Api) -> httpx.AsyncClient:
    """An administrator's key; beside it users, a group and a service account without a role."""
    made = await api.as_admin.post("/api-keys", json={"name": "ci", "groups": ["admin"]})
    token = made.json()["key"]
    for path, body in (
        ("/users/groups", {"name": "crew"}),
        ("/serviceaccounts", {"subject": "robot", "status": "active", "groups": []}),
        ("/users", {"email": "former@example.com", "groups": ["admin"], "status": "inactive"}),
        ("/users", {"email": "reader@example.com", "groups": ["auditor"], "status": "invited"}),
    ):
        assert (await api.as_admin.post(path, json=body)).status_code == 201
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(api.app), base_url="http://localhost/api", headers=headers)


async def ids(api: Api) -> dict[str, str]:
    groups = (await api.as_admin.get("/users/groups")).json()["data"]
    found = {group["name"]: group["id"] for group in groups}
    for name in ("former", "reader", "bob"):
        account = await api.services.users.get(api.users["admin"], f"{name}@example.com")
        found[name] = str(account.principal.id)
    return found


def scim_user(name: str, **more: Any) -> dict[str, Any]:
    return {"schemas": [SCIM_USER], "userName": f"{name}@example.com", **more}


def members(*ids: str) -> dict[str, Any]:
    operation = {"op": "add", "path": "members", "value": [{"value": one} for one in ids]}
    return {"schemas": [SCIM_PATCH], "Operations": [operation]}


# What would make an administrator or auditor, or a way for a person to log in: method, path and body.
ONLY_PEOPLE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "organisation with a set-up link": ("POST", "/orgs", {"name": "new", "admin_email": "x@example.org"}),
    "new administrator": ("POST", "/users", {"email": "new@example.com", "groups": ["crew", "admin"]}),
    "new auditor": ("POST", "/users", {"email": "new@example.com", "groups": ["auditor"]}),
    "new user with a password": ("POST", "/users", {"email": "new@example.com", "password": PASSWORD}),
    "user to admin": ("PUT", "/users/bob@example.com", {"groups": ["admin"]}),
    "user to auditor": ("PUT", "/users/bob@example.com", {"groups": ["auditor"]}),
    "auditor to admin": ("PUT", "/users/reader@example.com", {"groups": ["auditor", "admin"]}),
    "former administrator is back": ("PATCH", "/users/former@example.com", {"status": "active"}),
    "former administrator is back without the role": ("PUT", "/users/former@example.com", {"status": "active"}),
    "former administrator is replaced and back": (
        "PUT",
        "/users/former@example.com",
        {"status": "active", "groups": ["admin"]},
    ),
    "password": ("PUT", "/users/bob@example.com", {"password": PASSWORD}),
    "set-up link": ("POST", "/users/bob@example.com/setup-link", {}),
    "second factors": ("DELETE", "/users/bob@example.com/second-factors", {}),
    "own password": ("PUT", "/users/self/password", {"current_password": PASSWORD, "new_password": PASSWORD + "2"}),
    "service account to admin": ("PUT", "/serviceaccounts/robot", {"groups": ["admin"]}),
    "new service account of admins": ("POST", "/serviceaccounts", {"subject": "new", "groups": ["admin"]}),
    "key": ("POST", "/api-keys", {"name": "new"}),
    "key gets groups": ("PATCH", "/api-keys/ci", {"groups": ["admin"]}),
    "key comes back": ("POST", "/api-keys/ci/reactivate", {}),
    "group gets the name of a role": ("POST", "/users/groups", {"name": "auditor"}),
    "group is renamed to a role": ("PUT", "/users/groups/crew", {"name": "admin"}),
    "role gets another group": ("PUT", "/orgs/self", {"admin_role_name": "crew"}),
    "role of auditors gets another group": ("PUT", "/orgs/self", {"auditor_role_name": "crew"}),
    "role by login settings": ("PUT", "/serverconfig/auth", {"auth_method": "local", "admin_role_name": "crew"}),
    "identity provider": ("PUT", "/serverconfig/auth", {"auth_method": "oidc", "oidc_config": OIDC, "confirm": True}),
    "provider kept for later": ("PUT", "/serverconfig/auth", {"auth_method": "local", "oidc_config": OIDC}),
    "where login pages lead": ("PUT", "/serverconfig/misc", {"api_url": "https://evil.example.com"}),
    "signer of SSH certificates": ("POST", "/sshauthorities", {"name": "new", "public_key": SSH_KEY}),
    "SSH key": ("POST", "/sshkeys", {"name": "new", "public_key": SSH_KEY}),
    "chat account": ("POST", "/chat/link", {}),
    "SCIM: member of admin": ("PATCH", "/scim/v2/Groups/{admin}", members("{bob}")),
    "SCIM: members of admin": (
        "PUT",
        "/scim/v2/Groups/{admin}",
        {"schemas": [SCIM_GROUP], "displayName": "admin", "members": [{"value": "{bob}"}]},
    ),
    "SCIM: member of auditor": ("PATCH", "/scim/v2/Groups/{auditor}", members("{bob}")),
    "SCIM: group becomes a role's": (
        "PUT",
        "/scim/v2/Groups/{crew}",
        {"schemas": [SCIM_GROUP], "displayName": "admin", "members": [{"value": "{bob}"}]},
    ),
    "SCIM: former administrator is back": (
        "PUT",
        "/scim/v2/Users/{former}",
        scim_user("former", active=True, emails=[{"value": "former@example.com"}]),
    ),
    "SCIM: auditor is somebody else": (
        "PUT",
        "/scim/v2/Users/{reader}",
        scim_user("mallory", active=True, emails=[{"value": "mallory@example.com"}]),
    ),
}
# What a key goes on doing.
PROGRAMS_TOO: dict[str, tuple[str, str, dict[str, Any]]] = {
    "new user": ("POST", "/users", {"email": "new@example.com", "groups": ["crew"]}),
    "group of a user": ("PUT", "/users/bob@example.com", {"groups": ["crew"]}),
    "role is taken away": ("PUT", "/users/reader@example.com", {"groups": []}),
    "administrator is shut out": ("PUT", "/users/reader@example.com", {"status": "inactive"}),
    "name of an auditor": ("PUT", "/users/reader@example.com", {"name": "Reader"}),
    "service account": ("PUT", "/serviceaccounts/robot", {"groups": ["crew"]}),
    "back to local login": ("PUT", "/serverconfig/auth", {"auth_method": "local"}),
    "name of the organisation's help": ("PUT", "/orgs/self", {"access_help": "ask ops"}),
    "SCIM: new user": ("POST", "/scim/v2/Users", scim_user("new")),
    "SCIM: member": ("PATCH", "/scim/v2/Groups/{crew}", members("{bob}")),
}


def filled(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda found: known[found[1]], value)
    if isinstance(value, list):
        return [filled(one, known) for one in value]
    return {name: filled(one, known) for name, one in value.items()} if isinstance(value, dict) else value


async def people(api: Api) -> dict[str, tuple[list[str], str]]:
    users = (await api.as_admin.get("/users")).json()["data"]
    return {user["email"]: (user["groups"], user["status"]) for user in users}


@pytest.mark.parametrize("what", ONLY_PEOPLE)
async def test_key_makes_no_administrator_and_no_login(api: Api, key: httpx.AsyncClient, what: str) -> None:
    method, path, body = ONLY_PEOPLE[what]
    known, before = await ids(api), await people(api)
    answer = await key.request(method, filled(path, known), json=filled(body, known))
    assert answer.status_code == 403, answer.text
    assert await people(api) == before


@pytest.mark.parametrize("what", PROGRAMS_TOO)
async def test_key_goes_on_with_what_makes_nobody(api: Api, key: httpx.AsyncClient, what: str) -> None:
    method, path, body = PROGRAMS_TOO[what]
    known = await ids(api)
    answer = await key.request(method, filled(path, known), json=filled(body, known))
    assert answer.status_code < 300, answer.text


@pytest.mark.parametrize(
    "what", ["organisation with a set-up link", "new administrator", "user to admin", "former administrator is back"]
)
async def test_person_does_all_of_it(api: Api, key: httpx.AsyncClient, what: str) -> None:
    method, path, body = ONLY_PEOPLE[what]
    answer = await api.as_admin.request(method, path, json=body)
    assert answer.status_code < 300, answer.text


async def test_refusal_says_what_to_do(key: httpx.AsyncClient) -> None:
    answer = await key.post("/orgs", json={"name": "new", "admin_email": "x@example.org"})
    assert NEEDS_PERSON.fullmatch(message(answer, 403))


# Every operation whose answer has a secret in it, and whether a key gets one of a person's login.
_SECRET = re.compile(r"token|^password|^secret$|setup_url|ticket|recovery_codes$|^(device_|user_)?code$|^key$")
_NO_LOGINS = {
    # Of agents, which log nobody in.
    ("POST", "/agents"),
    ("POST", "/agents/{nameOrID}/key"),
    # Of targets, by the key's own rights or a machine's.
    ("GET", "/connections"),
    ("POST", "/connections"),
    ("GET", "/connections/{nameOrID}"),
    ("PUT", "/connections/{nameOrID}"),
    ("PATCH", "/connections/{nameOrID}"),
    ("POST", "/connections/{nameOrID}/credentials"),
    ("POST", "/machineidentities"),
    ("PATCH", "/machineidentities/{nameOrID}"),
    ("PUT", "/machineidentities/{nameOrID}"),
    ("POST", "/machineidentities/{nameOrID}/credentials/{connection}/rotate"),
    # Of receivers of events.
    ("POST", "/sinks"),
    ("PATCH", "/sinks/{nameOrID}"),
    ("PUT", "/sinks/{nameOrID}"),
    ("POST", "/sinks/{nameOrID}/secret"),
    # Names, signatures and exit codes, which are no secrets.
    ("GET", "/connection-tags"),
    ("GET", "/integrations/tracker/issues"),
    ("GET", "/recordings/checkpoints"),
    ("GET", "/sessions/{session_id}/proof"),
    ("POST", "/sessions/{session_id}/proof"),
    ("POST", "/recordings/checkpoints"),
    ("POST", "/runbooks/exec"),
    ("POST", "/sessions"),
    ("GET", "/sessions/{session_id}/exec"),
    ("POST", "/sessions/{session_id}/exec"),
    # What its caller has already: a key has no cookie.
    ("GET", "/login/session"),
}


def secrets_in_answers() -> Iterator[tuple[str, str]]:
    description = routed_once().openapi()
    schemas = description["components"]["schemas"]

    def names(schema: Any, seen: set[str]) -> Iterator[str]:
        if isinstance(schema, list):
            for one in schema:
                yield from names(one, seen)
        if not isinstance(schema, dict):
            return
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            yield from names(schemas.get(name, {}), seen)
        properties = schema.get("properties", {})
        yield from properties
        for inner in (*properties.values(), *(schema.get(one) for one in ("anyOf", "oneOf", "allOf", "items"))):
            yield from names(inner, seen)

    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
            content = [one.get("schema") for answer in answers for one in answer.get("content", {}).values()]
            if any(_SECRET.search(name) for name in names(content, set())):
                yield method.upper(), path.removeprefix("/api")


def test_every_operation_that_answers_a_secret_is_refused_to_keys_or_known_to_log_nobody_in() -> None:
    """A new operation that answers a token, link or password has to be judged here."""
    found = set(secrets_in_answers())
    assert ("POST", "/orgs") in found
    for operation in sorted(found - set(OPEN) - _NO_LOGINS):
        column = TABLE[operation].split()[6]
        assert column in ("401", "403", "404", "422"), f"an administrator's key gets a secret from {operation}"
    assert not _NO_LOGINS - found
