"""What a command line may say about why it wants in, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from postern.cli.terminal.forward import Reached
from postern.domain.reviews.review import MAX_REASON
from postern.domain.secret import Secret
from postern.errors import Invalid, ProtocolViolation
from postern.gateway.clients.tunnel_request import MOST_FIELDS, fields_of, read_reason_and_duration


@pytest.mark.parametrize(("reason", "duration"), [("", None), ("ticket 4711", 1800), ("x" * MAX_REASON, 1)])
def test_what_the_command_line_says_is_understood(reason: str, duration: int | None) -> None:
    request = Reached("wss://localhost", Secret("t"), "shop", "", reason, duration).stream_request()
    assert read_reason_and_duration(request) == (reason, duration)
    assert (request["connect"], request["token"]) == ("shop", "t")


def test_an_older_command_line_says_nothing() -> None:
    assert read_reason_and_duration({"connect": "shop"}) == ("", None)


@pytest.mark.parametrize(
    "said",
    [{"reason": 4711}, {"reason": None}, {"duration": "2h"}, {"duration": 0}, {"duration": -1}, {"duration": True}],
)
def test_attack_what_is_no_reason_and_no_duration(said: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        read_reason_and_duration(said)


def test_attack_a_reason_without_end() -> None:
    with pytest.raises(Invalid, match="at most"):
        read_reason_and_duration({"reason": "x" * (MAX_REASON + 1)})


def test_what_the_issue_of_a_session_is_to_say_is_understood() -> None:
    fields = {"summary": "restore the orders", "customfield_10001": ""}
    request = Reached("wss://localhost", Secret("t"), "shop", "", tracker_fields=fields).stream_request()
    assert fields_of(request) == fields
    assert fields_of(Reached("wss://localhost", Secret("t"), "shop", "").stream_request()) == {}


@pytest.mark.parametrize("said", ["summary", ["summary"], {"summary": 1}, {"summary": None}, None])
def test_attack_what_is_no_field_of_an_issue(said: object) -> None:
    with pytest.raises(ProtocolViolation):
        fields_of({"tracker_fields": said})


def test_attack_fields_without_end() -> None:
    with pytest.raises(Invalid, match="at most"):
        fields_of({"tracker_fields": {str(number): "x" for number in range(MOST_FIELDS + 1)}})
