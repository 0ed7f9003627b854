"""Every ERR packet that the gateway itself makes has the number that the client expects next.

A client library that is sent another one reports "packets out of order" instead of the error.
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
    """What the link is fed with, and the number of the ERR that the last step makes. `ends`: what ends the link behind
    the steps; None where the last step makes the ERR by itself."""

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
    """A packet with the next number, and nothing of the answer."""
    answer.bytes = b""
    return answer.add(payload).bytes


QUERY = client(my.query("select a"))
RUN = client(my.execute(1, [(m.VAR_STRING, "x")]))
LOAD = client(my.query("load data local infile 'x' into table t"))
TWO = my.query("x" * LONG)  # takes two packets
FILES: dict[str, object] = {"local_files": True}

CASES = {
    # refusals
    "a refused statement": Case(1, [client(my.query("drop it"))], who=(Words(),)),
    "a refused statement of two packets": Case(2, [client(my.query("drop " + "x" * LONG))], who=(Words(),)),
    "a refused statement that is too large": Case(2, [client(TWO)], options={"max_message": 1000}),
    "a refused prepare": Case(1, [client(my.prepare("drop it"))], who=(Words(),)),
    "a refused execute": Case(1, prepared(client(my.execute(1, [(m.VAR_STRING, "drop")]))), who=(Words(),)),
    "an unknown statement": Case(1, [client(my.execute(9))]),
    "a command that is never possible": Case(1, [client(m.command(m.COM_SHUTDOWN))]),
    "another user": Case(1, [client(my.change_user("eve"))], options={"user": "ada"}),
    # in the place of answers
    "a row that is too large": Case(
        4, [QUERY, target(columns().row("x" * 2000).bytes[:-1])], who=(ReadsAll(),), options={"max_message": 1000}
    ),
    "a text row that is withheld": Case(5, [QUERY, target(columns().row("a").bytes), target(
        behind(columns().row("a"), m.lenenc_text(b"secret-1")))], who=(Withholds(),)),
    "a binary row that is withheld": Case(4, prepared(RUN, target(
        my.AnswerPackets().columns(m.MysqlField("a", m.VAR_STRING)).binary_row((m.VAR_STRING, "secret-1")).bytes)),
        who=(Withholds(),)),
    "an error that is withheld": Case(1, [QUERY, target(my.error("secret-1"))], who=(Withholds(),)),
    "an error behind rows that is withheld": Case(5, [QUERY, target(columns().row("a").error("secret-1").bytes)],
        who=(Withholds(),)),
    "a file that is refused": Case(1, [LOAD, target(my.AnswerPackets().wants_file().bytes)]),
    "a file that is refused behind a result": Case(5, [client(my.query("select 1; load data")), target(
        columns().eof(m.MORE_RESULTS).bytes), target(behind(columns().eof(m.MORE_RESULTS), b"\xfbx"))]),
    "a change of user whose reset failed": Case(2, [client(my.change_user(
        "ada", b"x" * 32, "shop", "caching_sha2_password")), target(my.error("no"), my.ok())],
        options={"user": "ada"}),
    # the end from outside
    "idle": Case(1, [QUERY, target(my.rows(["a"]))], say_kill),
    "waiting": Case(1, [QUERY], say_kill),
    "waiting for the answer to two packets": Case(2, [client(TWO)], say_kill, options={"max_message": 1 << 26}),
    "in front of the columns": Case(2, [QUERY, target(my.AnswerPackets().add(b"\x01").bytes)], say_kill),
    "behind the columns": Case(4, [QUERY, target(columns().bytes)], say_kill),
    "in the rows": Case(6, [QUERY, target(columns().row("a").row("b").bytes)], say_kill),
    "in rows that are looked at": Case(6, [QUERY, target(columns().row("a").row("b").bytes)], say_kill, (ReadsAll(),)),
    "in binary rows": Case(5, prepared(RUN, target(my.AnswerPackets().columns(FIELD).binary_row((m.LONG, "1")).bytes)),
        say_kill),
    "between two results": Case(2, [client(my.query("do 1; do 2")), target(my.ok(status=m.MORE_RESULTS))], say_kill),
    "behind a prepare": Case(1, prepared(), say_kill),
    "in the middle of a prepare": Case(2, [client(my.prepare("select ?")), target(
        my.AnswerPackets().add(b"\0\1\0\0\0\1\0\1\0\0\0\0").bytes)], say_kill),
    "behind a refusal": Case(1, [client(my.query("drop it"))], say_kill, (Words(),)),
    "behind a withheld row": Case(1, [QUERY, target(columns().row("secret-1").bytes)], say_kill, (Withholds(),)),
    "a second statement behind a withheld row": Case(2, [QUERY, target(columns().row("secret-1").bytes), client(TWO)],
        say_kill, (Withholds(),), {"max_message": 1 << 26}),
    "a second statement waits behind the first": Case(4, [client(my.query("select a"), my.query("select b")),
        target(columns().bytes)], say_kill),
    "behind a hidden reset": Case(1, [client(my.change_user("ada", b"", "shop"))], say_kill,
        options={"user": "ada"}),
    "behind the gateway's part of a change of user": Case(2, [client(my.change_user(
        "ada", b"x" * 32, "", "caching_sha2_password"))], say_kill, options={"user": "ada"}),
    "in front of the gateway's part of a change of user": Case(1, [client(my.change_user(
        "ada", b"x" * 32, "shop", "caching_sha2_password"))], say_kill, options={"user": "ada"}),
    "while a file is sent": Case(4, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3, b"two"))], say_kill, options=FILES),
    "behind a file": Case(5, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3, b"two"), my.file_data(4))], say_kill, options=FILES),
    "behind the answer to a file": Case(1, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3)), target(my.AnswerPackets(4).ok(1).bytes)], say_kill, options=FILES),
    "a file behind 16 MiB that became less by masking": Case(
        7, [client(my.query("select a; load data")),
            target(columns().row("secret-" + "1" * 300 + "x" * (LONG - 300)).eof(m.MORE_RESULTS).bytes),
            target(behind(columns().row("x" * LONG).eof(m.MORE_RESULTS), b"\xfbx")),
            client(my.file_data(6, b"x"))], say_kill, (Masks(),), {**FILES, "max_message": 1 << 26}),
    # the target breaks the protocol
    "an answer that is none": Case(1, [QUERY, target(m.packet(1, BAD_OK))]),
    "a packet out of order": Case(1, [QUERY, target(m.packet(5, b"\0"))]),
    "a second answer that is none": Case(2, [client(my.query("do 1; do 2")), target(my.ok(status=m.MORE_RESULTS)),
        target(m.packet(2, BAD_OK))]),
    "a second answer that is none, in one read": Case(2, [client(my.query("do 1; do 2")), target(
        my.ok(status=m.MORE_RESULTS), m.packet(2, BAD_OK))]),
    "an end of columns that is none": Case(
        3, [QUERY, target(my.AnswerPackets().add(b"\1").add(b"def").add(b"\0").bytes)]),
    "an end of rows that is none": Case(5, [QUERY, target(columns().row("a").add(b"\xfe\0\0").bytes)]),
    "a prepare that is none": Case(1, [client(my.prepare("select ?")), target(my.ok())]),
    "rows whose columns cannot be read": Case(4, [QUERY, target(
        my.AnswerPackets().add(b"\1").add(b"def").eof().row("a").bytes)], who=(ReadsAll(),)),
    "a row that is shorter than it says": Case(4, [QUERY, target(columns().add(b"\x05abc").bytes)], who=(ReadsAll(),)),
    "a second block with a row that is shorter than it says": Case(5, [QUERY, target(columns().row("a").bytes), target(
        behind(columns().row("a"), b"\x05abc"))], who=(ReadsAll(),)),
    "a binary row that is shorter than it says": Case(4, prepared(RUN, target(
        my.AnswerPackets().columns(FIELD).add(b"\0\0\1").bytes)), who=(ReadsAll(),)),
    "an error without a number": Case(1, [QUERY, target(m.packet(1, b"\xff"))], who=(ReadsAll(),)),
    "an answer to a file that is none": Case(4, [LOAD, target(my.AnswerPackets().wants_file().bytes), client(
        my.file_data(2, b"one"), my.file_data(3)), target(m.packet(4, BAD_OK))], options=FILES),
    "bytes that nobody asked for": Case(1, [target(m.packet(9, b"\0"))]),
    # the client breaks the protocol
    "a packet with another number": Case(1, [client(m.packet(3, b"\x03do 1"))]),
    "an empty command": Case(1, [client(m.packet(0, b""))]),
    "a broken command behind one that waits": Case(1, [QUERY, client(m.packet(3, b"\x03do 1"))]),
    "a broken command behind rows": Case(5, [QUERY, target(columns().row("a").bytes), client(m.packet(3, b"x"))]),
    "a broken command behind a refused one, in one read": Case(1, [client(
        my.query("drop " + "x" * LONG), m.packet(3, b"x"))], who=(Words(),), options={"max_message": 1 << 26}),
    "values without types": Case(1, prepared(client(my.execute(1, [(m.VAR_STRING, "x")], types=False)))),
}  # fmt: skip


def last_error(data: bytes) -> tuple[int, bytes]:
    found = [packet for packet in m.MysqlPackets(1 << 30).feed(data) if packet.payload[:1] == b"\xff"]
    return found[-1]


@pytest.mark.parametrize("size", [0, 1, 5, 1000])
@pytest.mark.parametrize("name", CASES)
def test_an_error_of_the_gateway_has_the_next_number(name: str, size: int) -> None:
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
