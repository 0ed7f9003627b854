"""What a command line may say about why it wants in, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from postern.cli.forward import Reached
from postern.domain.review import MAX_REASON
from postern.domain.secret import Secret
from postern.errors import Invalid, ProtocolViolation
from postern.gateway.wanted import asked_for


@pytest.mark.parametrize(("reason", "duration"), [("", None), ("ticket 4711", 1800), ("x" * MAX_REASON, 1)])
def test_what_the_command_line_says_is_understood(reason: str, duration: int | None) -> None:
    wish = Reached("wss://localhost", Secret("t"), "shop", "", reason, duration).wish()
    assert asked_for(wish) == (reason, duration)
    assert (wish["connect"], wish["token"]) == ("shop", "t")


def test_an_older_command_line_says_nothing() -> None:
    assert asked_for({"connect": "shop"}) == ("", None)


@pytest.mark.parametrize(
    "said",
    [{"reason": 4711}, {"reason": None}, {"duration": "2h"}, {"duration": 0}, {"duration": -1}, {"duration": True}],
)
def test_attack_what_is_no_reason_and_no_duration(said: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        asked_for(said)


def test_attack_a_reason_without_end() -> None:
    with pytest.raises(Invalid, match="at most"):
        asked_for({"reason": "x" * (MAX_REASON + 1)})
