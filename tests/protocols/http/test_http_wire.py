"""The wire over frames: exchanges, refusals, failures and ends, with a dialect that only forwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.links import interpreted_only
from tests.support.protocols.http_test_frames import Shown, data, request, response, sent_requests
from tests.support.protocols.playbook import CHUNKS, OrderCheck, pieces
from tests.support.protocols.wire_contracts import check_masking, check_wire, events_of, new_link, sent_to

from postern.domain.sessions.session import EndReason
from postern.interception.events import (
    Channel,
    ClientOutput,
    Completed,
    Event,
    Operation,
    Output,
    Refusal,
)
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict, Warn
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.http.wire.http_dialect import BodyNeed, HttpDialect, ReadRequest, ResponseBodyReader
from postern.protocols.http.wire.http_wire import PAUSES, HttpWire
from postern.protocols.wire_base import Piece, Side, Wants
from postern.relay.link import Close, Effect, HoldEffect, Link

pytestmark = interpreted_only


LIMIT = 64


class Text(Output):
    channel = Channel.STDOUT

    def __init__(self, exchange: int, text: bytes, *, ends: bool) -> None:
        self.exchange = exchange
        self.text = text
        self.ends = ends

    def texts(self) -> list[bytes]:
        return [self.text]

    def replace(self, texts: list[bytes]) -> None:
        (self.text,) = texts

    def encode(self) -> bytes:
        end = f.end_frame(f.RESPONSE_END, self.exchange) if self.ends else b""
        return f.data_frames(f.RESPONSE_DATA, self.exchange, self.text) + end


class WholeBody(ResponseBodyReader):
    """Returns the body as one event, at its end."""

    def __init__(self, exchange: int, head: ResponseHead) -> None:
        self.head = head
        self._exchange = exchange
        self._body = b""

    def begin(self) -> list[Piece]:
        return []

    def feed(self, data: bytes) -> list[Piece]:
        if b"\xff" in data:
            raise ValueError("it is not text")
        self._body += data
        return []

    def finish(self, trailers: Headers) -> list[Piece]:
        return [Text(self._exchange, self._body, ends=True)]


class EachPiece(WholeBody):
    def feed(self, data: bytes) -> list[Piece]:
        return [Text(self._exchange, data, ends=False)]

    def finish(self, trailers: Headers) -> list[Piece]:
        return [f.end_frame(f.RESPONSE_END, self._exchange, trailers)]


class PlainDialect(HttpDialect):
    def __init__(self, *, must_fit: bool = True, streams: bool = False) -> None:
        self._must_fit = must_fit
        self._streams = streams

    def body_need(self, head: RequestHead, wants: Wants) -> BodyNeed:
        return BodyNeed() if (b"x-opaque", b"1") in head.headers else BodyNeed(LIMIT, self._must_fit)

    def read_request(self, exchange: int, head: RequestHead, body: bytes, *, is_complete: bool) -> ReadRequest:
        text = f"{head.method} {head.target} {body.decode()}{'' if is_complete else '…'}"
        return ReadRequest(exchange, replace(head, digest="d" if body else ""), [Operation(exchange, text)])

    def read_response(self, request: ReadRequest, response: ResponseHead, wants: Wants) -> ResponseBodyReader | None:
        if not wants.output:
            return None
        kind = EachPiece if self._streams else WholeBody
        return kind(request.exchange, replace(response, length=None))

    def refusal(self, request: ReadRequest, refusal: Refuse) -> tuple[ResponseHead, bytes]:
        body = refusal.message.encode()
        return ResponseHead(403, (), len(body)), body

    def failure(self, request: ReadRequest, failure: f.TargetFailure) -> tuple[ResponseHead, bytes]:
        return ResponseHead(502, (), len(failure.code)), failure.code.encode()


def plain_wire() -> HttpWire:
    return HttpWire(PlainDialect())


class Judge:
    """Answers every operation, or every output that has a word, with a verdict."""

    name = "judge"
    batch_need = BatchNeed.NONE

    def __init__(self, verdict: Verdict, *, word: str = "", of: type[Event] = Operation) -> None:
        self.wants: frozenset[type[Event]] = frozenset({of})
        self._verdict = verdict
        self._word = word

    def see(self, event: Event, session: SessionView) -> Verdict:
        text = event.text if isinstance(event, Operation) else b"".join(event.texts()).decode()  # type: ignore[attr-defined]
        return self._verdict if self._word in text else FORWARD


def say(link: Link, side: Side, content: bytes, size: int = 0) -> list[Effect]:
    effects: list[Effect] = []
    order = OrderCheck(carries=True)
    for piece in pieces(content, size) if size else [content]:
        some = link.receive(side, piece)
        order.check(some)
        effects += some
    return effects


def texts_of(effects: list[Effect]) -> list[str]:
    return [event.text for event in events_of(effects) if isinstance(event, Operation)]


CONVERSATION = [
    (Side.CLIENT, request("/a")),
    (Side.TARGET, response(b"hello", headers={"content-type": "text/plain"}, sized=False)),
    (Side.CLIENT, request("/b", headers={"x-opaque": "1"}, body=b"some content", number=2)),
    (Side.TARGET, response(b"", status=204, number=2, sized=False)),
    (Side.CLIENT, request("/c", headers={"x-opaque": "1"}, body=b"some content", sized=False, number=7)),
    (Side.TARGET, response(b"a longer body " * 9, number=7, sized=False, trailers=((b"x", b"y"),))),
]
GARBAGE = [
    (Side.CLIENT, f.frame(99, 1, b"garbage")),
    (Side.CLIENT, f.frame(f.REQUEST_DATA, 1, b"garbage")),
    (Side.CLIENT, f.frame(f.REQUEST, 1, b"garbage")),
    (Side.CLIENT, b"\x01\0\0\0\1\xff\xff\xff\xffgarbage"),
    (Side.TARGET, response(b"garbage")),
    (Side.TARGET, f.frame(99, 1, b"garbage")),
]


def test_contract_of_wires_is_kept() -> None:
    check_wire(plain_wire, CONVERSATION[:2], garbage=GARBAGE)
    check_wire(lambda: HttpWire(PlainDialect(streams=True)), CONVERSATION[2:4], garbage=GARBAGE)


def test_everything_passes_as_it_is_without_rules() -> None:
    for size in CHUNKS:
        link = new_link(plain_wire())
        for side, content in CONVERSATION:
            other = Side.TARGET if side is Side.CLIENT else Side.CLIENT
            assert sent_to(other, say(link, side, content, size)) == content


@pytest.mark.parametrize("streams", [False, True])
def test_contract_of_masking_is_kept(streams: bool) -> None:
    conversation = [
        (Side.CLIENT, request("/a")),
        (Side.TARGET, response(b"the s3cret is here", sized=False, piece=100)),
        (Side.CLIENT, request("/a", number=2)),
        (Side.TARGET, response(b"nothing", sized=False, piece=100, number=2)),
    ][: 2 if streams else 4]

    def read(sent: bytes) -> bytes:
        shown = Shown(sent)
        return b"%d %s %d" % (shown.status, shown.body, shown.ends)

    check_masking(lambda: HttpWire(PlainDialect(streams=streams)), conversation, secret=b"s3cret", read=read)


@pytest.mark.parametrize("size", CHUNKS)
def test_gathered_body_is_judged_and_forwarded_with_a_digest(size: int) -> None:
    link = new_link(plain_wire(), Judge(FORWARD))
    effects = say(link, Side.CLIENT, request("/a", b"a body of 20 bytes.."), size)
    ((head, body),) = sent_requests(sent_to(Side.TARGET, effects))
    assert (head.digest, body) == ("d", b"a body of 20 bytes..")
    assert texts_of(effects) == ["POST /a a body of 20 bytes.."]


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("sized", [True, False])
def test_body_that_is_too_large_is_refused_and_swallowed(size: int, sized: bool) -> None:
    link = new_link(plain_wire(), Judge(FORWARD))
    effects = say(link, Side.CLIENT, request("/a", b"x" * (LIMIT + 1), sized=sized), size)
    assert sent_to(Side.TARGET, effects) == b""
    shown = Shown(sent_to(Side.CLIENT, effects))
    assert shown.status == 403
    assert b"larger than the 64 bytes" in shown.body
    again = say(link, Side.CLIENT, request("/b", number=2), size)
    assert len(sent_requests(sent_to(Side.TARGET, again))) == 1


@pytest.mark.parametrize("sized", [True, False])
def test_long_body_is_judged_by_its_beginning(sized: bool) -> None:
    link = new_link(HttpWire(PlainDialect(must_fit=False)), Judge(FORWARD))
    effects = say(link, Side.CLIENT, request("/a", b"x" * 200, sized=sized), 5)
    assert texts_of(effects) == [f"POST /a {'x' * LIMIT}…"]
    ((_, body),) = sent_requests(sent_to(Side.TARGET, effects))
    assert body == b"x" * 200


def test_conversation_does_not_wait_for_a_body() -> None:
    link = new_link(plain_wire(), Judge(FORWARD))
    begun = request("/chat", headers={"x-opaque": "1"}, sized=False, ends=False)
    assert sent_to(Side.TARGET, say(link, Side.CLIENT, begun))
    for number in range(3):
        sent = data(f.REQUEST_DATA, b"hello %d" % number)
        assert sent_to(Side.TARGET, say(link, Side.CLIENT, sent)) == sent
        answer = response(b"hi", sized=False, ends=False) if not number else data(f.RESPONSE_DATA, b"hi")
        assert sent_to(Side.CLIENT, say(link, Side.TARGET, answer)) == answer


def test_pause_ends_the_wait_for_a_body() -> None:
    link = new_link(HttpWire(PlainDialect(must_fit=False)), Judge(FORWARD))
    assert say(link, Side.CLIENT, request("/a", b"begin", sized=False, ends=False)) == []
    assert link.open_batch
    effects = link.flush()
    assert texts_of(effects) == ["POST /a begin…"]
    rest = data(f.REQUEST_DATA, b" rest") + f.end_frame(f.REQUEST_END, 1)
    assert sent_to(Side.TARGET, say(link, Side.CLIENT, rest)) == rest
    assert not link.open_batch


def test_body_that_must_be_whole_is_refused_after_many_pauses() -> None:
    link = new_link(plain_wire(), Judge(FORWARD))
    say(link, Side.CLIENT, request("/a", b"begin", sized=False, ends=False))
    for _ in range(PAUSES - 1):
        before = link.open_batch
        assert link.flush() == []
        assert link.open_batch not in (0, before)
    say(link, Side.CLIENT, data(f.REQUEST_DATA, b"."))
    for _ in range(PAUSES - 1):
        assert link.flush() == []
    effects = link.flush()
    assert Shown(sent_to(Side.CLIENT, effects)).status == 403
    assert sent_to(Side.TARGET, effects) == b""
    assert say(link, Side.CLIENT, f.end_frame(f.REQUEST_END, 1)) == []


def test_sized_body_waits_without_a_limit_of_time() -> None:
    link = new_link(plain_wire(), Judge(FORWARD))
    say(link, Side.CLIENT, request("/a", b"begin", ends=False))
    assert not link.open_batch


@pytest.mark.parametrize("size", CHUNKS)
def test_refused_request_is_answered_before_the_next_one(size: int) -> None:
    link = new_link(plain_wire(), Judge(Refuse("r", "no deletes"), word="DELETE"))
    refused = say(link, Side.CLIENT, request("/a", method="DELETE"), size)
    assert Shown(sent_to(Side.CLIENT, refused)).body == b"no deletes"
    assert [event.rule for event in events_of(refused) if isinstance(event, Refusal)] == ["r"]
    assert not link.awaiting_response
    effects = say(link, Side.CLIENT, request("/b", number=2), size)
    assert len(sent_requests(sent_to(Side.TARGET, effects))) == 1


def test_response_that_is_refused_before_its_head_is_replaced() -> None:
    link = new_link(plain_wire(), Judge(Refuse("r", "no secrets"), word="s3cret", of=Output))
    say(link, Side.CLIENT, request("/a"))
    effects = say(link, Side.TARGET, response(b"a s3cret", headers={"set-cookie": "a=b"}), 3)
    shown = Shown(sent_to(Side.CLIENT, effects))
    assert (shown.status, shown.body, shown.ends, shown.failure) == (403, b"no secrets", 1, None)
    completed = [event for event in events_of(effects) if isinstance(event, Completed)]
    assert [(event.tag, event.error) for event in completed] == [("403", "no secrets")]
    assert not link.awaiting_response
    assert sent_to(Side.TARGET, say(link, Side.CLIENT, request("/b", number=2)))


def test_response_that_is_refused_in_its_middle_breaks_off() -> None:
    link = new_link(HttpWire(PlainDialect(streams=True)), Judge(Refuse("r", "no"), word="s3cret", of=Output))
    say(link, Side.CLIENT, request("/a"))
    effects = say(link, Side.TARGET, response(b"first   s3cret  rest", sized=False))
    shown = Shown(sent_to(Side.CLIENT, effects))
    assert (shown.status, shown.body, shown.ends) == (200, b"first   ", 0)
    assert shown.failure == f.TargetFailure("refused", "no")
    assert say(link, Side.TARGET, data(f.RESPONSE_DATA, b"more")) == []
    assert say(link, Side.CLIENT, request("/b", number=2)) == []
    assert not link.awaiting_response


def test_endless_response_that_is_refused_ends_the_link() -> None:
    link = new_link(HttpWire(PlainDialect(streams=True)), Judge(Refuse("r", "no"), word="s3cret", of=Output))
    say(link, Side.CLIENT, request("/a"))
    shown = Shown(sent_to(Side.CLIENT, say(link, Side.TARGET, response(b"s3cret", sized=False, ends=False))))
    assert (shown.status, shown.ends, shown.failure) == (403, 1, f.TargetFailure("refused", "no"))


def test_body_that_cannot_be_read_is_refused() -> None:
    link = new_link(plain_wire(), Judge(FORWARD, of=Output))
    say(link, Side.CLIENT, request("/a"))
    shown = Shown(sent_to(Side.CLIENT, say(link, Side.TARGET, response(b"\xff"))))
    assert shown.status == 403
    assert b"it is not text" in shown.body


@pytest.mark.parametrize(
    ("before", "status", "failure"),
    [
        (b"", 502, None),
        (response(b"begin", ends=False), 200, f.TargetFailure("timeout", "the target is away")),
    ],
)
def test_failure_of_the_target_is_told(before: bytes, status: int, failure: f.TargetFailure | None) -> None:
    link = new_link(plain_wire(), Judge(FORWARD))
    say(link, Side.CLIENT, request("/a"))
    failed = f.failed_frame(1, f.TargetFailure("timeout", "the target is away"))
    effects = say(link, Side.TARGET, before + failed, 7)
    shown = Shown(sent_to(Side.CLIENT, effects))
    assert (shown.status, shown.failure) == (status, failure)
    (completed,) = [event for event in events_of(effects) if isinstance(event, Completed)]
    assert completed.error == "timeout: the target is away"
    assert not link.awaiting_response


@pytest.mark.parametrize("status", [200, 404, 599])
def test_end_of_exchange_has_its_status(status: int) -> None:
    link = new_link(plain_wire())
    say(link, Side.CLIENT, request("/a"))
    (completed,) = [
        event
        for event in events_of(say(link, Side.TARGET, response(b"x", status=status)))
        if isinstance(event, Completed)
    ]
    assert (completed.tag, completed.rows) == (str(status), None)
    assert bool(completed.error) == (status >= 400)


@pytest.mark.parametrize(
    ("said", "status", "failed"),
    [
        ([], 0, False),
        ([(Side.CLIENT, request("/a", b"begin", ends=False))], 502, False),
        ([(Side.CLIENT, request("/a"))], 502, False),
        ([(Side.CLIENT, request("/a")), (Side.TARGET, response(b"x", ends=False))], 0, True),
        ([(Side.CLIENT, request("/a")), (Side.TARGET, response(b"x"))], 0, False),
    ],
)
def test_kill_answers_or_breaks_off(said: list[tuple[Side, bytes]], status: int, failed: bool) -> None:
    link = new_link(plain_wire())
    for side, content in said:
        say(link, side, content)
    shown = Shown(sent_to(Side.CLIENT, link.end(EndReason.KILLED, "ended by an administrator", "57P01")))
    assert (shown.status, shown.failure is not None) == (status, failed)


def test_request_whose_agent_is_lost_is_answered_as_one_that_the_target_did_not_answer() -> None:
    link = new_link(plain_wire())
    say(link, Side.CLIENT, request("/a"))
    assert Shown(sent_to(Side.CLIENT, link.target_finished())).body == b"unavailable"


def test_unfinished_exchange_is_recorded() -> None:
    link = new_link(plain_wire())
    say(link, Side.CLIENT, request("/a"))
    say(link, Side.TARGET, response(b"x", ends=False))
    link.end(EndReason.CLIENT_CLOSED, "", "")
    (event,) = link.unfinished_exchanges()
    assert isinstance(event, Completed)
    assert (event.exchange, event.tag) == (1, "200")


def test_cookies_are_sent_and_not_recorded() -> None:
    for judges in ([], [Judge(FORWARD, of=Output)]):
        link = new_link(plain_wire(), *judges)
        say(link, Side.CLIENT, request("/a"))
        headers = {"set-cookie": "session=s3cret", "location": "/done?code=s3cret&page=2"}
        effects = say(link, Side.TARGET, response(b"hello", headers=headers))
        shown = Shown(sent_to(Side.CLIENT, effects))
        assert shown.header("set-cookie") == "session=s3cret"
        assert shown.body == b"hello"
        recorded = b"".join([event.data for event in events_of(effects) if isinstance(event, ClientOutput)])
        assert b"s3cret" not in recorded
        assert Shown(recorded).header("location") == "/done?code=[not recorded]&page=2"
        assert Shown(recorded).body == b"hello"


@pytest.mark.parametrize("of", [Operation, Output])
def test_warning_is_a_header(of: type[Event]) -> None:
    link = new_link(plain_wire(), Judge(Warn("r", "be careful\r\nX: y", "think"), of=of))
    say(link, Side.CLIENT, request("/a"))
    shown = Shown(sent_to(Side.CLIENT, say(link, Side.TARGET, response(b"hello"))))
    assert shown.header("postern-warning") == "be careful  X: y. think"


def test_held_request_is_forwarded_once_it_is_approved() -> None:
    link = new_link(plain_wire(), Judge(Hold("t", "may this run?")))
    effects = say(link, Side.CLIENT, request("/a", b"a body"))
    assert isinstance(effects[-1], HoldEffect)
    assert sent_to(Side.TARGET, effects) == b""
    assert sent_requests(sent_to(Side.TARGET, link.resume("t", FORWARD)))[0][1] == b"a body"


@pytest.mark.parametrize(
    ("said", "offender"),
    [
        ([request("/a"), request("/b", number=2)], Side.CLIENT),
        ([request("/a"), response(b"x", number=2)], Side.TARGET),
        ([request("/a"), response(b"", status=101)], Side.TARGET),
        ([request("/a"), response(b"", status=100)], Side.TARGET),
        ([request("/a"), data(f.RESPONSE_DATA, b"x")], Side.TARGET),
        ([request("/a"), response(b"x"), data(f.RESPONSE_DATA, b"x")], Side.TARGET),
        ([request("/a"), response(b"x"), request("/a")], Side.CLIENT),
        ([request("/a"), response(b"x"), f.end_frame(f.REQUEST_END, 1)], Side.CLIENT),
    ],
)
def test_frame_at_the_wrong_place_ends_the_link(said: list[bytes], offender: Side) -> None:
    link = new_link(plain_wire())
    for content in said[:-1]:
        say(link, Side.TARGET if content[0] >= f.RESPONSE else Side.CLIENT, content)
    effects = say(link, offender, said[-1])
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("ended", [False, True])
def test_both_directions_are_open_after_101(size: int, ended: bool) -> None:
    link = new_link(plain_wire())
    upgrade = request("/ws", upgrade="websocket", ends=ended)
    assert sent_to(Side.TARGET, say(link, Side.CLIENT, upgrade, size)) == upgrade
    switched = response(b"", status=101, ends=False)
    assert sent_to(Side.CLIENT, say(link, Side.TARGET, switched, size)) == switched
    for number in range(3):
        up, down = data(f.REQUEST_DATA, b"up %d" % number), data(f.RESPONSE_DATA, b"down %d" % number)
        assert sent_to(Side.CLIENT, say(link, Side.TARGET, down, size)) == down
        assert sent_to(Side.TARGET, say(link, Side.CLIENT, up, size)) == up
    end, last = f.end_frame(f.RESPONSE_END, 1), data(f.REQUEST_DATA, b"last") + f.end_frame(f.REQUEST_END, 1)
    assert sent_to(Side.CLIENT, say(link, Side.TARGET, end, size)) == end
    effects = say(link, Side.CLIENT, last, size)
    assert sent_to(Side.TARGET, effects) == last
    assert [event.tag for event in events_of(effects) if isinstance(event, Completed)] == ["101"]
    assert sent_to(Side.TARGET, say(link, Side.CLIENT, request("/b", number=2)))
