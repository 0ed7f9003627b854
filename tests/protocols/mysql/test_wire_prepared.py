"""Prepared statements: an execution is judged by its own text and values, in any order of commands."""

from __future__ import annotations

import pytest
from tests.support.links import DROP_MESSAGE, Masks, ReadsAll, Words
from tests.support.mysql_links import links, playbook, prepares, recorded, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import Playbook, from_client, from_target, record, to_client, to_target

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Operation, Refusal
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link

TEXT = m.VAR_STRING
FIELD = m.MysqlField("a", m.VAR_STRING)
REFUSED = m.err(1, 1227, "42000", DROP_MESSAGE)


def prepared(play: Playbook, text: str = "insert ?", number: int = 1, parameters: int = 1, exchange: int = 1) -> None:
    play >> from_client(my.prepare(text))
    play.forwarded() << record(prepares(exchange, text))
    play >> from_target(my.AnswerPackets().prepared(number, parameters).bytes)
    play.forwarded() << record(Completed(exchange, "PREPARE", 0))


def test_prepare_and_each_execute_are_recorded() -> None:
    with playbook(ReadsAll()) as play:
        prepared(play, "select ?, ?", 7, 2)
        play >> from_client(my.execute(7, [(TEXT, "größe"), (m.LONGLONG, None)]))
        play.forwarded() << record(runs(2, "select ?, ?", ("größe".encode(), None)))
        play >> from_target(
            my.AnswerPackets().columns(FIELD).binary_row((TEXT, "x")).binary_row((TEXT, None)).eof().bytes
        )
        play.forwarded() << record(Completed(2, "OK", 2))
        # The types of the last execution still apply.
        again = my.execute(7, [(TEXT, "b"), (m.LONGLONG, "-5")], types=False)
        play >> from_client(again)
        play.forwarded() << record(runs(3, "select ?, ?", (b"b", b"-5")))
        play >> from_target(my.ok(1))
        play.forwarded() << record(Completed(3, "OK", 1))


VALUES = [
    (m.TINY, "-5"), (m.SHORT, "300"), (m.LONG, "-70000"), (m.LONGLONG, "5000000000"), (m.FLOAT, "1.5"),
    (m.DOUBLE, "2.25"), (m.DATE, "2024-02-29"), (m.DATETIME, "2024-02-29 01:02:03.000004"), (m.TIME, "12:34:56"),
    (m.NEWDECIMAL, "12.50"), (m.BLOB, "bytes"), (m.TINY, None),
]  # fmt: skip


def test_binary_bind_values_are_recorded_as_text() -> None:
    with playbook(ReadsAll()) as play:
        prepared(play, "insert", 1, len(VALUES))
        play >> from_client(my.execute(1, VALUES))
        texts = tuple([None if text is None else text.encode() for _, text in VALUES])
        play.forwarded() << record(runs(2, "insert", texts))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(2, "OK", 0))


def test_execute_with_a_forbidden_bind_value_is_denied() -> None:
    with playbook(Words()) as play:
        prepared(play)
        play >> from_client(my.execute(1, [(TEXT, "drop")]), my.execute(1, [(TEXT, "fine")]))
        play << record(runs(2, "insert ?", (b"drop",))) << record(Refusal(2, "words", DROP_MESSAGE))
        play << record(runs(3, "insert ?", (b"fine",)))
        play << to_client(REFUSED) << to_target(my.execute(1, [(TEXT, "fine")]))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(3, "OK", 0))


def test_long_data_values_are_judged_with_the_other_bind_values() -> None:
    ahead = my.long_data(1, 0, b"lo") + my.long_data(1, 0, b"ng")
    execute = my.execute(1, [(m.BLOB, ""), (TEXT, "b")], ahead=[0])
    with playbook(ReadsAll()) as play:
        prepared(play, "insert", 1, 2)
        play >> from_client(ahead)
        play.forwarded()
        play >> from_client(execute)
        play.forwarded() << record(runs(2, "insert", (b"long", b"b")))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(2, "OK", 0))
        # Long data applies to one execution only.
        play >> from_client(my.execute(1, [(m.BLOB, "short"), (TEXT, None)]))
        play.forwarded() << record(runs(3, "insert", (b"short", None)))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(3, "OK", 0))


def test_denied_execute_resets_long_data_on_the_target() -> None:
    with playbook(Words()) as play:
        prepared(play)
        play >> from_client(my.long_data(1, 0, b"drop"))
        play.forwarded()
        play >> from_client(my.execute(1, [(m.BLOB, "")], ahead=[0]), m.PING)
        play << record(runs(2, "insert ?", (b"drop",))) << record(Refusal(2, "words", DROP_MESSAGE))
        play << to_target(my.reset(1), m.PING) << to_client(REFUSED)
        play >> from_target(my.ok(), my.ok(status=m.IN_TRANSACTION))
        play << to_client(my.ok(status=m.IN_TRANSACTION))


