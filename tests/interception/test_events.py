"""Tests of events, compiled or not: each event is an instance of its own class only."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from postern.domain.rules.masking import DEFAULT_TYPES
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception import events
from postern.interception.events import Output, Rows
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_output import PostgresText
from postern.protocols.postgres.wire.postgres_rows import PostgresLayout, PostgresRows
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Side
from postern.relay.link import Link, Send

INSTALLED = os.environ.get("POSTERN_TEST_INSTALLED") == "1"


def test_rows_and_output_are_distinguished_in_any_order_of_checks() -> None:
    text = PostgresText(1, m.NOTICE_RESPONSE, b"Mhello\0\0")
    rows = PostgresRows(1, PostgresLayout(()), b"", 0)
    for _ in range(2):
        assert not isinstance(text, Rows)
        assert isinstance(text, Output)
        assert isinstance(rows, Rows)
        assert not isinstance(rows, Output)


def test_values_are_masked_in_alternating_result_sets_and_errors() -> None:
    view = SessionView(uuid4(), "ann@example.com", frozenset(), "shop", "database", "postgres", {})
    link = Link(PostgresWire(), Pipeline([Masking(DEFAULT_TYPES)], view), lambda: 0)
    field = b"email\0" + bytes(6) + (25).to_bytes(4, "big") + bytes(8)
    cell = b"bob@example.com"
    row = m.message(b"D", b"\0\1", len(cell).to_bytes(4, "big"), cell)
    answer = m.message(b"T", b"\0\1", field) + row + m.message(b"C", b"SELECT 1\0") + m.ready_for_query(b"I")
    failure = m.error_response("22P02", 'invalid: "bob@example.com"') + m.ready_for_query(b"I")
    for reply in (answer, failure, answer, failure):
        link.receive(Side.CLIENT, m.query(b"select email from customers"))
        shown = b"".join(effect.data for effect in link.receive(Side.TARGET, reply) if isinstance(effect, Send))
        assert b"****@****" in shown
        assert b"bob@" not in shown


@pytest.mark.skipif(not INSTALLED, reason="asks about the installed package")
def test_the_installed_package_is_the_one_under_test() -> None:
    assert "site-packages" in str(events.__file__)
