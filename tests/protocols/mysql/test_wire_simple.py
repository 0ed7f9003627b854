"""Queries and other commands: forwarding, judgement and denial, for any split of the bytes into reads."""

from __future__ import annotations

import pytest
from tests.support.links import DROP_MESSAGE, Asks, Masks, ReadsAll, Warns, Withholds, Words
from tests.support.mysql_links import links, playbook, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import (
    Does,
    from_client,
    from_target,
    record,
    resume,
    target_finishes,
    to_client,
    to_target,
)
from tests.support.protocols.wire_contracts import check_wire

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Note, Refusal
from postern.interception.pipeline import Interceptor
from postern.interception.verdicts import FORWARD
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_wire import MysqlWire
from postern.protocols.wire_base import Side
from postern.relay.link import Close, HoldEffect

REFUSED = m.err(1, 1227, "42000", DROP_MESSAGE)
NOBODY: tuple[Interceptor, ...] = ()


@pytest.mark.parametrize(
    "who", [(), (ReadsAll(),), (Words(),), (Masks(),)], ids=["no interceptor", "reading", "word rule", "masking"]
)
def test_query_and_its_rows_are_forwarded(who: tuple[Interceptor, ...]) -> None:
    with playbook(*who) as play:
        play >> from_client(my.query("select a"))
        play.forwarded() << record(runs(1, "select a"))
        play >> from_target(my.rows(("one",), (None,), ("",)))
        play.forwarded() << record(Completed(1, "OK", 3))


@pytest.mark.parametrize("who", [(), (ReadsAll(),)], ids=["no interceptor", "reading"])
def test_batch_with_several_results_is_forwarded(who: tuple[Interceptor, ...]) -> None:
    more = m.AUTOCOMMIT | m.MORE_RESULTS
    answer = my.AnswerPackets().columns("a").row("1").eof(more).ok(5, more).columns("b").row("2").eof()
    with playbook(*who) as play:
        play >> from_client(my.query("select 1; insert; select 2"))
        play.forwarded() << record(runs(1, "select 1; insert; select 2"))
        play >> from_target(answer.bytes)
        play.forwarded() << record(Completed(1, "OK", 2))


def test_error_ends_an_answer_of_several_results() -> None:
    answer = my.AnswerPackets().ok(1, m.MORE_RESULTS).error("no such table", 1146)
    with playbook(ReadsAll()) as play:
        play >> from_client(my.query("insert; select"))
        play.forwarded() << record(runs(1, "insert; select"))
        play >> from_target(answer.bytes)
        play.forwarded() << record(Completed(1, error_code="42000", error="no such table"))
        play >> from_client(my.query("select 1"))
        play.forwarded() << record(runs(2, "select 1"))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(2, "OK", 0))


def test_denied_query_does_not_reach_the_target_and_the_next_query_runs() -> None:
    with playbook(Words()) as play:
        play >> from_client(my.query("drop table a"))
        play << record(runs(1, "drop table a")) << record(Refusal(1, "words", DROP_MESSAGE)) << to_client(REFUSED)
        play >> from_client(my.query("select 1"))
        play.forwarded() << record(runs(2, "select 1"))
        play >> from_target(my.rows(("1",)))
        play.forwarded() << record(Completed(2, "OK", 1))


def test_denial_is_sent_in_the_order_of_the_queries() -> None:
    first, dropped, last = my.query("select 1"), my.query("drop a"), my.query("select 2")
    with playbook(Words()) as play:
        play >> from_client(first, dropped, last)
        play << record(runs(1, "select 1")) << record(runs(2, "drop a")) << record(Refusal(2, "words", DROP_MESSAGE))
        play << record(runs(3, "select 2")) << to_target(first, last)
        play >> from_target(my.rows(("1",)), my.rows(("2",)))
        play << record(Completed(1, "OK", 1)) << record(Completed(3, "OK", 1))
        play << to_client(my.rows(("1",)), REFUSED, my.rows(("2",)))