def test_long_data_beyond_the_limit_is_marked_as_truncated() -> None:
    link = _with_statement(links(ReadsAll(), max_message=1000)(), "insert ?", 1, 1)
    for _ in range(3):
        link.receive(Side.CLIENT, my.long_data(1, 0, bytes(600)))
    effects = link.receive(Side.CLIENT, my.execute(1, [(m.BLOB, "")], ahead=[0]))
    (operation,) = [event for event in recorded(effects) if isinstance(event, Operation)]
    assert operation.truncated
    assert operation.values == (bytes(600),)


def test_large_bind_value_is_streamed_without_interceptors_and_denied_with_them() -> None:
    big = my.execute(1, [(TEXT, "x" * 5000)])
    with playbook(max_message=1000) as play:
        prepared(play)
        play >> from_client(big, m.PING)
        play.forwarded()
        play >> from_target(my.ok(1), my.ok())
        play.forwarded() << record(Completed(2, "OK", 1))
    link = _with_statement(links(ReadsAll(), max_message=1000)(), "insert ?", 1, 1)
    effects = link.receive(Side.CLIENT, big + m.PING)
    assert sent(effects, Side.TARGET) == m.PING
    assert b"too large to be evaluated" in sent(effects, Side.CLIENT)


def test_answer_to_a_command_of_several_packets_has_the_next_sequence_number() -> None:
    big = my.query(b"select '" + b"x" * m.MAX_PAYLOAD + b"'")
    assert len(big) == m.MAX_PAYLOAD + 2 * m.HEAD + 10
    with playbook(Words("xxx"), chunks=(0, 1 << 20)) as play:
        play >> from_client(big, m.PING)
        text = "select '" + "x" * m.MAX_PAYLOAD + "'"
        said = "the word xxx is not allowed"
        play << record(runs(1, text)) << record(Refusal(1, "words", said))
        play << to_client(m.err(2, 1227, "42000", said)) << to_target(m.PING)
        play >> from_target(my.ok())
        play.forwarded()
    with playbook(chunks=(0, 1 << 20)) as play:
        play >> from_client(big)
        play.forwarded() << record(runs(1, text))
        play >> from_target(my.AnswerPackets(2).ok().bytes)
        play.forwarded() << record(Completed(1, "OK", 0))
    link = links(ReadsAll(), max_message=1000)()
    effects = link.receive(Side.CLIENT, big + m.PING)
    assert sent(effects, Side.TARGET) == m.PING
    assert sent(effects, Side.CLIENT)[3:5] == b"\x02\xff"
    link = _with_statement(links(max_message=1000)(), "insert ?", 1, 1)
    effects = link.receive(Side.CLIENT, my.execute(1, [(TEXT, "x" * m.MAX_PAYLOAD)]))
    assert len(sent(effects, Side.TARGET)) > m.MAX_PAYLOAD
    assert (
        sent(link.receive(Side.TARGET, my.AnswerPackets(2).ok().bytes), Side.CLIENT) == my.AnswerPackets(2).ok().bytes
    )


def test_rows_fetched_from_a_cursor_are_masked() -> None:
    opened = my.AnswerPackets().columns(FIELD, status=m.CURSOR_EXISTS).bytes
    with playbook(Masks()) as play:
        play >> from_client(my.prepare("select a"))
        play.forwarded() << record(prepares(1, "select a"))
        play >> from_target(my.AnswerPackets().prepared(1, 0, [FIELD]).bytes)
        play.forwarded() << record(Completed(1, "PREPARE", 0))
        play >> from_client(my.execute(1, flags=1))
        play.forwarded() << record(runs(2, "select a"))
        play >> from_target(opened)
        play.forwarded() << record(Completed(2, "OK", 0))
        play >> from_client(my.fetch(1, 2))
        play.forwarded()
        play >> from_target(my.AnswerPackets().binary_row((TEXT, "secret-1")).binary_row((TEXT, "b")).eof(64).bytes)
        play << to_client(my.AnswerPackets().binary_row((TEXT, "***")).binary_row((TEXT, "b")).eof(64).bytes)
        play << record(Completed(3, "OK", 2))
        play >> from_client(my.fetch(1, 2), my.reset(1))
        play.forwarded()
        play >> from_target(my.AnswerPackets().eof(m.LAST_ROW_SENT).bytes, my.ok())
        play.forwarded() << record(Completed(4, "OK", 0))


