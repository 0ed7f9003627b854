"""Heads in frames: the last one is remembered, and never taken for another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from postern.errors import ProtocolViolation
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import RequestHead, ResponseHead

REQUESTS = (
    RequestHead("GET", "/a", "app"),
    RequestHead("GET", "/b", "app"),
    RequestHead("POST", "/a", "app", ((b"x-a", b"1"),), 3),
    RequestHead("POST", "/a", "app", ((b"x-a", b"2"),), None, digest="ab"),
    RequestHead("GET", "/a", "app", ((b"x-a", b"\xff\\\t"),), upgrade="websocket"),
)
RESPONSES = (
    ResponseHead(200, ((b"etag", b"1"),), 3),
    ResponseHead(200, ((b"etag", b"2"),), 3),
    ResponseHead(304, ((b"etag", b"1"),), 3, has_body=False),
    ResponseHead(200),
)


@pytest.mark.parametrize("first", REQUESTS)
@pytest.mark.parametrize("second", REQUESTS)
def test_requests_in_turn_are_read_as_they_were_written(first: RequestHead, second: RequestHead) -> None:
    frames = [f.request_frame(number, head) for number, head in enumerate((first, second, first))]
    assert frames[0][f.HEADER :] == frames[2][f.HEADER :]
    assert [f.read_request(frame[f.HEADER :]) for frame in frames] == [first, second, first]
    equal = replace(second)
    assert f.request_frame(1, equal) == frames[1]


@pytest.mark.parametrize("first", RESPONSES)
@pytest.mark.parametrize("second", RESPONSES)
def test_responses_in_turn_are_read_as_they_were_written(first: ResponseHead, second: ResponseHead) -> None:
    frames = [f.response_frame(number, head) for number, head in enumerate((first, second, first))]
    assert [f.read_response(frame[f.HEADER :]) for frame in frames] == [first, second, first]
    assert f.recorded_response_frame(1, second) == frames[1]


def test_invalid_head_is_not_remembered() -> None:
    valid = f.request_frame(1, REQUESTS[0])[f.HEADER :]
    for payload in (b"[]", b"[]", b""):
        with pytest.raises(ProtocolViolation):
            f.read_request(payload)
        with pytest.raises(ProtocolViolation):
            f.read_response(payload)
    assert f.read_request(valid) == REQUESTS[0]