def test_held_query_is_forwarded_when_it_is_approved() -> None:
    with playbook(Asks()) as play:
        play >> from_client(my.query("review me"), my.query("select 2"))
        play << HoldEffect("t1", "may review me run?")
        play >> resume("t1", FORWARD)
        play << record(runs(1, "review me")) << record(runs(2, "select 2"))
        play << to_target(my.query("review me"), my.query("select 2"))
        play >> from_target(my.ok(), my.ok())
        play.forwarded() << record(Completed(1, "OK", 0)) << record(Completed(2, "OK", 0))


def test_masked_rows_keep_their_sequence_numbers() -> None:
    with playbook(Masks()) as play:
        play >> from_client(my.query("select a"))
        play.forwarded() << record(runs(1, "select a"))
        play >> from_target(my.rows(("secret-1", "x" * 300), ("plain", None), names=("a", "b")))
        play << to_client(my.rows(("***", "x" * 300), ("plain", None), names=("a", "b")))
        play << record(Completed(1, "OK", 2))


def test_error_message_is_masked_for_the_client_and_the_recording() -> None:
    with playbook(Masks()) as play:
        play >> from_client(my.query("insert"))
        play.forwarded() << record(runs(1, "insert"))
        play >> from_target(my.error("Duplicate entry 'secret-1'", 1062))
        play << to_client(my.error("Duplicate entry '***'", 1062))
        play << record(Completed(1, error_code="42000", error="Duplicate entry '***'"))


def test_denied_row_ends_the_answer_with_an_error() -> None:
    answer = my.AnswerPackets().columns("a").row("plain").eof(m.MORE_RESULTS).columns("a")
    before = answer.bytes
    answer.row("secret-1").row("secret-2").eof(m.MORE_RESULTS).ok()
    number = my.AnswerPackets().columns("a").row("plain").eof().columns("a").sequence
    with playbook(Withholds()) as play:
        play >> from_client(my.query("select a; select a; insert"), my.query("select 2"))
        play.forwarded() << record(runs(1, "select a; select a; insert")) << record(runs(2, "select 2"))
        play >> from_target(answer.bytes, my.ok())
        play << to_client(before, m.err(number, 1227, "42000", "a secret is not shown"), my.ok())
        play << record(Refusal(1, "withholds", "a secret is not shown"))
        play << record(Completed(1, "OK", 3)) << record(Completed(2, "OK", 0))


