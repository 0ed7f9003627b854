"""The queue of owed responses behaves like a list whose first entry is removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.postgres.wire.postgres_response_queue import (
    QUERY,
    SYNC,
    OwedResponses,
    PostgresPendingResponse,
)

# How many entries to append (above 0), to remove, or, with None, the one behind the head to remove.
STEPS = st.lists(st.integers(-200, 200) | st.none(), max_size=30)


@given(STEPS)
def test_queue_equals_a_list(steps: list[int | None]) -> None:
    queue, expected = OwedResponses(), list[PostgresPendingResponse]()
    for step in steps:
        if step is None:
            if len(expected) > 1:
                queue.remove_behind_head()
                del expected[1]
        elif step > 0:
            for number in range(step):
                slot = PostgresPendingResponse(QUERY, number)
                queue.append(slot)
                expected.append(slot)
        else:
            for _ in range(min(-step, len(expected))):
                assert queue.popleft() is expected.pop(0)
        assert len(queue) == len(expected)
        assert queue.head is (expected[0] if expected else None)
        assert queue.behind_head() == expected[1:]
        assert not expected or queue.last is expected[-1]


def test_empty_queue_has_nothing_to_remove() -> None:
    queue = OwedResponses()
    queue.append(PostgresPendingResponse(SYNC))
    queue.popleft()
    with pytest.raises(IndexError):
        queue.popleft()
