"""Messages that are too large to be judged, and messages that violate the protocol."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from tests.support.links import Masks, ReadsAll, Words, links, operation, playbook, prepare, refusal
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import (
    CHUNKS,
    Playbook,
    from_client,
    from_target,
    pieces,
    record,
    to_client,
    to_target,
)

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Operation, Phase
from postern.protocols.postgres.wire import postgres_messages as messages
from postern.protocols.postgres.wire import postgres_response_queue as ledger
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link, Send

LIMIT = 200
HUGE = "x" * 300
DONE = pg.command_complete("SELECT 1")


def too_large(size: int) -> bytes:
    hint = "Send less at once, use COPY, or ask an administrator to raise POSTERN_MAX_STATEMENT."
    return messages.error_response("42501", too_large_text(size), hint=hint)


def too_large_text(size: int) -> str:
    return f"a message of {size} bytes is larger than the {LIMIT} bytes that can be evaluated"


def value_too_large(length: int) -> tuple[bytes, Completed]:
    text = f"a value of {length} bytes is larger than the {LIMIT} bytes that can be inspected"
    hint = "Request less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."
    return messages.error_response("54000", text, hint=hint), Completed(1, error_code="54000", error=text)


def still_usable(play: Playbook, exchange: int) -> None:
    play >> from_client(pg.query("select 1"))
    play << operation(exchange, "select 1")
    play.forwarded()
    play >> from_target(DONE, pg.ready())
    play << Completed(exchange, "SELECT 1", 1)
    play.forwarded()


def evidence(message: bytes) -> Operation:
    return Operation(1, message[5:].replace(b"\0", b" ").decode(), Phase.RUN, (), True)


@pytest.mark.parametrize("message", [pg.query(HUGE), pg.function_call(7, [HUGE])], ids=["query", "function"])
def test_message_too_large_to_be_judged_is_denied(message: bytes) -> None:
    with playbook(max_message=LIMIT) as play:
        play >> from_client(message)
        play << record(evidence(message)) << refusal(1, "size", too_large_text(len(message)))
        play << to_client(too_large(len(message)), pg.ready())
        still_usable(play, 2)


@pytest.mark.parametrize("interceptors", [[], [ReadsAll()]])
def test_oversized_parse_is_denied_with_its_batch(interceptors: list[ReadsAll]) -> None:
    message = pg.parse(HUGE)
    with playbook(*interceptors, max_message=LIMIT) as play:
        play >> from_client(message, pg.bind(), pg.execute(), pg.sync())
        play << record(evidence(message)) << refusal(1, "size", too_large_text(len(message)))
        play << to_client(too_large(len(message)), pg.ready())
        still_usable(play, 2)


def test_statement_before_an_oversized_message_is_rolled_back() -> None:
    message = pg.query(HUGE)
    with playbook(max_message=LIMIT) as play:
        play >> from_client(pg.parse("insert"), pg.bind(), pg.execute(), message)
        play << operation(1, "insert")
        (
            play
            << Operation(2, evidence(message).text, Phase.RUN, (), True)
            << refusal(2, "size", too_large_text(len(message)))
        )
        play << to_target(pg.parse("insert"), pg.bind(), pg.execute(), pg.query("denied by the gateway"))
        play >> from_target(pg.parse_complete(), pg.bind_complete(), pg.command_complete("INSERT 0 1"))
        play << Completed(1, "INSERT 0 1", 1)
        play << to_client(
            pg.parse_complete(), pg.bind_complete(), pg.command_complete("INSERT 0 1"), too_large(len(message))
        )
        play >> from_target(pg.error("syntax"), pg.ready())
        play << to_client(pg.ready())


def test_oversized_bind_is_streamed_without_interceptors() -> None:
    batch = [pg.parse("insert"), pg.bind(values=[HUGE]), pg.execute(), pg.sync()]
    with playbook(max_message=LIMIT) as play:
        play >> from_client(*batch)
        play << prepare(1, "insert") << operation(2, "insert", truncated=True)
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.bind_complete(), DONE, pg.ready())
        play << Completed(2, "SELECT 1", 1)
        play.forwarded()


def test_oversized_bind_is_streamed_if_only_answers_are_judged() -> None:
    batch = [pg.parse("select"), pg.bind(values=[HUGE]), pg.execute(), pg.sync()]
    with playbook(Masks(), max_message=LIMIT) as play:
        play >> from_client(*batch)
        play << prepare(1, "select") << operation(2, "select", truncated=True)
        play << to_target(*batch[:2], pg.describe_portal(), *batch[2:])
        described = pg.row_description("s")
        play >> from_target(
            pg.parse_complete(), pg.bind_complete(), described, pg.data_row("secret-1"), DONE, pg.ready()
        )
        play << Completed(2, "SELECT 1", 1)
        play << to_client(pg.parse_complete(), pg.bind_complete(), pg.data_row("***"), DONE, pg.ready())


def test_oversized_bind_is_denied_if_statements_are_judged() -> None:
    bound = pg.bind(values=[HUGE])
    with playbook(Words(), max_message=LIMIT) as play:
        play >> from_client(pg.parse("insert"), bound, pg.execute(), pg.sync())
        play << prepare(1, "insert") << Operation(2, evidence(bound).text, Phase.RUN, (), True)
        play << refusal(2, "size", too_large_text(len(bound)))
        play << to_target(pg.parse("insert"), pg.flush(), pg.sync())
        play >> from_target(pg.parse_complete(), pg.ready())
        play << to_client(pg.parse_complete(), too_large(len(bound)), pg.ready())
        still_usable(play, 3)


def test_value_too_large_to_inspect_is_replaced_by_an_error() -> None:
    row = pg.data_row(HUGE)
    error, completed = value_too_large(len(row) - 1)
    with playbook(Masks(), max_message=LIMIT) as play:
        play >> from_client(pg.query("select s"))
        play << operation(1, "select s")
        play.forwarded()
        play >> from_target(pg.row_description("s"), pg.data_row("secret-1"), row, pg.data_row("x"), DONE, pg.ready())
        play << completed << Completed(1, "SELECT 1", 1)
        play << to_client(pg.row_description("s"), pg.data_row("***"), error, pg.ready())
        still_usable(play, 2)


def test_oversized_value_is_streamed_if_rows_are_not_inspected() -> None:
    with playbook(Words(), max_message=LIMIT) as play:
        play >> from_client(pg.query("select s"))
        play << operation(1, "select s")
        play.forwarded()
        play >> from_target(pg.row_description("s"), pg.data_row(HUGE), pg.data_row("x"), DONE, pg.ready())
        play << Completed(1, "SELECT 1", 1)
        play.forwarded()


def test_attack_084_oversized_notice_ends_the_session() -> None:
    with playbook(max_message=LIMIT) as play:
        play >> from_target(pg.notice(HUGE))
        length = len(pg.notice(HUGE)) - 1
        play << to_client(broken("target", f"the target sent a message of type 0x4e of length {length}")) << violated()


def broken(side: str, what: str) -> bytes:
    return pg.error(f"{side} broke the protocol: {what}", "08P01", "FATAL")


def violated() -> Close:
    return Close(EndReason.PROTOCOL_VIOLATION)


def framed(tag: bytes, length: int, body: bytes = b"") -> bytes:
    return tag + struct.pack("!I", length) + body


def replays(*interceptors: ReadsAll) -> Iterator[tuple[Link, int]]:
    new_link = links(*interceptors)
    for size in CHUNKS:
        yield new_link(), size


def feed_violation(link: Link, side: Side, data: bytes, size: int) -> tuple[bytes, bytes]:
    """Return the data sent to both sides. Asserts that the link closes once, with its last effect."""
    effects = [effect for piece in pieces(data, size) for effect in link.receive(side, piece)]
    closes = [effect for effect in effects if isinstance(effect, Close)]
    assert [close.reason for close in closes] == [EndReason.PROTOCOL_VIOLATION]
    assert effects[-1] is closes[0]
    assert link.receive(side, pg.query("select 2")) == []
    sent = {Side.CLIENT: b"", Side.TARGET: b""}
    for effect in effects:
        if isinstance(effect, Send):
            sent[effect.side] += effect.data
    return sent[Side.CLIENT], sent[Side.TARGET]


def single_fatal_error(data: bytes) -> bytes:
    """Return the body of the only message in `data`, a fatal error."""
    ((tag, body),) = pg.split(data)
    assert tag == b"E"
    assert b"VFATAL" in body
    return body


FROM_CLIENT = {
    "no length": framed(b"Q", 0),
    "length 3": framed(b"Q", 3),
    "negative length": framed(b"Q", 0xFFFFFFFF),
    "largest length": framed(b"P", 0x7FFFFFFF),
    "a length beyond the limit of the target": framed(b"d", 0x40000000),
    "unknown type": framed(b"~", 4),
    "a second startup message": messages.startup({"user": "eve"}),
    "a password": framed(b"p", 6, b"x\0"),
    "an answer": pg.ready(),
    "a row": pg.data_row("x")[:1] + struct.pack("!I", 4),
    "a sync with a body": framed(b"S", 5, b"\0"),
    "a flush with a body": framed(b"H", 5, b"\0"),
    "an unterminated query": framed(b"Q", 7, b"abc"),
    "a query with text after its end": framed(b"Q", 9, b"a\0b\0\0"),
    "a bind that ends early": framed(b"B", 8, b"\0\0\0\0"),
    "a describe of nothing": framed(b"D", 6, b"X\0"),
    "a describe with extra bytes": framed(b"D", 7, b"S\0\0"),
    "an execute without a limit": framed(b"E", 5, b"\0"),
    "an execute with extra bytes": framed(b"E", 10, b"\0\0\0\0\0\0"),
    "a close without a name": framed(b"C", 4),
    "a function call that ends early": framed(b"F", 8, b"\0\0\0\1"),
    "a function call with extra bytes": framed(b"F", 15, bytes(11)),
}


@pytest.mark.parametrize("interceptors", [[], [ReadsAll()]], ids=["forwarding", "reading"])
@pytest.mark.parametrize("name", FROM_CLIENT)
def test_attack_074_malformed_client_message_ends_the_session_and_is_not_forwarded(
    name: str, interceptors: list[ReadsAll]
) -> None:
    good = pg.query("select 1")
    for link, size in replays(*interceptors):
        to_client, to_target = feed_violation(link, Side.CLIENT, good + FROM_CLIENT[name], size)
        assert to_target == good
        assert b"client broke the protocol" in single_fatal_error(to_client)


@pytest.mark.parametrize("tag", [b"Q", b"P", b"B", b"E", b"F", b"D", b"C"])
def test_request_during_copy_in_ends_the_session(tag: bytes) -> None:
    with playbook() as play:
        play >> from_client(pg.query("copy t from stdin"))
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(pg.copy_in())
        play.forwarded()
        play >> from_client(pg.copy_data("1\n"), messages.message(tag, bytes(9)))
        play << to_target(pg.copy_data("1\n"))
        play << to_client(broken("client", f"the client sent a message of type {tag[0]:#04x} instead of COPY data"))
        play << violated()


def test_malformed_copy_data_ends_the_session() -> None:
    with playbook() as play:
        play >> from_client(pg.query("copy t from stdin"))
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(pg.copy_in())
        play.forwarded()
        play >> from_client(pg.copy_data("1\n"), framed(b"d", 0), b"garbage")
        play << to_target(pg.copy_data("1\n"))
        play << to_client(broken("client", "the client sent a message of type 0x64 and length 0")) << violated()


OUT_OF_TURN = {
    "ready": pg.ready(),
    "complete": DONE,
    "row": pg.data_row("x"),
    "description": pg.row_description("x"),
    "parse complete": pg.parse_complete(),
    "suspended": pg.portal_suspended(),
    "function result": pg.function_result("x"),
    "copied data": pg.copy_data("x"),
    "copy in": pg.copy_in(),
    "copy both": messages.message(b"W", b"\0\0\0"),
    "authentication": messages.authentication(messages.AUTH_CLEARTEXT),
    "key": messages.backend_key_data(1, b"key!"),
    "unknown": messages.message(b"~"),
    "negotiation": messages.negotiate_protocol_version(196610, []),
    "too short": b"Z\0\0\0\3",
    "too long": b"Z\xff\xff\xff\xff",
}


@pytest.mark.parametrize("interceptors", [[], [ReadsAll()]], ids=["forwarding", "reading"])
@pytest.mark.parametrize("name", OUT_OF_TURN)
def test_unexpected_target_message_ends_the_session_and_is_not_forwarded(
    name: str, interceptors: list[ReadsAll]
) -> None:
    notice = pg.notice("fine")
    for link, size in replays(*interceptors):
        to_client, to_target = feed_violation(link, Side.TARGET, notice + OUT_OF_TURN[name], size)
        assert to_target == b""
        assert to_client.startswith(notice)
        assert b"target broke the protocol" in single_fatal_error(to_client[len(notice) :])


WRONG_ANSWERS = {
    "bind complete for a parse": (pg.parse("x"), pg.bind_complete()),
    "complete for a parse": (pg.parse("x"), DONE),
    "a row for a parse": (pg.parse("x"), pg.data_row("x")),
    "ready for a parse": (pg.parse("x"), pg.ready()),
    "parse complete for a query": (pg.query("x"), pg.parse_complete()),
    "a ready without a status": (pg.query("x"), messages.message(b"Z")),
    "no data for a query": (pg.query("x"), pg.no_data()),
    "rows without a description": (pg.query("x"), pg.data_row("x")),
    "a row of length 4": (pg.query("x"), pg.row_description("x") + pg.data_row("x") + b"D\0\0\0\4"),
    "a truncated row": (pg.query("x"), pg.row_description("x") + messages.message(b"D", b"\0")),
    "a function's result for a query": (pg.query("x"), pg.function_result("x")),
    "a row for a function": (pg.function_call(1), pg.data_row("x")),
    "a copy for a function": (pg.function_call(1), pg.copy_in()),
    "truncated parameters": (pg.describe_statement(), messages.message(b"t", b"\0\5")),
    "an unterminated tag": (pg.query("x"), messages.message(b"C", b"SELECT 1")),
    "an unterminated error": (pg.query("x"), messages.message(b"E", b"Mtext")),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_answer_to_a_different_request_ends_the_session(name: str) -> None:
    request, answer = WRONG_ANSWERS[name]
    for link, size in replays(ReadsAll()):
        link.receive(Side.CLIENT, request + pg.sync())
        to_client, _ = feed_violation(link, Side.TARGET, answer, size)
        assert b"target broke the protocol" in to_client


@pytest.mark.parametrize("body", [b"", b"\0\1", b"\0\1a\0\0\0", b"\xff\xff", b"\0\0x"])
def test_malformed_row_description_ends_the_session(body: bytes) -> None:
    for link, size in replays(ReadsAll()):
        link.receive(Side.CLIENT, pg.query("x"))
        to_client, _ = feed_violation(link, Side.TARGET, messages.message(b"T", body) + pg.data_row("x"), size)
        assert b"target broke the protocol" in to_client


def test_attack_denied_requests_after_a_slow_one_end_the_session_at_the_limit() -> None:
    link = links(Words("drop"))()
    link.receive(Side.CLIENT, pg.query("select slowly"))
    refused = pg.query("drop")
    closed = [
        effect
        for _ in range(ledger.MAX_OWED // 1_000 + 1)
        for effect in link.receive(Side.CLIENT, refused * 1_000)
        if isinstance(effect, Close)
    ]
    assert [close.reason for close in closed] == [EndReason.PROTOCOL_VIOLATION]


def test_error_response_replaces_invalid_text() -> None:
    assert b"M?\0" in messages.error_response("42501", "\udcff")
