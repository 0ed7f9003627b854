"""The contracts of wires with the dialect of applications, and what must hold however reads are cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.http_links import EMAIL, guards, http_link, masking, say
from tests.support.protocols.http_test_frames import Shown, request, response
from tests.support.protocols.wire_contracts import check_masking, check_wire, events_of, sent_to

from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.interception.events import ClientOutput, Masked, Operation
from postern.interception.verdicts import FORWARD
from postern.protocols.http import http_frames as f
from postern.protocols.http.wire.http_wire import HttpWire
from postern.protocols.httpproxy.dialect.httpproxy_parser import HttpproxyParser
from postern.protocols.httpproxy.httpproxy_dialect import HttpproxyDialect
from postern.protocols.wire_base import Side
from postern.relay.link import HoldEffect

IDENTITY = {"accept-encoding": "identity"}
KINDS = {
    "application/json": b'{"note": "the s3cret is here", "n": 1}',
    "text/html": b"<p>the s3cret is here</p>",
    "text/event-stream": b"data: the s3cret is here\n\n",
    "application/x-ndjson": b'{"a": 1}\n{"a": "s3cret"}\n',
}


def make_wire() -> HttpWire:
    return HttpWire(HttpproxyDialect())


@pytest.mark.parametrize("content_type", KINDS)
def test_contracts_are_kept(content_type: str) -> None:
    answer = response(KINDS[content_type], headers={"content-type": content_type}, piece=100, sized=False)
    conversation = [(Side.CLIENT, request("/a", headers=IDENTITY)), (Side.TARGET, answer)]
    garbage = [(Side.CLIENT, f.frame(99, 1, b"garbage")), (Side.TARGET, response(b"garbage"))]
    if content_type != "application/json":
        check_wire(make_wire, conversation, garbage=garbage)
    check_masking(make_wire, conversation, secret=b"s3cret", read=lambda sent: Shown(sent).body)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.booleans())
def test_cuts_change_nothing(sizes: list[int], sized: bool) -> None:
    body = json.dumps({"users": [{"email": EMAIL, "id": number} for number in range(3)]}).encode()
    answer = response(body, headers={"content-type": "application/json"}, piece=17, sized=sized)
    link = http_link(masking())
    say(link, Side.CLIENT, request("/a"))
    sent = b""
    at = number = 0
    while at < len(answer):
        size = sizes[number % len(sizes)]
        sent += sent_to(Side.CLIENT, say(link, Side.TARGET, answer[at : at + size]))
        at, number = at + size, number + 1
    whole = http_link(masking())
    say(whole, Side.CLIENT, request("/a"))
    assert Shown(sent).body == Shown(sent_to(Side.CLIENT, say(whole, Side.TARGET, answer))).body
    assert Shown(sent).ends == 1


def test_marks_tell_where_the_recording_was_masked() -> None:
    link = http_link(masking())
    say(link, Side.CLIENT, request("/a"))
    headers = {"content-type": "application/json", "set-cookie": "a=b"}
    effects = say(link, Side.TARGET, response(b'{"e": "%b"}' % EMAIL.encode(), headers=headers, piece=100))
    (masked,) = [event for event in events_of(effects) if isinstance(event, Masked)]
    (output,) = [event for event in events_of(effects) if isinstance(event, ClientOutput)]
    (frame,) = f.HttpFrameReader().feed(output.data[masked.at : masked.at + masked.size])
    assert frame.kind == f.RESPONSE_DATA
    assert masked.marks[0].mask.info_types == ("EMAIL_ADDRESS",)


def test_reviewed_request_waits_with_its_body() -> None:
    review = Rule(RuleType.DENY_STATEMENTS, objects=("/orders/*",), action=Action.REVIEW)
    link = http_link(guards(review, parser=HttpproxyParser()))
    effects = say(link, Side.CLIENT, request("/orders/7", b'{"a": 1}', headers={"content-type": "application/json"}))
    hold = effects[-1]
    assert isinstance(hold, HoldEffect)
    assert "/orders/7" in hold.question
    assert sent_to(Side.TARGET, effects) == b""
    assert not [event for event in events_of(effects) if isinstance(event, Operation)]
    admitted = link.resume(hold.ticket, FORWARD)
    (operation,) = [event for event in events_of(admitted) if isinstance(event, Operation)]
    assert operation.text.startswith("POST /orders/7")
    assert sent_to(Side.TARGET, admitted)