COMMANDS = {
    "ping": (m.PING, my.ok(), []),
    "statistics": (m.command(m.COM_STATISTICS), m.packet(1, b"Uptime: 5  Threads: 1"), []),
    "option": (m.command(m.COM_SET_OPTION, b"\0\0"), m.eof(1), []),
    "reset": (m.command(m.COM_RESET_CONNECTION), my.ok(), []),
    "database": (m.command(m.COM_INIT_DB, b"sh`op"), my.ok(), ["USE `sh``op`"]),
    "kill": (m.command(m.COM_PROCESS_KILL, m.packed32(7)), my.ok(), ["KILL 7"]),
    "fields": (
        m.command(m.COM_FIELD_LIST, b"t\0%"),
        my.AnswerPackets().columns("a", "b", count=False).bytes,
        ["SHOW COLUMNS FROM `t`"],
    ),
    "processes": (m.command(m.COM_PROCESS_INFO), my.rows(("7",)), ["SHOW FULL PROCESSLIST"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_other_than_a_query_is_forwarded_and_recorded(name: str) -> None:
    command, answer, texts = COMMANDS[name]
    for who in ((), (ReadsAll(),)):
        with playbook(*who) as play:
            play >> from_client(command)
            play.forwarded()
            for text in texts:
                play << record(runs(1, text))
            play >> from_target(answer)
            play.forwarded()
            for _ in texts:
                play << record(Completed(1, "OK", 1 if name == "processes" else 0))


@pytest.mark.parametrize("code", [0x05, 0x06, 0x07, 0x08, 0x0D, 0x12, 0x13, 0x15, 0x1D, 0x1E, 0x42, 0xFA, 0xFE, 0x00])
def test_attack_unsupported_command_is_denied_and_the_link_stays_usable(code: int) -> None:
    for size in (0, 1, 4000):
        link = links(ReadsAll())()
        effects = link.receive(Side.CLIENT, m.command(code, bytes(size)) + m.PING)
        assert not [effect for effect in effects if isinstance(effect, Close)]
        told = sent(effects, Side.CLIENT)
        assert told[4] == m.ERR
        assert int.from_bytes(told[5:7], "little") == m.ER_UNKNOWN_COMMAND
        forwarded = sent(effects, Side.TARGET)
        assert forwarded == m.PING


def test_empty_query_is_forwarded_and_recorded() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(my.query(""))
        play.forwarded() << record(runs(1, ""))
        play >> from_target(my.error("Query was empty", 1065))
        play.forwarded() << record(Completed(1, error_code="42000", error="Query was empty"))


GARBAGE = [
    (Side.CLIENT, b"\0\0\0\0"),
    (Side.CLIENT, m.packet(1, b"\x03select 1")),
    (Side.CLIENT, m.command(m.COM_STMT_EXECUTE, b"\1\0")),
    (Side.CLIENT, m.command(m.COM_PING, bytes(100))),
    (Side.TARGET, my.ok()),
    (Side.TARGET, m.packet(1, b"")),
    (Side.TARGET, m.packet(1, b"\x05hello")),
]


def test_mysql_wire_fulfils_the_wire_contract() -> None:
    conversation = [
        (Side.CLIENT, my.query("select a from t")),
        (Side.TARGET, my.rows(("one", None), names=("a", "b"))),
        (Side.CLIENT, my.prepare("select ?")),
        (Side.TARGET, my.AnswerPackets().prepared(1, 1, [m.MysqlField("a", m.LONGLONG)]).bytes),
        (Side.CLIENT, my.execute(1, [(m.LONGLONG, "5")])),
        (
            Side.TARGET,
            my.AnswerPackets().columns(m.MysqlField("a", m.LONGLONG)).binary_row((m.LONGLONG, "5")).eof().bytes,
        ),
        (Side.CLIENT, my.close(1) + m.PING),
        (Side.TARGET, my.ok()),
        (Side.CLIENT, my.query("insert") + my.query("bad")),
        (Side.TARGET, my.ok(3) + my.error("syntax")),
    ]
    check_wire(MysqlWire, conversation, garbage=GARBAGE)


@pytest.mark.parametrize(
    "answer",
    {
        "a wrong number": m.packet(2, b"\0\0\0\2\0\0\0"),
        "no count of columns": m.packet(1, b"\xfe\0\0\0\0\0\0\0\0"),
        "a count with extra bytes": m.packet(1, b"\x01\x01"),
        "a truncated OK": m.packet(1, b"\0\0\0"),
        "an EOF instead of an OK": m.eof(1),
        "a huge packet": b"\xff\xff\xff\x01",
        "no end of columns": my.AnswerPackets().add(b"\x01").add(m.column(0, m.MysqlField("a", 3))[4:]).row("1").bytes,
    }.items(),
    ids=lambda item: item[0],
)
def test_attack_malformed_answer_ends_the_session(answer: tuple[str, bytes]) -> None:
    link = links()()
    link.receive(Side.CLIENT, my.query("select 1"))
    effects = link.receive(Side.TARGET, answer[1])
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]


def test_error_before_the_target_closes_is_forwarded() -> None:
    killed = m.err(1, 1927, "70100", "Connection was killed")
    with playbook() as play:
        play >> from_target(killed)
        play.forwarded()
        play >> target_finishes()
        play << Close(EndReason.TARGET_CLOSED)


def test_session_closes_without_an_error_if_the_target_closes_in_an_answer() -> None:
    """Client libraries report this as error 2013 or 2006."""
    with playbook() as play:
        play >> from_client(my.query("select 1"))
        play.forwarded() << record(runs(1, "select 1"))
        play >> from_target(my.AnswerPackets().columns("a").bytes)
        play.forwarded()
        play >> target_finishes()
        play << Close(EndReason.TARGET_CLOSED)


def kills() -> Does:
    reason, text = EndReason.KILLED, "this session was killed"
    return Does("kill", lambda link: link.end(reason, text, "57P01"))


def test_kill_error_after_a_denied_answer_is_sent_as_the_next_answer() -> None:
    answer = my.AnswerPackets().columns("a")
    with playbook(Withholds()) as play:
        play >> from_client(my.query("select a"))
        play.forwarded() << record(runs(1, "select a"))
        play >> from_target(answer.bytes, m.text_row(4, (b"secret-1",)), m.packet(5, bytes(100))[:60])
        play << to_client(answer.bytes, m.err(4, 1227, "42000", "a secret is not shown"))
        play << record(Refusal(1, "withholds", "a secret is not shown"))
        play >> kills()
        play << to_client(m.err(1, 1927, "70100", "this session was killed")) << Close(EndReason.KILLED)


def test_partially_sent_row_is_padded_before_the_kill_error() -> None:
    start = my.AnswerPackets().columns("a").bytes + m.packet(4, bytes(100))[:54]
    with playbook() as play:
        play >> from_client(my.query("select 1"))
        play.forwarded() << record(runs(1, "select 1"))
        play >> from_target(start)
        play.forwarded()
        play >> kills()
        last = bytes(50) + m.err(5, 1927, "70100", "this session was killed")
        play << to_client(last) << Close(EndReason.KILLED)


def test_partially_sent_row_is_not_padded_if_the_target_closes() -> None:
    with playbook() as play:
        play >> from_client(my.query("select 1"))
        play.forwarded() << record(runs(1, "select 1"))
        play >> from_target(my.AnswerPackets().columns("a").bytes + m.packet(4, bytes(100))[:54])
        play.forwarded()
        play >> target_finishes()
        play << Close(EndReason.TARGET_CLOSED)


def test_quit_is_forwarded_and_later_commands_are_dropped() -> None:
    with playbook() as play:
        play >> from_client(m.QUIT, my.query("drop a"))
        play << to_target(m.QUIT)
        play >> target_finishes()
        play << Close(EndReason.CLIENT_CLOSED)


def test_transaction_state_follows_the_status_of_the_target() -> None:
    link = links()()
    link.receive(Side.CLIENT, my.query("begin"))
    assert link.transaction_state.unsettled
    link.receive(Side.TARGET, my.ok(status=m.IN_TRANSACTION))
    assert link.transaction_state.in_transaction
    assert not link.transaction_state.unsettled
    link.receive(Side.CLIENT, my.query("commit"))
    link.receive(Side.TARGET, my.ok())
    assert not link.transaction_state.in_transaction


KILLS = {
    "kill 2147483655": (2147483655, False),
    "KILL QUERY 2147483655;": (2147483655, True),
    " /* stop */ kill hard connection 2147483655": (2147483655, False),
}


@pytest.mark.parametrize("text", KILLS)
def test_kill_of_a_gateway_connection_is_executed_by_the_gateway(text: str) -> None:
    killed: list[tuple[int, bool]] = []
    with playbook(ReadsAll(), kill=lambda thread, query: killed.append((thread, query))) as play:
        play >> from_client(my.query(text), m.command(m.COM_PROCESS_KILL, m.packed32(2147483656)))
        play << record(runs(1, text)) << record(runs(2, "KILL 2147483656")) << to_client(my.ok(), my.ok())
    assert set(killed) == {KILLS[text], (2147483656, False)}


@pytest.mark.parametrize("text", ["kill 7", "kill query 7", "kill user 'ada'", "kill 2147483655; select 1"])
def test_kill_of_other_connections_is_forwarded_to_the_target(text: str) -> None:
    with playbook(ReadsAll(), kill=lambda thread, query: pytest.fail("killed")) as play:
        play >> from_client(my.query(text))
        play.forwarded() << record(runs(1, text))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(1, "OK", 0))


def test_denied_kill_is_not_executed() -> None:
    with playbook(Words("kill"), kill=lambda thread, query: pytest.fail("killed")) as play:
        play >> from_client(my.query("kill 2147483655"))
        said = "the word kill is not allowed"
        play << record(runs(1, "kill 2147483655")) << record(Refusal(1, "words", said))
        play << to_client(m.err(1, 1227, "42000", said))


def test_change_user_to_the_same_user_resets_the_connection() -> None:
    reset, database = m.command(m.COM_RESET_CONNECTION), m.command(m.COM_INIT_DB, b"shop")
    with playbook(ReadsAll(), user="ada") as play:
        play >> from_client(my.change_user("ada", b"x" * 20))
        play << record(runs(1, "RESET CONNECTION")) << to_target(reset)
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(1, "OK", 0))
        play >> from_client(my.change_user("ada", b"x" * 32, "shop", "caching_sha2_password"))
        play << record(runs(2, "USE `shop`")) << to_target(reset, database)
        play >> from_target(my.ok(), my.ok())
        play << to_client(m.packet(1, b"\x01\x03"), m.packet(2, my.ok()[4:])) << record(Completed(2, "OK", 0))


