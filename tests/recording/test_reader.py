from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from postern.errors import Malformed
from postern.interception.events import ClientOutput, Event, Operation
from postern.recording.reader import SegmentReader
from postern.recording.record_format import Header, encode, encode_header
from postern.recording.sealing import seal

EVENTS: list[Event] = [
    Operation(1, "select 1"),
    ClientOutput(b"one"),
    ClientOutput(b""),
    Operation(2, "select 2", values=(None, b"x")),
]


def read(path: Path) -> tuple[list[Event], str, int]:
    with SegmentReader(path) as reader:
        events = [event for _, event in reader]
    return events, reader.damage, reader.intact


def test_recording_cut_at_any_byte_yields_all_whole_records(tmp_path: Path, header: Header) -> None:
    head = encode_header(header)
    parts = [encode(event, at) for at, event in enumerate(EVENTS)]
    data = head + b"".join(parts)
    ends = [len(head) + sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
    path = tmp_path / "x.rec"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        if cut < len(head):
            with pytest.raises(Malformed):
                SegmentReader(path)
            continue
        whole = sum(end <= cut for end in ends) - 1
        events, damage, intact = read(path)
        assert events == EVENTS[:whole]
        assert intact == ends[whole]
        assert bool(damage) == any(data[ends[whole] : cut])  # a few zeros look like space for more records


def test_reading_stops_before_a_changed_record(tmp_path: Path, header: Header) -> None:
    head = encode_header(header)
    parts = [encode(event, at) for at, event in enumerate(EVENTS)]
    data = head + b"".join(parts)
    path = tmp_path / "x.rec"
    for at in range(len(head), len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        events, damage, intact = read(path)
        assert damage
        assert intact <= at
        assert events == EVENTS[: len(events)]


@pytest.mark.parametrize("size", [1, 12, 13, 4096])
def test_zeros_at_the_end_are_space_for_more_records(tmp_path: Path, header: Header, size: int) -> None:
    path = tmp_path / "x.rec"
    data = encode_header(header) + encode(EVENTS[0], 0)
    path.write_bytes(data + bytes(size))
    assert read(path) == (EVENTS[:1], "", len(data))


def test_reader_continues_with_records_appended_to_a_live_spool(tmp_path: Path, header: Header) -> None:
    path = tmp_path / "x.rec"
    path.write_bytes(encode_header(header) + encode(EVENTS[0], 0))
    with SegmentReader(path) as reader:
        assert [event for _, event in reader] == EVENTS[:1]
        with path.open("ab") as file:
            file.write(encode(EVENTS[1], 1))
        assert [event for _, event in reader] == EVENTS[1:2]


def make_archive(tmp_path: Path, header: Header, count: int) -> Path:
    spool = tmp_path / "x.rec"
    with spool.open("wb") as file:
        file.write(encode_header(header))
        for number in range(count):
            file.write(encode(Operation(number, f"select {number * number % 9973}"), number))
    archive = tmp_path / "x.rec.zst"
    seal(spool, archive)
    return archive


def test_sealed_segment_reads_like_its_spool(tmp_path: Path, header: Header) -> None:
    events, damage, _ = read(make_archive(tmp_path, header, 3000))
    assert [event.exchange for event in events if isinstance(event, Operation)] == list(range(3000))
    assert not damage


def test_cut_sealed_segment_reports_damage(tmp_path: Path, header: Header) -> None:
    archive = make_archive(tmp_path, header, 3000)
    data = archive.read_bytes()
    for cut in range(30, len(data), 97):
        archive.write_bytes(data[:cut])
        try:
            events, damage, _ = read(archive)
        except Malformed:
            continue
        assert len(events) < 3000 or cut > len(data) - 5  # only the frame's own checksum is missing
        assert damage or len(events) == 3000


def test_sealed_segment_cut_between_blocks_reports_damage(tmp_path: Path, header: Header) -> None:
    """What is left decompresses without an error, so only the size in the frame can tell."""
    whole = encode_header(header) + encode(EVENTS[0], 0)
    compressor = zstandard.ZstdCompressor().compressobj(size=len(whole) + 1000)
    path = tmp_path / "x.rec.zst"
    path.write_bytes(compressor.compress(whole) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    events, damage, _ = read(path)
    assert events == EVENTS[:1]
    assert "ends early" in damage


@pytest.mark.parametrize("content", [b"", b"hello", bytes(5000), b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd" + bytes(100)])
def test_file_that_is_not_a_segment_is_malformed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.rec"
    path.write_bytes(content)
    with pytest.raises(Malformed):
        SegmentReader(path)
