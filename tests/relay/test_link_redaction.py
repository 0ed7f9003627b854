"""Output that is recorded otherwise than it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.support.links import interpreted_only
from tests.support.protocols.wire_contracts import events_of, sent_to

from postern.domain.sessions.results import Mask
from postern.interception.events import Channel, ClientOutput, Event, Mark, Masked, Output, Rows
from postern.interception.pipeline import BatchNeed, Pipeline, SessionView
from postern.interception.verdicts import REPLACE, Verdict
from postern.protocols.wire_base import Piece, RedactedOutput, Side, Wants, Wire
from postern.relay.link import Link

pytestmark = interpreted_only

SECRET = RedactedOutput(b"<cookie>", b"<***>")


class Text(Output):
    channel = Channel.STDOUT
    exchange = 1

    def __init__(self, data: bytes) -> None:
        self.data = data

    def texts(self) -> list[bytes]:
        return [self.data]


class SpeakingWire(Wire):
    """Returns pieces that a test chose. `preface` goes before the first event."""

    def __init__(self, pieces: Sequence[Piece], preface: RedactedOutput | None) -> None:
        self.wants = Wants()
        self._pieces = list(pieces)
        self._preface = preface

    def feed_target(self, data: bytes) -> None: ...

    def poll_target(self) -> list[Piece]:
        return [self._pieces.pop(0)] if self._pieces else []

    def render(self, event: Rows | Output) -> bytes:
        assert isinstance(event, Text)
        return event.data

    def take_preface(self) -> RedactedOutput | None:
        preface, self._preface = self._preface, None
        return preface

    @property
    def awaiting_response(self) -> bool:
        return True

    @property
    def partial_message_bytes(self) -> int:
        return 0


class Marks:
    name = "marks"
    wants: frozenset[type[Event]] = frozenset({Output})
    batch_need = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        session.marks.append(Mark(Mask("rule", "replace"), count=1))
        return REPLACE


@pytest.mark.parametrize(
    ("pieces", "preface", "sent", "recorded", "at"),
    [
        ([b"a", SECRET, b"b"], None, b"a<cookie>b", b"a<***>b", []),
        ([SECRET, "t"], None, b"<cookie>t", b"<***>t", [5]),
        ([b"a", "t", b"b"], SECRET, b"a<cookie>tb", b"a<***>tb", [6]),
        ([SECRET, "t"], SECRET, b"<cookie><cookie>t", b"<***><***>t", [10]),
    ],
)
def test_secret_is_sent_and_not_recorded(
    pieces: list[bytes | RedactedOutput | str],
    preface: RedactedOutput | None,
    sent: bytes,
    recorded: bytes,
    at: list[int],
) -> None:
    view = SessionView(UUID(int=0), "a@example.com", frozenset(), "c", "database", "", {})
    spoken: list[Piece] = [Text(piece.encode()) if isinstance(piece, str) else piece for piece in pieces]
    link = Link(SpeakingWire(spoken, preface), Pipeline([Marks()], view), lambda: 0)
    effects = link.receive(Side.TARGET, b"")
    events = events_of(effects)
    assert sent_to(Side.CLIENT, effects) == sent
    assert [event.data for event in events if isinstance(event, ClientOutput)] == [recorded]
    assert [event.at for event in events if isinstance(event, Masked)] == at
