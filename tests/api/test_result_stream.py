"""Results as lines of JSON, while the script runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st
from tests.api.conftest import Api, message
from tests.api.test_session_stream import close, served, spool
from tests.support.spooled import append, ended, recorded_session, rows

from postern.api.sessions import following
from postern.api.sessions.result_lines import MAX_BYTES, MAX_ROWS, ResultFollower, ResultLines
from postern.domain.sessions.results import CellMasks, Finished, Mask, Problem, Result, ResultColumns, Row
from postern.domain.sessions.session import EndReason, Session, Verb
from postern.interception.events import ClientOutput, Event, Mark, Masked, Note, Operation
from postern.services.recordings.recording_services import WATCHES_EACH

pytestmark = pytest.mark.ci

PEOPLE = Mask("people", "hash")
COLUMNS = ResultColumns(("a", "b"), ("int4", None), (None, PEOPLE))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(following, "ASK_EVERY", 0.2)
    monkeypatch.setattr(following, "SETTLED", 0.1)


@pytest.fixture
async def script(real: Api, home: Path) -> Session:
    """A script of Ann's that runs, without an answer yet."""
    return await recorded_session(real, home, [(1_000, Operation(1, "select note"))], done=False, verb=Verb.EXEC)


def written(results: list[Result], from_row: int = 0, each: int = 1_000_000) -> list[dict[str, Any]]:
    """The lines of results of which so many come at a time."""
    lines = ResultLines(from_row)
    texts: list[str] = []
    for start in range(0, len(results), each):
        texts += lines.write(results[start : start + each])
        texts += lines.flush()
    assert all(text.endswith("\n") and text.count("\n") == 1 for text in texts)
    return [json.loads(text) for text in texts]


def path(session: Session, *queries: str) -> str:
    return f"/sessions/{session.id}/results?" + "&".join(["format=ndjson", "follow=1", *queries])


