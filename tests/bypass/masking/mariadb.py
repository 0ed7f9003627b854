"""MariaDB databases that differ in masked values only, and clients of them behind a link that masks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.bypass.masking.compare import Answer, Cell, Heard, Message
from tests.bypass.masking.strategies import Policing
from tests.bypass.masking.talk import Far, Forgotten, History, Talk, talk
from tests.support.mariadb import MariaDbServer
from tests.support.protocols import mysql_test_messages as my

from postern.domain.rules.policy import Policy
from postern.domain.targets.target_schema import TargetSchema
from postern.protocols.mysql.queries.mysql_schema import QUESTIONS, target_schema
from postern.protocols.mysql.wire.mysql_wire import MysqlWire

DATABASES = {"a": "leaks_a", "b": "leaks_b", "c": "leaks_c"}
Values = tuple[str | None, ...]

# As in `postgres`.
VALUES: Mapping[str, tuple[str, Values, Values, Values]] = {
    "name": ("varchar(60)", ("Ada Lovelace", "Boris Karloff", "Cleo Laine"), ("Anne Frank", "Ben Kingsley-Smith", "Cy Young"), ("Zoë Kravitz-Blixen", "Yorick von Humboldt", "x")),
    "email": ("varchar(80)", ("ada@example.com", "boris@example.org", "cleo@example.net"), ("anne.f@example.com", "ben.kingsley@example.org", "cy@example.net"), ("zoe@mail.example.test", "y@other.example", "x9.long.name@mail.example")),
    "phone": ("varchar(30)", ("+1 212 555 0100", None, "+44 20 7946 0018"), ("+1 646 555 0100", None, "+44 161 496 0018"), ("+49 30 901820", None, "+33 1 99 00 12 34")),
    "salary": ("int", ("83412", "51200", "7350"), ("87999", "59001", "7001"), ("-12", "2000000", "44")),
    "level": ("smallint", ("12", "31", "250"), ("19", "35", "299"), ("-3", "7", "30000")),
    "account": ("bigint", ("4000123412341", "5100200300400", "77001"), ("4999000011112", "5987654321098", "71234"), ("-5", "123", "9007199254740993")),
    "points": ("int unsigned", ("3001", "444", "66"), ("3999", "455", "67"), ("1", "4000000000", "9")),
    "ratio": ("decimal(12,4)", ("12.5", "310.25", "75.5"), ("19.125", "399.5", "70.75"), ("-0.001", "1000000.5", "3")),
    "weight": ("double", ("61.5", "82.25", "70.125"), ("65.75", "89.5", "79"), ("-1.5", "1e10", "0.001")),
    "light": ("float", ("61.5", "82.25", "70.125"), ("65.75", "89.5", "79"), ("-2.5", "1e9", "0.01")),
    "birthday": ("date", ("1983-04-12", "1990-12-31", "1975-01-02"), ("1983-11-30", "1990-02-28", "1975-08-19"), ("2001-05-06", "1899-12-30", "1960-07-07")),
    "seen": ("datetime", ("2021-03-04 05:06:07", "2020-12-31 23:59:59", "2019-01-01 00:00:01"), ("2021-08-09 10:11:12", "2020-02-29 12:00:00", "2019-06-06 06:06:06"), ("1999-09-09 09:09:09", "2030-01-02 03:04:05", "1970-01-02 00:00:00")),
    "met": ("timestamp default '2000-01-01 00:00:00'", ("2021-03-04 05:06:08", "2020-11-30 23:59:59", "2019-02-01 00:00:01"), ("2021-08-09 10:11:12", "2020-02-29 12:00:00", "2019-06-06 06:06:06"), ("1999-09-09 09:09:19", "2031-01-02 03:04:05", "1970-01-03 00:00:00")),
    "alarm": ("time", ("05:30:00", "06:45:10", "23:00:01"), ("05:59:59", "06:00:01", "23:30:00"), ("12:34:56", "00:00:01", "18:18:18")),
    "born": ("year", ("1983", "1990", "1975"), ("1984", "1991", "1976"), ("2001", "1902", "2050")),
    "token": ("uuid", ("a1a1a1a1-0000-4000-8000-00000000beef", "b1b1b1b1-0000-4000-8000-00000000cafe", "c1c1c1c1-0000-4000-8000-00000000f00d"), ("a2a2a2a2-1111-4111-9111-11111111beef", "b2b2b2b2-1111-4111-9111-11111111cafe", "c2c2c2c2-1111-4111-9111-11111111f00d"), ("00000000-0000-0000-0000-000000000001", "ffffffff-ffff-4fff-8fff-ffffffffffff", "12345678-1234-4234-8234-123456789012")),
    "addr": ("inet6", ("2001:db8::1", "2001:db8::2", "2001:db9::3"), ("2001:db8::ff", "2001:db8::fe", "2001:db9::fd"), ("fe80::7", "fe80::8", "fe80::9")),
    "raw": ("varbinary(40)", ("\x01\x02\x03", "zz", "q"), ("\x04\x05", "yyyy", "rr"), ("a much longer value of bytes", "b", "cc")),
    "pic": ("blob", ("picture one", "two", "3"), ("picture uno", "due", "tre"), ("p", "pp", "a much longer picture")),
    "flags": ("bit(8)", ("165", "240", "1"), ("90", "15", "128"), ("255", "170", "85")),
    "active": ("tinyint(1)", ("1", "0", "1"), ("0", "1", "0"), ("0", "1", "0")),
    "mood": ("enum('mad', 'mild', 'merry')", ("mad", "mild", "merry"), ("mild", "merry", "mad"), ("merry", "mad", "mild")),
    "opts": ("set('o1', 'o2', 'o3')", ("o1", "o1,o2", "o3"), ("o2", "o2,o3", "o1"), ("o1,o2,o3", "o3", "o2")),
    "doc": ("json", ('{"k": "Ada", "n": 5}', '{"k": "Boris", "n": 6}', '{"k": "Cleo", "n": 7}'), ('{"k": "Anne", "n": 8}', '{"k": "Ben", "n": 9}', '{"k": "Cyrus", "n": 1}'), ('{"k": "Zoe von Z", "n": -5}', '{"k": "y", "n": 10.5}', '{"k": "xx", "n": 70000}')),
    "nick": ("char(20)", ("ada1", "boris22", "cleo333"), ("anne1", "benni22", "cyrus333"), ("z", "yorick-the-third", "xx")),
    "essay": ("text", ("Ada was here", "Boris was there", "Cleo was not"), ("Anne wrote this", "Ben wrote that thing", "Cy wrote none"), ("Z", "Y was a very different essay of some length", "X")),
}  # fmt: skip
MASKED = tuple(VALUES)

DEFINITIONS = """
create table people (id int primary key, grp int, note varchar(50), {columns});
create table orders (id int primary key, person int, total int, label varchar(20));
create table notes (id int primary key, body varchar(200));
create table chart (id int primary key, letter varchar(1));
create view v_people as select id, note, name as who, email, salary from people;
create view v_shout as select id, upper(name) as shout, salary * 2 as doubled from people;
create view v_orders as select o.id, o.label, p.name, p.salary from orders o join people p on p.id = o.person;
create function peek(which int) returns varchar(80) reads sql data return (select email from people where id = which);
create function peek_name(which int) returns varchar(80) reads sql data return (select name from people where id = which);
create function bump(n int) returns int deterministic return n + 1;
create procedure give() select name, salary from people;
create procedure put() select salary into @parked from people where id = 1;
insert into orders values (1, 1, 10, 'new'), (2, 1, 20, 'paid'), (3, 2, 30, 'new');
insert into notes values (1, 'a note'), (2, 'another note');
insert into chart select seq, char(96 + seq) from seq_1_to_26
"""
_MORE_RESULTS = 8
_FIXED = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 4, 13: 2}  # bytes of binary values by type
_MOMENTS = {7, 10, 11, 12}


def set_up(server: MariaDbServer) -> TargetSchema:
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in VALUES.items())
    connection = server.connect()
    with connection.cursor() as cursor:
        for place, name in enumerate(DATABASES.values(), 1):
            cursor.execute(f"drop database if exists {name}")
            cursor.execute(f"create database {name} character set utf8mb4")
            cursor.execute(f"use {name}")
            for statement in DEFINITIONS.format(columns=columns).split(";\n"):
                cursor.execute(statement)
            for row in range(3):
                cells = [_cell(column, of[place][row]) for column, of in VALUES.items()]
                values = [row + 1, row % 2, ("first", "second", "third")[row], *cells]
                cursor.execute(f"insert into people values ({', '.join(['%s'] * len(values))})", values)
            cursor.execute("analyze table people, orders, notes")
    connection.close()
    connection = server.connect(database="leaks_a")
    try:
        return _schema(connection)
    finally:
        connection.close()


def _cell(column: str, value: str | None) -> Any:
    return int(value) if column == "flags" and value is not None else value


def _schema(connection: Any) -> TargetSchema:
    answers = []
    with connection.cursor() as cursor:
        for question in QUESTIONS:
            cursor.execute(question)
            answers.append([tuple(None if cell is None else str(cell) for cell in row) for row in cursor.fetchall()])
    return target_schema(answers)


class CutOff(Exception):
    """The answer ends before it is whole."""


@dataclass
class Packets:
    """Payloads out of a stream of packets. `more` returns further bytes, empty at the end."""

    more: Callable[[], bytes]
    _data: bytes = b""

    def next(self) -> bytes:
        """Raises CutOff."""
        header = self._take(4)
        return self._take(int.from_bytes(header[:3], "little"))

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            more = self.more()
            if not more:
                raise CutOff
            self._data += more
        taken, self._data = self._data[:size], self._data[size:]
        return taken


def answer_of(packets: Packets, *, binary: bool = False) -> Answer:
    """Read all results of one command."""
    found: Answer = []
    try:
        while _read_result(packets, found, binary=binary):
            pass
    except CutOff:
        found.append(Message("cut off"))
    return found


def prepared(packets: Packets) -> tuple[int, Answer]:
    """Read the answer to a prepare command: the statement's number, 0 if it failed, and its description."""
    first = packets.next()
    if first[:1] != b"\0":
        return 0, [Message("prepared", first)]
    number, columns, values = struct.unpack_from("<IHH", first, 1)
    found = [Message("prepared", first[5:])]  # numbers of statements are the server's, not the database's
    for count in (values, columns):
        found += [Message("column", packets.next()) for _ in range(count + 1 if count else 0)]
    return number, found


