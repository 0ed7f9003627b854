"""What a script answered, as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from uuid import UUID

import pytest
from tests.api.conftest import Api, message

from postern.api.schemas.sessions.session_schemas import ExecError
from postern.api.sessions.result_answers import ResultWriter
from postern.domain.sessions.results import CUT, Finished, Problem, Result, ResultColumns, Row
from postern.domain.sessions.session import EndReason

NOTICE = Problem("NOTICE", "mind", fails=False)
ERROR = Problem("ERROR", "division by zero", code="22012", position=18)
PAIR: list[Result] = [ResultColumns(("a", "b")), Row(("1", None)), Row(('x,"y"\r\n', "")), Finished("SELECT 2")]


def as_json(results: list[Result], limit: int | None = None) -> Any:
    return json.loads("".join(ResultWriter(results, limit).json()))


def as_csv(results: list[Result], limit: int | None = None) -> str:
    return "".join(ResultWriter(results, limit).csv())


def test_json_has_one_object_for_each_statement() -> None:
    first, second, third = as_json([NOTICE, *PAIR, Finished("CREATE TABLE"), ResultColumns(("n",)), Row(("0",)), ERROR])
    assert (first["columns"], first["rows"]) == (["a", "b"], [["1", None], ['x,"y"\r\n', ""]])
    assert (first["tag"], first["error"], first["truncated"]) == ("SELECT 2", None, False)
    assert [notice["text"] for notice in first["notices"]] == ["mind"]
    assert (second["columns"], second["rows"], second["tag"]) == ([], [], "CREATE TABLE")
    assert (third["rows"], third["tag"]) == ([["0"]], None)
    assert (third["error"]["code"], third["error"]["position"]) == ("22012", 18)


def test_json_of_nothing() -> None:
    assert as_json([]) == []
    assert as_json([NOTICE])[0]["notices"][0]["severity"] == "NOTICE"


def test_json_of_a_recording_that_was_cut_is_whole_and_says_so() -> None:
    cut = Problem(CUT, "output limit reached", fails=False)
    (one,) = as_json([*PAIR[:2], cut, Finished("SELECT 1000")])
    assert (one["rows"], one["tag"], one["truncated"]) == ([["1", None]], "SELECT 1000", True)
    (one,) = as_json(PAIR[:2])
    assert (one["tag"], one["truncated"]) == (None, True)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+1", "'+1+1"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("-1.5e3", "-1.5e3"),
        ("+49", "+49"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_attack_safe_csv_has_no_formula_and_keeps_numbers(value: str, written: str) -> None:
    results: list[Result] = [ResultColumns((value,)), Row((value,)), Finished("SELECT 1")]
    safe = "".join(ResultWriter(results).csv(safe=True))
    assert list(csv.reader(io.StringIO(safe, newline=""))) == [[written], [written]]
    assert list(csv.reader(io.StringIO(as_csv(results), newline=""))) == [[value], [value]]


@pytest.mark.parametrize("limit", [0, 1, 50, 500, 5_000])
def test_the_limit_holds_and_json_stays_whole(limit: int) -> None:
    many: list[Result] = [ResultColumns(("n",)), *[Row(("ü" * 20,)) for _ in range(1000)], Finished("SELECT 1000")]
    writer = ResultWriter([*many, *many, *many, ERROR], limit)
    text = "".join(writer.json())
    json.loads(text)
    assert len(text.encode()) < limit + 300
    assert writer.truncated
    assert writer.error is None
    writer.finish()
    assert writer.error == ERROR
    writer = ResultWriter(many, limit)
    assert len("".join(writer.csv()).encode()) <= limit
    assert writer.truncated


def test_notices_of_a_statement_are_bounded() -> None:
    (one,) = as_json([NOTICE] * 10_000 + PAIR)
    assert len(one["notices"]) == 100


def test_csv_is_that_of_the_rfc_and_tells_null_from_empty() -> None:
    text = as_csv([*PAIR, Finished("CREATE TABLE"), ResultColumns(("n",)), Row((" 0",)), ERROR])
    assert text == 'a,b\r\n1,\r\n"x,""y""\r\n",""\r\n\r\nn\r\n 0\r\n'
    assert next(csv.reader(io.StringIO(as_csv(PAIR), newline=""))) == ["a", "b"]


async def ran(api: Api, results: list[Result], *, exit_code: int = 0, who: str = "ann") -> str:
    """A script that is done, with these results in its recording."""
    api.wait_for_no_run()
    caller = api.as_ann if who == "ann" else api.as_admin
    made = await caller.post("/sessions", json={"connection": "shop", "script": "select 1;\nselect 1/0"})
    session_id = UUID(made.json()["session_id"])
    assert await api.services.sessions.claim(session_id, "w1")
    api.world.recordings.answered[session_id] = results
    await api.services.sessions.close(
        session_id, reason=EndReason.COMPLETED, exit_code=exit_code, metrics={}, event_size=0
    )
    return str(session_id)


async def test_results_are_read_in_each_form(api: Api) -> None:
    await api.make_connection()
    session = await ran(api, PAIR)
    found = await api.as_ann.get(f"/sessions/{session}/results")
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert found.json()[0]["tag"] == "SELECT 2"
    found = await api.as_ann.get(f"/sessions/{session}/results?format=csv")
    assert found.headers["content-type"] == "text/csv; charset=utf-8"
    assert found.text.startswith("a,b\r\n")
    message(await api.as_ann.get(f"/sessions/{session}/results?format=xml"), 422)


async def test_results_of_others_are_hidden_and_those_of_a_script_that_runs_are_not_there(api: Api) -> None:
    await api.make_connection()
    session = await ran(api, PAIR)
    message(await api.as_bob.get(f"/sessions/{session}/results"), 404)
    running = await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1"})
    message(await api.as_ann.get(f"/sessions/{running.json()['session_id']}/results"), 409)


async def test_where_downloads_are_off_results_of_others_are_too(api: Api) -> None:
    await api.make_connection()
    session = await ran(api, PAIR)
    assert (await api.as_auditor.get(f"/sessions/{session}/results")).status_code == 200
    assert (await api.as_admin.put("/feature-flags/session-download", json={"enabled": False})).status_code == 200
    message(await api.as_auditor.get(f"/sessions/{session}/results"), 403)
    assert (await api.as_ann.get(f"/sessions/{session}/results")).status_code == 200


@pytest.mark.parametrize(("position", "line"), [(1, 1), (10, 1), (11, 2), (21, 2), (22, None), (0, None), (None, None)])
def test_the_line_of_an_error_is_told_where_its_position_is_in_the_script(
    position: int | None, line: int | None
) -> None:
    """A target that says nonsense of the position gets no line."""
    told = ExecError.of(Problem("ERROR", "no", position=position), "select 1;\nselect x/0")
    assert (told.position, told.line) == (position, line)
