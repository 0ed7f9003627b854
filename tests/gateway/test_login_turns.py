"""Turns of logins: which one works, which one waits, and which one is rejected at once; decided without a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.gateway.clients.login_turns import LoginTurns, Turn
from postern.gateway.rules.fair_queue import FairQueue


def test_logins_of_different_addresses_take_turns() -> None:
    """An address with many clients does not block one with few."""
    turns: LoginTurns[str] = LoginTurns(slots=1)
    assert turns.arrive("busy", "busy 0", 0.0) is Turn.NOW
    for name in ("busy 1", "busy 2", "busy 3", "calm 1", "calm 2", "quiet"):
        assert turns.arrive(name.split()[0], name, 0.0) is Turn.WAITS
    assert [turns.leave(0.1)[0] for _ in range(7)] == [
        "busy 1", "calm 1", "quiet", "busy 2", "calm 2", "busy 3", None,
    ]  # fmt: skip


def test_client_is_rejected_at_once_if_it_would_wait_too_long() -> None:
    turns: LoginTurns[int] = LoginTurns(slots=1, longest_wait=5.0)
    turns.arrive("a", 0, 0.0)
    for number in range(1, 40):
        assert turns.arrive("a", number, 0.0) is Turn.WAITS  # nothing is known of the pace yet
    now = 0.0
    for _ in range(39):
        now += 0.5
        following, late = turns.leave(now)
        if following is None or late:
            break
    assert now > 5.0
    assert turns.expected_wait("a") == 0.0 or not turns.waiting
    # Half a second for each: more than some ten cannot be served within five.
    assert turns.arrive("a", 100, now) is Turn.NOW
    answers = [turns.arrive("a", number, now) for number in range(101, 140)]
    assert answers[0] is Turn.WAITS
    assert answers[-1] is Turn.TOO_LATE
    assert 5 <= answers.count(Turn.WAITS) <= 25


def test_client_that_has_waited_too_long_is_returned_and_the_next_one_begins() -> None:
    turns: LoginTurns[str] = LoginTurns(slots=1, longest_wait=5.0)
    turns.arrive("a", "first", 0.0)
    turns.arrive("a", "old", 0.0)
    turns.arrive("a", "new", 8.0)
    assert turns.leave(9.0) == ("new", ["old"])
    assert turns.leave(9.0) == (None, [])
    assert turns.arrive("a", "next", 9.0) is Turn.NOW


def test_pause_between_two_bursts_does_not_count_as_slowness() -> None:
    turns: LoginTurns[int] = LoginTurns(slots=1, longest_wait=5.0)
    for start in (0.0, 10_000.0):
        assert turns.arrive("a", 0, start) is Turn.NOW
        assert [turns.arrive("a", number, start) for number in range(1, 20)] == [Turn.WAITS] * 19
        for number in range(1, 20):
            assert turns.leave(start + number * 0.01) == (number, [])
        assert turns.leave(start + 0.2) == (None, [])


@given(st.lists(st.one_of(st.sampled_from("abc"), st.none()), max_size=60), st.integers(1, 4))
def test_login_turns_lose_no_slot_and_no_client(steps: list[str | None], slots: int) -> None:
    """A step is an arrival with its address, or None for a departure."""
    turns: LoginTurns[int] = LoginTurns(slots, longest_wait=3.0)
    working, waiting, now = 0, set[int](), 0.0
    for number, step in enumerate(steps):
        now += 0.7
        if step is not None:
            answer = turns.arrive(step, number, now)
            assert answer is not Turn.NOW or working < slots
            working += answer is Turn.NOW
            if answer is Turn.WAITS:
                assert working == slots
                waiting.add(number)
        elif working:
            following, late = turns.leave(now)
            working -= following is None
            waiting -= {*late, following}
        assert turns.waiting == len(waiting)
        assert working == slots or not waiting
    assert set(turns.drain()) == waiting


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40), st.sampled_from("abcd"))
def test_queue_estimates_how_many_items_come_before(steps: list[tuple[str, bool]], owner: str) -> None:
    queue: FairQueue[str, object] = FairQueue()
    for one, takes in steps:
        if takes:
            queue.take()
        else:
            queue.put(one, object())
    before, mine = queue.items_before(owner), object()
    queue.put(owner, mine)
    order = []
    while (taken := queue.take()) is not None:
        order.append(taken[1])
    # Turns go round: whoever stood behind in the round may have one turn less by then.
    assert order.index(mine) <= before
    assert before - order.index(mine) <= 3


def test_queue_item_is_removed_once() -> None:
    queue: FairQueue[str, str] = FairQueue()
    queue.put("a", "one")
    assert queue.remove("a", "one")
    assert not queue.remove("a", "one")
    assert (len(queue), queue.take()) == (0, None)


@pytest.mark.parametrize("allowed", ["b", ""])
def test_queue_skips_an_owner_that_is_not_allowed(allowed: str) -> None:
    queue: FairQueue[str, int] = FairQueue()
    queue.put("a", 1)
    queue.put("b", 2)
    assert queue.take(lambda owner: owner == allowed) == (("b", 2) if allowed else None)
