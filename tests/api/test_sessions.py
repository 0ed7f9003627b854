"""Sessions and runs of scripts over HTTP (spec 2.2, 4.2)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Api, make_api, message
from tests.support.promises import until, within
from tests.support.sessions import add_session, catch_up
from tests.support.world import START

from postern.domain.issues.issue import Issue, in_session
from postern.domain.sessions.results import Finished, Problem, ResultColumns, Row
from postern.domain.sessions.session import EndReason, Session, Verb
from postern.store.database import Database
from postern.store.ports.common_ports import Topic

EVENTS = [
    (1.0, "i", b"select name, note from pets"),
    (2.5, "o", b"name\tno"),
    (2.75, "o", 'te\nRex\tsays "wau, wäu"\n'.encode()),
    (3.0, "e", b"ERROR: no\n"),
]
OUTPUT = "".join(content.decode() for _, kind, content in EVENTS if kind != "i")


async def open_session(api: Api, user: str = "ann", connection: str = "shop") -> Session:
    access = api.services.access
    permit = await access.admit_principal(api.users[user], connection, verb=Verb.CONNECT, source="127.0.0.1")
    session = await api.services.sessions.open(
        permit, session_id=uuid4(), worker="w1", metadata={"application": "psql"}
    )
    api.world.recordings.stored[session.id] = list(EVENTS)
    return session


async def test_a_session_shows_as_the_spec_says(api: Api) -> None:
    await api.make_connection(connection_tags={"env": "prod"})
    session = await open_session(api)
    api.world.clock.forward(milliseconds=1500)
    metrics = {"data_masking": {"info_types": {"EMAIL_ADDRESS": 3}}}
    await api.services.sessions.close(
        session.id, reason=EndReason.CLIENT_CLOSED, exit_code=0, metrics=metrics, event_size=123
    )
    answer = await api.as_ann.get(f"/sessions/{session.id}")
    assert answer.status_code == 200
    assert answer.json() == {
        "id": str(session.id),
        "org_id": str(api.world.org_id),
        "connection": "shop",
        "connection_subtype": "postgres",
        "connection_tags": {"env": "prod"},
        "type": "database",
        "verb": "connect",
        "status": "done",
        "user": "ann@example.com",
        "user_id": api.users["ann"].subject,
        "user_name": "ann",
        "start_date": "2026-01-02T03:04:05Z",
        "end_date": "2026-01-02T03:04:06.500000Z",
        "outcome": "succeeded",
        "exit_code": 0,
        "script": None,
        "script_size": 0,
        "event_size": 123,
        "event_stream": None,
        "review": None,
        "integrations_metadata": {},
        "labels": {},
        "metadata": {"application": "psql", "end_reason": "client_closed"},
        "metrics": metrics | {"event_size": 123},
        "correlation_id": None,
        "held": None,
        "recording_purged_at": None,
    }


async def test_expanding_gives_triples(api: Api) -> None:
    await api.make_connection()
    session = await open_session(api)
    shown = (await api.as_ann.get(f"/sessions/{session.id}?expand=event_stream")).json()
    assert shown["event_stream"] == [[at, kind, base64.b64encode(text).decode()] for at, kind, text in EVENTS]
    assert shown["event_size"] == 0  # what is stored: nothing parsed, and it is still open
    for query in ("events=o,e", "events=o&events=e"):
        shown = (await api.as_ann.get(f"/sessions/{session.id}?expand=event_stream,session_input&{query}")).json()
        assert [kind for _, kind, _ in shown["event_stream"]] == ["o", "o", "e"]


@pytest.mark.parametrize("expand", ["&expand=event_stream", ""])
async def test_formats_and_their_sizes(api: Api, expand: str) -> None:
    await api.make_connection()
    session = await open_session(api)

    async def get(form: str) -> tuple[Any, int]:
        shown = (await api.as_ann.get(f"/sessions/{session.id}?event_stream={form}{expand}")).json()
        return shown["event_stream"], shown["event_size"]

    assert await get("utf8") == ([OUTPUT], len(OUTPUT.encode()))
    encoded = base64.b64encode(OUTPUT.encode()).decode()
    assert await get("base64") == ([encoded], len(encoded))
    query = EVENTS[0][2]
    assert await get("raw-queries") == ([[1.0, "i", base64.b64encode(query).decode()]], len(query))
    assert await get("utf8&events=e") == (["ERROR: no\n"], 10)


@pytest.mark.parametrize(
    ("query", "kind", "content"),
    [
        ("extension=txt", "application/octet-stream", OUTPUT),
        ("extension=csv&events=o", "text/csv; charset=utf-8", 'name,note\nRex,"says ""wau, wäu"""\n'),
        (
            "extension=log&events=i,e&event-time=1&new_line=1",
            "application/octet-stream",
            "2026-01-02T03:04:05.001Z select name, note from pets\n2026-01-02T03:04:05.003Z ERROR: no\n\n",
        ),
    ],
)
async def test_files(api: Api, query: str, kind: str, content: str) -> None:
    await api.make_connection()
    session = await open_session(api)
    answer = await api.as_ann.get(f"/sessions/{session.id}?{query}")
    assert (answer.status_code, answer.text) == (200, content)
    assert answer.headers["content-type"] == kind
    extension = query.split("&")[0].removeprefix("extension=")
    name = f"shop-{session.id}-20260102-030405.{extension}"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'


