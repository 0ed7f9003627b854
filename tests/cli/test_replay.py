from __future__ import annotations

import pytest

from postern.cli.terminal.replay import Pace, Player


class Keyboard:
    """Keys by the time of the clock at which they are pressed, in seconds."""

    def __init__(self, *keys: tuple[float, str]) -> None:
        self.at = 0.0
        self._keys = list(keys)

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float | None) -> str:
        end = None if seconds is None else self.at + seconds
        if self._keys and (end is None or self._keys[0][0] < end):
            at, key = self._keys.pop(0)
            self.at = max(self.at, at)
            return key
        assert end is not None
        self.at = end
        return ""


EVENTS = [(1.0, "a"), (3.0, "b"), (20.0, "c"), (21.0, "d")]


def played(pace: Pace, *keys: tuple[float, str], seek: float = 0.0) -> list[tuple[float, str]]:
    keyboard = Keyboard(*keys)
    shown: list[tuple[float, str]] = []
    player = Player[str](pace, keyboard.wait, lambda one: shown.append((keyboard.at, one)), keyboard.now)
    player.play(EVENTS, seek)
    return shown


@pytest.mark.parametrize(
    ("pace", "keys", "seek", "shown"),
    [
        (Pace(), [], 0.0, [(1, "a"), (3, "b"), (20, "c"), (21, "d")]),
        (Pace(2.0), [], 0.0, [(0.5, "a"), (1.5, "b"), (10, "c"), (10.5, "d")]),
        (Pace(max_pause=2.0), [], 0.0, [(1, "a"), (3, "b"), (5, "c"), (6, "d")]),
        (Pace(), [], 19.0, [(0, "a"), (0, "b"), (1, "c"), (2, "d")]),
        (Pace(), [(5.0, "."), (5.5, "q")], 0.0, [(1, "a"), (3, "b"), (5, "c")]),
        (Pace(), [(2.0, " "), (102.0, " ")], 0.0, [(1, "a"), (103, "b"), (120, "c"), (121, "d")]),
        (Pace(), [(3.5, "]")], 0.0, [(1, "a"), (3, "b"), (10, "c"), (11, "d")]),
        (Pace(), [(4.0, "+")], 0.0, [(1, "a"), (3, "b"), (12, "c"), (12.5, "d")]),
        (Pace(), [(0.5, "x"), (0.6, "-")], 0.0, [(1.4, "a"), (5.4, "b"), (39.4, "c"), (41.4, "d")]),
    ],
)
def test_what_is_shown_when(
    pace: Pace, keys: list[tuple[float, str]], seek: float, shown: list[tuple[float, str]]
) -> None:
    found = played(pace, *keys, seek=seek)
    assert [one for _, one in found] == [one for _, one in shown]
    assert [at for at, _ in found] == pytest.approx([at for at, _ in shown])