def test_error_of_a_failed_reset_is_forwarded() -> None:
    with playbook(ReadsAll(), user="ada") as play:
        play >> from_client(my.change_user("ada", b"", "shop"))
        play << record(runs(1, "USE `shop`"))
        play << to_target(m.command(m.COM_RESET_CONNECTION), m.command(m.COM_INIT_DB, b"shop"))
        play >> from_target(my.error("no reset", 1047), my.ok())
        play << to_client(my.error("no reset", 1047)) << record(Completed(1, error_code="42000", error="no reset"))


def test_attack_change_user_to_a_different_user_is_denied() -> None:
    link = links(user="ada")()
    effects = link.receive(Side.CLIENT, my.change_user("root", b"x" * 20))
    assert not sent(effects, Side.TARGET)
    assert b"changing the user" in sent(effects, Side.CLIENT)


@pytest.mark.parametrize(
    "text",
    ["set names gbk", "SET NAMES 'sjis'", "select 1; set character set big5", "set character_set_client=gb18030",
     "set session character_set_client = cp932", "/* a */ set @@session.character_set_client := `swe7`"],
)  # fmt: skip
def test_attack_switch_to_an_unsafe_character_set_is_denied(text: str) -> None:
    link = links()()
    effects = link.receive(Side.CLIENT, my.query(text))
    assert not sent(effects, Side.TARGET)
    assert b"utf8mb4" in sent(effects, Side.CLIENT)


def test_statement_is_recorded_in_the_current_character_set() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(my.query("set names latin1"))
        play.forwarded() << record(runs(1, "set names latin1"))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(1, "OK", 0))
        play >> from_client(my.query(b"select '\xe9'"))
        play.forwarded() << record(runs(2, "select 'é'"))
        play >> from_target(my.error("\xe9", 1054))
        play.forwarded() << record(Completed(2, error_code="42000", error="Ã©"))


def test_warning_is_recorded_and_not_sent_to_the_client() -> None:
    with playbook(Warns()) as play:
        play >> from_client(my.query("careful"))
        play.forwarded() << record(runs(1, "careful"))
        play << record(Note("mind the word careful", {"rule": "warns"}))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(1, "OK", 0))
