"""The reason, duration and issue fields that a command line passes to open a connection."""

from __future__ import annotations

from typing import Any

import pytest

from postern.cli.terminal.forward import StreamRequest
from postern.domain.reviews.review import MAX_REASON
from postern.domain.secret import Secret
from postern.errors import Invalid, ProtocolViolation
from postern.gateway.clients.tunnel_request import MOST_FIELDS, fields_of, read_reason_and_duration


@pytest.mark.parametrize(("reason", "duration"), [("", None), ("ticket 4711", 1800), ("x" * MAX_REASON, 1)])
def test_reason_and_duration_of_the_command_line_are_read(reason: str, duration: int | None) -> None:
    request = StreamRequest("wss://localhost", Secret("t"), "shop", "", reason, duration).fields()
    assert read_reason_and_duration(request) == (reason, duration)
    assert (request["connect"], request["token"]) == ("shop", "t")


def test_request_of_an_older_command_line_has_no_reason_and_duration() -> None:
    assert read_reason_and_duration({"connect": "shop"}) == ("", None)


@pytest.mark.parametrize(
    "said",
    [{"reason": 4711}, {"reason": None}, {"duration": "2h"}, {"duration": 0}, {"duration": -1}, {"duration": True}],
)
def test_attack_malformed_reason_or_duration_is_a_protocol_violation(said: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        read_reason_and_duration(said)


def test_attack_overlong_reason_is_rejected() -> None:
    with pytest.raises(Invalid, match="at most"):
        read_reason_and_duration({"reason": "x" * (MAX_REASON + 1)})


def test_issue_fields_of_the_command_line_are_read() -> None:
    fields = {"summary": "restore the orders", "customfield_10001": ""}
    request = StreamRequest("wss://localhost", Secret("t"), "shop", "", tracker_fields=fields).fields()
    assert fields_of(request) == fields
    assert fields_of(StreamRequest("wss://localhost", Secret("t"), "shop", "").fields()) == {}


@pytest.mark.parametrize("said", ["summary", ["summary"], {"summary": 1}, {"summary": None}, None])
def test_attack_malformed_issue_fields_are_a_protocol_violation(said: object) -> None:
    with pytest.raises(ProtocolViolation):
        fields_of({"tracker_fields": said})


def test_attack_number_of_issue_fields_is_limited() -> None:
    with pytest.raises(Invalid, match="at most"):
        fields_of({"tracker_fields": {str(number): "x" for number in range(MOST_FIELDS + 1)}})
