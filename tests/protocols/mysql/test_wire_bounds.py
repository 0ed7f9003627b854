"""Limits on the state that one side can make the gateway store."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest
from tests.support.links import ReadsAll, Words
from tests.support.mysql_links import links, sent
from tests.support.protocols import mysql_test_messages as my

from postern.domain.sessions.session import EndReason
from postern.errors import ProtocolViolation
from postern.interception.events import Operation
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, Refuse, Verdict
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire import mysql_response_queue as ledger
from postern.protocols.mysql.wire import mysql_result_state as phases
from postern.protocols.mysql.wire import mysql_rows as rows
from postern.protocols.mysql.wire.mysql_wire import MysqlWire
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link

DEFINITION = m.MysqlField("a", m.VAR_STRING, org_name="x" * (1 << 19))


def breaks(link: Link, side: Side, *pieces: bytes) -> bool:
    """Whether the last of these pieces, and no earlier one, ends the link with a protocol violation."""
    found = [[effect for effect in link.receive(side, piece) if isinstance(effect, Close)] for piece in pieces]
    assert not any(found[:-1])
    return [close.reason for close in found[-1]] == [EndReason.PROTOCOL_VIOLATION]


@pytest.mark.parametrize("command", [my.query("select"), my.execute(1)], ids=["query", "execute"])
def test_attack_column_definitions_beyond_the_limit_end_the_session(command: bytes) -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, my.prepare("select"))
    link.receive(Side.TARGET, my.AnswerPackets().prepared(1).bytes)
    link.receive(Side.CLIENT, command)
    answer = my.AnswerPackets().add(m.lenenc(phases.MAX_COLUMNS))
    pieces = [answer.bytes]
    for _ in range(phases.MAX_DEFINITIONS // (1 << 19)):
        answer.bytes = b""
        pieces.append(answer.add(m.column(0, DEFINITION)[m.HEAD :]).bytes)
    assert breaks(link, Side.TARGET, *pieces)


def test_column_definitions_of_a_field_list_are_not_stored() -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, m.command(m.COM_FIELD_LIST, b"t\0"))
    answer = my.AnswerPackets()
    for _ in range(phases.MAX_DEFINITIONS // (1 << 19) + 8):
        answer.bytes = b""
        assert not breaks(link, Side.TARGET, answer.add(m.column(0, DEFINITION)[m.HEAD :]).bytes)


def test_attack_cursor_definitions_beyond_the_limit_are_a_violation() -> None:
    book = ledger.MysqlResponseQueue(45, 2)
    half = (bytes(ledger.MAX_DESCRIBED // 2),)
    for number in range(1, 4):
        book.remember(number, ledger.MysqlStatement("select"))
    for _ in range(3):  # again is not more
        book.describe(book.statements[1], half)
    book.describe(book.statements[2], half)
    book.forget(2)
    book.describe(book.statements[3], half)
    with pytest.raises(ProtocolViolation):
        book.describe(book.statements[1], half * 2)
    book.forget_statements()
    assert book.described == 0


def test_attack_long_data_parameters_beyond_the_limit_are_not_stored() -> None:
    book = ledger.MysqlResponseQueue(45, 2)
    statement = ledger.MysqlStatement("insert", count=1000)
    book.remember(1, statement)
    for place in range(1000):
        book.ahead(statement, place, 4096)
    assert 0 < len(statement.long) <= 4096 // 64
    book.forget_long(statement)
    assert book.held == 0


def test_layout_of_very_many_columns_is_not_cached() -> None:
    wide = tuple(m.column(0, m.MysqlField(f"c{at}" + "x" * 250, m.VAR_STRING))[m.HEAD :] for at in range(500))
    assert rows.layout_of(wide, False, "utf-8") is not rows.layout_of(wide, False, "utf-8")
    assert rows.layout_of(wide[:9], False, "utf-8") is rows.layout_of(wide[:9], False, "utf-8")


def test_attack_prepared_texts_beyond_the_limit_end_the_session() -> None:
    link = links(ReadsAll())()
    text = "x" * (ledger.MAX_TEXTS // 8)
    for number in range(1, 9):
        link.receive(Side.CLIENT, my.prepare(text))
        assert not breaks(link, Side.TARGET, my.AnswerPackets().prepared(number).bytes)
    # One that is closed makes room.
    link.receive(Side.CLIENT, my.close(1) + my.prepare(text))
    assert not breaks(link, Side.TARGET, my.AnswerPackets().prepared(9).bytes)
    link.receive(Side.CLIENT, my.prepare("select 1"))
    assert breaks(link, Side.TARGET, my.AnswerPackets().prepared(10).bytes)


def test_attack_denied_commands_after_a_slow_one_end_the_session_at_the_limit() -> None:
    """Denied commands do not reach the target, so only this limit stops them."""
    link = links(Words())()
    link.receive(Side.CLIENT, my.query("select sleep(1000)"))
    refused = my.query("drop")
    link.receive(Side.CLIENT, refused * (ledger.MAX_OWED - 1))
    assert breaks(link, Side.CLIENT, refused)


class Counted(deque[ledger.MysqlPendingResponse]):
    """Counts the iterations over the queue."""

    walks = 0

    def __iter__(self) -> Iterator[ledger.MysqlPendingResponse]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("text", ["select 1", "set @kept = @@character_set_client"])
def test_attack_waiting_commands_do_not_slow_down_each_answer(text: str) -> None:
    """If each answer iterated over all waiting commands, each read would block the relay worker for a second."""
    link, count = links()(), 100
    wire = link._wire
    assert isinstance(wire, MysqlWire)
    slots = wire.ledger.slots = Counted()
    link.receive(Side.CLIENT, my.prepare(text) * count)
    slots.walks = 0
    for number in range(count):
        link.receive(Side.TARGET, my.AnswerPackets().prepared(number).bytes)
    assert not slots
    assert slots.walks < count


class Quotes:
    """Denies with the text of the statement."""

    name = "quotes"
    wants = frozenset({Operation})
    batch_need = BatchNeed.DENY

    def see(self, event: object, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        return Refuse(self.name, event.text) if "drop" in event.text else FORWARD


def test_attack_denial_that_quotes_invalid_utf8_is_sent() -> None:
    link = links(Quotes())()
    for text, told in ((b"drop \xff", b"drop ?"), ("drop ü".encode(), "drop ü".encode())):
        effects = link.receive(Side.CLIENT, my.query(text))
        assert not [effect for effect in effects if isinstance(effect, Close)]
        assert sent(effects, Side.CLIENT).endswith(told)
