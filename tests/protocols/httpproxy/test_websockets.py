"""Messages of WebSocket through a link with rules."""

from __future__ import annotations

import pytest
from tests.support.http_links import EMAIL, guards, http_link, masking, say
from tests.support.protocols.http_test_frames import Shown, data, request, response, sent_requests
from tests.support.protocols.wire_contracts import events_of, sent_to

from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.rules.masking import Strictness
from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Operation, Refusal
from postern.interception.pipeline import Interceptor
from postern.protocols.http import http_frames as f
from postern.protocols.http.content.websocket_frames import WebsocketFrames, close_frame, unmask, websocket_frame
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link

WORD = Rule(RuleType.DENY_WORDS_LIST, words=("forbidden",))
KEY = b"\1\2\3\4"


def up(text: bytes, *, opcode: int = 1, fin: int = 0x80) -> bytes:
    """Encode a short frame of a client."""
    return bytes((fin | opcode, 0x80 | len(text))) + KEY + unmask(text, KEY)


def opened(*judges: Interceptor) -> Link:
    link = http_link(*judges)
    headers = {"sec-websocket-extensions": "permessage-deflate", "sec-websocket-key": "x"}
    sent = sent_to(
        Side.TARGET,
        say(link, Side.CLIENT, request("/ws?token=s3cret", headers=headers, upgrade="websocket", ends=False)),
    )
    ((head, _),) = sent_requests(sent)
    assert (b"sec-websocket-extensions" in dict(head.headers)) is not bool(judges)
    say(link, Side.TARGET, response(b"", status=101, ends=False))
    return link


@pytest.mark.parametrize(
    ("offered", "forwarded"),
    [
        ("v1.kernel.websocket.jupyter.org", None),
        ("v1.kernel.websocket.jupyter.org, chat", b"chat"),
        ("chat , V1.kernel.websocket.jupyter.org,", b"chat"),
        ("chat, superchat", b"chat, superchat"),
    ],
)
def test_binary_form_of_a_protocol_with_a_text_form_is_not_offered(offered: str, forwarded: bytes | None) -> None:
    headers = {"sec-websocket-protocol": offered}
    for judges, expected in (((guards(WORD),), forwarded), ((masking(),), forwarded), ((), offered.encode())):
        sent = say(http_link(*judges), Side.CLIENT, request("/ws", headers=headers, upgrade="websocket", ends=False))
        ((head, _),) = sent_requests(sent_to(Side.TARGET, sent))
        assert dict(head.headers).get(b"sec-websocket-protocol") == expected


def from_client(link: Link, content: bytes, size: int = 0) -> list[object]:
    return list(say(link, Side.CLIENT, data(f.REQUEST_DATA, content, piece=5), size))


def passed(effects: list[object], side: Side) -> bytes:
    """Return the bytes of the new protocol in the frames for one side."""
    sent = sent_to(side, effects)  # type: ignore[arg-type]
    kind = f.REQUEST_DATA if side is Side.TARGET else f.RESPONSE_DATA
    return b"".join([each.payload for each in f.HttpFrameReader().feed(sent) if each.kind == kind])


@pytest.mark.parametrize("size", [1, 6, 0])
def test_messages_of_the_client_are_judged(size: int) -> None:
    link = opened(guards(WORD))
    good = up(b"hello ", fin=0) + up(b"", opcode=9) + up(b"world", opcode=0) + up(bytes(9), opcode=2)
    effects = from_client(link, good, size)
    assert passed(effects, Side.TARGET) == up(b"", opcode=9) + up(b"hello ", fin=0) + up(b"world", opcode=0) + up(
        bytes(9), opcode=2
    )
    texts = [event.text for event in events_of(effects) if isinstance(event, Operation)]  # type: ignore[arg-type]
    assert texts == [
        "WEBSOCKET /ws?token=[not recorded]\n\nhello world",
        "WEBSOCKET /ws?token=[not recorded]\n\n[9 bytes of a binary message]",
    ]


