from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.rules.masking import DEFAULT_TYPES
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Channel, Operation, Output, Rows, TextKind
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, REPLACE

from ..conftest import ListOutput, ListRows, make_session
from .values import ANY_TEXT

ALL = DEFAULT_TYPES


def test_rows_are_masked_according_to_the_kind_of_each_column(session: SessionView) -> None:
    rows = ListRows(
        (TextKind.TEXT, [b"ann", b"ann@example.com", b"call 212-555-0142"]),
        (TextKind.NUMBER, [b"1", b"4111111111111111", b"2125550142"]),
        (TextKind.JSON, [b'{"a": "ann@example.com"}', b'{"card": 4111111111111111}']),
        (TextKind.ADDRESS, [b"10.0.0.1/8", b"fe80::1"]),
        (TextKind.OPAQUE, [b"ann@example.com"]),
        (TextKind.TEXT, [b"nothing", b"here"]),
        (TextKind.TEXT, []),
    )
    assert Masking(ALL).see(rows, session) is REPLACE
    assert rows.held == [
        [b"ann", b"****@****", b"call ***-***-****"],
        [b"1", b"0000000000001111", b"2125550142"],
        [b'{"a": "****@****"}', b'{"card": 1111}'],
        [b"0.0.0.0", b"::"],
        [b"ann@example.com"],
        [b"nothing", b"here"],
        [],
    ]
    assert rows.replaced == [0, 1, 2, 3]
    assert session.metrics.info_types == {"EMAIL_ADDRESS": 2, "PHONE_NUMBER": 1, "CREDIT_CARD": 2, "IP_ADDRESS": 2}
    assert session.metrics.transformed_bytes == 15 + 12 + 16 + 15 + 16 + 10 + 7


@pytest.mark.parametrize("channel", Channel)
def test_output_of_every_channel_is_masked(session: SessionView, channel: Channel) -> None:
    output = ListOutput([b"Key (email)=(ann@example.com) already exists.", b"x"], channel)
    assert Masking(ALL).see(output, session) is REPLACE
    assert output.held == [b"Key (email)=(****@****) already exists.", b"x"]
    assert session.metrics.info_types == {"EMAIL_ADDRESS": 1}


def test_rows_and_output_without_values_are_forwarded_unchanged(session: SessionView) -> None:
    rows = ListRows(
        (TextKind.TEXT, [b"a", b"b"]), (TextKind.JSON, [b"{}"]), (TextKind.NUMBER, [b"12"]), (TextKind.ADDRESS, [])
    )
    masking = Masking(ALL)
    assert masking.see(rows, session) is FORWARD
    assert masking.see(ListOutput([]), session) is FORWARD
    assert masking.see(ListOutput([b"done"]), session) is FORWARD
    assert masking.see(ListRows(), session) is FORWARD
    assert rows.replaced == []
    assert session.metrics.info_types == {}
    assert session.metrics.transformed_bytes == 0


def test_masking_without_types_requests_no_events(session: SessionView) -> None:
    masking = Masking(frozenset())
    assert masking.wants == frozenset()
    assert masking.see(ListOutput([b"ann@example.com"]), session) is FORWARD
    assert Masking(ALL).wants == {Rows, Output}
    assert Masking(ALL).see(Operation(1, "select 'ann@example.com'"), session) is FORWARD


@given(st.lists(ANY_TEXT, min_size=1, max_size=8), st.sampled_from(TextKind), st.integers(0, 8))
def test_split_of_rows_into_blocks_does_not_change_masking(texts: list[bytes], kind: TextKind, cut: int) -> None:
    whole, first, second = ListRows((kind, texts)), ListRows((kind, texts[:cut])), ListRows((kind, texts[cut:]))
    session, other = make_session(), make_session()
    masking = Masking(ALL)
    masking.see(whole, session)
    masking.see(first, other)
    masking.see(second, other)
    assert whole.held[0] == first.held[0] + second.held[0]
    assert session.metrics == other.metrics
