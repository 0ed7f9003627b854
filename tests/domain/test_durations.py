"""Durations in words."""

from __future__ import annotations

import pytest

from postern.domain.durations import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (0.25, "0.25 seconds"),
        (1, "1 second"),
        (10.0, "10 seconds"),
        (59.5, "59.5 seconds"),
        (60, "1 minute"),
        (90.5, "1 minute and 30 seconds"),
        (5_400, "1 hour and 30 minutes"),
        (172_800, "2 days"),
        (93_784, "1 day, 2 hours, 3 minutes and 4 seconds"),
    ],
)
def test_duration_is_said_in_words(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