def _with_statement(link: Link, text: str, number: int, parameters: int) -> Link:
    link.receive(Side.CLIENT, my.prepare(text))
    link.receive(Side.TARGET, my.AnswerPackets().prepared(number, parameters).bytes)
    return link


def _is_unknown(link: Link, data: bytes) -> bool:
    effects = link.receive(Side.CLIENT, data)
    told = sent(effects, Side.CLIENT)
    return not sent(effects, Side.TARGET) and told[4:7] == b"\xff" + m.packed16(m.ER_UNKNOWN_STATEMENT)


@pytest.mark.parametrize(
    "data", [my.execute(5), my.fetch(5, 1), my.reset(5), my.execute(0xFFFFFFFF)], ids=["run", "fetch", "reset", "last"]
)
def test_attack_unknown_statement_number_is_denied(data: bytes) -> None:
    assert _is_unknown(links(ReadsAll())(), data)
    assert sent(links()().receive(Side.CLIENT, my.close(5) + my.long_data(5, 0, b"x") + m.PING), Side.TARGET) == m.PING


def test_attack_statement_number_guessed_before_the_answer_is_denied() -> None:
    link = links(ReadsAll())()
    effects = link.receive(Side.CLIENT, my.prepare("drop") + my.execute(1))
    assert sent(effects, Side.TARGET) == my.prepare("drop")
    effects = link.receive(Side.TARGET, my.AnswerPackets().prepared(1).bytes)
    assert m.packed16(m.ER_UNKNOWN_STATEMENT) in sent(effects, Side.CLIENT)


def test_attack_statement_number_is_unknown_after_a_reset() -> None:
    reset = m.command(m.COM_RESET_CONNECTION)
    link = _with_statement(links(ReadsAll())(), "select 1", 1, 0)
    link.receive(Side.CLIENT, reset)
    assert sent(link.receive(Side.CLIENT, my.execute(1)), Side.TARGET) == b""
    # This includes numbers that the target had not yet sent at the reset.
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, my.prepare("select 1") + reset)
    link.receive(Side.TARGET, my.AnswerPackets().prepared(1).bytes + my.ok())
    assert _is_unknown(link, my.execute(1))
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, my.prepare("select 1") + reset)
    link.receive(Side.TARGET, my.AnswerPackets().prepared(1).bytes)
    assert sent(link.receive(Side.CLIENT, my.execute(1)), Side.TARGET) == b""
    link = _with_statement(links(ReadsAll(), user="ada")(), "select 1", 1, 0)
    link.receive(Side.CLIENT, my.change_user("ada"))
    link.receive(Side.TARGET, my.ok())
    assert _is_unknown(link, my.execute(1))


def test_closed_statement_is_unknown_and_close_has_no_answer() -> None:
    with playbook(ReadsAll()) as play:
        prepared(play, "select 1", 1, 0)
        play >> from_client(my.close(1), my.query("select 2"))
        play.forwarded() << record(runs(2, "select 2"))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(2, "OK", 0))
    link = _with_statement(links(ReadsAll())(), "select 1", 1, 0)
    link.receive(Side.CLIENT, my.close(1))
    assert _is_unknown(link, my.execute(1))


def test_failed_prepare_is_recorded_with_its_error() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(my.prepare("bad"))
        play.forwarded() << record(prepares(1, "bad"))
        play >> from_target(my.error("syntax"))
        play.forwarded() << record(Completed(1, error_code="42000", error="syntax"))


@pytest.mark.parametrize(
    "data",
    {
        "no values": my.execute(1),
        "no types": my.execute(1, [(TEXT, "a")], types=False),
        "truncated values": my.execute(1, [(TEXT, "abc")])[:3] + b"\0" + my.execute(1, [(TEXT, "abc")])[4:-1],
        "values with extra bytes": m.packet(0, my.execute(1, [(TEXT, "abc")])[4:] + b"x"),
        "a huge length": m.packet(0, my.execute(1, [(TEXT, "")])[4:-1] + b"\xfe" + b"\xff" * 8),
        "a malformed date": m.packet(0, my.execute(1, [(m.DATE, "2024-01-01")])[4:-5] + b"\x05abcde"),
    }.items(),
    ids=lambda item: item[0],
)
def test_attack_malformed_bind_values_end_the_session(data: tuple[str, bytes]) -> None:
    link = _with_statement(links(ReadsAll())(), "insert ?", 1, 1)
    whole = data[1]
    whole = (len(whole) - 4).to_bytes(3, "little") + whole[3:]
    effects = link.receive(Side.CLIENT, whole)
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]
    assert not sent(effects, Side.TARGET)
