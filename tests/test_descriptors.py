from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from postern import descriptors
from postern.descriptors import INHERITED, Descriptors
from postern.errors import TooMany

SOURCE = Path(__file__).resolve().parents[1] / "src"
RAISE = """
import os, resource
from postern import descriptors
descriptors.raise_limit()
descriptors.raise_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE), descriptors.inherited_limit())
"""


@pytest.mark.parametrize("is_sized", [True, False])
def test_open_descriptors_are_counted(monkeypatch: pytest.MonkeyPatch, is_sized: bool) -> None:
    if is_sized and not descriptors._SIZED:
        pytest.skip("this kernel does not say")
    monkeypatch.setattr(descriptors, "_SIZED", is_sized)
    before = descriptors.count_open()
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(10)]
    assert descriptors.count_open() == before + 10
    for descriptor in opened:
        os.close(descriptor)


def test_room_ends_before_the_reserve_begins() -> None:
    free = descriptors.limit() - descriptors.count_open()
    room = Descriptors(reserve=free - 10)
    assert room.has_room(8)
    assert not room.has_room(12)
    with pytest.raises(TooMany, match="limit of open files"):
        room.require(12)
    assert room.refused == 2


@pytest.mark.parametrize(("limit", "reserve"), [(256, 64), (1024, 256), (8192, 2048), (1 << 20, 2048)])
def test_reserve_is_a_quarter_of_a_small_limit(monkeypatch: pytest.MonkeyPatch, limit: int, reserve: int) -> None:
    monkeypatch.setattr(descriptors, "limit", lambda: limit)
    assert Descriptors().reserve == reserve


def test_soft_limit_is_raised_and_the_old_one_is_kept_for_other_programs() -> None:
    environment = {name: value for name, value in os.environ.items() if name != INHERITED}
    done = subprocess.run(
        [sys.executable, "-c", RAISE],
        env={**environment, "PYTHONPATH": str(SOURCE)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700)),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout.split() == [b"700", b"700", b"300"]
