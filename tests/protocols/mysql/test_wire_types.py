"""Types of bind values: the gateway judges the values that the target reads, in any order of commands."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.links import DROP_MESSAGE, ReadsAll, Words
from tests.support.mysql_links import links, playbook, prepares, recorded, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import Playbook, from_client, from_target, record, to_client, to_target

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Event, Operation, Phase, Refusal
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, Refuse, Verdict
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Link

TEXT = m.VAR_STRING
REFUSED = m.err(1, 1227, "42000", DROP_MESSAGE)
FINE, FINE_WITHOUT = my.execute(1, [(TEXT, "fine")]), my.execute(1, [(TEXT, "fine")], types=False)


def prepared(play: Playbook, parameters: int = 1) -> None:
    play >> from_client(my.prepare("insert ?"))
    play.forwarded() << record(prepares(1, "insert ?"))
    play >> from_target(my.AnswerPackets().prepared(1, parameters).bytes)
    play.forwarded() << record(Completed(1, "PREPARE", 0))


def with_statement(link: Link, parameters: int = 1) -> Link:
    link.receive(Side.CLIENT, my.prepare("insert ?"))
    link.receive(Side.TARGET, my.AnswerPackets().prepared(1, parameters).bytes)
    return link


def test_types_of_a_denied_execute_are_sent_with_the_next_execute() -> None:
    """The client sent the types in a denied command, so the target did not receive them."""
    with playbook(Words()) as play:
        prepared(play)
        play >> from_client(my.execute(1, [(TEXT, "drop")]), FINE_WITHOUT)
        play << record(runs(2, "insert ?", (b"drop",))) << record(Refusal(2, "words", DROP_MESSAGE))
        play << record(runs(3, "insert ?", (b"fine",))) << to_client(REFUSED) << to_target(FINE)
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(3, "OK", 0))
        # Now the target has received them.
        play >> from_client(FINE_WITHOUT)
        play.forwarded() << record(runs(4, "insert ?", (b"fine",)))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(4, "OK", 0))


def test_attack_types_of_a_failed_execute_are_sent_again() -> None:
    """After long data for a missing parameter, MariaDB rejects the EXECUTE before it reads its types."""
    number, lie = my.execute(1, [(m.LONGLONG, "1")]), my.execute(1, [(TEXT, "abcdefg")], types=False)
    with playbook(ReadsAll()) as play:
        prepared(play)
        play >> from_client(FINE)
        play.forwarded() << record(runs(2, "insert ?", (b"fine",)))
        play >> from_target(my.ok())
        play.forwarded() << record(Completed(2, "OK", 0))
        play >> from_client(my.long_data(1, 9, b"x"), number, my.reset(1), lie)
        judged = str(int.from_bytes(b"\x07abcdefg", "little")).encode()
        play << record(runs(3, "insert ?", (b"1",))) << record(runs(4, "insert ?", (judged,)))
        told = my.execute(1, [(m.LONGLONG, judged.decode())])
        play << to_target(my.long_data(1, 9, b"x"), number, my.reset(1), told)
        play >> from_target(my.error("wrong arguments", 1210), my.ok(), my.ok())
        play.forwarded() << record(Completed(3, error_code="42000", error="wrong arguments"))
        play << record(Completed(4, "OK", 0))


def test_types_of_a_failed_pipelined_execute_are_sent_again() -> None:
    link = with_statement(links(ReadsAll())())
    link.receive(Side.CLIENT, my.execute(1, [(TEXT, "a")]) + my.execute(1, [(m.LONGLONG, "1")]))
    link.receive(Side.TARGET, my.ok() + my.error("wrong arguments", 1210))
    again = link.receive(Side.CLIENT, my.execute(1, [(m.LONGLONG, "2")], types=False))
    assert sent(again, Side.TARGET) == my.execute(1, [(m.LONGLONG, "2")])


def test_attack_types_flag_other_than_0_or_1_ends_the_session() -> None:
    link = with_statement(links(ReadsAll())())
    flagged = bytearray(my.execute(1, [(TEXT, "a")]))
    flagged[m.HEAD + 11] = 2
    effects = link.receive(Side.CLIENT, bytes(flagged))
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]


@pytest.mark.parametrize("kind", [m.INT24, m.YEAR, m.BIT, m.GEOMETRY, m.NULL])
def test_attack_bind_value_of_an_ambiguous_type_is_denied_unless_null(kind: int) -> None:
    link = with_statement(links(ReadsAll())(), 2)
    effects = link.receive(Side.CLIENT, my.execute(1, [(kind, "0"), (TEXT, "a")]))
    assert not sent(effects, Side.TARGET)
    assert b"interpret the type of a bind value differently" in sent(effects, Side.CLIENT)
    null = my.execute(1, [(kind, None), (TEXT, "a")])
    assert sent(link.receive(Side.CLIENT, null), Side.TARGET) == null


def test_large_bind_value_is_streamed_only_after_its_types_are_confirmed() -> None:
    big = my.execute(1, [(TEXT, "x" * 5000)], types=False)
    link = with_statement(links(max_message=1000)())
    assert b"too large to be evaluated" in sent(link.receive(Side.CLIENT, big), Side.CLIENT)
    link.receive(Side.CLIENT, FINE)
    link.receive(Side.TARGET, my.ok())
    assert sent(link.receive(Side.CLIENT, big), Side.TARGET) == big


def test_attack_thousand_empty_long_data_values_are_one_empty_value() -> None:
    link = with_statement(links(ReadsAll())(), 2)
    for _ in range(1000):
        link.receive(Side.CLIENT, my.long_data(1, 0, b""))
    effects = link.receive(Side.CLIENT, my.execute(1, [(m.BLOB, ""), (TEXT, "a")], ahead=[0]))
    (operation,) = [event for event in recorded(effects) if isinstance(event, Operation)]
    assert operation.values == (b"", b"a")


BODY = b"\x07abcdefg"  # a text, and a number of eight bytes
READ = {TEXT: b"abcdefg", m.LONGLONG: b"%d" % int.from_bytes(BODY, "little")}


@dataclass
class Fate:
    """Stores the values that were judged last; denies if `refuses` is set."""

    refuses: bool = False
    judged: tuple[bytes | None, ...] = ()
    name: str = "fate"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.DENY

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        self.judged = event.values
        return Refuse(self.name, "no") if self.refuses and event.phase is Phase.RUN else FORWARD


@dataclass
class Server:
    """Models a server, which keeps the types of the last EXECUTE that had types and was read."""

    types: int = -1
    waiting: list[tuple[bytes, bool, bytes | None]] = field(default_factory=list)

    def answers(self) -> bytes:
        said = b""
        for sent_on, reads, judged in self.waiting:
            payload = sent_on[m.HEAD :]
            if not reads:
                said += my.error("wrong arguments", 1210)
                continue
            if payload[11]:
                self.types = payload[12]
            assert READ[self.types] == judged
            assert payload.endswith(BODY)
            said += my.ok()
        self.waiting.clear()
        return said


steps = st.tuples(
    st.sampled_from([TEXT, m.LONGLONG, None]), st.sampled_from(["read", "unread", "refused"]), st.booleans()
)


@given(st.lists(steps, min_size=3, max_size=20))
@example([(TEXT, "read", True), (m.LONGLONG, "unread", True), (None, "read", True)])
@example([(TEXT, "read", True), (m.LONGLONG, "refused", False), (None, "read", True)])
@example([(TEXT, "read", False), (m.LONGLONG, "unread", False), (None, "read", False)])
def test_judged_bind_values_equal_those_that_the_target_reads(said: list[tuple[int | None, str, bool]]) -> None:
    """Each EXECUTE has types or none, is read, unread or denied, and is awaited or pipelined."""
    fate, server = Fate(), Server()
    link = with_statement(links(fate)())
    told = False
    for kind, what, waits in said:
        told = told or kind is not None
        if not told:
            continue
        types = b"\0" if kind is None else struct.pack("<BH", 1, kind)
        fate.refuses = what == "refused"
        passed = sent(
            link.receive(Side.CLIENT, m.command(m.COM_STMT_EXECUTE, struct.pack("<IBI", 1, 0, 1), b"\0", types, BODY)),
            Side.TARGET,
        )
        assert bool(passed) is (what != "refused")
        if passed:
            server.waiting.append((passed, what == "read", fate.judged[0]))
        if waits:
            link.receive(Side.TARGET, server.answers())
    link.receive(Side.TARGET, server.answers())
