"""Length-encoded integers at their limits: counts can have 64 bits, lengths cannot."""

from __future__ import annotations

import pytest
from tests.support.links import Masks, ReadsAll
from tests.support.mysql_links import links, playbook, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import from_client, from_target, record

from postern.domain.sessions.session import EndReason
from postern.errors import ProtocolViolation
from postern.interception.events import MAX_ROWS, Completed
from postern.interception.pipeline import Interceptor
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.recorded.mysql_reading import Answers
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.wire_base import Side
from postern.recording.record_format import encode
from postern.relay.link import Close

WHO: list[tuple[Interceptor, ...]] = [(), (ReadsAll(),), (Masks(),)]
LARGE = [(1 << 63) - 1, 1 << 63, (1 << 64) - 1]
LENGTHS = [b"\xfc\xff\xff", b"\xfd\xff\xff\xff", *[b"\xfe" + number.to_bytes(8, "little") for number in (
    1 << 31, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, (1 << 63) - 5, 1 << 63, (1 << 64) - 1)]]  # fmt: skip


@pytest.mark.parametrize("who", WHO, ids=["no interceptor", "reading", "masking"])
@pytest.mark.parametrize("insert_id", LARGE)
@pytest.mark.parametrize("affected", [1, *LARGE])
def test_ok_packet_with_64_bit_counts_is_forwarded(affected: int, insert_id: int, who: tuple[Interceptor, ...]) -> None:
    answer = m.ok(1, m.Done(affected, insert_id))
    with playbook(*who) as play:
        play >> from_client(my.query("insert"), m.PING)
        play << record(runs(1, "insert"))
        play.forwarded()
        play >> from_target(answer, m.ok(1, m.Done(affected, insert_id)))
        play.forwarded() << record(Completed(1, "OK", min(affected, MAX_ROWS)))


def test_recorded_sum_of_row_counts_is_capped() -> None:
    answer = my.AnswerPackets().ok((1 << 64) - 1, m.MORE_RESULTS).ok((1 << 64) - 1)
    with playbook() as play:
        play >> from_client(my.query("a; b"))
        play.forwarded() << record(runs(1, "a; b"))
        play >> from_target(answer.bytes)
        play.forwarded() << record(Completed(1, "OK", MAX_ROWS))
    assert encode(Completed(1, "OK", MAX_ROWS), 1)


@pytest.mark.parametrize("who", WHO[1:], ids=["reading", "masking"])
@pytest.mark.parametrize("length", LENGTHS, ids=bytes.hex)
@pytest.mark.parametrize("where", ["text row", "binary row", "second cell", "column", "count"])
def test_attack_value_with_a_length_beyond_its_packet_is_not_forwarded(
    where: str, length: bytes, who: tuple[Interceptor, ...]
) -> None:
    field = m.MysqlField("a", m.VAR_STRING)
    answers = {
        "text row": my.AnswerPackets().columns(field).add(length, b"abc"),
        "binary row": my.AnswerPackets().columns(field).add(b"\0\0", length, b"abc"),
        "second cell": my.AnswerPackets().columns(field, field).add(b"\1x", length, b"abc"),
        "column": my.AnswerPackets().add(b"\1").add(b"\3def", length, b"abc").eof().row("a"),
        "count": my.AnswerPackets().add(length),
    }
    link = links(*who)()
    link.receive(Side.CLIENT, my.prepare("select"))
    link.receive(Side.TARGET, my.AnswerPackets().prepared(1, 0, [field]).bytes)
    link.receive(Side.CLIENT, my.execute(1) if where == "binary row" else my.query("select"))
    effects = link.receive(Side.TARGET, answers[where].bytes)
    ends = [one.reason for one in effects if isinstance(one, Close)]
    if where == "count" and length == b"\xfc\xff\xff":
        assert ends == []  # this number of columns is allowed
    elif where in ("column", "count"):
        assert ends == [EndReason.PROTOCOL_VIOLATION]
    else:  # interceptors deny a row that cannot be read
        said = m.MysqlPackets(1 << 20).feed(sent(effects, Side.CLIENT))
        assert said[-1].payload[0] == m.ERR
        assert not any(one.payload.endswith(length + b"abc") for one in said)


@pytest.mark.parametrize("length", LENGTHS, ids=bytes.hex)
def test_attack_oversized_length_in_login_attributes_or_a_recording_is_handled(length: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        g.read_attributes(length + b"abc", 0, len(length) + 3)
    answers = Answers()
    for payload in (b"\1", m.column(0, m.MysqlField("a", m.VAR_STRING))[4:], m.eof(0)[4:]):
        answers.take(payload)
    assert len(answers.cells_of_a_part(length + b"abc")) <= 1
