"""How stream windows grow and shrink, on their own; on links: test_windows_on_links.py."""

from __future__ import annotations

import pytest

from postern.transport.stream_windows import LONGEST, SLOW, TUNNEL, WIDEST, WINDOW, Reserve, StreamWindow, Windows


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def windows(trip: float, size: int = TUNNEL) -> tuple[Windows, Clock]:
    clock = Clock()
    made = Windows(Reserve(size), clock)
    made.trip = trip
    return made, clock


def take(window: StreamWindow, clock: Clock, seconds: float, *, waiting: bool = False) -> int:
    """Half of the window is taken, evenly; how many bytes the peer gets for it."""
    half, given = window.size // 2, 0
    for _ in range(2):
        clock.now += seconds / 2
        given += window.renew(half // 2, waiting)
    return given


def test_window_doubles_if_half_of_it_is_consumed_within_two_round_trips() -> None:
    shared, clock = windows(0.1)
    window = StreamWindow(shared)
    assert take(window, clock, 0.01) == WINDOW // 2  # nothing is known of when it began
    assert take(window, clock, 0.19) == WINDOW // 2 + WINDOW
    assert (window.size, window.part) == (2 * WINDOW, WINDOW // 2)
    assert take(window, clock, 0.21) == WINDOW
    assert window.size == 2 * WINDOW
    for _ in range(10):
        take(window, clock, 0.01)
    assert window.size == WIDEST
    assert shared.reserve.free == TUNNEL - WIDEST + WINDOW


def test_window_does_not_grow_without_a_measured_round_trip() -> None:
    shared, clock = windows(0.0)
    window = StreamWindow(shared)
    for _ in range(10):
        take(window, clock, 1e-9)
    assert window.size == WINDOW


def test_window_does_not_grow_if_data_waited_for_its_reader() -> None:
    shared, clock = windows(0.1)
    window = StreamWindow(shared)
    for _ in range(10):
        take(window, clock, 0.001, waiting=True)
    assert window.size == WINDOW
    window.waited = True  # in the middle of it
    take(window, clock, 0.001)
    assert window.size == WINDOW
    take(window, clock, 0.001)
    assert window.size == 2 * WINDOW


def test_slowly_consumed_window_shrinks_by_the_consumed_bytes() -> None:
    shared, clock = windows(0.1)
    window = StreamWindow(shared)
    for _ in range(4):
        take(window, clock, 0.01)
    size = window.size
    granted = take(window, clock, SLOW + 1)
    assert granted == size // 4  # of two quarters
    assert window.size == size - size // 4
    for _ in range(20):
        take(window, clock, SLOW + 1, waiting=True)
    assert window.size == WINDOW
    assert shared.reserve.free == TUNNEL
    assert take(window, clock, 3600) == WINDOW // 2  # never below


def test_share_of_a_reserve_never_exceeds_what_is_left() -> None:
    reserve = Reserve(64)
    assert reserve.take(15, 15)
    assert reserve.take(15, 15)
    assert reserve.take(15, 15)
    assert not reserve.take(15, 15)
    assert reserve.take(7, 7)
    assert reserve.free == 12
    reserve.give_back(15)
    assert reserve.take(1, 8)
    assert not reserve.take(10, 18)


def test_tunnels_that_share_a_reserve_leave_a_part_to_each_other() -> None:
    process = Reserve(100)
    greedy, late = Reserve(80, process), Reserve(80, process)
    while greedy.take(1, 1):
        pass
    assert greedy.size - greedy.free == 50
    assert late.take(10, 10)
    assert process.free == 40
    greedy.give_back(50)
    late.give_back(10)
    assert process.free == 100


def test_round_trip_is_the_shortest_measured_one_up_to_a_maximum() -> None:
    shared, clock = windows(0.0)
    for spent, trip in ((60.0, LONGEST), (0.2, 0.2), (0.3, 0.2), (0.1, 0.1)):
        asked = shared.ask()
        clock.now += spent
        assert shared.receive_pong(b"something else") is False
        assert shared.receive_pong(b"") is False
        shared.receive_pong(asked)
        assert shared.trip == pytest.approx(trip)
        assert shared.receive_pong(asked) is False
        assert shared.trip == pytest.approx(trip)


def test_three_round_trips_are_measured_initially() -> None:
    shared, _ = windows(0.0)
    assert [shared.receive_pong(shared.ask()) for _ in range(4)] == [True, True, False, False]
