"""Deletion of the local files of purged sessions on a worker."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from postern.recording.layout import sealed_path, spool_path
from postern.recording.purged import delete_local

STARTED = datetime(2026, 3, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("place", "suffix"), [("spool", ""), ("spool", ".broken"), ("sealed", ""), ("sealed", ".partial")]
)
def test_every_file_of_a_purged_session_is_deleted(home: Path, place: str, suffix: str) -> None:
    purged, kept = [uuid4(), uuid4()], uuid4()
    paths = {}
    for session in (*purged, kept):
        for segment in (1, 2):
            path = (
                spool_path(home, f"w{segment}", session, segment)
                if place == "spool"
                else sealed_path(home, session, STARTED, segment)
            )
            path = path.with_name(path.name + suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
            paths[path] = session
    delete_local(home, purged)
    assert {path for path in paths if path.exists()} == {path for path, session in paths.items() if session == kept}


def test_purge_without_local_files_deletes_nothing(home: Path) -> None:
    delete_local(home, [uuid4()])
    assert not home.exists()