@pytest.mark.parametrize("size", [1, 0])
@pytest.mark.parametrize(
    "message",
    [
        up(b"a forbidden x"),
        up(b"forb", fin=0) + up(b"idden", opcode=0),
        up(b'"\\u0066orbidden"'),
        up(b"forbidden", opcode=2),
    ],
)
def test_refused_message_ends_the_connection(message: bytes, size: int) -> None:
    link = opened(guards(WORD))
    effects = from_client(link, up(b"hi") + message + up(b"more"), size)
    for_target = passed(effects, Side.TARGET)
    assert for_target.startswith(up(b"hi") + b"\x88")
    assert message not in for_target
    assert passed(effects, Side.CLIENT).startswith(b"\x88")
    assert Shown(sent_to(Side.CLIENT, effects)).failure is not None  # type: ignore[arg-type]
    events = events_of(effects)  # type: ignore[arg-type]
    assert any(isinstance(event, Refusal) for event in events)
    assert [event.tag for event in events if isinstance(event, Completed)] == ["101"]
    assert not link.awaiting_response
    assert from_client(link, up(b"later")) == []


@pytest.mark.parametrize("size", [1, 0])
@pytest.mark.parametrize(
    "text", [f'{{"email": "{EMAIL}"}}', f"mail {EMAIL} now", '{"e": "alice.miller\\u0040example.com"}']
)
def test_messages_of_the_target_are_masked(text: str, size: int) -> None:
    link = opened(masking())
    ping = websocket_frame(9, b"x")
    half = len(text) // 2
    raw = bytes((1, half)) + text[:half].encode() + bytes((0x80, len(text) - half)) + text[half:].encode()
    effects: list[object] = list(say(link, Side.TARGET, data(f.RESPONSE_DATA, ping + raw, piece=9), size))
    content = passed(effects, Side.CLIENT)
    assert content.startswith(ping)
    (frame,) = WebsocketFrames(1000, masked=False).feed(content[len(ping) :])
    assert frame.is_last
    assert b"alice.miller" not in frame.payload
    assert len(frame.payload) > 5


@pytest.mark.parametrize("strictness", list(Strictness))
def test_binary_message_follows_the_strictness(strictness: Strictness) -> None:
    link = opened(masking(strictness=strictness))
    message = websocket_frame(2, bytes(20))
    effects: list[object] = list(say(link, Side.TARGET, data(f.RESPONSE_DATA, message)))
    if strictness is Strictness.STRICT:
        assert passed(effects, Side.CLIENT).startswith(b"\x88")
    else:
        assert passed(effects, Side.CLIENT) == message


@pytest.mark.parametrize(
    ("side", "content"),
    [
        (Side.CLIENT, websocket_frame(1, b"unmasked")),
        (Side.CLIENT, up(b"x", opcode=0)),
        (Side.CLIENT, up(b"x", opcode=3)),
        (Side.CLIENT, bytes((0xC1, 0x81)) + KEY + b"x"),
        (Side.CLIENT, bytes((0x81, 0xFF)) + b"\xff" * 8),
        (Side.TARGET, up(b"masked")),
        (Side.TARGET, bytes((0x09, 1)) + b"x"),
        (Side.TARGET, bytes((0x01, 1)) + b"x" + bytes((0x81, 1)) + b"x"),
    ],
)
def test_frame_that_is_not_allowed_ends_the_link(side: Side, content: bytes) -> None:
    link = opened(guards(WORD), masking())
    kind = f.REQUEST_DATA if side is Side.CLIENT else f.RESPONSE_DATA
    effects = say(link, side, data(kind, content, piece=100))
    assert [each.reason for each in effects if isinstance(each, Close)] == [EndReason.PROTOCOL_VIOLATION]


def test_other_protocols_are_refused_where_content_is_inspected() -> None:
    for judge in (guards(WORD), masking()):
        effects = say(http_link(judge), Side.CLIENT, request("/x", upgrade="tcp"))
        assert Shown(sent_to(Side.CLIENT, effects)).status == 403


def test_reason_of_a_close_frame_is_short_enough() -> None:
    (frame,) = WebsocketFrames(1000, masked=False).feed(close_frame("ä" * 200))
    assert len(frame.payload) <= 125
    frame.payload[2:].decode()
