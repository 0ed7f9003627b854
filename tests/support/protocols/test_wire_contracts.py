"""The contract of a wire: kept by ours, and broken by wires that are broken on purpose."""

from __future__ import annotations

import pytest
from tests.support.links import interpreted_only
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.wire_contracts import check_masking, check_wire

from postern.interception.events import Output, Rows
from postern.interception.verdicts import Refuse
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.wire_base import Piece, Request, Side

SIMPLE = [
    (Side.CLIENT, pg.query("select 1") + pg.query("select 2")),
    (Side.TARGET, (pg.row_description("n") + pg.data_row("1") + pg.command_complete("SELECT 1") + pg.ready()) * 2),
]
EXTENDED = [
    (Side.CLIENT, pg.parse("select 1") + pg.bind() + pg.describe_portal() + pg.execute() + pg.sync()),
    (Side.TARGET, pg.parse_complete() + pg.bind_complete() + pg.row_description("n") + pg.notice("x")),
    (Side.TARGET, pg.data_row("1") + pg.data_row(None) + pg.command_complete("SELECT 2") + pg.ready()),
]
GARBAGE = [
    (Side.CLIENT, b"~\0\0\0\x04"),
    (Side.TARGET, b"~\0\0\0\x04"),
    (Side.CLIENT, b"Q\0\0\0\0"),
    (Side.TARGET, pg.ready()),
]


def test_postgres_keeps_the_contract() -> None:
    check_wire(PostgresWire, SIMPLE, garbage=GARBAGE)
    check_wire(PostgresWire, EXTENDED, garbage=GARBAGE)
    check_wire(PostgresWire, [(Side.CLIENT, EXTENDED[0][1].replace(pg.describe_portal(), b"")),
                              (Side.TARGET, pg.parse_complete() + pg.bind_complete()),
                              (Side.TARGET, pg.command_complete("BEGIN") + pg.ready())], injects=True)  # fmt: skip


@interpreted_only
def test_a_wire_that_lets_refused_requests_through_is_found_out() -> None:
    class Talks(PostgresWire):
        def reject(self, request: Request, refusal: Refuse) -> bytes:
            return super().reject(request, refusal) + self.forward(request)

    with pytest.raises(AssertionError, match="reached the target"):
        check_wire(Talks, SIMPLE)


@interpreted_only
def test_a_wire_that_loses_a_piece_of_an_answer_is_found_out() -> None:
    class Swallows(PostgresWire):
        def poll_target(self) -> list[Piece]:
            return super().poll_target()[:-1]

    with pytest.raises(AssertionError, match="passed on was"):
        check_wire(Swallows, SIMPLE)


@interpreted_only
def test_a_wire_that_never_thinks_it_is_done_is_found_out() -> None:
    class Owes(PostgresWire):
        @property
        def awaiting_response(self) -> bool:
            return True

    with pytest.raises(AssertionError, match="still thought to owe"):
        check_wire(Owes, SIMPLE)


def test_what_is_no_garbage_is_found_out() -> None:
    with pytest.raises(AssertionError, match="closed the link"):
        check_wire(PostgresWire, SIMPLE, garbage=[(Side.CLIENT, pg.query("select 1"))])


SECRET = b"secret-4711"
TOLD = [
    (Side.CLIENT, pg.query("select a")),
    (Side.TARGET, pg.row_description("a") + pg.data_row(SECRET) + pg.data_row("b") + pg.command_complete("SELECT 2")),
    (Side.TARGET, pg.ready()),
]


def test_a_conversation_without_a_secret_is_found_out() -> None:
    check_masking(PostgresWire, TOLD, secret=SECRET)
    with pytest.raises(AssertionError, match="does not say the secret"):
        check_masking(PostgresWire, SIMPLE, secret=SECRET)


@interpreted_only
def test_a_wire_that_shows_what_was_masked_is_found_out() -> None:
    class Shows(PostgresWire):
        def render(self, event: Rows | Output) -> bytes:
            return super().render(event) + pg.data_row(SECRET)

    with pytest.raises(AssertionError, match="shown in clear"):
        check_masking(Shows, TOLD, secret=SECRET)


@interpreted_only
def test_a_wire_that_changes_more_than_the_secret_is_found_out() -> None:
    class Changes(PostgresWire):
        def render(self, event: Rows | Output) -> bytes:
            return super().render(event) + pg.notice("this was masked")

    with pytest.raises(AssertionError, match="not b'T"):
        check_masking(Changes, TOLD, secret=SECRET)


@interpreted_only
def test_a_wire_that_shows_what_was_refused_is_found_out() -> None:
    class Leaks(PostgresWire):
        def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
            return super().abort_response(event, refusal) + pg.notice(SECRET.decode())

    with pytest.raises(AssertionError, match="though it was refused"):
        check_masking(Leaks, TOLD, secret=SECRET)
