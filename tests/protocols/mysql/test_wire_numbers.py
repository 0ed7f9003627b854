"""Rows around 16 MiB, sequence numbers, and unexpected bytes."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.links import Masks, ReadsAll, Words
from tests.support.mysql_links import links, playbook, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import from_client, from_target, pieces, record, to_client

from postern.domain.sessions.session import EndReason
from postern.errors import ProtocolViolation
from postern.interception.events import Completed
from postern.interception.pipeline import Interceptor
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_wire import MysqlWire
from postern.protocols.wire_base import Side
from postern.relay.link import Close

LONG = m.MAX_PAYLOAD


def test_sequence_numbers_wrap_after_255() -> None:
    answer = my.AnswerPackets().columns("a")
    masked = my.AnswerPackets().columns("a")
    for row in range(600):
        answer.row(f"secret-{row}")
        masked.row("***")
    for who, shown in (((), answer), ((ReadsAll(),), answer), ((Masks(),), masked)):
        with playbook(*who) as play:
            play >> from_client(my.query("select a"))
            play.forwarded() << record(runs(1, "select a"))
            play >> from_target(answer.bytes, m.eof(answer.sequence))
            play << to_client(shown.bytes, m.eof(answer.sequence)) << record(Completed(1, "OK", 600))


@pytest.mark.parametrize("size", [LONG - 5, LONG - 4, LONG, LONG + 100])
def test_row_around_16_mib_is_forwarded_with_and_without_interceptors(size: int) -> None:
    answer = my.AnswerPackets().columns("a").row("short").row("x" * size).row("short").eof(m.MORE_RESULTS).ok()
    for who in ((), (ReadsAll(),)):
        with playbook(*who, chunks=(0, 1 << 20)) as play:
            play >> from_client(my.query("select a"))
            play.forwarded() << record(runs(1, "select a"))
            play >> from_target(answer.bytes)
            play.forwarded() << record(Completed(1, "OK", 3))


@pytest.mark.parametrize("over", [-9, 0, 300], ids=["below", "at", "beyond"])
def test_masking_across_the_16_mib_boundary_renumbers_later_packets(over: int) -> None:
    """A secret is longer than its replacement."""
    long = "secret-" + "1" * 300 + "x" * (LONG - 300 + over)
    answer = my.AnswerPackets().columns("a").row(long).row("plain").eof(m.MORE_RESULTS)
    answer.columns("b").row("secret-1").eof(m.MORE_RESULTS).error("last")
    wanted = my.AnswerPackets().columns("a").row("***" + "x" * (LONG - 300 + over)).row("plain").eof(m.MORE_RESULTS)
    wanted.columns("b").row("***").eof(m.MORE_RESULTS).error("last")
    assert (answer.sequence == wanted.sequence) == (over == 300)
    with playbook(Masks(), chunks=(0, 1 << 20)) as play:
        play >> from_client(my.query("select a; select b; bad"), m.PING)
        play << record(runs(1, "select a; select b; bad"))
        play.forwarded()
        play >> from_target(answer.bytes, my.ok())
        play << to_client(wanted.bytes, my.ok()) << record(Completed(1, error_code="42000", error="last"))


def test_row_too_large_to_inspect_is_replaced_by_an_error() -> None:
    answer = my.AnswerPackets().columns("a").row("x" * (LONG + 50)).row("behind").eof()
    text = "a row is larger than the 100000 bytes that can be inspected"
    hint = "Request less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."
    with playbook(ReadsAll(), chunks=(0, 1 << 20), max_message=100_000) as play:
        play >> from_client(my.query("select a"), m.PING)
        play << record(runs(1, "select a"))
        play.forwarded()
        play >> from_target(answer.bytes, my.ok())
        play << to_client(my.AnswerPackets().columns("a").bytes, m.err(4, 1153, "08S01", text, hint), my.ok())
        play << record(Completed(1, error_code="08S01", error=text)) << record(Completed(1, "OK", 2))


def test_no_error_is_sent_in_the_middle_of_a_long_row() -> None:
    link = links()()
    link.receive(Side.CLIENT, my.query("select a"))
    link.receive(Side.TARGET, my.AnswerPackets().columns("a").bytes + m.packet(4, bytes(LONG))[: LONG + 4])
    effects = link.target_finished()
    assert sent(effects, Side.CLIENT) == b""
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.TARGET_CLOSED]


COMMANDS = st.one_of(
    st.sampled_from([m.PING, my.prepare("select ?"), my.execute(1), my.close(1), my.reset(1), my.fetch(1, 1),
                     my.execute(1, [(m.VAR_STRING, "x")]), my.long_data(1, 0, b"x"), m.command(m.COM_RESET_CONNECTION),
                     my.change_user("ada", b"x" * 20, "shop"), m.command(m.COM_STATISTICS), my.query("drop a")]),
    st.binary(max_size=40).map(lambda payload: m.packet(0, payload)),
    st.binary(max_size=40),
    st.text(max_size=10).map(my.query),
)  # fmt: skip
ANSWERS = st.one_of(
    st.sampled_from([my.ok(), my.error("no"), my.rows(("secret-1",)), my.AnswerPackets().prepared(1, 1).bytes,
                     my.AnswerPackets().prepared(1, 1, [m.MysqlField("a", 3)]).bytes,
                     my.AnswerPackets().wants_file().bytes,
                     my.AnswerPackets().columns("a", status=m.CURSOR_EXISTS).bytes, m.eof(1),
                     my.AnswerPackets().columns(m.MysqlField("a", 3)).binary_row((3, "5")).eof().bytes]),
    st.binary(max_size=40).map(lambda payload: m.packet(1, payload)),
    st.binary(max_size=40),
)  # fmt: skip
WHO: list[tuple[Interceptor, ...]] = [(), (ReadsAll(),), (Masks(), Words())]


@given(st.lists(st.tuples(COMMANDS, ANSWERS), max_size=8), st.sampled_from(WHO), st.integers(0, 2**32))
@settings(max_examples=examples(300))
def test_attack_arbitrary_traffic_continues_or_ends_with_a_protocol_violation(
    said: list[tuple[bytes, bytes]], who: tuple[Interceptor, ...], seed: int
) -> None:
    """Only a protocol violation can end the link."""
    link = links(*who, user="ada", local_files=seed % 2 == 0)()
    random = Random(seed)
    effects = []
    for command, answer in said:
        for side, data in ((Side.CLIENT, command), (Side.TARGET, answer)):
            for piece in pieces(data, random.choice([0, 1, 5])):
                effects += link.receive(side, piece)
    closes = [effect.reason for effect in effects if isinstance(effect, Close)]
    assert closes in ([], [EndReason.PROTOCOL_VIOLATION])


@given(st.lists(st.sampled_from([my.query("select 1"), my.prepare("select 1"), m.PING]), max_size=4), st.binary())
def test_attack_fuzzed_answers_raise_only_protocol_violations(asked: list[bytes], data: bytes) -> None:
    for wants in (True, False):
        wire = MysqlWire()
        wire.wants.rows = wire.wants.output = wants
        wire.feed_client(b"".join(asked))
        while (piece := wire.poll_client()) is not None:
            if not isinstance(piece, bytes):
                wire.forward(piece)
        with contextlib.suppress(ProtocolViolation):
            wire.feed_target(data)
            while wire.poll_target():
                pass