async def lines_of(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.aiter_lines():
        yield json.loads(line)


def test_lines_tell_columns_rows_notices_and_ends_of_each_statement() -> None:
    notice = Problem("NOTICE", "mind", fails=False)
    masks: CellMasks = ((1, PEOPLE),)
    results: list[Result] = [
        *(COLUMNS, Row(("1", "h_x"), masks), Row(("2", None), masks), notice, Finished("SELECT 2")),
        *(Finished("CREATE TABLE"), Problem("ERROR", "no", code="42601")),
    ]
    assert written(results) == [
        {
            "type": "columns",
            "result": 0,
            "columns": ["a", "b"],
            "fields": [
                {"name": "a", "type": "int4", "masked": None},
                {"name": "b", "type": None, "masked": {"rule": "people", "strategy": "hash"}},
            ],
        },
        {
            "type": "rows",
            "result": 0,
            "row": 0,
            "next_row": 2,
            "masked": {
                "masks": [{"rule": "people", "strategy": "hash", "info_types": []}],
                "cells": [[1, 0, 1, 0]],
            },
            "rows": [["1", "h_x"], ["2", None]],
        },
        {
            "type": "notice",
            "result": 0,
            "severity": "NOTICE",
            "text": "mind",
            "code": "",
            "detail": "",
            "hint": "",
            "position": None,
        },
        {"type": "done", "result": 0, "tag": "SELECT 2"},
        {"type": "done", "result": 1, "tag": "CREATE TABLE"},
        {
            "type": "error",
            "result": 2,
            "severity": "ERROR",
            "text": "no",
            "code": "42601",
            "detail": "",
            "hint": "",
            "position": None,
        },
    ]


@given(st.lists(st.integers(0, 7), max_size=5), st.integers(0, 40), st.integers(1, 9))
def test_rows_from_any_row_on_are_the_rest_of_the_whole(counts: list[int], from_row: int, each: int) -> None:
    results: list[Result] = []
    for count in counts:
        results += [COLUMNS, *[Row((str(number), None), ((0, PEOPLE),)) for number in range(count)], Finished("SELECT")]
    whole, rest = written(results, each=each), written(results, from_row, each)
    assert rows_of(rest) == rows_of(whole)[from_row:]
    assert [line for line in rest if line["type"] != "rows"] == [line for line in whole if line["type"] != "rows"]
    assert [line["next_row"] for line in rest if line["type"] == "rows"][-1:] in ([], [sum(counts)])


def rows_of(lines: list[dict[str, Any]]) -> list[tuple[int, int, list[str | None]]]:
    """Result, number and cells of each row. All are masked."""
    found = []
    for line in lines:
        if line["type"] == "rows":
            assert line["masked"]["cells"] == [[0, line["row"], line["row"] + len(line["rows"]) - 1, 0]]
            found += [(line["result"], line["row"] + place, cells) for place, cells in enumerate(line["rows"])]
    return found


def test_lines_are_bounded_by_rows_and_bytes() -> None:
    many = written([COLUMNS, *[Row(("x", None))] * 2_500])
    assert [len(line["rows"]) for line in many[1:]] == [MAX_ROWS, MAX_ROWS, 500]
    large = written([COLUMNS, *[Row(("x" * 30_000, None))] * 7, Row(("x" * 1_000_000, None))])
    assert [len(line["rows"]) for line in large[1:]] == [3, 3, 2]
    assert all(len(json.dumps(line["rows"][:-1])) < MAX_BYTES for line in large[1:])


def test_attack_million_notices_are_bounded() -> None:
    assert len(written([Problem("NOTICE", "n", fails=False)] * 1_000_000)) == 100


def test_attack_row_of_ten_thousand_masked_columns_is_one_run_each() -> None:
    width = 10_000
    columns = ResultColumns(tuple(f"c{number}" for number in range(width)))
    row = Row(("x",) * width, tuple((number, PEOPLE) for number in range(width)))
    _, *lines = written([columns, *[row] * 8])
    assert sum(len(line["rows"]) for line in lines) == 8
    assert all(len(line["masked"]["cells"]) == width and len(line["masked"]["masks"]) == 1 for line in lines)


async def test_rows_come_while_the_script_runs(real: Api, script: Session, home: Path) -> None:
    first, second = rows("one", "two"), rows("three")
    marks = [Mark(PEOPLE, (0,), whole=True)]
    async with served(real, real.as_ann) as client, client.stream("GET", path(script)) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        found = lines_of(answer)
        data = first[first.index(b"D") :]
        append(spool(home, script), (2_000, Masked(1, len(first) - len(data), len(data), 2, marks)))
        append(spool(home, script), (2_000, ClientOutput(first)))
        columns, shown = await anext(found), await anext(found)
        assert (columns["columns"], columns["fields"][0]["masked"]) == (
            ["note"],
            {"rule": "people", "strategy": "hash"},
        )
        assert (shown["rows"], shown["next_row"]) == ([["one"], ["two"]], 2)
        assert shown["masked"]["cells"] == [[0, 0, 1, 0]]
        append(spool(home, script), (3_000, ClientOutput(second)), ended(4_000))
        await close(real, script)
        rest = [line async for line in found]
    assert [line["type"] for line in rest] == ["done", "columns", "rows", "done", "end"]
    assert rest[-1] == {"type": "end", "exit_code": 0, "reason": "client_closed", "detail": None, "truncated": False}


async def test_rows_are_looked_for_often_until_a_script_is_quiet_for_long(real: Api, script: Session) -> None:
    follower = ResultFollower(cast(Request, None), real.services, script, 0)
    pauses = [follower.pause(quiet) for quiet in (0, 0.15, 0.6, 1, 3, 10, 50, 100, 3_000)]
    assert pauses == [0.005, 0.005, 0.02, 0.03, 0.03, 0.1, 0.5, 1, 1]


async def test_first_row_is_sent_soon_after_it_is_recorded(real: Api, script: Session, home: Path) -> None:
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    async with served(real, real.as_ann) as client, client.stream("GET", path(script)) as answer:
        found = lines_of(answer)
        for number in range(5):  # a busy machine is late now and then
            await asyncio.sleep(0.2)
            append(spool(home, script), (2_000 + number, ClientOutput(rows(str(number)))))
            recorded = loop.time()
            while (await anext(found))["type"] != "rows":
                pass
            delays.append(loop.time() - recorded)
    assert min(delays) < 0.05


async def test_stream_continues_from_a_row_and_finished_scripts_give_the_same(
    real: Api, script: Session, home: Path
) -> None:
    events: list[tuple[int, Event]] = [(2_000, ClientOutput(rows("one", "two", "three")))]
    append(spool(home, script), *events, (3_000, Note("x")), ended(4_000))
    await close(real, script)
    async with served(real, real.as_ann) as client:
        for query in ("", "&from_row=2"):
            async with client.stream("GET", path(script) + query) as answer:
                followed = [line async for line in lines_of(answer)]
            finished = await client.get(f"/sessions/{script.id}/results?format=ndjson{query}")
            assert [json.loads(line) for line in finished.text.splitlines()] == followed
        assert [line["rows"] for line in followed if line["type"] == "rows"] == [[["three"]]]


async def test_script_that_runs_has_no_results_without_follow(real: Api, script: Session) -> None:
    message(await real.as_ann.get(f"/sessions/{script.id}/results?format=ndjson"), 409)
    message(await real.as_ann.get(f"/sessions/{script.id}/results?follow=1"), 422)
    message(await real.as_ann.get(f"/sessions/{script.id}/results?format=csv&from_row=1"), 422)
    message(await real.as_ann.get(f"/sessions/{script.id}/results?format=ndjson&from_row=-1"), 422)


async def test_script_that_never_began_ends_the_stream(real: Api, home: Path) -> None:
    session = await recorded_session(real, home, [], done=False, verb=Verb.EXEC)
    spool(home, session).unlink()
    await close(real, session, EndReason.KILLED)
    async with served(real, real.as_ann) as client, client.stream("GET", path(session)) as answer:
        async with asyncio.timeout(60):
            assert [line["reason"] async for line in lines_of(answer)] == ["killed"]


async def test_attack_who_cannot_see_a_script_cannot_follow_it(real: Api, script: Session, home: Path) -> None:
    message(await real.as_bob.get(path(script)), 404)
    message(await real.nobody.get(path(script)), 401)
    interactive = await recorded_session(real, home, [], done=False)
    message(await real.as_ann.get(path(interactive)), 422)


async def test_attack_follower_who_loses_the_right_is_cut(real: Api, script: Session) -> None:
    async with served(real, real.as_auditor) as client, client.stream("GET", path(script)) as answer:
        await real.services.logins.end_all(real.users["auditor"].id)
        async with asyncio.timeout(60):
            assert [line["type"] async for line in lines_of(answer)] == ["cut"]


async def test_followers_share_the_slots_of_watchers(
    real: Api, script: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "KEEP_ALIVE", 0.05)
    async with served(real, real.as_ann) as client:
        streams = [client.stream("GET", path(script)) for _ in range(WATCHES_EACH)]
        reading = [lines_of(await stream.__aenter__()) for stream in streams]
        for lines in reading:
            assert await anext(lines) == {"type": "waiting"}
        message(await client.get(path(script)), 429)
        for stream in streams:
            await stream.__aexit__(None, None, None)
