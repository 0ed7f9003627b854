"""What every protocol must keep, as checks that a test calls with its own wire and its own conversations.

check_wire     what passes, what is refused, what is garbage: every `protocols.base.Wire`
check_masking  answers that are changed, refused, or looked at by something that breaks: the same
check_opaque_wire  bytes that nobody can look at: wires of protocols whose spec says `is_opaque`
The others: `query_contracts.py` (what the gateway says to targets), `login_contracts.py` (who comes in).

Each raises AssertionError that says what is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

from tests.support.protocols.playbook import CHUNKS, OrderCheck, pieces

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Event, Heading, Operation, Output, Refusal, Rows, Summary
from postern.interception.pipeline import BatchNeed, Interceptor, Pipeline, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Refuse, Verdict
from postern.protocols.wire_base import Side, Wire
from postern.relay.link import Close, Effect, Link, Record, Send

Conversation = Sequence[tuple[Side, bytes]]


class _Watcher:
    """Wants some events, looks at every text in them, and forwards or refuses all."""

    def __init__(self, *wants: type[Event], verdict: Verdict = FORWARD) -> None:
        self.name = "contract"
        self.wants = frozenset(wants)
        self.batch_need = BatchNeed.DENY if isinstance(verdict, Refuse) else BatchNeed.NONE
        self._verdict = verdict

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Rows):
            for column in range(len(event.columns)):
                event.texts(column)
        elif isinstance(event, Output):
            event.texts()
        return self._verdict


def check_wire(
    make_wire: Callable[[], Wire],
    conversation: Conversation,
    *,
    garbage: Conversation = (),
    injects: bool = False,
    carries: bool = False,
    read: Callable[[bytes], bytes] = bytes,
    order: Callable[[], OrderCheck] | None = None,
) -> None:
    """Holds a protocol to the contract of `protocols.base.Wire`. Raises AssertionError that says what is broken.

    `conversation` is what the two sides say in turn, with at least one operation in it, and ends with nothing owed.
    Each of `garbage` is said by its side on a fresh link, and is nothing that the protocol allows there. A wire that
    `injects` asks the target for more than the client did when somebody looks at answers, so that its requests are
    compared only while nobody does. One that `carries` sends files, which are not recorded as they are. `read` returns
    the content of bytes whose packets are made anew, and `order` is for recordings that do not have all bytes.

    1. Whoever looks and changes nothing, the bytes pass as they are, however the reads are cut.
    2. What is sent was recorded before.
    3. Nothing is owed at the end.
    4. A refused operation reaches no target, and the client is told.
    5. Garbage ends the link once, is passed on to nobody, and raises nothing.
    """
    watchers = [_Watcher(), _Watcher(Operation)] if injects else [_Watcher(), _Watcher(Operation, Rows, Output)]
    for watcher in watchers:
        for size in CHUNKS:
            check = OrderCheck(carries=carries) if order is None else order()
            _check_passes(_link(make_wire, watcher), conversation, size, check, read)
    for size in CHUNKS:
        refusing = _link(make_wire, _Watcher(Operation, verdict=Refuse("contract", "refused")))
        _check_refusal(refusing, conversation, size, order or OrderCheck)
        for side, data in garbage:
            _check_garbage(_link(make_wire, _Watcher(Operation, Rows, Output)), side, data, size)


def check_opaque_wire(make_wire: Callable[[], Wire], conversation: Conversation) -> None:
    """Holds a wire that does not read its bytes to the contract of such a one. However the reads are cut:

    1. Bytes pass as they are, and what is sent was recorded before: output as it is, input as operations.
    2. Nothing is owed, held back or said by the gateway, at any time. Each direction ends alone.
    3. Whoever wants to look at anything ends the link, and nothing passes: nobody may believe that he looks.
    4. When the link ends, the totals of both directions are recorded.
    """
    for size in CHUNKS:
        wire = make_wire()
        assert wire.half_open, "a direction cannot end alone"
        link = new_link(wire)
        _check_passes(link, conversation, size, OrderCheck())
        assert not link.has_buffered_output, "output is held back"
        assert not link.input_paused, "input is held back"
        assert not link.open_batch, "a batch is held back"
        assert link.client_finished() == [], "the gateway says something itself when the client ends"
        (completed,) = link.unfinished_exchanges()
        assert isinstance(completed, Completed)
        for side in Side:
            total = sum(len(data) for speaker, data in conversation if speaker is side)
            assert str(total) in completed.tag, f"the {side.value} sent {total} bytes; recorded is {completed.tag!r}"
        for wanted in (Operation, Rows, Output, Heading, Summary):
            for side in Side:
                _check_garbage(_link(make_wire, _Watcher(wanted)), side, b"content", size)


class _Covers:
    """Puts a mask over a text in answers; or refuses those that hold it; or breaks at them."""

    name = "contract"
    wants: frozenset[type[Event]] = frozenset({Rows, Output})
    batch_need: BatchNeed = BatchNeed.NONE

    def __init__(self, secret: bytes, mask: bytes, verdict: Verdict = REPLACE, *, breaks: bool = False) -> None:
        self._secret = secret
        self._mask = mask
        self._verdict = verdict
        self._breaks = breaks

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Rows):
            found = [self._look(event.texts(at), partial(event.replace, at)) for at in range(len(event.columns))]
        else:
            assert isinstance(event, Output)
            found = [self._look(event.texts(), event.replace)]
        return self._verdict if any(found) else FORWARD

    def _look(self, texts: list[bytes], replace: Callable[[list[bytes]], None]) -> bool:
        if not any(self._secret in text for text in texts):
            return False
        if self._breaks:
            raise RuntimeError("broken on purpose")
        if self._verdict is REPLACE:
            replace([text.replace(self._secret, self._mask) for text in texts])
        return True


def check_masking(
    make_wire: Callable[[], Wire],
    conversation: Conversation,
    *,
    secret: bytes,
    read: Callable[[bytes], bytes] = bytes,
    order: Callable[[], OrderCheck] = OrderCheck,
) -> None:
    """Holds a protocol to what masking and guardrails on output rest on.

    The target says `secret` somewhere in `conversation`, in an answer that can be masked; the conversation ends with
    nothing owed. `read` makes of what a client is sent what it is shown: for protocols whose own messages may be cut
    elsewhere, and the secret with them. However the reads are cut:

    1. Masked by a text as long, the client is shown what the target said, the secret masked, and every other byte as
       it was.
    2. Where the answer is refused, or what looks at it breaks, a refusal is recorded, the client is told, and nothing
       is owed: what was left of the answer went nowhere.
    3. In no case does the secret reach the client, or the recording.
    """
    mask = b"*" * len(secret)
    said = read(b"".join([data for side, data in conversation if side is Side.TARGET]))
    assert secret in said, "the target does not say the secret"
    for size in CHUNKS:
        sent, _ = _shown(make_wire, _Covers(secret, mask), conversation, size, order())
        expected, found = said.replace(secret, mask), read(sent)
        assert secret not in found, f"cut in pieces of {size}, {secret!r} was shown in clear"
        assert found == expected, f"cut in pieces of {size}, shown was {found!r}, not {expected!r}"
        for covers in (_Covers(secret, mask, Refuse("contract", "withheld")), _Covers(secret, mask, breaks=True)):
            sent, events = _shown(make_wire, covers, conversation, size, order())
            assert secret not in read(sent), f"cut in pieces of {size}, {secret!r} was shown though it was refused"
            assert any(isinstance(event, Refusal) for event in events), "an answer that was refused was not recorded so"
            assert sent, "the client was not told that its answer was refused"


def _shown(
    make_wire: Callable[[], Wire], covers: _Covers, conversation: Conversation, size: int, order: OrderCheck
) -> tuple[bytes, list[Event]]:
    """What the client is sent, which `order` compares with what is recorded; and the events."""
    link = new_link(make_wire(), covers)
    effects = [effect for side, data in conversation for effect in _say(link, side, data, size, order)]
    if link.has_buffered_output:
        left = link.flush()
        order.check(left)
        effects += left
    assert not link.awaiting_response, "the conversation is over, and the target is still thought to owe an answer"
    return sent_to(Side.CLIENT, effects), events_of(effects)


def new_link(wire: Wire, *interceptors: Interceptor) -> Link:
    """A link whose clock stands still."""
    view = SessionView(UUID(int=0), "contract@example.com", frozenset(), "contract", "database", "", {})
    return Link(wire, Pipeline(list(interceptors), view), lambda: 0)


def _link(make_wire: Callable[[], Wire], interceptor: Interceptor) -> Link:
    return new_link(make_wire(), interceptor)


def _say(link: Link, side: Side, data: bytes, size: int, order: OrderCheck) -> list[Effect]:
    effects: list[Effect] = []
    for piece in pieces(data, size):
        some = link.receive(side, piece)
        order.check(some)
        effects += some
    return effects


def sent_to(side: Side, effects: list[Effect]) -> bytes:
    return b"".join([effect.data for effect in effects if isinstance(effect, Send) and effect.side is side])


def events_of(effects: list[Effect]) -> list[Event]:
    """All that is recorded."""
    return [event for effect in effects if isinstance(effect, Record) for event in effect.events]


def _check_passes(
    link: Link, conversation: Conversation, size: int, order: OrderCheck, read: Callable[[bytes], bytes] = bytes
) -> None:
    operations = 0
    for side, data in conversation:
        effects = _say(link, side, data, size, order)
        other = Side.TARGET if side is Side.CLIENT else Side.CLIENT
        sent = sent_to(other, effects)
        assert read(sent) == read(data), (
            f"cut in pieces of {size}, the {side.value} said {data!r}; passed on was {sent!r}"
        )
        assert sent_to(side, effects) == b"", f"the {side.value} was answered by the gateway itself"
        events = events_of(effects)
        operations += sum([isinstance(event, Operation) for event in events])
    assert operations, "the conversation holds no operation, or none was recorded"
    assert not link.awaiting_response, "the conversation is over, and the target is still thought to owe an answer"


def _check_refusal(link: Link, conversation: Conversation, size: int, order: Callable[[], OrderCheck]) -> None:
    """What the client says is refused; the target, which hears of nothing, says nothing."""
    effects = [
        effect for side, data in conversation if side is Side.CLIENT for effect in _say(link, side, data, size, order())
    ]
    events = events_of(effects)
    assert any(isinstance(event, Refusal) for event in events), "a refusal was not recorded"
    assert sent_to(Side.CLIENT, effects), "the client was not told of a refusal"
    forwarded = sent_to(Side.TARGET, effects)
    for event in events:
        if isinstance(event, Operation) and event.text:
            assert event.text.encode() not in forwarded, f"{event.text!r} was refused, and reached the target"


def _check_garbage(link: Link, side: Side, data: bytes, size: int) -> None:
    effects = _say(link, side, data, size, OrderCheck())
    closes = [effect for effect in effects if isinstance(effect, Close)]
    assert [close.reason for close in closes] == [EndReason.PROTOCOL_VIOLATION], f"{data!r} closed the link {closes}"
    other = Side.TARGET if side is Side.CLIENT else Side.CLIENT
    assert data not in sent_to(other, effects), f"{data!r} was passed on"
    assert link.receive(side, data) == [], "a link that has ended still listens"