async def test_a_json_file_is_one_array(api: Api) -> None:
    await api.make_connection()
    session = await open_session(api)
    answer = await api.as_ann.get(f"/sessions/{session.id}?extension=json&events=e")
    assert json.loads(answer.text) == [{"time": "2026-01-02T03:04:05.003Z", "type": "e", "stream": "ERROR: no\n"}]
    api.world.recordings.stored[session.id] = []
    assert (await api.as_ann.get(f"/sessions/{session.id}?extension=json")).json() == []


@pytest.mark.parametrize("extension", ["json", "csv", "log"])
async def test_a_session_without_a_recording_has_no_file(api: Api, extension: str) -> None:
    """As one whose target could not be reached."""
    await api.make_connection()
    session = await open_session(api)
    del api.world.recordings.stored[session.id]
    said = message(await api.as_ann.get(f"/sessions/{session.id}?extension={extension}"), 404)
    assert "no recording" in said


@pytest.mark.parametrize(
    "query",
    ["event_stream=html", "expand=all", "events=x", "event-time=2", "new_line=yes", "extension=../x", "extension="],
)
async def test_bad_parameters_are_named(api: Api, query: str) -> None:
    await api.make_connection()
    session = await open_session(api)
    said = message(await api.as_ann.get(f"/sessions/{session.id}?{query}"), 422)
    assert said.startswith(query.partition("=")[0] + ": ")


async def test_only_owner_admin_and_auditor_see_it(api: Api) -> None:
    await api.make_connection()
    session = await open_session(api)
    for client in (api.as_ann, api.as_admin, api.as_auditor):
        assert (await client.get(f"/sessions/{session.id}")).status_code == 200
        assert (await client.get("/sessions")).json()["total"] == 1
    message(await api.as_bob.get(f"/sessions/{session.id}?extension=csv"), 404)
    message(await api.as_bob.post(f"/sessions/{session.id}/kill"), 404)
    assert (await api.as_bob.get("/sessions")).json()["data"] == []
    message(await api.as_admin.get(f"/sessions/{uuid4()}"), 404)
    for path in ("/sessions/x", f"/sessions/{uuid4()}x"):
        assert "there is no session" in message(await api.as_admin.get(path), 404)


