"""Every ERR packet that the gateway creates has the next sequence number.

With a wrong number, a client library reports "packets out of order" instead of the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.support.links import Masks, ReadsAll, Withholds, Words
from tests.support.mysql_links import links, sent
from tests.support.protocols import mysql_test_messages as my

from postern.domain.sessions.session import EndReason
from postern.interception.pipeline import Interceptor
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Link

LONG = m.MAX_PAYLOAD
FIELD = m.MysqlField("a", m.LONG)
BAD_OK = b"\0\xfb\0\0\0\0\0"  # 0xFB begins no length-encoded integer
Step = tuple[Side, bytes]


def client(*data: bytes) -> Step:
    return Side.CLIENT, b"".join(data)


def target(*data: bytes) -> Step:
    return Side.TARGET, b"".join(data)


def say_kill(link: Link) -> list[Effect]:
    return link.end(EndReason.KILLED, "this session was killed", "57P01")


@dataclass
class Case:
    """The input of the link, and the sequence number of the ERR packet that the last step causes. `ends`: ends the
    link after the steps; None if the last step causes the ERR packet itself."""

    number: int
    steps: list[Step]
    ends: Callable[[Link], list[Effect]] | None = None
    who: tuple[Interceptor, ...] = ()
    options: dict[str, object] = field(default_factory=dict)


def columns(count: int = 1) -> my.AnswerPackets:
    return my.AnswerPackets().columns(*[f"c{at}" for at in range(count)])


def prepared(*steps: Step) -> list[Step]:
    return [client(my.prepare("select ?")), target(my.AnswerPackets().prepared(1, 1, [FIELD]).bytes), *steps]


def behind(answer: my.AnswerPackets, payload: bytes) -> bytes:
    """Return a packet with the next sequence number, without the answer before it."""
    answer.bytes = b""
    return answer.add(payload).bytes


QUERY = client(my.query("select a"))
RUN = client(my.execute(1, [(m.VAR_STRING, "x")]))
LOAD = client(my.query("load data local infile 'x' into table t"))
TWO = my.query("x" * LONG)  # takes two packets
FILES: dict[str, object] = {"local_files": True}

CASES = {
    # refusals
    "a denied statement": Case(1, [client(my.query("drop it"))], who=(Words(),)),
    "a denied statement of two packets": Case(2, [client(my.query("drop " + "x" * LONG))], who=(Words(),)),
    "a denied statement that is too large": Case(2, [client(TWO)], options={"max_message": 1000}),
    "a denied prepare": Case(1, [client(my.prepare("drop it"))], who=(Words(),)),
    "a denied execute": Case(1, prepared(client(my.execute(1, [(m.VAR_STRING, "drop")]))), who=(Words(),)),
    "an unknown statement": Case(1, [client(my.execute(9))]),
    "an unsupported command": Case(1, [client(m.command(m.COM_SHUTDOWN))]),
    "a change to a different user": Case(1, [client(my.change_user("eve"))], options={"user": "ada"}),
    # in the place of answers
    "a row that is too large": Case(
        4, [QUERY, target(columns().row("x" * 2000).bytes[:-1])], who=(ReadsAll(),), options={"max_message": 1000}
    ),
    "a denied text row": Case(5, [QUERY, target(columns().row("a").bytes), target(
        behind(columns().row("a"), m.lenenc_text(b"secret-1")))], who=(Withholds(),)),
    "a denied binary row": Case(4, prepared(RUN, target(
        my.AnswerPackets().columns(m.MysqlField("a", m.VAR_STRING)).binary_row((m.VAR_STRING, "secret-1")).bytes)),
        who=(Withholds(),)),
    "a denied error": Case(1, [QUERY, target(my.error("secret-1"))], who=(Withholds(),)),
    "a denied error after rows": Case(5, [QUERY, target(columns().row("a").error("secret-1").bytes)],
        who=(Withholds(),)),
    "a denied file": Case(1, [LOAD, target(my.AnswerPackets().wants_file().bytes)]),
    "a denied file after a result": Case(5, [client(my.query("select 1; load data")), target(
        columns().eof(m.MORE_RESULTS).bytes), target(behind(columns().eof(m.MORE_RESULTS), b"\xfbx"))]),
    "a change of user whose reset failed": Case(2, [client(my.change_user(
        "ada", b"x" * 32, "shop", "caching_sha2_password")), target(my.error("no"), my.ok())],
        options={"user": "ada"}),
    # the end from outside
    "idle": Case(1, [QUERY, target(my.rows(["a"]))], say_kill),
    "waiting": Case(1, [QUERY], say_kill),
    "waiting for the answer to two packets": Case(2, [client(TWO)], say_kill, options={"max_message": 1 << 26}),
    "before the columns": Case(2, [QUERY, target(my.AnswerPackets().add(b"\x01").bytes)], say_kill),
    "after the columns": Case(4, [QUERY, target(columns().bytes)], say_kill),
    "in the rows": Case(6, [QUERY, target(columns().row("a").row("b").bytes)], say_kill),
    "in rows that are read": Case(6, [QUERY, target(columns().row("a").row("b").bytes)], say_kill, (ReadsAll(),)),
    "in binary rows": Case(5, prepared(RUN, target(my.AnswerPackets().columns(FIELD).binary_row((m.LONG, "1")).bytes)),
        say_kill),
    "between two results": Case(2, [client(my.query("do 1; do 2")), target(my.ok(status=m.MORE_RESULTS))], say_kill),
    "after a prepare": Case(1, prepared(), say_kill),
    "in the middle of a prepare": Case(2, [client(my.prepare("select ?")), target(
        my.AnswerPackets().add(b"\0\1\0\0\0\1\0\1\0\0\0\0").bytes)], say_kill),
    "after a denial": Case(1, [client(my.query("drop it"))], say_kill, (Words(),)),
    "after a denied row": Case(1, [QUERY, target(columns().row("secret-1").bytes)], say_kill, (Withholds(),)),
    "a second statement after a denied row": Case(2, [QUERY, target(columns().row("secret-1").bytes), client(TWO)],
        say_kill, (Withholds(),), {"max_message": 1 << 26}),
    "a second statement waits for the first": Case(4, [client(my.query("select a"), my.query("select b")),
        target(columns().bytes)], say_kill),
    "after a hidden reset": Case(1, [client(my.change_user("ada", b"", "shop"))], say_kill,
        options={"user": "ada"}),
    "after the gateway's part of a change of user": Case(2, [client(my.change_user(
        "ada", b"x" * 32, "", "caching_sha2_password"))], say_kill, options={"user": "ada"}),
    "before the gateway's part of a change of user": Case(1, [client(my.change_user(
        "ada", b"x" * 32, "shop", "caching_sha2_password"))], say_kill, options={"user": "ada"}),
    "while a file is sent": Case(4, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3, b"two"))], say_kill, options=FILES),
    "after a file": Case(5, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3, b"two"), my.file_data(4))], say_kill, options=FILES),
    "after the answer to a file": Case(1, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3)), target(my.AnswerPackets(4).ok(1).bytes)], say_kill, options=FILES),
    "a file after 16 MiB that masking made smaller": Case(
        7, [client(my.query("select a; load data")),
            target(columns().row("secret-" + "1" * 300 + "x" * (LONG - 300)).eof(m.MORE_RESULTS).bytes),
            target(behind(columns().row("x" * LONG).eof(m.MORE_RESULTS), b"\xfbx")),
            client(my.file_data(6, b"x"))], say_kill, (Masks(),), {**FILES, "max_message": 1 << 26}),
    # the target breaks the protocol
    "a malformed answer": Case(1, [QUERY, target(m.packet(1, BAD_OK))]),
    "a packet out of order": Case(1, [QUERY, target(m.packet(5, b"\0"))]),
    "a malformed second answer": Case(2, [client(my.query("do 1; do 2")), target(my.ok(status=m.MORE_RESULTS)),
        target(m.packet(2, BAD_OK))]),
    "a malformed second answer in one read": Case(2, [client(my.query("do 1; do 2")), target(
        my.ok(status=m.MORE_RESULTS), m.packet(2, BAD_OK))]),
    "a malformed end of columns": Case(
        3, [QUERY, target(my.AnswerPackets().add(b"\1").add(b"def").add(b"\0").bytes)]),
    "a malformed end of rows": Case(5, [QUERY, target(columns().row("a").add(b"\xfe\0\0").bytes)]),
    "a malformed answer to a prepare": Case(1, [client(my.prepare("select ?")), target(my.ok())]),
    "rows with malformed columns": Case(4, [QUERY, target(
        my.AnswerPackets().add(b"\1").add(b"def").eof().row("a").bytes)], who=(ReadsAll(),)),
    "a truncated row": Case(4, [QUERY, target(columns().add(b"\x05abc").bytes)], who=(ReadsAll(),)),
    "a truncated row in a second block": Case(5, [QUERY, target(columns().row("a").bytes), target(
        behind(columns().row("a"), b"\x05abc"))], who=(ReadsAll(),)),
    "a truncated binary row": Case(4, prepared(RUN, target(
        my.AnswerPackets().columns(FIELD).add(b"\0\0\1").bytes)), who=(ReadsAll(),)),
    "an error without a number": Case(1, [QUERY, target(m.packet(1, b"\xff"))], who=(ReadsAll(),)),
    "a malformed answer to a file": Case(4, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3)), target(m.packet(4, BAD_OK))], options=FILES),
    "unsolicited bytes": Case(1, [target(m.packet(9, b"\0"))]),
    # the client breaks the protocol
    "a packet with a wrong number": Case(1, [client(m.packet(3, b"\x03do 1"))]),
    "an empty command": Case(1, [client(m.packet(0, b""))]),
    "a malformed command after a waiting one": Case(1, [QUERY, client(m.packet(3, b"\x03do 1"))]),
    "a malformed command after rows": Case(5, [QUERY, target(columns().row("a").bytes), client(m.packet(3, b"x"))]),
    "a malformed command after a denied one in one read": Case(1, [client(
        my.query("drop " + "x" * LONG), m.packet(3, b"x"))], who=(Words(),), options={"max_message": 1 << 26}),
    "values without types": Case(1, prepared(client(my.execute(1, [(m.VAR_STRING, "x")], types=False)))),
}  # fmt: skip


def last_error(data: bytes) -> tuple[int, bytes]:
    found = [packet for packet in m.MysqlPackets(1 << 30).feed(data) if packet.payload[:1] == b"\xff"]
    return found[-1]


@pytest.mark.parametrize("size", [0, 1, 5, 1000])
@pytest.mark.parametrize("name", CASES)
def test_error_packet_of_the_gateway_has_the_next_sequence_number(name: str, size: int) -> None:
    case = CASES[name]
    long = sum(len(data) for _, data in case.steps) > 100_000
    if long and size:
        size = LONG // 3 + size
    link = links(*case.who, **case.options)()
    effects: list[Effect] = []
    for number, (side, data) in enumerate(case.steps):
        if number == len(case.steps) - 1 and case.ends is None:
            assert not any(isinstance(effect, Close) for effect in effects)
            effects = []
        for at in range(0, len(data), size or len(data)):
            effects += link.receive(side, data[at : at + (size or len(data))])
    if case.ends is not None:
        assert not any(isinstance(effect, Close) for effect in effects)
        effects = case.ends(link)
    said = sent(effects, Side.CLIENT)
    assert last_error(said)[0] == case.number, my.show(Side.TARGET, said[-4000:])
