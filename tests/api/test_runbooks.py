"""Runbooks over the API: the list of who may run them, and the repositories that they are read from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.conftest import Api
from tests.api.test_access_rules import switch_on
from tests.support.runbooks import NAME, URL, snapshot_of

from postern.api.schemas.runbooks.runbook_schemas import RunbookListV2
from postern.domain.runbook import RunbookFile, Snapshot, repository_id
from postern.errors import Unavailable

CONFIGURATIONS = "/runbooks/configurations"
OTHER, OTHER_NAME = "https://git.example.com/other", "git.example.com/other"
HELLO = 'echo {{ .name | type "select" | options "ann" "bob" | default "ann" | description "who" }}'
FILES = {"ops/hello.runbook.sh": HELLO, "sql/one.runbook.sql": 'select {{ .id | required "say which" }}'}


@pytest.fixture
async def books(api: Api) -> Api:
    """Two connections, of which ann and bob see both, and one repository."""
    for name in ("shop", "stock"):
        await api.make_connection(name)
    await api.make_connection("closed", access_mode_runbooks="disabled")
    api.world.fetcher.put(FILES)
    assert (await api.as_admin.post(CONFIGURATIONS, json={"git_url": URL})).status_code == 201
    return api


async def rule(api: Api, name: str, path: str, connections: list[str], groups: list[str]) -> None:
    body = {
        "name": name,
        "runbooks": [{"repository": NAME, "name": path}],
        "connections": connections,
        "user_groups": groups,
    }
    answer = await api.as_admin.post("/runbooks/rules", json=body)
    assert answer.status_code == 201, answer.text


async def listed(client: Any, query: str = "") -> dict[str, list[str] | None]:
    answer = await client.get(f"/runbooks{query}")
    assert answer.status_code == 200, answer.text
    RunbookListV2.model_validate_json(answer.content)
    return {one["name"]: one.get("connections") for entry in answer.json()["repositories"] for one in entry["items"]}


async def test_a_list_is_as_the_specification_says(books: Api) -> None:
    answer = (await books.as_ann.get("/runbooks?list_connections=true")).json()
    made = books.world.fetcher.remotes[URL]
    assert isinstance(made, Snapshot)
    assert answer == {
        "errors": [],
        "repositories": [
            {
                "repository": NAME,
                "commit": made.commit,
                "commit_author": "Ann <ann@example.com>",
                "commit_message": "Add them",
                "fetched_at": books.world.clock().isoformat(),
                "items": [
                    {
                        "name": "/ops/hello.runbook.sh",
                        "metadata": {
                            "name": {
                                "description": "who",
                                "required": False,
                                "type": "select",
                                "options": ["ann", "bob"],
                                "default": "ann",
                            }
                        },
                        "error": None,
                        "connections": ["shop", "stock"],
                    },
                    {
                        "name": "/sql/one.runbook.sql",
                        "metadata": {"id": {"description": "", "required": True, "type": "text"}},
                        "error": None,
                        "connections": ["shop", "stock"],
                    },
                ],
            }
        ],
    }
    plain = await listed(books.as_ann)
    assert plain == dict.fromkeys(("/ops/hello.runbook.sh", "/sql/one.runbook.sql"))


async def test_list_can_be_searched_by_path(books: Api) -> None:
    assert set(await listed(books.as_ann, "?search=HELLO.run")) == {"/ops/hello.runbook.sh"}
    assert set(await listed(books.as_ann, "?search=runbook")) == {"/ops/hello.runbook.sh", "/sql/one.runbook.sql"}
    assert set(await listed(books.as_ann, "?search=/sql")) == {"/sql/one.runbook.sql"}
    assert await listed(books.as_ann, "?search=o%25e") == {}
    await rule(books, "sql", "sql/", ["stock"], [])
    assert await listed(books.as_ann, "?search=hello") == {}, "a search shows nothing that a list does not"


async def test_without_a_repository_there_is_no_list(api: Api) -> None:
    answer = await api.as_ann.get("/runbooks")
    assert answer.status_code == 404
    assert "postern admin runbook-repositories create" in answer.json()["message"]
    assert (await api.as_admin.get(CONFIGURATIONS)).json()["data"] == []


async def test_rules_say_where_a_runbook_is_shown(books: Api) -> None:
    await rule(books, "sql", "sql/", ["stock"], [])
    await rule(books, "ops", "ops/", [], ["leads"])
    query = "?list_connections=true"
    assert await listed(books.as_ann, query) == {"/sql/one.runbook.sql": ["stock"]}
    assert await listed(books.as_ann, "?remove_empty_connections=FALSE&list_connections=1") == {
        "/ops/hello.runbook.sh": [],
        "/sql/one.runbook.sql": ["stock"],
    }
    assert await listed(books.as_ann, "?connection_name=shop") == {}
    assert set(await listed(books.as_ann, "?connection=stock")) == {"/sql/one.runbook.sql"}
    everything = {key: ["shop", "stock"] for key in ("/ops/hello.runbook.sh", "/sql/one.runbook.sql")}
    assert await listed(books.as_admin, query) == everything
    assert (await books.as_ann.get("/runbooks/file?name=ops/hello.runbook.sh")).status_code == 404
    shown = (await books.as_ann.get("/runbooks/file?name=/sql/one.runbook.sql")).json()
    assert (shown["text"], shown["connections"]) == (FILES["sql/one.runbook.sql"], ["stock"])
    assert shown["metadata"] == {"id": {"description": "", "required": True, "type": "text"}}


async def test_a_connection_that_is_hidden_is_as_one_that_is_not_there(books: Api) -> None:
    """Also one that takes no runbooks. What one may run nowhere is not told apart from what is not there either."""
    await switch_on(books)
    body = {"name": "for dbas", "groups": ["leads"], "connection_names": ["shop"]}
    assert (await books.as_admin.post("/access-rules", json=body)).status_code == 201
    answers = [
        (await client.get(f"/runbooks?connection_name={name}{more}")).json()
        for client, name in ((books.as_ann, "shop"), (books.as_ann, "no such"), (books.as_admin, "closed"))
        for more in ("", "&list_connections=true&remove_empty_connections=false")
    ]
    assert answers[0::2] == [answers[0]] * 3
    assert answers[1::2] == [answers[1]] * 3
    assert [one["connections"] for one in answers[1]["repositories"][0]["items"]] == [[], []]
    hidden, missing = [
        (await books.as_ann.get(f"/runbooks/file?name={name}")).json()["message"].replace(name, "X")
        for name in ("ops/hello.runbook.sh", "ops/no-such.runbook.sh")
    ]
    assert hidden == missing
    assert await listed(books.as_admin, "?connection_name=shop") != {}


async def test_what_cannot_be_read_is_told_beside_what_can(books: Api) -> None:
    large = RunbookFile("big.runbook.sh", None, "it has more than 1 MB")
    broken = snapshot_of({"bad.runbook.sh": "{{ end }}"})
    books.world.fetcher.remotes[OTHER] = Snapshot("1", "a", "m", (*broken.files, large))
    gone = "https://git.example.com/gone"
    for url in (OTHER, gone):
        assert (await books.as_admin.post(CONFIGURATIONS, json={"git_url": url})).status_code == 201
    answer = (await books.as_ann.get("/runbooks")).json()
    assert answer["errors"] == ["git.example.com/gone: nothing answers there"]
    assert [one["repository"] for one in answer["repositories"]] == [NAME, OTHER_NAME]
    bad, big = answer["repositories"][1]["items"]
    assert (bad["metadata"], bad["error"].startswith("line 1, column ")) == ({}, True)
    assert (big["metadata"], big["error"]) == ({}, "it has more than 1 MB")
    shown = await books.as_ann.get(f"/runbooks/file?repository={OTHER_NAME}&name=big.runbook.sh")
    assert (shown.json()["text"], shown.json()["error"]) == (None, "it has more than 1 MB")
    assert (await books.as_ann.get("/runbooks/file?name=big.runbook.sh")).status_code == 422
    books.world.fetcher.remotes[URL] = Unavailable("it is away")
    read_at = f"{books.world.clock():%FT%TZ}"
    books.world.clock.forward(minutes=7)
    refreshed = await books.as_admin.post(f"{CONFIGURATIONS}/{repository_id(URL)}/refresh")
    assert (refreshed.status_code, refreshed.json()["error"]) == (200, "it is away")
    answer = (await books.as_ann.get("/runbooks")).json()
    assert f"{NAME}: it is away (shown as it was at {read_at})" in answer["errors"]
    assert len(answer["repositories"][0]["items"]) == 2


async def test_repositories_are_configured_as_the_reference_has_it(api: Api) -> None:
    api.world.fetcher.put(FILES)
    body = {"git_url": URL, "git_user": "me", "git_password": "planted", "git_hook_ttl": 60}
    more = {"git_url": "git@git.example.com:other", "ssh_key": "planted", "ssh_keypass": "planted"}
    answer = await api.as_admin.put(CONFIGURATIONS, json={"repositories": [body, more]})
    assert answer.status_code == 200, answer.text
    assert "planted" not in answer.text
    assert answer.json()["org_id"] == str(api.world.org_id)
    first, second = answer.json()["repositories"]
    assert (first["id"], first["repository"], first["git_hook_ttl"]) == (str(repository_id(URL)), NAME, 60)
    assert (first["secrets_set"], second["secrets_set"]) == (["git_password"], ["ssh_key", "ssh_keypass"])
    read = await api.as_auditor.get(CONFIGURATIONS)
    assert read.json() == answer.json()
    again = await api.as_admin.put(CONFIGURATIONS, json=read.json())  # an answer is a request that changes nothing
    assert again.json() == answer.json()
    one = f"{CONFIGURATIONS}/{first['id']}"
    changed = await api.as_admin.put(one, json=first | {"git_branch": "next", "git_password": ""})
    assert (changed.json()["git_branch"], changed.json()["secrets_set"]) == ("next", [])
    assert (await api.as_admin.put(one, json={"git_url": OTHER})).status_code == 400
    twice = {"repositories": [{"git_url": URL}, {"git_url": "git@git.example.com:ops/books"}]}
    assert (await api.as_admin.put(CONFIGURATIONS, json=twice)).status_code == 400
    assert (await api.as_admin.post(CONFIGURATIONS, json={"git_url": URL})).status_code == 409
    assert (await api.as_admin.post(CONFIGURATIONS, json={"git_url": "x"})).status_code == 422
    assert (await api.as_admin.post(CONFIGURATIONS, json={"git_url": OTHER, "git_pass": "x"})).status_code == 400
    assert (await api.as_admin.delete(one)).status_code == 204
    assert (await api.as_admin.delete(one)).status_code == 404
    assert (await api.as_admin.put(CONFIGURATIONS, json={"repositories": []})).json()["repositories"] == []
    log = await api.as_admin.get("/audit/logs?limit=100")
    assert "planted" not in log.text
    written = {
        (one["http_method"], one["outcome"]) for one in log.json()["data"] if "runbooks/" in one["resource_type"]
    }
    assert written >= {("PUT", "success"), ("PUT", "failure"), ("POST", "failure"), ("DELETE", "success")}


async def test_a_runbook_is_written_once_unless_it_is_to_be_overwritten(books: Api) -> None:
    path = f"{CONFIGURATIONS}/{repository_id(URL)}/files"
    body = {"path": "new.runbook.sh", "content": "echo new", "commit_message": "why"}
    made = await books.as_admin.post(path, json=body)
    assert (made.status_code, made.json()["path"]) == (201, "new.runbook.sh")
    shown = (await books.as_ann.get("/runbooks/file?name=new.runbook.sh")).json()
    assert (shown["commit"], shown["text"]) == (made.json()["commit_sha"], "echo new")
    assert (await books.as_admin.post(path, json=body)).status_code == 409
    assert (await books.as_admin.post(path, json=body | {"overwrite": True})).status_code == 201
    assert (await books.as_admin.post(path, json=body | {"path": "../new.runbook.sh"})).status_code == 422


async def test_odd_texts_come_through_as_they_are(books: Api) -> None:
    """The list is written by hand: whatever is in a commit is JSON there."""
    text = '"}],\\ \u2028 \ud800 <b> \u00e9'
    odd = Snapshot("1", text, text, (RunbookFile('a"\\\u2028\u00e9.runbook.sh', None, text),))
    books.world.fetcher.remotes[URL] = odd
    await books.as_admin.post(f"{CONFIGURATIONS}/{repository_id(URL)}/refresh")
    answer = await books.as_ann.get("/runbooks?list_connections=true")
    (entry,) = json.loads(answer.content)["repositories"]
    assert (entry["commit_author"], entry["commit_message"]) == (text, text)
    assert (entry["items"][0]["name"], entry["items"][0]["error"]) == ('/a"\\\u2028\u00e9.runbook.sh', text)