async def test_lists(api: Api) -> None:
    await api.make_connection()
    made = []
    for _ in range(3):
        made.append(str((await open_session(api)).id))
        api.world.clock.forward(minutes=1)

    async def ids(query: str) -> tuple[list[str], int, bool]:
        page = (await api.as_admin.get(f"/sessions?{query}")).json()
        return [one["id"] for one in page["data"]], page["total"], page["has_next_page"]

    assert await ids("") == (made[::-1], 3, False)
    assert await ids("limit=2") == (made[:0:-1], 3, True)
    assert await ids("limit=2&offset=2") == ([made[0]], 3, False)
    assert await ids("start_date=2026-01-02T03:05:05Z") == (made[:0:-1], 2, False)
    assert await ids("end_date=2026-01-02T03:04:05") == ([made[0]], 1, False)
    assert await ids("user=bob@example.com") == ([], 0, False)
    assert await ids("user=ann@example.com&connection=shop&verb=connect&status=open&type=database") == (
        made[::-1],
        3,
        False,
    )
    for query in ("limit=0", "limit=101", "offset=-1", "verb=run", "status=x", "start_date=soon"):
        assert message(await api.as_admin.get(f"/sessions?{query}"), 422).startswith(query.partition("=")[0])


async def test_list_has_the_beginnings_of_scripts_on_request(api: Api) -> None:
    ann, bob = api.users["ann"], api.users["bob"]
    own = await add_session(api.world, ann, verb=Verb.EXEC, script="select 1")
    other = await add_session(api.world, bob, verb=Verb.EXEC, script="x" * 501)
    plain = (await api.as_ann.get("/sessions")).json()["data"]
    assert [one["script"] for one in plain] == [None]
    shown = (await api.as_ann.get("/sessions?expand=script")).json()["data"]
    assert [(one["id"], one["script"]) for one in shown] == [(str(own.id), {"data": "select 1", "is_cut": False})]
    seen = {one["id"]: one["script"] for one in (await api.as_auditor.get("/sessions?expand=script")).json()["data"]}
    assert seen[str(other.id)] == {"data": "x" * 500, "is_cut": True}
    message(await api.as_ann.get("/sessions?expand=events"), 422)


async def test_facets_count_what_the_caller_can_see(api: Api) -> None:
    await add_session(api.world, api.users["ann"], verb=Verb.EXEC)
    await add_session(api.world, api.users["bob"], connection="stock")
    own = (await api.as_ann.get("/sessions/facets?fields=connection,verb")).json()
    assert own == {
        "facets": {
            "connection": {"values": [{"value": "shop", "count": 1}], "is_cut": False},
            "verb": {"values": [{"value": "exec", "count": 1}], "is_cut": False},
        },
        "is_capped": False,
    }
    seen = (await api.as_auditor.get("/sessions/facets?verb=connect")).json()["facets"]
    assert [one["value"] for one in seen["connection"]["values"]] == ["stock"]
    assert list(seen) == ["connection", "user", "type", "subtype", "verb", "status", "end_reason"]
    message(await api.as_ann.get("/sessions/facets?fields=script"), 422)
    assert "search" in message(await api.as_ann.get("/sessions/facets?search=drop"), 422)
    message(await api.as_ann.get("/sessions/facets?held=true"), 403)


async def test_killing(api: Api) -> None:
    await api.make_connection()
    session = await open_session(api)
    message(await api.as_auditor.post(f"/sessions/{session.id}/kill"), 403)
    assert (await api.as_ann.post(f"/sessions/{session.id}/kill")).status_code == 204
    assert api.world.signals.of(Topic.SESSION_KILL) == [{"session_id": str(session.id), "reason": "killed"}]


def run_scripts(api: Api, *, exit_code: int | None, reason: EndReason, output: bytes) -> list[asyncio.Task[None]]:
    """A worker that claims whatever is put up, and ends it so."""
    tasks = []

    async def work(session_id: UUID) -> None:
        claimed = await api.services.sessions.claim(session_id, "w1")
        assert claimed is not None
        api.world.recordings.stored[session_id] = [(0.1, "i", b"script"), (1.0, "o", output)]
        api.world.clock.forward(milliseconds=250)
        await api.services.sessions.close(
            session_id, reason=reason, exit_code=exit_code, metrics={}, event_size=len(output)
        )

    def hear(payload: Mapping[str, str]) -> None:
        tasks.append(asyncio.create_task(work(UUID(payload["session_id"]))))

    api.world.signals.subscribe(Topic.SESSION_RUN, hear)
    return tasks


