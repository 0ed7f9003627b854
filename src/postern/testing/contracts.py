"""What every protocol must keep, as checks that a test calls with its own wire and its own conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from postern.domain.session import EndReason
from postern.interception.events import Event, Operation, Output, Refusal, Rows
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.interception.verdicts import FORWARD, Refuse, Verdict
from postern.protocols.base import Side, Wire
from postern.relay.link import Close, Effect, Link, Record, Send
from postern.testing.playbook import CHUNKS, Order, pieces

Conversation = Sequence[tuple[Side, bytes]]


class _Watcher:
    """Wants some events, looks at every text in them, and forwards or refuses all."""

    def __init__(self, *wants: type[Event], verdict: Verdict = FORWARD) -> None:
        self.name = "contract"
        self.wants = frozenset(wants)
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
) -> None:
    """Holds a protocol to the contract of `protocols.base.Wire`. Raises AssertionError that says what is broken.

    `conversation` is what the two sides say in turn, with at least one operation in it, and ends with nothing owed.
    Each of `garbage` is said by its side on a fresh link, and is nothing that the protocol allows there. A wire that
    `injects` asks the target for more than the client did when somebody looks at answers, so that its requests are
    compared only while nobody does.

    1. Whoever looks and changes nothing, the bytes pass as they are, however the reads are cut.
    2. What is sent was recorded before.
    3. Nothing is owed at the end.
    4. A refused operation reaches no target, and the client is told.
    5. Garbage ends the link once, is passed on to nobody, and raises nothing.
    """
    watchers = [_Watcher(), _Watcher(Operation)] if injects else [_Watcher(), _Watcher(Operation, Rows, Output)]
    for watcher in watchers:
        for size in CHUNKS:
            _check_passes(_link(make_wire, watcher), conversation, size)
    for size in CHUNKS:
        _check_refusal(_link(make_wire, _Watcher(Operation, verdict=Refuse("contract", "refused"))), conversation, size)
        for side, data in garbage:
            _check_garbage(_link(make_wire, _Watcher(Operation, Rows, Output)), side, data, size)


def _link(make_wire: Callable[[], Wire], interceptor: Interceptor) -> Link:
    view = SessionView(UUID(int=0), "contract@example.com", frozenset(), "contract", "database", "", {})
    return Link(make_wire(), Pipeline([interceptor], view), lambda: 0)


def _say(link: Link, side: Side, data: bytes, size: int) -> list[Effect]:
    order = Order()
    effects: list[Effect] = []
    for piece in pieces(data, size):
        some = link.receive(side, piece)
        order.check(some)
        effects += some
    return effects


def _sent(effects: list[Effect], side: Side) -> bytes:
    return b"".join([effect.data for effect in effects if isinstance(effect, Send) and effect.side is side])


def _check_passes(link: Link, conversation: Conversation, size: int) -> None:
    operations = 0
    for side, data in conversation:
        effects = _say(link, side, data, size)
        other = Side.TARGET if side is Side.CLIENT else Side.CLIENT
        sent = _sent(effects, other)
        assert sent == data, f"cut in pieces of {size}, the {side.value} said {data!r}; passed on was {sent!r}"
        assert _sent(effects, side) == b"", f"the {side.value} was answered by the gateway itself"
        events = [event for effect in effects if isinstance(effect, Record) for event in effect.events]
        operations += sum([isinstance(event, Operation) for event in events])
    assert operations, "the conversation holds no operation, or none was recorded"
    assert not link.busy, "the conversation is over, and the target is still thought to owe an answer"


def _check_refusal(link: Link, conversation: Conversation, size: int) -> None:
    """What the client says is refused; the target, which hears of nothing, says nothing."""
    effects = [effect for side, data in conversation if side is Side.CLIENT for effect in _say(link, side, data, size)]
    events = [event for effect in effects if isinstance(effect, Record) for event in effect.events]
    assert any(isinstance(event, Refusal) for event in events), "a refusal was not recorded"
    assert _sent(effects, Side.CLIENT), "the client was not told of a refusal"
    forwarded = _sent(effects, Side.TARGET)
    for event in events:
        if isinstance(event, Operation) and event.text:
            assert event.text.encode() not in forwarded, f"{event.text!r} was refused, and reached the target"


def _check_garbage(link: Link, side: Side, data: bytes, size: int) -> None:
    effects = _say(link, side, data, size)
    closes = [effect for effect in effects if isinstance(effect, Close)]
    assert [close.reason for close in closes] == [EndReason.PROTOCOL_VIOLATION], f"{data!r} closed the link {closes}"
    other = Side.TARGET if side is Side.CLIENT else Side.CLIENT
    assert data not in _sent(effects, other), f"{data!r} was passed on"
    assert link.receive(side, data) == [], "a link that has ended still listens"
