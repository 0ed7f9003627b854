"""Running runbooks over the API: who may, what is refused and how, what comes of it, and what is told of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.api.conftest import Api
from tests.support.promises import until, within
from tests.support.shelf import NAME, shelve

from postern.domain.runbook import RunbookPattern, RunbookRule
from postern.store.ports.common_ports import Topic

UNLOCK = "update users set locked = false where name = {{ .user | required `whom?` | squote }};"
LOGIN = 'login {{ .name | pattern "^[a-z]+$" }} {{ .pin | type "password" | pattern "^[0-9]{4}$" }}'
CALL = 'curl {{ .token | type "password" | asenv "API_TOKEN" }} -H "$API_TOKEN" {{ .notes | type "file" | default "" }}'
FILES = {
    "users/unlock.runbook.sql": UNLOCK,
    "login.runbook.sh": LOGIN,
    "call.runbook.sh": CALL,
    "broken.runbook.sh": "{{ .a | nothing }",
}
UNLOCK_ANN: dict[str, Any] = {
    "connection_name": "shop",
    "file_name": "users/unlock.runbook.sql",
    "parameters": {"user": "ann"},
}
LOGIN_ANN: dict[str, Any] = {
    "connection_name": "shop",
    "file_name": "/login.runbook.sh",
    "parameters": {"name": "ann", "pin": "4711"},
}

LOGIN_AT_SHELL: dict[str, Any] = {key: value for key, value in LOGIN_ANN.items() if key != "connection_name"}


@pytest.fixture
async def api(api: Api) -> Api:
    api.wait_for_no_run()
    await api.make_connection()
    await shelve(api.world.stores, api.world.org_id, FILES, at=api.world.clock())
    return api


async def run(api: Api, client: httpx.AsyncClient | None = None, **body: Any) -> httpx.Response:
    return await (client or api.as_ann).post("/runbooks/exec", json={**UNLOCK_ANN, **body})


async def session(api: Api, answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = (await api.as_admin.get(f"/sessions/{answer.json()['session_id']}")).json()
    return found


async def newest(api: Api, files: Mapping[str, str]) -> str:
    """The commit of these files, once it is the one that runs."""
    commit = await shelve(api.world.stores, api.world.org_id, files, at=api.world.clock())

    async def runs() -> bool:
        api.world.clock.forward(seconds=60)
        return (await api.services.runbook_library.shelves(api.world.org_id))[0].outline.commit == commit

    await until(runs, within(10))
    return commit


async def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["message"]


async def add_rule(api: Api, prefix: str, *groups: str) -> None:
    at = api.world.clock()
    patterns = (RunbookPattern(NAME, prefix),)
    rule = RunbookRule(
        uuid4(),
        api.world.org_id,
        f"rule {uuid4()}",
        runbooks=patterns,
        groups=frozenset(groups),
        created_at=at,
        updated_at=at,
    )
    await api.world.stores.runbook_rules.add(rule)
    await api.world.signals.publish(Topic.POLICY_CHANGED, org_id=str(api.world.org_id))


async def test_what_is_run_is_filled_in_and_says_what_it_is(api: Api) -> None:
    answer = await run(
        api,
        parameters={"user": "o'hara"},
        metadata={"ticket": "7"},
        session_batch_id="tuesday",
        correlation_id="c-1",
    )
    assert (answer.status_code, answer.json()["output_status"]) == (202, "running")
    found = await session(api, answer)
    assert found["script"]["data"] == "update users set locked = false where name = 'o''hara';"
    assert found["verb"] == "exec"
    assert (found["metadata"]["ticket"], found["correlation_id"]) == ("7", "c-1")
    assert json.loads(found["labels"].pop("runbookParameters")) == {"user": "o'hara"}
    assert len(found["labels"].pop("runbookCommit")) == 40
    assert found["labels"] == {
        "runbookRepository": NAME,
        "runbookFile": "users/unlock.runbook.sql",
        "sessionBatchId": "tuesday",
    }


async def test_it_is_found_by_any_name_of_its_repository(api: Api) -> None:
    for repository in (NAME, "https://git.example.com/team/runbooks.git", "git@git.example.com:team/runbooks", ""):
        assert (await run(api, repository=repository, file_name="/users/unlock.runbook.sql")).status_code == 202


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"connection_name": "other"}, 404, "no connection 'other'"),
        ({"file_name": "users/lock.runbook.sql"}, 404, "users/lock.runbook.sql"),
        ({"file_name": "../users/unlock.runbook.sql"}, 404, "no runbook"),
        ({"file_name": "//users/unlock.runbook.sql"}, 404, "no runbook"),
        ({"repository": "git.example.com/team/others"}, 404, "git.example.com/team/others"),
        ({"file_name": "broken.runbook.sh", "parameters": {}}, 400, "broken.runbook.sh cannot be run: line 1"),
        ({"parameters": {}}, 400, "whom?"),
        ({"parameters": {"user": "ann", "usr": "x"}}, 400, "no inputs [usr]; it has [user]"),
        ({"parameters": {"user": 7}}, 400, "parameters"),
        ({"ref_hash": "0" * 40}, 409, "is at commit"),
        ({"ref_hash": "abc"}, 409, "is at commit"),
        ({"metadata": {"k": "v" * 3_000}}, 422, "metadata: "),
        ({"session_batch_id": ""}, 422, "session_batch_id: "),
        ({"env_vars": {"envvar:PATH": "eA=="}}, 422, "env_vars: 'PATH' cannot be set"),
        ({"env_vars": {"envvar:A": "eA=="}}, 422, "for connections that have a command"),
        ({"labels": {"runbookFile": "x"}}, 400, "labels"),
    ],
)
async def test_what_does_not_fit_is_refused(api: Api, body: dict[str, Any], status: int, says: str) -> None:
    refused = await refusal(await run(api, **body))
    assert refused[0] == status
    assert says in refused[1]
    assert await api.services.sessions.waiting() == []


async def test_without_a_repository_there_is_nothing_to_run(api: Api) -> None:
    (repository,) = await api.world.stores.runbook_repositories.all(api.world.org_id)
    await api.world.stores.runbook_repositories.remove(repository)
    api.world.clock.forward(seconds=60)
    assert (await run(api)).status_code == 404


async def test_which_one_is_said_where_there_are_several(api: Api) -> None:
    address = "https://git.example.com/team/more"
    more = {"a.runbook.sql": "select 1"}
    await shelve(api.world.stores, api.world.org_id, more, address=address, at=api.world.clock())
    api.world.clock.forward(seconds=60)
    status, says = await refusal(await run(api))
    assert (status, "git.example.com/team/more" in says) == (422, True)
    one: dict[str, Any] = {"repository": "git.example.com/team/more", "file_name": "a.runbook.sql", "parameters": {}}
    assert (await run(api, **one)).status_code == 202


async def test_a_commit_that_is_no_more_the_newest_does_not_run(api: Api) -> None:
    commit = (await session(api, await run(api)))["labels"]["runbookCommit"]
    for given in (commit, commit[:7], commit.upper()):
        assert (await run(api, ref_hash=given)).status_code == 202
    newer = await newest(api, {**FILES, "x.runbook.sh": "x"})
    status, says = await refusal(await run(api, ref_hash=commit))
    assert (status, newer in says) == (409, True)


async def test_a_rule_denies_before_anything_is_told_of_the_file(api: Api) -> None:
    await add_rule(api, "login", "dba")
    there, not_there = await run(api), await run(api, file_name="users/other.runbook.sql")
    assert (there.status_code, not_there.status_code) == (403, 403)
    says = there.json()["message"].replace("unlock", "other")
    assert says == not_there.json()["message"]
    assert (await run(api, **LOGIN_ANN)).status_code == 202
    assert (await run(api, api.as_bob, **LOGIN_ANN)).status_code == 403
    assert (await run(api, api.as_admin)).status_code == 202
    assert (await api.as_ann.post("/runbooks/render", json=UNLOCK_ANN)).status_code == 403


async def test_access_modes_are_apart(api: Api) -> None:
    await api.make_connection("reports", access_mode_exec="disabled")
    await api.make_connection("console", access_mode_runbooks="disabled")
    script = {"script": "select 1"}
    assert (await run(api, connection_name="reports")).status_code == 202
    assert (await api.as_ann.post("/sessions", json={"connection": "reports", **script})).status_code == 403
    status, says = await refusal(await run(api, connection_name="console"))
    assert (status, "access mode runbooks is disabled" in says) == (403, True)
    assert (await api.as_ann.post("/sessions", json={"connection": "console", **script})).status_code == 202
    dry = await api.as_ann.post("/runbooks/render", json={**UNLOCK_ANN, "connection_name": "console"})
    assert dry.status_code == 403


async def test_a_script_cannot_carry_a_runbooks_labels(api: Api) -> None:
    body = {"connection": "shop", "script": "select 1", "labels": {"runbookFile": "users/unlock.runbook.sql"}}
    status, says = await refusal(await api.as_ann.post("/sessions", json=body))
    assert (status, "runbookFile" in says) == (422, True)


async def test_arguments_and_variables_need_the_right_to_run_scripts(api: Api) -> None:
    shell: dict[str, Any] = {"type": "custom", "subtype": "", "command": ["bash"]}
    await api.make_connection("shell", **shell)
    await api.make_connection("only-runbooks", **shell, access_mode_exec="disabled")
    for more in ({"client_args": ["-c", "id"]}, {"env_vars": {"envvar:A": "eA=="}}):
        assert (await run(api, connection_name="shell", **LOGIN_AT_SHELL, **more)).status_code == 202
        status, says = await refusal(await run(api, connection_name="only-runbooks", **LOGIN_AT_SHELL, **more))
        assert (status, "take no client_args" in says) == (403, True)
    assert (await run(api, connection_name="only-runbooks", **LOGIN_AT_SHELL)).status_code == 202


async def test_what_goes_in_variables_needs_a_command(api: Api) -> None:
    body: dict[str, Any] = {"file_name": "call.runbook.sh", "parameters": {"token": "s3cr3t"}}
    status, says = await refusal(await run(api, **body))
    assert (status, "API_TOKEN" in says, "s3cr3t" in says) == (422, True, False)
    await api.make_connection("shell", type="custom", subtype="", command=["bash"])
    both = await run(api, connection_name="shell", **body, env_vars={"envvar:API_TOKEN": "eA=="})
    assert (both.status_code, "API_TOKEN" in both.json()["message"]) == (422, True)
    secret = {"envvar:API_TOKEN": "eA=="}
    await api.make_connection("has-one", type="custom", subtype="", command=["bash"], secret=secret)
    status, says = await refusal(await run(api, connection_name="has-one", **body))
    assert (status, "a secret of connection 'has-one'" in says) == (422, True)
    answer = await run(api, connection_name="shell", **body)
    assert answer.status_code == 202
    found = await session(api, answer)
    assert "s3cr3t" not in json.dumps(found)
    claimed = await api.services.sessions.claim(UUID(found["id"]), "w1")
    assert claimed is not None
    assert {name: value.reveal() for name, value in claimed[2].environment.items()} == {"API_TOKEN": "s3cr3t"}


async def test_what_is_hidden_is_in_no_label_and_in_no_audit_entry(api: Api) -> None:
    await api.make_connection("shell", type="custom", subtype="", command=["bash"])
    body: dict[str, Any] = {"connection_name": "shell", "file_name": "call.runbook.sh"}
    given = {"token": "s3cr3t-token", "notes": "s3cr3t-notes"}
    answer = await run(api, **body, parameters=given)
    labels = (await session(api, answer))["labels"]
    assert json.loads(labels["runbookParameters"]) == {"token": "***", "notes": "***"}
    refused = await run(api, **{**LOGIN_ANN, "parameters": {"name": "ann", "pin": "s3cr3t-pin"}})
    assert (refused.status_code, "s3cr3t" in refused.text) == (400, False)
    dry = await api.as_ann.post("/runbooks/render", json={**body, "parameters": given})
    assert (dry.status_code, "s3cr3t" in dry.text) == (200, False)
    entries = (await api.as_admin.get("/audit/logs", params={"resource_type": "runbooks"})).json()["data"]
    assert sorted((entry["action"], entry["http_status"]) for entry in entries) == [
        ("exec", 202),
        ("exec", 400),
    ]
    assert "s3cr3t" not in json.dumps(entries)
    (ran,) = [entry for entry in entries if entry["http_status"] == 202]
    assert (ran["after"]["runbookFile"], ran["body"]["file_name"]) == ("call.runbook.sh", "call.runbook.sh")


async def test_long_values_are_cut_in_labels_and_not_in_what_runs(api: Api) -> None:
    many = {f"a{n:02}": "ö" * 500 for n in range(40)}
    text = " ".join(f"{{{{ .{name} }}}}" for name in many)
    await newest(api, {**FILES, "many.runbook.sql": text})
    found = await session(api, await run(api, file_name="many.runbook.sql", parameters=many))
    assert len(found["labels"]["runbookParameters"]) <= 4_000
    told = json.loads(found["labels"]["runbookParameters"])
    assert told["a00"] == "ö" * 200 + "…"
    assert found["script"]["data"].count("ö") == 40 * 500


async def test_a_dry_run_shows_what_would_run_and_runs_nothing(api: Api) -> None:
    answer = await api.as_ann.post("/runbooks/render", json={**UNLOCK_ANN, "parameters": {"user": "o'hara"}})
    told = answer.json()
    assert len(told.pop("commit")) == 40
    assert told == {
        "repository": NAME,
        "name": "/users/unlock.runbook.sql",
        "connection": "shop",
        "text": "update users set locked = false where name = 'o''hara';",
        "variables": [],
    }
    masked = await api.as_ann.post("/runbooks/render", json=LOGIN_ANN)
    assert masked.json()["text"] == "login ann ***"
    wrong = await api.as_ann.post("/runbooks/render", json={**LOGIN_ANN, "parameters": {"name": "ann", "pin": "47"}})
    assert (wrong.status_code, "pin" in wrong.json()["message"]) == (400, True)
    assert await api.services.sessions.waiting() == []


async def test_a_review_is_given_for_the_text_as_it_was_filled_in(api: Api) -> None:
    await api.make_connection("reviewed", reviewers=["admin"])
    answer = await run(api, connection_name="reviewed", reason="ticket 7")
    told = answer.json()
    assert (answer.status_code, told["output_status"], told["review"]["reason"]) == (202, "waiting", "ticket 7")
    await newest(api, {"users/unlock.runbook.sql": "drop table users"})
    decided = await api.as_admin.put(f"/reviews/{told['review']['id']}", json={"status": "APPROVED"})
    assert decided.status_code == 200
    assert (await api.as_ann.post(f"/sessions/{told['session_id']}/exec")).status_code == 202
    claimed = await api.services.sessions.claim(UUID(told["session_id"]), "w1")
    assert claimed is not None
    assert claimed[0].script == "update users set locked = false where name = 'ann';"
    assert claimed[1].runbook is not None