@pytest.mark.parametrize(
    ("exit_code", "reason", "status"),
    [(0, EndReason.COMPLETED, "success"), (3, EndReason.COMPLETED, "failed"), (None, EndReason.KILLED, "failed")],
)
async def test_running_a_script(api: Api, exit_code: int | None, reason: EndReason, status: str) -> None:
    await api.make_connection()
    run_scripts(api, exit_code=exit_code, reason=reason, output=b"id\n1\n")
    body = {"connection": "shop", "script": "select 1", "metadata": {"ticket": "7"}, "labels": {"a": "b"}}
    answer = await api.as_ann.post("/sessions", json=body)
    assert answer.status_code == 200
    result = answer.json()
    assert result == {
        "session_id": result["session_id"],
        "output": "id\n1\n",
        "stdout": None,
        "stderr": None,
        "output_streams": [["stdout", 5]],
        "output_status": status,
        "exit_code": exit_code,
        "error": None,
        "truncated": False,
        "masked": [],
        "execution_time": 250,
        "has_review": False,
        "review": None,
    }
    shown = (await api.as_ann.get(f"/sessions/{result['session_id']}")).json()
    assert (shown["verb"], shown["script"], shown["script_size"]) == ("exec", {"data": "select 1"}, 8)
    assert (shown["labels"], shown["metadata"]["ticket"]) == ({"a": "b"}, "7")
    assert (await api.as_ann.get("/sessions")).json()["data"][0]["script"] is None


@pytest.mark.parametrize("form", ["text", "json", "csv"])
async def test_script_that_never_reached_its_target_says_why(api: Api, form: str) -> None:
    await api.make_connection()
    tasks = []

    async def work(session_id: UUID) -> None:
        await api.services.sessions.claim(session_id, "w1")
        note = Problem("NOTE", "[note] session ended (reason: killed)", fails=False)
        api.world.recordings.stored[session_id] = [(0.1, "e", note.text.encode())]
        api.world.recordings.answered[session_id] = [note]
        await api.services.sessions.close(session_id, reason=EndReason.KILLED, exit_code=1, metrics={}, event_size=1)

    def hear(payload: Mapping[str, str]) -> None:
        tasks.append(asyncio.create_task(work(UUID(payload["session_id"]))))

    api.world.signals.subscribe(Topic.SESSION_RUN, hear)
    answer = await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1", "format": form})
    assert answer.json()["output_status"] == "failed"
    assert answer.json()["error"]["text"] == "session ended (reason: killed)"


