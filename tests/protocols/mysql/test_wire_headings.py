"""Descriptions of results and reports of OK and EOF packets are judged before the client receives them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest
from tests.support.mysql_links import links, playbook, prepares, recorded, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import Playbook, from_client, from_target, record, to_client

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Event, Fill, Heading, Refusal, Rows, Scalar, Summary
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Refuse, Verdict
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.wire_base import Side

REASON = "not shown"
REFUSED = m.err(1, 1227, "42000", REASON)
NUMBER = m.MysqlField("n", m.DOUBLE, m.UNSIGNED, 63, 4, 7)
NOTE = m.MysqlField("note", m.VAR_STRING, length=40, database="shop", table="t", org_table="t", org_name="note")
AS_TEXT = m.MysqlField("n", m.VAR_STRING, 0, 45, 0x1F, 1020)
UNNAMED = AS_TEXT._replace(name="****")
WARNED = 0x0820 | m.AUTOCOMMIT


class Null(Fill):
    def constant(self, scalar: Scalar) -> tuple[bytes | None]:
        return (None,)


@dataclass
class Describes:
    """Describe the columns at `places` as texts, or deny each description. `fills`: the values become NULL."""

    places: tuple[int, ...] = ()
    refuses: bool = False
    with_name: bool = True
    fills: bool = False
    keeps_id: bool = True
    name: str = "describes"
    wants: frozenset[type[Event]] = frozenset({Rows, Heading, Summary})
    batch_need: BatchNeed = BatchNeed.NONE
    prepared: str = ""

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Summary):
            event.hide_warnings()
            if not self.keeps_id:
                event.hide_insert_id()
        elif isinstance(event, Heading):
            assert event.count == 0
            assert event.texts(0) == []
            self.prepared = event.prepared
            if self.refuses and not event.prepared:
                return Refuse(self.name, REASON)
            for place in self.places:
                event.describe_as_text(place, with_name=self.with_name)
        elif isinstance(event, Rows) and self.fills:
            for place in self.places:
                assert event.change(place, Null()) == (event.count, 8 * event.count)
        return REPLACE


class Breaks(Describes):
    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Rows) and not isinstance(event, Heading):
            return FORWARD
        raise RuntimeError("a defect")


def send_query(play: Playbook, text: str = "select n") -> None:
    play >> from_client(my.query(text))
    play.forwarded() << record(runs(1, text))


def statement(play: Playbook, text: str = "select n", columns: tuple[m.MysqlField, ...] = ()) -> None:
    play >> from_client(my.prepare(text))
    play.forwarded() << record(prepares(1, text))
    play >> from_target(my.AnswerPackets().prepared(1, 0, columns).bytes)


def test_description_is_withheld_until_it_is_complete() -> None:
    link = links(Describes())()
    link.receive(Side.CLIENT, my.query("select n, note"))
    answer = my.rows(("1", "a"), names=("n", "note"))
    held = my.AnswerPackets().add(b"\2").add(m.column(0, m.MysqlField("n", m.VAR_STRING))[m.HEAD :]).bytes
    for byte in range(len(held)):
        assert sent(link.receive(Side.TARGET, held[byte : byte + 1]), Side.CLIENT) == b""
    assert answer.startswith(held)
    assert sent(link.receive(Side.TARGET, answer[len(held) :]), Side.CLIENT) == answer


def test_fatal_error_has_the_sequence_number_of_the_withheld_description() -> None:
    link = links(Describes())()
    link.receive(Side.CLIENT, my.query("select n, note"))
    link.receive(Side.TARGET, my.AnswerPackets().add(b"\2").add(m.column(0, NUMBER)[m.HEAD :]).bytes)
    effects = link.end(EndReason.KILLED, "killed", "57P01")
    assert sent(effects, Side.CLIENT) == m.err(1, m.ER_CONNECTION_KILLED, "70100", "killed", "")


@pytest.mark.parametrize("chosen", [(), ("more",)], ids=["one result", "the second of two"])
def test_denial_replaces_the_description(chosen: tuple[str, ...]) -> None:
    more = m.AUTOCOMMIT | m.MORE_RESULTS
    first = my.AnswerPackets().ok(1, more if chosen else m.AUTOCOMMIT).bytes if chosen else b""
    rest = my.AnswerPackets(2 if chosen else 1).columns(NUMBER, NOTE).row("1.5", "a").row("2.5", "b").eof()
    with playbook(Describes(refuses=True)) as play:
        send_query(play)
        play >> from_target(first, rest.bytes)
        refused = m.err(2 if chosen else 1, 1227, "42000", REASON)
        play << to_client(*([first] if chosen else []), refused) << record(Refusal(1, "describes", REASON))
        play << record(Completed(1, "OK", 2))
        play >> from_client(m.PING)
        play.forwarded()
        play >> from_target(my.ok())
        play.forwarded()


def test_denial_replaces_the_description_of_a_cursor() -> None:
    with playbook(Describes(refuses=True)) as play:
        statement(play)
        play.forwarded() << record(Completed(1, "PREPARE", 0))
        play >> from_client(my.execute(1, flags=1))
        play.forwarded() << record(runs(2, "select n"))
        play >> from_target(my.AnswerPackets().columns(NUMBER, status=m.CURSOR_EXISTS).bytes)
        play << to_client(REFUSED) << record(Refusal(2, "describes", REASON)) << record(Completed(2, "OK", 0))


@pytest.mark.parametrize("fills", [False, True], ids=["unchanged", "NULL"])
def test_values_of_a_column_described_as_text_are_constant_texts(fills: bool) -> None:
    """The client reads them as texts, whether an interceptor changes them or not."""
    value = None if fills else "****"
    with playbook(Describes((0,), fills=fills)) as play:
        send_query(play)
        # Four bytes that are the constant.
        play >> from_target(
            my.AnswerPackets().columns(NUMBER, NOTE).row("12345678", "a").row("87654321", None).eof().bytes
        )
        play << to_client(my.AnswerPackets().columns(AS_TEXT, NOTE).row(value, "a").row(value, None).eof().bytes)
        play << record(Completed(1, "OK", 2))


@pytest.mark.parametrize("fills", [False, True], ids=["unchanged", "NULL"])
@pytest.mark.parametrize("cursor", [False, True], ids=["at once", "by a cursor"])
def test_binary_values_of_a_column_described_as_text_are_constant_texts(fills: bool, cursor: bool) -> None:
    shown = (m.VAR_STRING, None if fills else "****")
    with playbook(Describes((0,), fills=fills)) as play:
        statement(play)
        play.forwarded() << record(Completed(1, "PREPARE", 0))
        play >> from_client(my.execute(1, flags=int(cursor)))
        play.forwarded() << record(runs(2, "select n"))
        status = m.CURSOR_EXISTS if cursor else m.AUTOCOMMIT
        came = my.AnswerPackets().columns(NUMBER, NOTE, status=status)
        told = my.AnswerPackets().columns(AS_TEXT, NOTE, status=status)
        exchange = 2
        if cursor:
            play >> from_target(came.bytes)
            play << to_client(told.bytes) << record(Completed(2, "OK", 0))
            play >> from_client(my.fetch(1, 10))
            play.forwarded()
            came, told, exchange = my.AnswerPackets(), my.AnswerPackets(), 3
        play >> from_target(came.binary_row((m.DOUBLE, "2.5"), (m.VAR_STRING, "a")).eof().bytes)
        play << to_client(told.binary_row(shown, (m.VAR_STRING, "a")).eof().bytes)
        play << record(Completed(exchange, "OK", 1))


def test_row_of_several_packets_described_as_text_is_a_constant_text() -> None:
    link = links(Describes((0,)), max_message=64 << 20)()
    link.receive(Side.CLIENT, my.query("select n"))
    long = "x" * (m.MAX_PAYLOAD + 5)
    shown = sent(link.receive(Side.TARGET, my.AnswerPackets().columns(NUMBER).row(long).eof().bytes), Side.CLIENT)
    assert shown == my.AnswerPackets().columns(AS_TEXT).row("****").eof().bytes


def test_each_result_of_one_request_is_described_separately() -> None:
    more = m.AUTOCOMMIT | m.MORE_RESULTS
    came = my.AnswerPackets().columns(NUMBER).row("1").eof(more).columns(NOTE, NUMBER).row("a", "2").eof()
    told = my.AnswerPackets().columns(AS_TEXT).row("****").eof(more)
    told.columns(NOTE._replace(name="note", database="", table="", org_table="", org_name="", collation=45,
                               decimals=0x1F, length=1020), NUMBER).row("****", "2").eof()  # fmt: skip
    with playbook(Describes((0,))) as play:
        send_query(play)
        play >> from_target(came.bytes)
        play << to_client(told.bytes) << record(Completed(1, "OK", 2))


@pytest.mark.parametrize("with_name", [True, False])
def test_prepared_statement_is_described_despite_a_denial(with_name: bool) -> None:
    who = Describes((0,), refuses=True, with_name=with_name)
    with playbook(who) as play:
        play >> from_client(my.prepare("select n from t where a = ?"))
        play.forwarded() << record(prepares(1, "select n from t where a = ?"))
        play >> from_target(my.AnswerPackets().prepared(1, 1, (NUMBER, NOTE)).bytes)
        play << to_client(my.AnswerPackets().prepared(1, 1, (AS_TEXT if with_name else UNNAMED, NOTE)).bytes)
        play << record(Completed(1, "PREPARE", 0))
    assert who.prepared == "select n from t where a = ?"


@pytest.mark.parametrize(
    ("has", "came", "told"),
    [({"extended_metadata": "yes"}, b"\x01\x04json", b""), ({}, None, b"")],
    ids=["the target sends it", "the target sends none"],
)
def test_column_described_as_text_has_empty_extended_metadata(
    has: dict[str, str], came: bytes | None, told: bytes
) -> None:
    def answer(field: m.MysqlField, extended: bytes | None, cell: str) -> bytes:
        return my.AnswerPackets().add(b"\1").add(m.column(0, field, extended)[m.HEAD :]).eof().row(cell).eof().bytes

    with playbook(Describes((0,)), capabilities=g.OFFERED | g.EXTENDED_METADATA, parameters=has) as play:
        send_query(play)
        play >> from_target(answer(NUMBER, came, "1"))
        play << to_client(answer(AS_TEXT, told, "****")) << record(Completed(1, "OK", 1))


def done(insert_id: int, warnings: int, info: bytes, status: int = WARNED) -> bytes:
    return m.ok(1, m.Done(3, insert_id, status, warnings, info))


REPORTS = [
    (done(0, 2, b"Records: 3  Duplicates: 0  Warnings: 2"), done(0, 0, b"Records: 3  Duplicates: 0  Warnings: 0", 2)),
    (done(0, 1, "Datensätze: 3  Warnungen: 1".encode()), done(0, 0, "Datensätze: 3  Warnungen: 0".encode(), 2)),
    (done(0, 0, b"Rows matched: 3  Warnings: 0", 2), done(0, 0, b"Rows matched: 3  Warnings: 0", 2)),
    (done(1 << 63, 0, b"", 2), done(0, 0, b"", 2)),
    (done(7, 65535, b"none"), done(0, 0, b"none", 2)),
]  # fmt: skip


@pytest.mark.parametrize(("came", "told"), REPORTS)
def test_ok_packet_omits_warnings_status_flags_and_a_chosen_insert_id(came: bytes, told: bytes) -> None:
    with playbook(Describes(keeps_id=False)) as play:
        send_query(play, "insert")
        play >> from_target(came)
        play << to_client(told) << record(Completed(1, "OK", 3))


def test_ok_packet_keeps_a_generated_insert_id() -> None:
    with playbook(Describes()) as play:
        send_query(play, "insert")
        play >> from_target(done(300, 1, b""))
        play << to_client(done(300, 0, b"", 2)) << record(Completed(1, "OK", 3))


def with_eof(warnings: int, status: int) -> my.AnswerPackets:
    def eof(answer: my.AnswerPackets) -> my.AnswerPackets:
        return answer.add(m.eof(0, status, warnings)[m.HEAD :])

    heading = my.AnswerPackets().add(b"\1").add(m.column(0, NUMBER)[m.HEAD :])
    return eof(eof(heading).row("1"))


def test_eof_packets_omit_warnings_and_status_flags() -> None:
    with playbook(Describes()) as play:
        send_query(play)
        play >> from_target(with_eof(9, WARNED).bytes)
        play << to_client(with_eof(0, 2).bytes) << record(Completed(1, "OK", 1))
        play >> from_client(m.PING)
        play.forwarded()
        play >> from_target(m.ok(1, m.Done(warnings=3)))
        play << to_client(m.ok(1))


def test_prepared_statement_reports_no_warnings() -> None:
    head = struct.pack("<BIHHBH", 0, 1, 0, 0, 0, 4)
    with playbook(Describes()) as play:
        play >> from_client(my.prepare("do 1"))
        play.forwarded() << record(prepares(1, "do 1"))
        play >> from_target(m.packet(1, head))
        play << to_client(m.packet(1, head[:-2] + bytes(2))) << record(Completed(1, "PREPARE", 0))


FAILED = "describes failed to evaluate this, so it was denied"
HINT = "Ask an administrator to check the gateway's log."


@pytest.mark.parametrize(
    ("answer", "rows"),
    [(my.AnswerPackets().columns(NUMBER).row("1").eof().bytes, 1), (done(0, 1, b""), 3)],
    ids=["description", "report"],
)
def test_answer_is_denied_if_judging_it_raises(answer: bytes, rows: int) -> None:
    with playbook(Breaks()) as play:
        send_query(play)
        play >> from_target(answer)
        play << to_client(m.err(1, 1227, "42000", FAILED, HINT)) << record(Refusal(1, "describes", FAILED))
        play << record(Completed(1, "OK", rows))


def test_denied_report_ends_an_answer_of_several_results() -> None:
    more = m.AUTOCOMMIT | m.MORE_RESULTS
    answer = my.AnswerPackets().add(m.ok(0, m.Done(1, 0, more, 1))[m.HEAD :]).ok(1).bytes
    link = links(Breaks())()
    link.receive(Side.CLIENT, my.query("insert; insert"))
    effects = link.receive(Side.TARGET, answer)
    assert sent(effects, Side.CLIENT) == m.err(1, 1227, "42000", FAILED, HINT)
    assert recorded(effects)[-1] == Completed(1, "OK", 2)
    assert not link.awaiting_response
