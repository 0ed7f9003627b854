from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from postern.interception.events import ClientOutput, Completed, End, Note, Operation, Refusal
from postern.recording import recovery
from postern.recording.layout import sealed_path, spool_folder
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header, encode
from postern.recording.recovery import GATEWAY_STOPPED, recover
from postern.recording.sealing import seal

from .conftest import MakeSpool

pytestmark = pytest.mark.usefixtures("way")


def fill(make_spool: MakeSpool, **which: object) -> Path:
    spool = make_spool(**which)
    spool.append(encode(Operation(1, "select 1"), 10))
    spool.append(encode(ClientOutput(b"answer"), 20))
    spool.append(encode(Completed(1), 20))
    spool.append(encode(Refusal(2, "no drops", "blocked"), 1_500_000))
    return spool.path


def test_recordings_of_a_dead_worker_are_given_an_end_sealed_and_reported(
    make_spool: MakeSpool, home: Path, header: Header
) -> None:
    path = fill(make_spool)
    (found,) = recover(spool_folder(home, "w1"))
    assert found.session == header.session
    assert found.ended_at == header.started_at + timedelta(seconds=1.5)
    assert (found.operations, found.refused, found.damage) == (1, 1, "")
    assert not path.exists()
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        events = list(reader)
    assert events[-2:] == [(1_500_000, Note(GATEWAY_STOPPED)), (1_500_000, End("gateway_crashed"))]
    assert reader.intact == found.size
    assert recover(spool_folder(home, "w1")) == []


def test_partial_record_is_replaced_by_the_marker(make_spool: MakeSpool, home: Path, header: Header) -> None:
    path = fill(make_spool)
    os.truncate(path, size_of_records(path))
    with path.open("ab") as file:
        file.write(encode(ClientOutput(b"half a record"), 2_000_000)[:-3])
    (found,) = recover(spool_folder(home, "w1"))
    assert "incomplete" in found.damage
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        events = [event for _, event in reader]
    assert not reader.damage
    assert len(events) == 6
    assert isinstance(events[-2], Note)
    assert "incomplete" in events[-2].details["cut"]


def size_of_records(path: Path) -> int:
    with SegmentReader(path) as reader:
        list(reader)
    return reader.intact


def test_record_cut_in_the_space_for_more_is_replaced_by_the_marker(
    make_spool: MakeSpool, home: Path, header: Header
) -> None:
    path = fill(make_spool)
    record = encode(ClientOutput(b"half a record"), 2_000_000)
    with path.open("r+b") as file:
        file.seek(size_of_records(path))
        file.write(record[:-3] + bytes(1000))
    (found,) = recover(spool_folder(home, "w1"))
    assert "checksum" in found.damage
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        assert [type(event) for _, event in reader][-2:] == [Note, End]
    assert not reader.damage


def test_record_behind_a_part_that_the_disk_lost_is_damage(make_spool: MakeSpool, home: Path, header: Header) -> None:
    path = fill(make_spool)
    with path.open("r+b") as file:
        file.seek(size_of_records(path) + 4096)
        file.write(encode(ClientOutput(b"what was written later"), 2_000_000))
    (found,) = recover(spool_folder(home, "w1"))
    assert "a part is missing" in found.damage
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        notes = [event for _, event in reader if isinstance(event, Note)]
    assert not reader.damage
    assert "a part is missing" in notes[-1].details["cut"]


def test_space_behind_the_end_of_a_segment_is_given_back(make_spool: MakeSpool, home: Path, header: Header) -> None:
    """Its worker was killed between the last record and the cut."""
    path = fill(make_spool)
    size = size_of_records(path)
    end = encode(End("client_closed"), 2_000_000)
    with path.open("r+b") as file:
        file.seek(size)
        file.write(end + bytes(5000))
    (found,) = recover(spool_folder(home, "w1"))
    assert not found.damage
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        assert [event for _, event in reader][-1] == End("client_closed")
    assert not reader.damage
    assert reader.intact == size + len(end)


def test_empty_spool_counts_as_no_segment(make_spool: MakeSpool, home: Path, header: Header) -> None:
    """Its worker died after it created the file and before it wrote the header."""
    path = fill(make_spool)
    next_one = path.with_name(path.name.replace(".000001.", ".000002."))
    alone, later = (path.with_name(f"{uuid4()}.{number:06}.rec") for number in (1, 2))
    for empty in (next_one, alone, later):
        empty.touch()
    found = {one.session: one for one in recover(spool_folder(home, "w1"))}
    assert not found.pop(header.session).damage
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        assert [event for _, event in reader][-1] == End("gateway_crashed")
    (other,) = found.values()  # the one before it is not here: something is missing
    assert other.damage
    assert [left.name for left in spool_folder(home, "w1").iterdir()] == [f"{later.name}.broken"]


def test_broken_files_do_not_block_recovery_of_other_recordings(make_spool: MakeSpool, home: Path) -> None:
    folder = spool_folder(home, "w1")
    good = [uuid4() for _ in range(3)]
    for session in good:
        fill(make_spool, session=session)
    broken = uuid4()
    (folder / f"{broken}.000001.rec").write_bytes(b"garbage")
    (folder / "notes.rec").write_bytes(b"not ours")
    found = {one.session: one for one in recover(folder)}
    assert set(found) == {*good, broken}
    assert "too short" in found[broken].damage
    assert found[broken].ended_at is None
    assert all(not found[session].damage for session in good)
    assert (folder / f"{broken}.000001.rec.broken").read_bytes() == b"garbage"
    assert (folder / "notes.rec").exists()


def test_interrupted_recovery_does_not_add_a_second_end_marker(
    make_spool: MakeSpool, home: Path, header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(make_spool)

    def no_room(spool: Path, archive: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recovery, "seal", no_room)
    (first,) = recover(spool_folder(home, "w1"))
    assert "No space left" in first.damage
    assert path.exists()
    monkeypatch.setattr(recovery, "seal", seal)
    (second,) = recover(spool_folder(home, "w1"))
    assert second.damage == ""
    assert second.ended_at == header.started_at + timedelta(seconds=1.5)
    with SegmentReader(sealed_path(home, header.session, header.started_at)) as reader:
        notes = [event for _, event in reader if isinstance(event, Note)]
    assert notes == [Note(GATEWAY_STOPPED)]


def test_missing_folder_has_nothing_to_recover(tmp_path: Path) -> None:
    assert recover(tmp_path / "spool" / "w9") == []


@pytest.mark.parametrize("micros", [1 << 60, (1 << 64) - 1])
def test_record_with_an_impossible_time_does_not_block_other_sessions(
    make_spool: MakeSpool, home: Path, header: Header, micros: int
) -> None:
    damaged = make_spool(uuid4())
    damaged.append(encode(Note("late"), micros))
    damaged.close()
    path = fill(make_spool)
    found = {one.session: one for one in recover(spool_folder(home, "w1"))}
    assert found.pop(header.session).damage == ""
    (other,) = found.values()
    assert other.damage == f"segment 1: a record has an impossible time, {micros} microseconds after the start"
    assert not path.exists()
    assert [left.name for left in spool_folder(home, "w1").iterdir()] == [f"{damaged.path.name}.broken"]
