"""What one side may make the gateway keep for it has a bound."""

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
    """Whether what comes piece by piece ends the link, with the last one."""
    found = [[effect for effect in link.receive(side, piece) if isinstance(effect, Close)] for piece in pieces]
    assert not any(found[:-1])
    return [close.reason for close in found[-1]] == [EndReason.PROTOCOL_VIOLATION]


@pytest.mark.parametrize("command", [my.query("select"), my.execute(1)], ids=["query", "execute"])
def test_attack_columns_that_are_described_without_end(command: bytes) -> None:
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


def test_columns_that_nobody_reads_are_not_kept() -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, m.command(m.COM_FIELD_LIST, b"t\0"))
    answer = my.AnswerPackets()
    for _ in range(phases.MAX_DEFINITIONS // (1 << 19) + 8):
        answer.bytes = b""
        assert not breaks(link, Side.TARGET, answer.add(m.column(0, DEFINITION)[m.HEAD :]).bytes)


def test_attack_cursors_that_are_described_without_end() -> None:
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


def test_attack_values_of_nothing_that_are_sent_ahead_without_end() -> None:
    book = ledger.MysqlResponseQueue(45, 2)
    statement = ledger.MysqlStatement("insert", count=1000)
    book.remember(1, statement)
    for place in range(1000):
        book.ahead(statement, place, 4096)
    assert 0 < len(statement.long) <= 4096 // 64
    book.forget_long(statement)
    assert book.held == 0


def test_layouts_of_very_many_columns_are_not_kept() -> None:
    wide = tuple(m.column(0, m.MysqlField(f"c{at}" + "x" * 250, m.VAR_STRING))[m.HEAD :] for at in range(500))
    assert rows.layout_of(wide, False, "utf-8") is not rows.layout_of(wide, False, "utf-8")
    assert rows.layout_of(wide[:9], False, "utf-8") is rows.layout_of(wide[:9], False, "utf-8")


def test_attack_statements_that_are_prepared_without_end() -> None:
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


def test_attack_refused_commands_behind_a_slow_one() -> None:
    """The target does not hear of them, so nothing but this ends it."""
    link = links(Words())()
    link.receive(Side.CLIENT, my.query("select sleep(1000)"))
    refused = my.query("drop")
    link.receive(Side.CLIENT, refused * (ledger.MAX_OWED - 1))
    assert breaks(link, Side.CLIENT, refused)


class Counted(deque[ledger.MysqlPendingResponse]):
    """Counts how often somebody goes through it."""

    walks = 0

    def __iter__(self) -> Iterator[ledger.MysqlPendingResponse]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("text", ["select 1", "set @kept = @@character_set_client"])
def test_attack_what_waits_behind_a_slow_one_makes_no_answer_dearer(text: str) -> None:
    """Each that comes out would go through all that wait: a second for each read, in which nobody else is served."""
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
    """Refuses with what was asked."""

    name = "quotes"
    wants = frozenset({Operation})
    batch_need = BatchNeed.DENY

    def see(self, event: object, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        return Refuse(self.name, event.text) if "drop" in event.text else FORWARD


def test_attack_a_refusal_that_quotes_what_is_no_text() -> None:
    link = links(Quotes())()
    for text, told in ((b"drop \xff", b"drop ?"), ("drop ü".encode(), "drop ü".encode())):
        effects = link.receive(Side.CLIENT, my.query(text))
        assert not [effect for effect in effects if isinstance(effect, Close)]
        assert sent(effects, Side.CLIENT).endswith(told)
