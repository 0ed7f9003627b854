"""What a machine says of its recordings."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

from postern.archive.archiver import Round
from postern.recording.layout import sealed_folder
from postern.settings import load
from postern.wiring import paths, recordings_wiring
from postern.wiring.metrics_wiring import gather_metrics
from postern.wiring.recordings_wiring import WaitingSegments, archiver_trouble, make_trouble_observer


def test_a_machine_without_room_should_get_no_sessions(tmp_path: Path) -> None:
    """Without an archiver it may: sessions work, and a load balancer that took them away would help nobody."""
    settings = load({}, home=str(tmp_path), recording_least_free=1)
    assert recordings_wiring.archiver_silence(tmp_path) == math.inf
    assert recordings_wiring.trouble_with_recordings(settings) == ""
    poor = load({}, home=str(tmp_path), recording_least_free=1 << 62)
    assert "too little free space" in recordings_wiring.trouble_with_recordings(poor)


async def test_the_metrics_say_how_long_the_archiver_is_silent_and_what_waits(tmp_path: Path) -> None:
    beat = paths.archiver_beat(tmp_path)
    beat.parent.mkdir()
    assert b"postern_archiver_silence_seconds +Inf" in await gather_metrics(tmp_path)
    beat.touch()
    os.utime(beat, (time.time() - 300, time.time() - 300))
    assert recordings_wiring.waiting_for_archiver(tmp_path) == WaitingSegments()
    sealed = sealed_folder(tmp_path) / "2026" / "01"
    sealed.mkdir(parents=True)
    for number, age in enumerate((10, 700)):
        (sealed / f"{number}.rec.zst").write_bytes(b"x" * 50)
        os.utime(sealed / f"{number}.rec.zst", (time.time() - age, time.time() - age))
    told = dict(line.split(" ") for line in (await gather_metrics(tmp_path)).decode().splitlines() if line[0] != "#")
    assert 300 <= float(told["postern_archiver_silence_seconds"]) < 600
    assert (told["postern_sealed_segments"], told["postern_sealed_bytes"]) == ("2.0", "100.0")
    assert 700 <= float(told["postern_sealed_oldest_seconds"]) < 1000


def test_trouble_is_there_while_it_lasts(tmp_path: Path) -> None:
    assert archiver_trouble(tmp_path) == ""
    told = make_trouble_observer(tmp_path)
    told(Round(trouble="the blob store is full"))
    assert archiver_trouble(tmp_path) == "the blob store is full"
    told(Round(stored=1))
    assert archiver_trouble(tmp_path) == ""


def test_a_disk_that_takes_nothing_is_no_further_trouble(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    make_trouble_observer(tmp_path)(Round(trouble="the disk is full"))
    assert archiver_trouble(tmp_path) == ""
