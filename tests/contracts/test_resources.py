"""What holds for every named resource: a table of kinds × names, versions, lists and simultaneous changes, through the
API, on both engines. A new kind of resource is a new row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.api.conftest import Api, make_api, message
from tests.support.public_keys import ed25519_line
from tests.support.shelf import shelve

from postern.domain.identity.organisation import Organisation
from postern.domain.targets.agent import Agent, AgentMode
from postern.errors import NotFound
from postern.services.bundle import Services
from postern.services.named_resources import ResourceService
from postern.store.database import Database

IDENTIFIER = "0d5b6a58-0f2b-4b4e-9a3c-0d2a5e3f7c11"
AGENT = "9a0e6bd2-51b2-4a3e-8a55-6f0e4b0e7d10"
MODES = {f"access_{name}": "enabled" for name in ("mode_connect", "mode_exec", "mode_runbooks", "schema")}
TEXT = {"rules": [{"type": "deny_words_list", "words": ["drop"]}]}
GUARDRAIL = {"input": TEXT, "description": "why", "enabled": False}
EMAILS = [{"name": "PEOPLE", "entity_types": ["EMAIL_ADDRESS"]}]
PROMPTS = {
    "items": [{"tracker_field": "f1", "label": "Why", "field_type": "text", "required": True, "description": ""}]
}
FEDERATION = {
    "service_account": "robot",
    "issuer_url": "https://id.example.com",
    "audience": "https://gateway.example.com",
    "claims": {"sub": ["system:serviceaccount:ci:deploy"]},
}
BOOKS = [{"repository": "git.example.com/acme/ops", "name": "deploy/"}]


@dataclass(frozen=True)
class Kind:
    """`required` is what a request must have beside its name, and `unique` what no two may have in common; `optional`
    fields are not as they are at first; `change` is one of a single field. `accepts` are names of the table below that
    its own grammar allows, and `once` fields that only answers to writes have; `once_deleted` is the answer about one
    that was deleted. `everybody_reads`: not only administrators and auditors can read them; `hides`: others are
    answered that there is none. `has_owners`: who may change one depends on whose it is. `before` makes what a request
    refers to. `key` is the field that one is addressed by; `spelt` makes its value of a name, and `can_be_renamed` says
    that it can change. `address`: a name is made of this and the rest of a `git_url`, and stays. `renewal`: no field
    can change, and what is at this path below it gives it a version."""

    path: str
    service: Callable[[Services], ResourceService[Any]]
    required: Mapping[str, Any]
    optional: Mapping[str, Any]
    unique: Callable[[], Mapping[str, Any]] = dict
    change: Mapping[str, Any] = field(default_factory=lambda: {"description": "other"})
    accepts: Sequence[str] = ()
    once: frozenset[str] = frozenset()
    once_deleted: int = 404
    everybody_reads: bool = False
    has_owners: bool = False
    before: Callable[[Api], Awaitable[None]] | None = None
    address: str = ""
    key: str = "name"
    spelt: Callable[[str], str] = str
    can_be_renamed: bool = True
    hides: bool = False
    renewal: str = ""

    def named(self, value: str) -> dict[str, str]:
        """Return the fields of a request that give this name."""
        return {"git_url": f"https://{self.address}{value}"} if self.address else {self.key: value}

    def new(self, value: str) -> dict[str, Any]:
        """Return the body of a request that makes one of this name."""
        return {**self.named(value), **self.required, **self.unique()}

    def shown_as(self, name: str) -> str:
        """Return what answers call the one that was made with this name."""
        return f"{self.address}{self.spelt(name)}"

    def renamed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a change of the name, if it can change, and what answers have of it then. Of an account that is the
        name that people see; of others that keep their name, another field."""
        if self.address:
            return self.named("first-one"), {}
        if self.key == "name" and not self.can_be_renamed:
            return dict(self.change), dict(self.change)
        return {"name": "renamed"}, {"name": "renamed"}

    def replacement(self, shown: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return the body of a PUT that gives what is required."""
        fixed = {field: shown[field] for field in self.unique()}
        return {**self.named(self.spelt(name)), **self.required, **fixed}


async def make_agent(api: Api) -> None:
    now = api.world.clock()
    await api.world.stores.agents.add(Agent(UUID(AGENT), api.world.org_id, "of-all", AgentMode.GATEWAY, now, now))


async def make_robot(api: Api) -> None:
    answer = await api.as_admin.post("/serviceaccounts", json={"subject": "robot"})
    assert answer.status_code == 201, answer.text


async def make_runbook(api: Api) -> None:
    await api.make_connection()
    await shelve(api.world.stores, api.world.org_id, {"a.runbook.sql": "select 1"}, at=api.world.clock())


KINDS = {
    "agent": Kind(
        "/agents",
        lambda made: made.agent_keys,
        {},
        {"mode": "embedded"},
        once=frozenset({"key"}),
        everybody_reads=True,
        can_be_renamed=False,
        renewal="key",
    ),
    "guardrail": Kind("/guardrails", lambda made: made.guardrails, {}, GUARDRAIL),
    "masking rule": Kind(
        "/datamasking-rules",
        lambda made: made.masking_rules,
        {"supported_entity_types": EMAILS},
        {"columns": ["email"], "description": "why"},
    ),
    "access rule": Kind(
        "/access-rules",
        lambda made: made.access_rules,
        {"groups": ["dev"]},
        {"connection_tags": {"team": "data"}, "description": "why"},
    ),
    "network rule": Kind(
        "/network-rules",
        lambda made: made.network_rules,
        {"allowed_networks": ["192.0.2.0/24"], "groups": ["dev"]},
        {"connection_tags": {"team": "data"}, "description": "why", "enabled": False},
    ),
    "review rule": Kind(
        "/access-requests/rules",
        lambda made: made.review_rules,
        {"access_type": "jit", "reviewers_groups": ["dba"], "connection_tags": {"team": "data"}},
        {"access_max_duration": 60, "description": "why"},
    ),
    "runbook rule": Kind(
        "/runbooks/rules",
        lambda made: made.runbook_rules,
        {"runbooks": BOOKS, "connections": [], "user_groups": ["dev"]},
        {"description": "why"},
    ),
    "SSH authority": Kind(
        "/sshauthorities",
        lambda made: made.ssh_authorities,
        {},
        {},
        unique=lambda: {"public_key": ed25519_line()},
        change={"name": "other"},
    ),
    "sink": Kind(
        "/sinks",
        lambda made: made.sinks,
        {"kind": "otlp", "address": "https://siem.example.com/", "events": ["session.close"]},
        {"with_script": True},
        change={"with_script": True},
        once=frozenset({"secret"}),
        accepts=[" x", "x ", "a/b", IDENTIFIER, ".."],
    ),
    "issue template": Kind(
        "/integrations/tracker/issuetemplates",
        lambda made: made.issue_templates,
        {"project_key": "OPS", "request_type_id": "10"},
        {"issue_transition_name_on_close": "Closed", "prompt_types": PROMPTS, "description": "why"},
        everybody_reads=True,
    ),
    "API key": Kind(
        "/api-keys",
        lambda made: made.api_keys,
        {},
        {"groups": ["dba"]},
        change={"allowed_networks": ["192.0.2.0/24"]},
        accepts=[IDENTIFIER],
        once=frozenset({"key"}),
        once_deleted=200,  # revoked
    ),
    "federation rule": Kind(
        "/federation-rules",
        lambda made: made.federation_rules,
        FEDERATION,
        {
            "algorithms": ["ES256"],
            "jwks": {"keys": [{"kty": "EC"}]},
            "login_duration_seconds": 60,
            "allow_reuse": True,
            "description": "why",
        },
        before=make_robot,
    ),
    "connection": Kind(
        "/connections",
        lambda made: made.connections,
        {"type": "database", "subtype": "postgres", "agent_id": AGENT, **MODES},
        {"connection_tags": {"team": "data"}, "access_max_duration": 60},
        change={"reviewers": ["dba"]},
        everybody_reads=True,
        can_be_renamed=False,  # clients log in by it
        before=make_agent,
    ),
    "machine identity": Kind(
        "/machineidentities",
        lambda made: made.machines,
        {},
        {"attributes": {"team": "data"}, "description": "why"},
        once=frozenset({"credentials", "new_credentials"}),
        can_be_renamed=False,
    ),
    "service account": Kind(
        "/serviceaccounts",
        lambda made: made.service_accounts,
        {},
        {"groups": ["dba"]},
        change={"groups": ["dba"]},
        accepts=["x" * 129],
        key="subject",
        spelt=lambda name: name.replace(" ", "-"),
        can_be_renamed=False,
    ),
    "group": Kind(
        "/users/groups",
        lambda made: made.groups,
        {},
        {},
        change={"name": "other"},
        accepts=["a/b", IDENTIFIER, "..", "\u202eabc"],
        everybody_reads=True,
    ),
    "user": Kind(
        "/users",
        lambda made: made.users,
        {},
        {"groups": ["dba"]},
        change={"status": "inactive"},
        everybody_reads=True,
        hides=True,
        key="email",
        spelt=lambda name: name.replace(" ", "-") + "@example.com",
        can_be_renamed=False,
    ),
    "schedule": Kind(
        "/runbooks/schedules",
        lambda made: made.runbook_schedules,
        {"connection_name": "shop", "file_name": "/a.runbook.sql", "cron": "0 3 * * *"},
        {"timezone": "Africa/Abidjan"},  # whose clocks show UTC, so that the next run stays
        change={"cron": "1 1 * * *"},
        has_owners=True,
        before=make_runbook,
    ),
    "repository": Kind(
        "/runbooks/configurations",
        lambda made: made.runbook_repositories,
        {},
        {"git_branch": "next", "git_user": "me", "git_hook_ttl": 60},
        change={"git_branch": "other"},
        address="git.example.com/",
        can_be_renamed=False,
    ),
}

# For what both engines are asked in the same words, or not at all.
ON_ONE_ENGINE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
async def api(database: Database, kind: Kind) -> Api:
    api = await make_api(database)
    if kind.before is not None:
        await kind.before(api)
    return api


def refused(answer: httpx.Response, status: int, text: str) -> None:
    assert text in message(answer, status)


async def create(api: Api, kind: Kind, name: str = "first-one", **more: Any) -> httpx.Response:
    return await api.as_admin.post(kind.path, json=kind.new(name) | more)


async def made(api: Api, kind: Kind, name: str = "first-one", **more: Any) -> dict[str, Any]:
    answer = await create(api, kind, kind.spelt(name), **more)
    assert answer.status_code == 201, answer.text
    return body(kind, answer)


async def change(
    client: httpx.AsyncClient, kind: Kind, path: str, fields: Mapping[str, Any], **headers: str
) -> httpx.Response:
    if kind.renewal:
        return await client.post(f"{path}/{kind.renewal}", headers=headers)
    return await client.patch(path, json=fields, headers=headers)


def body(kind: Kind, answer: httpx.Response) -> dict[str, Any]:
    """Return what an answer has of the resource, without secrets that are shown once."""
    return {name: value for name, value in answer.json().items() if name not in kind.once}


async def test_resource_is_found_by_name_and_by_identifier(api: Api, kind: Kind) -> None:
    shown = await made(api, kind, **kind.optional)
    assert shown[kind.key] == kind.shown_as("first-one")
    for key in (shown[kind.key], shown["id"]):
        for client in (api.as_admin, api.as_auditor):
            answer = await client.get(f"{kind.path}/{key}")
            assert (answer.status_code, answer.json()) == (200, shown)
    for name, value in kind.optional.items():
        assert shown[name] == value or name == "input"
    message(await api.as_admin.get(f"{kind.path}/{uuid4()}"), 404)


async def test_list_is_by_name_in_pages_and_can_be_narrowed_to_a_name(api: Api, kind: Kind) -> None:
    there = [one[kind.key] for one in (await api.as_auditor.get(kind.path)).json()["data"]]
    added = [(await made(api, kind, name))[kind.key] for name in ("bbb", "aaa", "ccc")]
    names = sorted(there + added)
    page = (await api.as_auditor.get(kind.path, params={"limit": len(names) - 2, "offset": 1})).json()
    shown = [one[kind.key] for one in page["data"]]
    assert (shown, page["total"], page["has_next_page"]) == (names[1:-1], len(names), True)
    for query in ({"offset": len(names) - 1}, {"name": added[1]}):
        last = (await api.as_auditor.get(kind.path, params=query)).json()
        assert (len(last["data"]), last["has_next_page"]) == (1, False)
    assert ([one[kind.key] for one in last["data"]], last["total"]) == ([added[1]], 1)
    for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"offset": -1}):
        message(await api.as_admin.get(kind.path, params=wrong), 422)


async def test_list_can_be_searched_for_a_part_of_the_name(api: Api, kind: Kind) -> None:
    if kind.address:  # their list is short, and has no search
        return
    found = [(await made(api, kind, name))[kind.key] for name in ("finance-eu", "finance-us", "other-one")][:2]
    page = (await api.as_auditor.get(kind.path, params={"search": "FINANCE-", "limit": 1})).json()
    assert (page["data"][0][kind.key], page["total"], page["has_next_page"]) == (found[0], 2, True)
    for nothing in ("finance%", "finance_eu"):  # a name with a wildcard in it is only a name
        assert (await api.as_auditor.get(kind.path, params={"search": nothing})).json()["total"] == 0


async def test_name_is_taken_once(api: Api, kind: Kind) -> None:
    first, second = await made(api, kind, "first-one"), await made(api, kind, "second-one")
    refused(await create(api, kind, kind.spelt("first-one")), 409, "exists already")
    if kind.address or kind.can_be_renamed:
        changed = await api.as_admin.patch(f"{kind.path}/{second['id']}", json=kind.named("first-one"))
        assert changed.status_code == (400 if kind.address else 409)
    if kind.can_be_renamed:
        whole = kind.replacement(second, "first-one")
        refused(await api.as_admin.put(f"{kind.path}/{second['id']}", json=whole), 409, "exists already")
    assert (await api.as_admin.get(f"{kind.path}/{first[kind.key]}")).json() == first


@ON_ONE_ENGINE
@pytest.mark.parametrize("kind", [name for name in KINDS if not KINDS[name].address], indirect=True)
async def test_name_that_could_be_mistaken_is_refused(api: Api, kind: Kind) -> None:
    for name in ("", " x", "x ", "a/b", "a\nb", "x" * 129, IDENTIFIER, "..", "\u202eabc"):
        answer = await create(api, kind, name)
        if name in kind.accepts:
            assert (answer.status_code, answer.json()[kind.key]) == (201, name), repr(name)
        else:
            refused(answer, 422, kind.key)


@pytest.mark.parametrize("kind", [name for name in KINDS if not KINDS[name].renewal], indirect=True)
async def test_put_replaces_and_patch_merges(api: Api, kind: Kind) -> None:
    shown, bare = await made(api, kind, **kind.optional), await made(api, kind, "bare")
    path, (fields, changed) = f"{kind.path}/{shown['id']}", kind.renamed()
    patched = body(kind, await api.as_admin.patch(path, json=fields))
    assert patched == shown | changed | changed_at(patched)
    name = "renamed" if kind.can_be_renamed else "first-one"
    put = body(kind, await api.as_admin.put(path, json=kind.replacement(shown, name)))
    fixed = {name: shown[name] for name in shown if name not in kind.optional}
    assert put == bare | fixed | (changed if kind.can_be_renamed else {}) | changed_at(put)


@pytest.mark.parametrize("kind", [name for name in KINDS if not KINDS[name].renewal], indirect=True)
async def test_change_that_changes_nothing_is_not_written(api: Api, kind: Kind) -> None:
    shown = await made(api, kind, **kind.optional)
    path = f"{kind.path}/{shown['id']}"
    before = await api.as_admin.get(path)
    api.world.clock.now += timedelta(seconds=1)
    again = await api.as_admin.patch(path, json=kind.optional)
    assert (again.status_code, again.headers["ETag"]) == (200, before.headers["ETag"]), again.text
    assert (await api.as_admin.get(path)).json() == before.json()


@pytest.mark.parametrize("kind", [name for name in KINDS if not KINDS[name].renewal], indirect=True)
async def test_administrators_say_what_manages_it_and_replacements_keep_that(api: Api, kind: Kind) -> None:
    shown = await made(api, kind, managed_by="team/a")
    path = f"{kind.path}/{shown['id']}"
    assert shown["managed_by"] == "team/a"
    put = await api.as_admin.put(path, json=kind.replacement(shown, "first-one"))
    assert body(kind, put)["managed_by"] == "team/a"
    refused(await api.as_admin.patch(path, json={"managed_by": "a b"}), 422, "managed_by")
    assert (await api.as_admin.patch(path, json={"managed_by": "agent:x"})).json()["managed_by"] == "team/a"
    assert (await api.as_admin.patch(path, json={"managed_by": ""})).json()["managed_by"] is None
    listed = (await api.as_admin.get(kind.path)).json()["data"]
    assert next(one for one in listed if one["id"] == shown["id"])["managed_by"] is None


def changed_at(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ("updated_at",) if name in shown}


async def test_each_change_has_a_version_and_an_older_one_is_refused(api: Api, kind: Kind) -> None:
    shown = await made(api, kind)
    path, fields, admin = f"{kind.path}/{shown['id']}", kind.change, api.as_admin
    first = {"If-Match": (await admin.get(path)).headers["ETag"]}
    second = await change(admin, kind, path, fields, **first)
    assert (second.status_code, second.headers["ETag"] != first["If-Match"]) == (200, True)
    refused(await change(admin, kind, path, fields, **first), 412, "read it again")
    refused(await admin.delete(path, headers=first), 412, "read it again")
    if not kind.renewal:
        whole = kind.replacement(shown, "first-one")
        refused(await admin.put(path, json=whole, headers=first), 412, "read it again")
    assert (await api.as_admin.get(path)).json() == body(kind, second)
    refused(await change(admin, kind, path, fields, **{"If-Match": "x"}), 422, "If-Match")
    assert (await api.as_admin.delete(path, headers={"If-Match": second.headers["ETag"]})).status_code == 204
    assert (await api.as_admin.get(path)).status_code == kind.once_deleted


async def test_of_two_simultaneous_changes_one_is_refused(
    api: Api, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the resource before either is written."""
    shown, service, both = await made(api, kind), kind.service(api.services), asyncio.Barrier(2)
    write = service.write

    async def meet(before: Any, after: Any) -> Any:
        await both.wait()
        return await write(before, after)

    monkeypatch.setattr(service, "write", meet)
    path = f"{kind.path}/{shown['id']}"
    other = {"git_user": "you"} if kind.address else kind.renamed()[0]
    one, two = await asyncio.gather(
        change(api.as_admin, kind, path, kind.change), change(api.as_admin, kind, path, other)
    )
    winner, loser = sorted((one, two), key=lambda answer: answer.status_code)
    assert winner.status_code == 200
    refused(loser, 409, "changed by another request")
    assert (await api.as_admin.get(path)).json() == body(kind, winner)


@pytest.mark.parametrize("kind", [name for name in KINDS if not KINDS[name].has_owners], indirect=True)
async def test_only_administrators_change_and_auditors_read(api: Api, kind: Kind) -> None:
    shown = await made(api, kind)
    path = f"{kind.path}/{shown['id']}"
    for client in (api.as_auditor, api.as_ann):
        message(await client.post(kind.path, json=kind.new(kind.spelt("other"))), 403)
        message(await change(client, kind, path, {"name": "other"}), 403)
        if not kind.renewal:
            message(await client.put(path, json=kind.replacement(shown, "other")), 403)
        message(await client.delete(path), 403)
    one, them = [(await api.as_ann.get(read)).status_code for read in (path, kind.path)]
    assert (one, them) == ((404 if kind.hides else 200, 200) if kind.everybody_reads else (403, 403))


@ON_ONE_ENGINE
async def test_writes_are_in_the_audit_log_with_what_was_before_and_after(api: Api, kind: Kind) -> None:
    api.world.clock.tick = timedelta(milliseconds=1)
    shown = await made(api, kind)
    path = f"{kind.path}/{shown['id']}"
    assert (await change(api.as_admin, kind, path, kind.change)).status_code == 200
    assert (await api.as_ann.delete(path)).status_code in (403, 404)
    assert (await api.as_admin.delete(path)).status_code == 204
    log = await api.as_auditor.get("/audit/logs", params={"resource_type": kind.path.strip("/")})
    deleted, refused, updated, created = log.json()["data"]
    assert [(one["action"], one["outcome"]) for one in (deleted, refused, updated, created)] == [
        ("delete", "success"),
        ("delete", "failure"),
        (f"renew-{kind.renewal}" if kind.renewal else "update", "success"),
        ("create", "success"),
    ]
    assert created["before"] is None
    assert created["after"].get("id", shown["id"]) == shown["id"]
    assert updated["before"] == created["after"]
    assert kind.renewal or updated["after"] != created["after"]  # what a renewal changes is secret
    assert deleted["before"] == updated["after"]
    assert (deleted["after"] is None) == (kind.once_deleted == 404)


@ON_ONE_ENGINE
async def test_another_organisation_finds_and_changes_none_of_them(api: Api, kind: Kind) -> None:
    shown, service, stores = await made(api, kind), kind.service(api.services), api.world.stores
    before = (await api.as_admin.get(f"{kind.path}/{shown['id']}")).json()
    other = Organisation(uuid4(), "elsewhere", api.world.clock())
    await stores.organisations.add(other)
    stranger = replace(api.users["admin"], id=uuid4(), org_id=other.id)
    for key in (shown[kind.key], shown["id"]):
        for deed in (
            service.get(stranger, key),
            service.update(stranger, key, {}),
            service.remove(stranger, key),
        ):
            with pytest.raises(NotFound):
                await deed
    assert (await api.as_admin.get(f"{kind.path}/{shown['id']}")).json() == before
