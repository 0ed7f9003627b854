"""What a wire of unread bytes records."""

from __future__ import annotations

from tests.support.protocols.wire_contracts import events_of, new_link, sent_to

from postern.interception.events import ClientOutput, Note, Operation
from postern.protocols.tcp.tcp_wire import INPUT_LIMIT_REACHED, TcpWire
from postern.protocols.wire_base import Side


def test_input_is_recorded_as_text_or_hex_dump_for_each_read() -> None:
    link = new_link(TcpWire(recorded_input=100))
    effects = link.receive(Side.CLIENT, b"PING\r\n") + link.receive(Side.CLIENT, b"\x00\x01")
    texts = [event.text for event in events_of(effects) if isinstance(event, Operation)]
    assert texts == ["PING\r\n", "00 01                                            |..|\n"]


def test_input_beyond_the_limit_passes_and_is_noted_once() -> None:
    link = new_link(TcpWire(recorded_input=5))
    effects = [effect for data in (b"abc", b"defg", b"hij") for effect in link.receive(Side.CLIENT, data)]
    assert sent_to(Side.TARGET, effects) == b"abcdefghij"
    events = events_of(effects)
    assert [event.text for event in events] == ["abc", "de", INPUT_LIMIT_REACHED]  # type: ignore[attr-defined]
    assert isinstance(events[-1], Note)
    assert events[-1].details == {"limit": "5"}


def test_input_that_just_fits_has_no_note() -> None:
    link = new_link(TcpWire(recorded_input=3))
    assert [type(event) for event in events_of(link.receive(Side.CLIENT, b"abc"))] == [Operation]


def test_output_is_recorded_as_it_is() -> None:
    link = new_link(TcpWire(recorded_input=0))
    (event,) = events_of(link.receive(Side.TARGET, b"\xff\x00text"))
    assert event == ClientOutput(b"\xff\x00text")
