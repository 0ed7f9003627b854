"""Where recordings are kept by the settings, and how threads ask for their rows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from postern.archive.folder import FolderBlobs
from postern.domain.sessions.segment import Segment
from postern.errors import Misconfigured, Unavailable
from postern.integrations.cloud_blobs import ObjectBlobs
from postern.settings import load
from postern.wiring import blobs


@pytest.mark.parametrize(
    ("url", "folder"),
    [("", "HOME/recordings"), ("file:///srv/kept%20here", "/srv/kept here"), ("file://localhost/srv", "/srv")],
)
def test_a_folder(tmp_path: Path, url: str, folder: str) -> None:
    settings = load({}, home=str(tmp_path), recordings_url=url)
    found = blobs.open_blobs(settings)
    assert isinstance(found, FolderBlobs)
    assert found.name == f"the folder {folder.replace('HOME', str(tmp_path))}"


def test_a_bucket(tmp_path: Path) -> None:
    found = blobs.open_blobs(load({}, home=str(tmp_path), recordings_url="s3://bucket/a?region=eu-central-1"))
    assert isinstance(found, ObjectBlobs)
    assert found.name == "s3://bucket/a"


@pytest.mark.parametrize("url", ["file://srv/kept", "file:///", "file:///srv?x=y", "/srv/kept", "http://host/x"])
def test_what_cannot_be_is_said(tmp_path: Path, url: str) -> None:
    with pytest.raises(Misconfigured, match="POSTERN_RECORDINGS_URL"):
        blobs.open_blobs(load({}, home=str(tmp_path), recordings_url=url))


class Rows:
    """A store that answers after `delay` seconds."""

    def __init__(self, delay: float) -> None:
        self.delay = delay

    async def add(self, segment: Segment) -> bool:
        raise NotImplementedError

    async def origin(self, session_id: object) -> None:
        raise NotImplementedError

    async def is_purged(self, session_id: object) -> bool:
        raise NotImplementedError

    async def of(self, _session_id: object) -> list[Segment]:
        await asyncio.sleep(self.delay)
        return []


async def test_rows_are_asked_for_from_threads_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(blobs.rows_from_threads(Rows(0), loop), uuid4()) == []
    monkeypatch.setattr(blobs, "PATIENCE", 0.1)
    with pytest.raises(Unavailable):
        await asyncio.to_thread(blobs.rows_from_threads(Rows(5), loop), uuid4())
    with pytest.raises(RuntimeError, match="never on the event loop"):
        blobs.rows_from_threads(Rows(0), loop)(uuid4())
