"""What would take long is refused at once, and the answer says what to use in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update
from tests.api.conftest import Api, make_api, message
from tests.support.spooled import library, recorded_session, rows

from postern.interception.events import ClientOutput, Operation
from postern.recording.recording_library import RecordingLibrary
from postern.services.recordings.recording_pages import MOST_BYTES, MOST_ITEMS
from postern.store.database import Database
from postern.store.schema.session_tables import sessions


@pytest.mark.parametrize("offset", [10_001, 400_000, 1_000_000])
async def test_deep_offset_in_sessions_is_refused_and_the_cursor_named(api: Api, offset: int) -> None:
    said = message(await api.as_admin.get(f"/sessions?offset={offset}"), 422)
    assert said.startswith("offset: at most 10,000")
    assert "`cursor`" in said


async def test_offset_up_to_the_bound_is_taken(api: Api) -> None:
    answer = await api.as_admin.get("/sessions?offset=10000")
    assert answer.status_code == 200
    assert answer.json()["data"] == []


@pytest.fixture
async def recording(sqlite_database: Database, tmp_path: Path) -> Api:
    return await make_api(sqlite_database, recordings=library(tmp_path))


@pytest.mark.parametrize(
    ("query", "size", "operations", "is_read"),
    [
        ("expand=event_stream", MOST_BYTES + 1, 1, False),
        ("expand=event_stream", MOST_BYTES, MOST_ITEMS + 1, False),
        ("event_stream=utf8", MOST_BYTES + 1, 1, False),
        ("event_stream=base64", MOST_BYTES + 1, 1, False),
        ("event_stream=raw-queries", 1000, MOST_ITEMS + 1, False),
        ("expand=event_stream&events=o", MOST_BYTES + 1, 1, False),
        ("expand=event_stream&events=i", 1000, MOST_ITEMS + 1, False),
        # Small as far as is known, or small by what is asked for.
        ("expand=event_stream", MOST_BYTES, MOST_ITEMS, True),
        ("expand=event_stream&events=i", MOST_BYTES + 1, 1, True),
        ("event_stream=raw-queries", MOST_BYTES + 1, 1, True),
        ("event_stream=utf8", 1000, MOST_ITEMS + 1, True),
        ("expand=event_stream&limit=10", MOST_BYTES + 1, MOST_ITEMS + 1, True),
        ("expand=event_stream&from=1", MOST_BYTES + 1, MOST_ITEMS + 1, True),
        ("expand=event_stream&to=1", MOST_BYTES + 1, MOST_ITEMS + 1, True),
    ],
)
async def test_recording_that_is_known_to_be_too_large_is_refused_without_reading_it(
    recording: Api,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    size: int,
    operations: int,
    is_read: bool,
) -> None:
    api = recording
    session = await recorded_session(api, tmp_path, [(1000, Operation(1, "select 1")), (2000, ClientOutput(rows("x")))])
    change = update(sessions).where(sessions.c.id == session.id)
    async with api.world.database.transaction() as transaction:
        await transaction.execute(change.values(event_size=size, metrics={"operations": operations}))
    if not is_read:
        for name in ("moments", "operations"):
            monkeypatch.setattr(RecordingLibrary, name, lambda *_: pytest.fail("the recording was read"))
    answer = await api.as_admin.get(f"/sessions/{session.id}?{query}")
    if is_read:
        assert answer.status_code == 200, answer.text
    else:
        assert "`limit` and `cursor`" in message(answer, 422)