async def test_running_a_script_with_parameters(api: Api) -> None:
    await api.make_connection()
    claimed = []
    tasks = []

    async def work(session_id: UUID) -> None:
        claimed.append(await api.services.sessions.claim(session_id, "w1"))
        api.world.recordings.stored[session_id] = [(0.1, "i", b"script")]
        api.world.recordings.answered[session_id] = [Problem("ERROR", "no such table", "42P01", position=8)]
        await api.services.sessions.close(session_id, reason=EndReason.FAILED, exit_code=1, metrics={}, event_size=1)

    def hear(payload: Mapping[str, str]) -> None:
        tasks.append(asyncio.create_task(work(UUID(payload["session_id"]))))

    api.world.signals.subscribe(Topic.SESSION_RUN, hear)
    parameters: dict[str, Any] = {"a": "x", "b": 7, "c": 0.5, "d": None, "e": False}
    results = []
    for script in ("select :a, :b, :c, :d, :e;", "select :a, :b; select :c, :d, :e"):
        body = {"connection": "shop", "script": script, "parameters": parameters}
        answer = await api.as_ann.post("/sessions", json=body)
        assert answer.status_code == 200
        results.append(answer.json())
    for claim in claimed:
        assert claim is not None
        assert claim[2].parameters == parameters
    assert results[0]["error"]["position"] == 8
    assert results[1]["error"]["position"] is None  # the statement to which it belongs is not known
    shown = (await api.as_ann.get(f"/sessions/{results[0]['session_id']}")).json()
    assert shown["script"] == {"data": "select :a, :b, :c, :d, :e;"}
    assert shown["labels"] == {"scriptParameters": '["a", "b", "c", "d", "e"]'}
    entry = (await api.as_admin.get("/audit/logs?resource_type=sessions")).json()["data"][0]
    assert entry["body"]["parameters"] == "[REDACTED]"


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, None),
        ({"a": 1, "b": 2}, "does not use 'b'"),
        ({"b": 1}, "uses :a without a value"),
        ({"a": [1]}, "parameters"),
        ({"a": {"b": 1}}, "parameters"),
        ({"a b": 1}, "is not a name"),
        ([], "parameters"),
    ],
)
async def test_parameters_that_do_not_fit_are_clear_errors(api: Api, parameters: Any, reason: str | None) -> None:
    await api.make_connection()
    body = {"connection": "shop", "script": "select :a", "parameters": parameters}
    if reason is None:  # without parameters, colons have no meaning
        run_scripts(api, exit_code=0, reason=EndReason.COMPLETED, output=b"")
        assert (await api.as_ann.post("/sessions", json=body)).status_code == 200
        return
    unreadable = reason == "parameters"
    assert reason in message(await api.as_ann.post("/sessions", json=body), 400 if unreadable else 422)
    assert (await api.as_admin.get("/sessions")).json()["total"] == 0


