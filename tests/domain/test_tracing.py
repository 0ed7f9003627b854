from __future__ import annotations

import pytest
from tests.support.spans import TRACEPARENT as GOOD
from tests.support.spans import Noted

from postern.domain.tracing import NO_SPAN, current, make_current, parent_of, part, trace_payload, within


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        GOOD.upper(),
        GOOD + "\n",
        GOOD + "-00",
        " " + GOOD,
        GOOD[:-1],
        GOOD.replace("00-", "ff-", 1),
        GOOD.replace("00-", "01-", 1),
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        "0" * 100_000,
    ],
)
def test_what_is_no_traceparent_is_none(text: object) -> None:
    assert parent_of(text) == ""


def test_a_traceparent_is_taken_as_it_is() -> None:
    assert parent_of(GOOD) == GOOD


def test_where_nothing_is_traced_nothing_is_carried_nor_made() -> None:
    with part("something") as span:
        assert span is NO_SPAN
        assert current() is NO_SPAN
        assert trace_payload() == {}


def test_a_block_that_raises_has_failed_by_the_class_of_its_error_and_not_its_text() -> None:
    span = Noted()

    def work() -> None:
        with within(span):
            assert current() is span
            assert trace_payload() == {"traceparent": GOOD}
            raise ValueError("a secret")

    with pytest.raises(ValueError, match="secret"):
        work()
    assert span.said == ["failed: ValueError", "ended"]
    assert current() is NO_SPAN


async def test_what_a_task_does_is_its_own() -> None:
    span = Noted()
    make_current(span)
    try:
        with part("inner"):
            pass
        assert current() is span
    finally:
        make_current(NO_SPAN)
    assert span.said == ["inner", "ended"]
