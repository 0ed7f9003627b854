"""What the archivist leaves for whoever asks what is wrong."""

from __future__ import annotations

from pathlib import Path

from postern.archive.archivist import Round
from postern.wiring.trouble import file_of, teller, trouble


def test_trouble_is_there_while_it_lasts(tmp_path: Path) -> None:
    assert trouble(tmp_path) == ""
    told = teller(tmp_path)
    told(Round(trouble="the blob store is full"))
    assert trouble(tmp_path) == "the blob store is full"
    told(Round(stored=1))
    assert trouble(tmp_path) == ""


def test_a_disk_that_takes_nothing_is_no_further_trouble(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    teller(tmp_path)(Round(trouble="the disk is full"))
    assert not file_of(tmp_path).exists()
    assert trouble(tmp_path) == ""
