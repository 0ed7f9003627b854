"""Search in the statements of one session, over real recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.conftest import Api, message
from tests.support.spooled import append, recorded_session

from postern.domain.sessions.session import Session
from postern.interception.events import ClientOutput, Event, Operation
from postern.recording.layout import spool_path
from postern.services.recordings import texts

EVENTS: list[tuple[int, Event]] = [
    (1_000, Operation(1, "select name from pets")),
    (1_500, ClientOutput(b"select of the output")),
    (2_000, Operation(2, "drop table pets")),
    (2_000, Operation(3, "DROP TABLE owners")),
    (2_000, Operation(4, "select 1")),
    (9_000, Operation(5, "drop the ball")),
]


@pytest.fixture
async def session(real: Api, home: Path) -> Session:
    return await recorded_session(real, home, EVENTS)


async def find(client: httpx.AsyncClient, session: Session, search: str, **query: object) -> dict[str, Any]:
    parameters = {"search": search, **{name: str(value) for name, value in query.items()}}
    answer = await client.get(f"/sessions/{session.id}/matches", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def find_all(client: httpx.AsyncClient, session: Session, search: str, **query: object) -> list[Any]:
    """Follow the pages to the end."""
    found: list[Any] = []
    page = await find(client, session, search, **query)
    for _ in range(20):
        found += page["data"]
        if page["next_cursor"] is None:
            return found
        page = await find(client, session, search, cursor=page["next_cursor"], **query)
    raise AssertionError("the pages do not end")


DROPS = [
    {"time": 2.0, "text": "drop table pets"},
    {"time": 2.0, "text": "DROP TABLE owners"},
    {"time": 9.0, "text": "drop the ball"},
]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("drop", DROPS),
        ('"drop table"', DROPS[:2]),
        ("own*", DROPS[1:2]),
        ("ball owners", DROPS[1:]),
        ("output", []),
        ("pet", []),
    ],
)
async def test_statements_are_found_in_order(real: Api, session: Session, search: str, found: list[Any]) -> None:
    assert await find(real.as_ann, session, search) == {"data": found, "next_cursor": None}


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_continue_within_one_moment(real: Api, session: Session, limit: int) -> None:
    page = await find(real.as_ann, session, "drop", limit=limit)
    assert page["data"] == DROPS[:limit]
    assert await find_all(real.as_ann, session, "drop", limit=limit) == DROPS


@pytest.mark.parametrize(("name", "value"), [("MAX_SCANNED", 1), ("MAX_SECONDS", -1.0)])
async def test_pages_of_bounded_work_lead_to_the_end(
    real: Api, session: Session, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(texts, name, value)
    page = await find(real.as_ann, session, "drop")
    assert page["data"] == []
    assert page["next_cursor"]
    assert await find_all(real.as_ann, session, "drop") == DROPS


async def test_running_session_is_searched_as_far_as_it_is_recorded(real: Api, home: Path) -> None:
    running = await recorded_session(real, home, EVENTS[:3], done=False)
    assert await find_all(real.as_ann, running, "drop") == DROPS[:1]
    append(spool_path(home, "w1", running.id), (3_000, Operation(6, "drop again")))
    assert [match["text"] for match in await find_all(real.as_ann, running, "drop")] == [
        "drop table pets",
        "drop again",
    ]


async def test_session_that_never_ran_has_no_matches(real: Api) -> None:
    await real.make_connection()
    real.wait_for_no_run()
    ready = (await real.as_bob.post("/sessions", json={"connection": "shop", "script": "drop"})).json()["session_id"]
    answer = await real.as_bob.get(f"/sessions/{ready}/matches?search=drop")
    assert answer.json() == {"data": [], "next_cursor": None}


async def test_matches_are_for_those_who_can_read_the_recording(real: Api, session: Session) -> None:
    url = f"/sessions/{session.id}/matches"
    for client in (real.as_admin, real.as_auditor):
        assert await find_all(client, session, "drop") == DROPS
    message(await real.as_bob.get(f"{url}?search=drop"), 404)
    for query in ("", "?search=", "?search=%20", "?search=-drop", "?search=x&cursor=y", "?search=x&limit=0"):
        message(await real.as_ann.get(f"{url}{query}"), 422)