async def test_much_output_is_cut_and_says_so(api: Api) -> None:
    await api.make_connection()
    run_scripts(api, exit_code=0, reason=EndReason.COMPLETED, output="ä".encode() * 600_000)
    result = (await api.as_ann.post("/sessions", json={"connection": "shop", "script": "x"})).json()
    assert result["truncated"] is True
    assert result["output"] == "ä" * (1024 * 1024 // 2)
    assert result["output_streams"] is None


async def test_a_long_run_answers_202(sqlite_database: Database) -> None:
    api = await make_api(sqlite_database, exec_wait=0.05)
    await api.make_connection()
    answer = await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select pg_sleep(99)"})
    assert answer.status_code == 202
    result = answer.json()
    assert (result["output_status"], result["exit_code"], result["output"]) == ("running", None, "")


def run_commands(api: Api, events: list[tuple[float, str, bytes]]) -> None:
    """A worker that claims whatever is put up; commands print `events`."""

    def hear(payload: Mapping[str, str]) -> None:
        tasks.append(asyncio.create_task(work(UUID(payload["session_id"]))))

    async def work(session_id: UUID) -> None:
        assert await api.services.sessions.claim(session_id, "w1")
        api.world.recordings.stored[session_id] = [(0.1, "i", b"script"), *events]
        await api.services.sessions.close(session_id, reason=EndReason.FAILED, exit_code=3, metrics={}, event_size=9)

    tasks: list[asyncio.Task[None]] = []
    api.world.signals.subscribe(Topic.SESSION_RUN, hear)


async def command_of(api: Api) -> None:
    await api.make_connection("shell", type="custom", subtype="", command=["bash"], secret={})


async def test_a_command_tells_output_and_errors_apart(api: Api) -> None:
    await command_of(api)
    run_commands(api, [(1, "o", b"one\n"), (2, "e", b"oh "), (3, "o", b"two\n"), (4, "e", b"no\n")])
    body = {"connection": "shell", "script": "x"}
    result = (await api.as_ann.post("/sessions", json=body)).json()
    assert (result["output"], result["stdout"], result["stderr"]) == ("one\noh two\nno\n", "one\ntwo\n", "oh no\n")
    assert result["output_streams"] == [["stdout", 4], ["stderr", 3], ["stdout", 4], ["stderr", 3]]
    assert (result["exit_code"], result["output_status"], result["truncated"]) == (3, "failed", False)
    again = await api.as_ann.get(f"/sessions/{result['session_id']}/exec")
    assert (again.status_code, again.json()) == (200, result)
    in_json = (await api.as_ann.post("/sessions", json=body | {"format": "json"})).json()
    assert (in_json["stdout"], in_json["stderr"]) == ("one\ntwo\n", "oh no\n")
    assert in_json["output_streams"] is None


async def test_streams_that_alternate_too_often_are_not_listed(api: Api) -> None:
    await command_of(api)
    run_commands(api, [(1, "oe"[number % 2], b"x") for number in range(10_001)])
    result = (await api.as_ann.post("/sessions", json={"connection": "shell", "script": "x"})).json()
    assert (len(result["output"]), result["output_streams"], result["truncated"]) == (10_001, None, False)


@pytest.mark.parametrize(("much", "kept"), [("o", (1 << 20, 3)), ("e", (3, 1 << 20))])
async def test_much_of_one_stream_does_not_hide_the_other(api: Api, much: str, kept: tuple[int, int]) -> None:
    await command_of(api)
    few = "e" if much == "o" else "o"
    run_commands(api, [(1, much, b"x" * (1 << 20)), (2, much, b"x"), (3, few, b"few")])
    result = (await api.as_ann.post("/sessions", json={"connection": "shell", "script": "x"})).json()
    assert (len(result["stdout"]), len(result["stderr"])) == kept
    assert (len(result["output"]), result["truncated"]) == (1 << 20, True)


@pytest.mark.parametrize(
    ("form", "output"),
    [
        ("json", '[{"columns": ["id"], "fields": [{"name": "id", "type": null, "masked": null}], "rows": [["1"]], '),
        ("csv", "id\r\n1\r\n"),
    ],
)
async def test_the_form_of_the_output(api: Api, form: str, output: str) -> None:
    await api.make_connection()
    api.world.signals.subscribe(
        Topic.SESSION_RUN,
        lambda payload: api.world.recordings.answered.update(
            {UUID(payload["session_id"]): [ResultColumns(("id",)), Row(("1",)), Finished("SELECT 1")]}
        ),
    )
    run_scripts(api, exit_code=0, reason=EndReason.COMPLETED, output=b"id\n1\n")
    answer = await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1", "format": form})
    assert answer.json()["output"].startswith(output)
    again = await api.as_ann.get(f"/sessions/{answer.json()['session_id']}/exec?format={form}")
    assert again.json() == answer.json()


async def test_a_script_that_runs_on_is_asked_for_again(api: Api) -> None:
    await api.make_connection()
    body = {"connection": "shop", "script": "select 1"}
    begun = await api.as_ann.post("/sessions", json=body, headers={"Prefer": "respond-async, wait=0"})
    assert (begun.status_code, begun.json()["output_status"]) == (202, "running")
    path = f"/sessions/{begun.json()['session_id']}/exec"
    assert (await api.as_ann.get(path, headers={"Prefer": "wait=0"})).status_code == 202
    asked = [asyncio.create_task(api.as_ann.get(path)) for _ in range(2)]
    await asyncio.sleep(0.05)
    session_id = UUID(begun.json()["session_id"])
    assert await api.services.sessions.claim(session_id, "w1")
    api.world.recordings.stored[session_id] = [(1.0, "o", b"done\n")]
    await api.services.sessions.close(session_id, reason=EndReason.COMPLETED, exit_code=0, metrics={}, event_size=5)
    for answer in await asyncio.wait_for(asyncio.gather(*asked), min(within(1), 30)):  # both are woken
        assert (answer.status_code, answer.json()["output"]) == (200, "done\n")


async def test_a_script_that_was_killed_before_it_began_says_so(api: Api) -> None:
    await api.make_connection()
    asked = asyncio.create_task(api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1"}))

    async def begun() -> list[dict[str, str]]:
        found: list[dict[str, str]] = (await api.as_ann.get("/sessions")).json()["data"]
        return found

    await until(begun)
    await api.as_ann.post(f"/sessions/{(await begun())[0]['id']}/kill")
    answer = await asked
    assert (answer.status_code, answer.json()["output_status"]) == (200, "failed")
    assert answer.json()["output"] == "killed by ann@example.com"
    assert answer.json()["output_streams"] == [["gateway", 25]]


async def test_attack_what_a_script_answered_is_not_for_others(api: Api) -> None:
    await api.make_connection()
    session = await open_session(api)
    message(await api.as_ann.get(f"/sessions/{session.id}/exec"), 422)
    run_scripts(api, exit_code=0, reason=EndReason.COMPLETED, output=b"1")
    result = (await api.as_ann.post("/sessions", json={"connection": "shop", "script": "x"})).json()
    message(await api.as_bob.get(f"/sessions/{result['session_id']}/exec"), 404)


async def test_what_cannot_run_is_refused(api: Api) -> None:
    await api.make_connection(access_mode_exec="disabled")
    script = {"script": "select 1"}
    assert "exec is disabled" in message(await api.as_ann.post("/sessions", json={"connection": "shop"} | script), 403)
    message(await api.as_ann.post("/sessions", json={"connection": "none"} | script), 404)
    await api.make_connection("open")
    message(await api.as_auditor.post("/sessions", json={"connection": "open"} | script), 403)
    for body, says in (
        (script, "connection: is required"),
        ({"connection": "open"}, "script: is required"),
        ({"connection": "open", "script": 1}, "script: "),
        ({"connection": "open", "metadata": {"a": 1}} | script, "metadata.a: "),
    ):
        assert message(await api.as_ann.post("/sessions", json=body), 400).startswith(says)
    many = {str(number): "x" for number in range(21)}
    body = {"connection": "open", "metadata": many} | script
    assert message(await api.as_ann.post("/sessions", json=body), 422).startswith("metadata: ")


async def ended(api: Api, user: str, *statements: str, minutes: int = 0) -> Session:
    at = START + timedelta(minutes=minutes)
    return await add_session(api.world, api.users[user], at=at, asked=statements)


async def test_filters_of_the_list(api: Api) -> None:
    other = await add_session(
        api.world,
        api.users["bob"],
        at=START,
        seconds=90,
        reason=EndReason.KILLED,
        metrics={"refused": 1},
        labels={"ticket": "a:b"},
        metadata={"application": "psql"},
        connection_tags={"env": "prod"},
        correlation_id="order 7",
        integrations_metadata=in_session(Issue("OPS-7", "https://tracker.example.com/OPS-7")),
    )
    mine = await add_session(api.world, api.users["ann"], at=START)
    both = {str(other.id), str(mine.id)}
    for query, expected in {
        "subtype=postgres": both,
        "end_reason=killed": {str(other.id)},
        "label=ticket:a:b": {str(other.id)},
        "label=ticket:a:b&label=x:y": set(),
        "metadata=application:psql": {str(other.id)},
        "tag_selector=env%3Dprod": {str(other.id)},
        "tag_selector=!env": {str(mine.id)},
        "correlation_id=order+7": {str(other.id)},
        "issue=OPS-7": {str(other.id)},
        "issue=OPS-8": set(),
        "min_duration=61": {str(other.id)},
        "max_duration=60.5": {str(mine.id)},
        "refused=true": {str(other.id)},
        "refused=false": {str(mine.id)},
        "masked=true": set(),
        "review.status=APPROVED": set(),
        "unknown=1": both,
    }.items():
        page = (await api.as_admin.get(f"/sessions?{query}")).json()
        assert {one["id"] for one in page["data"]} == expected, query
    for query in (
        "end_reason=x",
        "label=x",
        "label=:x",
        "metadata=x",
        "tag_selector==x",
        "min_duration=-1",
        "max_duration=nan",
        "refused=maybe",
        "count=some",
        "search=%20",
        "search=a*",
        "search=" + "x" * 1001,
        "expand=all",
    ):
        assert message(await api.as_admin.get(f"/sessions?{query}"), 422).startswith(query.partition("=")[0]), query


async def test_pages_by_cursor(api: Api) -> None:
    made = [str((await ended(api, "ann", minutes=n)).id) for n in range(5)]
    seen: list[str] = []
    query = "limit=2"
    totals = []
    while query:
        page = (await api.as_ann.get(f"/sessions?{query}")).json()
        seen += [one["id"] for one in page["data"]]
        totals.append((page["total"], page["total_is_capped"]))
        await ended(api, "ann", minutes=60)
        assert page["has_next_page"] == (page["next_cursor"] is not None)
        query = f"limit=2&cursor={page['next_cursor']}" if page["has_next_page"] else ""
    assert seen == made[::-1]
    assert totals == [(5, False), (None, False), (None, False)]
    assert (await api.as_ann.get("/sessions?count=none")).json()["total"] is None
    assert (await api.as_ann.get("/sessions?count=exact&limit=1")).json()["total"] == 8


async def test_attack_cursors_that_this_api_did_not_give(api: Api) -> None:
    for number in range(3):
        await ended(api, "ann", minutes=number)
    cursor = (await api.as_ann.get("/sessions?limit=1")).json()["next_cursor"]
    altered = cursor[:5] + ("A" if cursor[5] != "A" else "B") + cursor[6:]
    for bad in ("x", "", "AAAA", altered, cursor + "A", "é", cursor[:-1], "' or 1=1", "A" * 64):
        assert message(await api.as_ann.get("/sessions", params={"cursor": bad}), 422).startswith("cursor: ")
    assert message(await api.as_ann.get(f"/sessions?cursor={cursor}&offset=1"), 422).startswith("cursor: ")
    # It is only a place: with that of somebody else one sees one's own.
    assert (await api.as_bob.get(f"/sessions?cursor={cursor}")).json()["data"] == []


async def test_searching_and_where_it_was_found(api: Api) -> None:
    own = await ended(api, "ann", "begin", "drop table <b>pets</b>")
    await ended(api, "bob", "drop table pets", minutes=1)
    await catch_up(api.world, api.services)
    page = (await api.as_ann.get("/sessions?search=drop+pets&expand=matches")).json()
    assert [one["id"] for one in page["data"]] == [str(own.id)]
    assert page["data"][0]["matches"] == [{"time": 2000.0, "text": "drop table <b>pets</b>"}]
    assert (page["total"], page["has_next_page"]) == (1, False)
    assert (await api.as_ann.get("/sessions?search=drop")).json()["data"][0]["matches"] is None
    assert (await api.as_ann.get("/sessions?expand=matches")).json()["data"][0]["matches"] is None
    first = (await api.as_auditor.get("/sessions?search=drop&limit=1")).json()
    assert (first["total"], first["total_is_capped"], first["has_next_page"]) == (1, True, True)
    second = (await api.as_auditor.get(f"/sessions?search=drop&limit=1&cursor={first['next_cursor']}")).json()
    assert [one["id"] for one in second["data"]] == [str(own.id)]
    assert message(await api.as_ann.get("/sessions?search=drop&offset=1"), 422).startswith("offset: ")
    assert message(await api.as_ann.get("/sessions?search=drop&count=exact"), 422).startswith("count: ")


async def test_a_script_is_found_by_its_correlation_id(api: Api) -> None:
    await api.make_connection()
    api.wait_for_no_run()
    body = {"connection": "shop", "script": "select 1"}
    made = (await api.as_ann.post("/sessions", json=body | {"correlation_id": "order 7/x"})).json()
    page = (await api.as_ann.get("/sessions", params={"correlation_id": "order 7/x"})).json()
    assert [(one["id"], one["correlation_id"]) for one in page["data"]] == [(made["session_id"], "order 7/x")]
    for bad in ("", "ä", "a\nb", "x" * 256, "\x7f"):
        refused = await api.as_ann.post("/sessions", json=body | {"correlation_id": bad})
        assert message(refused, 422).startswith("correlation_id: ")
