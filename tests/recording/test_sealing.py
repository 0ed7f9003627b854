from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from postern.errors import NotFound
from postern.interception.events import Event, Operation
from postern.recording import sealing
from postern.recording.layout import make_folder, sealed_path
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header, encode
from postern.recording.sealing import seal

from .conftest import MakeSpool

EVENTS: list[Event] = [Operation(n, f"select {n}") for n in range(500)]


class Stop(Exception):
    """Stands for the end of the process at that point."""


@pytest.fixture
def places(make_spool: MakeSpool, home: Path, header: Header) -> tuple[Path, Path]:
    spool = make_spool()
    for event in EVENTS:
        spool.append(encode(event, 0))
    spool.close()
    return spool.path, sealed_path(home, header.session, header.started_at)


def events_of(path: Path) -> list[Event]:
    with SegmentReader(path) as reader:
        events = [event for _, event in reader]
    assert not reader.damage
    return events


def test_seal_turns_a_spool_into_a_sealed_segment(places: tuple[Path, Path]) -> None:
    spool, sealed = places
    size = spool.stat().st_size
    seal(spool, sealed)
    assert not spool.exists()
    assert events_of(sealed) == EVENTS
    assert sealed.parent.parts[-3:] == ("sealed", "2026", "03")
    assert sealed.stat().st_size < size / 5
    assert stat.S_IMODE(sealed.stat().st_mode) == 0o600
    assert list(sealed.parent.iterdir()) == [sealed]


def test_seal_is_idempotent(places: tuple[Path, Path]) -> None:
    seal(*places)
    seal(*places)
    assert events_of(places[1]) == EVENTS


def test_sealing_a_missing_spool_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        seal(tmp_path / "x.rec", tmp_path / "x.rec.zst")


def stop_at(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, after: bool) -> None:
    real: Callable[..., object] = getattr(owner, name)

    def stopping(*args: object, **kwargs: object) -> object:
        if after:
            real(*args, **kwargs)
        raise Stop

    monkeypatch.setattr(owner, name, stopping)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (sealing, "make_folder"),
        (sealing, "_create"),
        (sealing, "_compress"),
        (os, "fsync"),
        (os, "replace"),
        (sealing, "sync_folder"),
        (Path, "unlink"),
    ],
    ids=["make folder", "create", "compress", "sync archive", "rename", "sync folder", "remove spool"],
)
def test_interrupted_seal_loses_nothing_and_resumes(
    places: tuple[Path, Path], owner: object, name: str, after: bool
) -> None:
    spool, sealed = places
    if name != "make_folder":
        make_folder(sealed.parent)  # so that the first fsync is the archive's own
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, owner, name, after)
        with pytest.raises(Stop):
            seal(spool, sealed)
    survivors = [path for path in (spool, sealed) if path.exists()]
    assert survivors
    for path in survivors:
        assert events_of(path) == EVENTS
    finish(spool, sealed)


@pytest.mark.parametrize("length", [0, 1, 100_000], ids=["empty", "one byte", "longer than the sealed file"])
def test_partial_sealed_file_is_overwritten(places: tuple[Path, Path], length: int) -> None:
    spool, sealed = places
    make_folder(sealed.parent)
    sealed.with_name(sealed.name + ".partial").write_bytes(bytes(length))
    finish(spool, sealed)


def finish(spool: Path, sealed: Path) -> None:
    seal(spool, sealed)
    assert not spool.exists()
    assert events_of(sealed) == EVENTS
    assert list(sealed.parent.iterdir()) == [sealed]


def test_full_disk_keeps_the_spool(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        seal(*places)
    assert events_of(places[0]) == EVENTS
    assert not places[1].exists()