def _read_result(packets: Packets, found: Answer, *, binary: bool) -> bool:
    """Whether another result follows."""
    first = packets.next()
    found.append(Message("result", first))
    if first[:1] == b"\xff":
        return False
    if first[:1] == b"\0":
        _, at = _number(first, 1)
        _, at = _number(first, at)
        return bool(struct.unpack_from("<H", first, at)[0] & _MORE_RESULTS)
    columns = [packets.next() for _ in range(_number(first, 0)[0])]
    found += [Message("column", column) for column in columns]
    found.append(Message("eof", packets.next()))
    types = [_type(column) for column in columns]
    while True:
        packet = packets.next()
        if packet[:1] == b"\xff":
            found.append(Message("error", packet))
            return False
        if packet[:1] == b"\xfe" and len(packet) < 9:
            found.append(Message("eof", packet))
            return bool(struct.unpack_from("<H", packet, 3)[0] & _MORE_RESULTS)
        found.append(Message("row", b"", tuple(_binary(packet, types) if binary else _text(packet))))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded number and the position after it."""
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(data[at], 0)
    return (int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size) if size else (data[at], at + 1)


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _number(data, at)
    return data[at : at + size], at + size


def _type(column: bytes) -> int:
    at = 0
    for _ in range(6):
        _, at = _sized(column, at)
    return column[at + 7]


def _text(packet: bytes) -> Iterator[Cell]:
    at = 0
    while at < len(packet):
        if packet[at] == 0xFB:
            at += 1
            yield None
        else:
            cell, at = _sized(packet, at)
            yield cell


def _binary(packet: bytes, types: Sequence[int]) -> Iterator[Cell]:
    nulls = packet[1 : 1 + (len(types) + 9) // 8]
    at = 1 + len(nulls)
    for place, kind in enumerate(types, 2):
        if nulls[place // 8] >> place % 8 & 1:
            yield None
            continue
        size = _FIXED.get(kind)
        if size is None and kind in _MOMENTS:
            size = 1 + packet[at]
        if size is None:
            cell, at = _sized(packet, at)
        else:
            cell, at = packet[at : at + size], at + size
        yield cell


@dataclass
class MysqlClient:
    """A client that sends commands. `exchange` sends one and returns the reader of its answer."""

    exchange: Callable[[bytes], Packets]
    protocol: str

    def ask(self, step: str) -> Answer:
        if self.protocol == "text":
            return answer_of(self.exchange(my.query(step)))
        try:
            number, found = prepared(self.exchange(my.prepare(step)))
        except CutOff:
            return [Message("cut off")]
        return found + answer_of(self.exchange(my.execute(number)), binary=True) if number else found


def login(server: MariaDbServer, database: str) -> Any:
    """Return a connection of PyMySQL, whose socket alone is used."""
    return server.connect(database=database)


@dataclass
class LinkSession:
    talk: Talk
    client: MysqlClient

    @classmethod
    def over(cls, talk: Talk, protocol: str) -> LinkSession:
        def exchange(data: bytes) -> Packets:
            answers = iter([talk.send(data), b""])
            return Packets(lambda: next(answers))

        return cls(talk, MysqlClient(exchange, protocol))

    def ask(self, step: str) -> Answer:
        return self.client.ask(step)

    @property
    def is_marked(self) -> bool:
        return self.talk.view.metrics.not_inspected > 0


@dataclass
class MariaDb:
    """See `compare.Server`."""

    server: MariaDbServer
    schema: TargetSchema
    capabilities: int
    name: str = "mariadb"
    protocols: tuple[str, ...] = ("text", "binary")
    masked: tuple[str, ...] = MASKED
    _memory: dict[tuple[str, ...], dict[History, bytes]] = field(default_factory=dict)

    def run(self, policing: Policing | None, database: str, protocol: str, steps: Sequence[str]) -> Heard:
        columns = [f"people.{column}" for column in self.masked]
        policy = Policy() if policing is None else policing.policy(columns)
        try:
            return self._run(policy, database, protocol, steps, is_live=False)
        except Forgotten:
            return self._run(policy, database, protocol, steps, is_live=True)

    def plain_columns(self, answer: Answer) -> list[bool]:
        found = []
        for message in answer:
            if message.tag == "column":
                names, at = [], 0
                for _ in range(6):
                    name, at = _sized(message.body, at)
                    names.append(name)
                found.append(names[5] != b"")
        return found

    def _run(self, policy: Policy, database: str, protocol: str, steps: Sequence[str], *, is_live: bool) -> Heard:
        name = DATABASES[database]
        memory = self._memory.setdefault((database, protocol, *steps), {})
        connection = login(self.server, name) if is_live else None
        far = Far(name.encode(), memory, (lambda: connection._sock) if connection is not None else None)
        made = MysqlWire(capabilities=self.capabilities)
        session = LinkSession.over(talk(policy, "mysql", self.schema, made, far), protocol)
        try:
            return Heard([session.ask(step) for step in steps], session.is_marked)
        except TimeoutError as error:
            raise AssertionError(f"the server does not answer {steps}") from error
        finally:
            far.close()


@contextmanager
def mariadb(server: MariaDbServer) -> Iterator[MariaDb]:
    schema = set_up(server)
    connection = login(server, "leaks_a")
    capabilities = int(connection.client_flag)
    connection.close()
    yield MariaDb(server, schema, capabilities)
