"""PostgreSQL databases that differ in masked values only, and clients of them behind a link that masks."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import sql
from tests.bypass.masking.compare import Answer, Heard, Message
from tests.bypass.masking.strategies import Policing
from tests.bypass.masking.talk import SPOKEN_NAME, TIMEOUT, Far, Forgotten, History, Talk, talk
from tests.support import wire
from tests.support.postgres import PostgresServer
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.policy import Policy
from postern.domain.targets.target_schema import TargetSchema
from postern.protocols.postgres.queries.postgres_schema import QUESTIONS, target_schema
from postern.protocols.postgres.wire.postgres_wire import PostgresWire

DATABASES = {"a": "leaks_a", "b": "leaks_b", "c": "leaks_c"}

# Type of each masked column, and its values in three rows: of database a, of b, which differs in what partial masking
# hides, and of c. NULL stands in the same places, and what strategies keep of a shape is the same: keys of documents,
# the number of elements, the family of an address.
VALUES: Mapping[str, tuple[str, tuple[str | None, ...], tuple[str | None, ...], tuple[str | None, ...]]] = {
    "name": (
        "text",
        ("Ada Lovelace", "Boris Karloff", "Cleo Laine"),
        ("Anne Frank", "Ben Kingsley-Smith", "Cy Young"),
        ("Zoë Kravitz-Blixen", "Yorick von Humboldt", "x"),
    ),
    "email": (
        "text",
        ("ada@example.com", "boris@example.org", "cleo@example.net"),
        ("anne.f@example.com", "ben.kingsley@example.org", "cy@example.net"),
        ("zoe@mail.example.test", "y@other.example", "x9.long.name@mail.example"),
    ),
    "phone": (
        "varchar(30)",
        ("+1 212 555 0100", None, "+44 20 7946 0018"),
        ("+1 646 555 0100", None, "+44 161 496 0018"),
        ("+49 30 901820", None, "+33 1 99 00 12 34"),
    ),
    "salary": ("int4", ("83412", "51200", "7350"), ("87999", "59001", "7001"), ("-12", "2000000", "44")),
    "level": ("int2", ("12", "31", "250"), ("19", "35", "299"), ("-3", "7", "30000")),
    "account": (
        "int8",
        ("4000123412341", "5100200300400", "77001"),
        ("4999000011112", "5987654321098", "71234"),
        ("-5", "123", "9007199254740993"),
    ),
    "ratio": (
        "numeric(12,4)",
        ("12.5", "310.25", "75.5"),
        ("19.125", "399.5", "70.75"),
        ("-0.001", "1000000.5", "3"),
    ),
    "weight": ("float8", ("61.5", "82.25", "70.125"), ("65.75", "89.5", "79"), ("-1.5", "1e10", "0.001")),
    "light": ("float4", ("61.5", "82.25", "70.125"), ("65.75", "89.5", "79"), ("-2.5", "1e9", "0.01")),
    "cash": ("money", ("1200.50", "310.00", "75.25"), ("1999.99", "350.10", "71.00"), ("-3.00", "20000.00", "0.01")),
    "birthday": (
        "date",
        ("1983-04-12", "1990-12-31", "1975-01-02"),
        ("1983-11-30", "1990-02-28", "1975-08-19"),
        ("2001-05-06", "1899-12-30", "1960-07-07"),
    ),
    "seen": (
        "timestamp",
        ("2021-03-04 05:06:07", "2020-12-31 23:59:59", "2019-01-01 00:00:01"),
        ("2021-08-09 10:11:12", "2020-02-29 12:00:00", "2019-06-06 06:06:06"),
        ("1999-09-09 09:09:09.5", "2030-01-02 03:04:05", "1970-01-02 00:00:00"),
    ),
    "met": (
        "timestamptz",
        ("2021-03-04 05:06:07+00", "2020-11-30 23:59:59+00", "2019-02-01 00:00:01+00"),
        ("2021-08-09 10:11:12+00", "2020-02-29 12:00:00+00", "2019-06-06 06:06:06+00"),
        ("1999-09-09 09:09:09.5+00", "2030-01-02 03:04:05+00", "1970-01-02 00:00:00+00"),
    ),
    "alarm": (
        "time",
        ("05:30:00", "06:45:10", "23:00:01"),
        ("05:59:59", "06:00:01", "23:30:00"),
        ("12:34:56", "00:00:01", "18:18:18"),
    ),
    "shift": (
        "timetz",
        ("05:30:00+00", "06:45:10+00", "23:00:01+00"),
        ("05:59:59+00", "06:00:01+00", "23:30:00+00"),
        ("12:34:56+02", "00:00:01-05", "18:18:18+00"),
    ),
    "span": (
        "interval",
        ("3 days", "02:00:00", "1 year 2 mons"),
        ("4 days", "03:30:00", "2 years 1 mon"),
        ("-1 days", "100 years", "00:00:00.5"),
    ),
    "token": (
        "uuid",
        (
            "a1a1a1a1-0000-4000-8000-00000000beef",
            "b1b1b1b1-0000-4000-8000-00000000cafe",
            "c1c1c1c1-0000-4000-8000-00000000f00d",
        ),
        (
            "a2a2a2a2-1111-4111-9111-11111111beef",
            "b2b2b2b2-1111-4111-9111-11111111cafe",
            "c2c2c2c2-1111-4111-9111-11111111f00d",
        ),
        (
            "00000000-0000-0000-0000-000000000001",
            "ffffffff-ffff-4fff-8fff-ffffffffffff",
            "12345678-1234-4234-8234-123456789012",
        ),
    ),
    "addr": (
        "inet",
        ("10.1.2.3", "192.168.7.8", "2001:db8::1"),
        ("10.1.99.98", "192.168.1.2", "2001:db8::ff"),
        ("172.16.0.9", "8.8.8.8", "fe80::7"),
    ),
    "net": (
        "cidr",
        ("10.1.2.0/24", "192.168.7.0/24", "10.2.3.0/24"),
        ("10.1.9.0/24", "192.168.1.0/24", "10.2.9.0/24"),
        ("172.16.5.0/24", "8.8.8.0/24", "1.2.3.0/24"),
    ),
    "mac": (
        "macaddr",
        ("08:00:2b:01:02:03", "08:00:2b:0a:0b:0c", "00:16:3e:11:22:33"),
        ("08:00:2b:99:98:97", "08:00:2b:01:02:03", "00:16:3e:aa:bb:cc"),
        ("fe:dc:ba:98:76:54", "02:00:00:00:00:01", "12:34:56:78:9a:bc"),
    ),
    "mac8": (
        "macaddr8",
        ("08:00:2b:01:02:03:04:05", "08:00:2b:0a:0b:0c:0d:0e", "00:16:3e:11:22:33:44:55"),
        ("08:00:2b:99:98:97:96:95", "08:00:2b:01:02:03:04:06", "00:16:3e:aa:bb:cc:dd:ee"),
        ("fe:dc:ba:98:76:54:32:10", "02:00:00:00:00:01:00:02", "12:34:56:78:9a:bc:de:f0"),
    ),
    "raw": (
        "bytea",
        (r"\xdeadbeef", r"\x00", r"\xcafe"),
        (r"\xbeefdead01", r"\x0102", r"\xf00d"),
        (r"\x61646161646161646161646161", r"\x7a", r"\xff00ff"),
    ),
    "active": ("bool", ("t", "f", "t"), ("f", "t", "f"), ("f", "t", "f")),
    "flags": (
        "bit(8)",
        ("10100101", "11110000", "00000001"),
        ("01011010", "00001111", "10000000"),
        ("11111111", "10101010", "01010101"),
    ),
    "vbits": ("varbit(16)", ("10100101", "1111", "01"), ("01011010", "0101", "10"), ("11111111", "1010", "11")),
    "doc": (
        "jsonb",
        (
            '{"k": "Ada", "n": 5, "deep": {"x": [10, 20]}}',
            '{"k": "Boris", "n": 6, "deep": {"x": [30]}}',
            '{"k": "Cleo", "n": 7, "deep": {"x": []}}',
        ),
        (
            '{"k": "Anne", "n": 8, "deep": {"x": [11, 21]}}',
            '{"k": "Ben", "n": 9, "deep": {"x": [31]}}',
            '{"k": "Cyrus", "n": 1, "deep": {"x": []}}',
        ),
        (
            '{"k": "Zoe von Z", "n": -5, "deep": {"x": [100, 2]}}',
            '{"k": "y", "n": 10.5, "deep": {"x": [-3]}}',
            '{"k": "xx", "n": 70000, "deep": {"x": []}}',
        ),
    ),
    "jdoc": (
        "json",
        ('{"j": "Ada!"}', '{"j": "Boris!"}', '{"j": "Cleo!"}'),
        ('{"j": "Anne!"}', '{"j": "Ben!"}', '{"j": "Cyrus!"}'),
        ('{"j": "Zoe von Z!"}', '{"j": "yy"}', '{"j": "xxx"}'),
    ),
    "tags": (
        "text[]",
        ("{alpha,beta}", "{gamma}", "{}"),
        ("{amber,blue}", "{green}", "{}"),
        ("{zz,yyyyyyyyy}", "{x1}", "{}"),
    ),
    "nums": (
        "int4[]",
        ("{11,22,33}", "{44}", "{55,66}"),
        ("{15,25,35}", "{45}", "{51,61}"),
        ("{-1,2000001,0}", "{8}", "{1,-99999}"),
    ),
    "during": (
        "int4range",
        ("[10,20)", "[5,9)", "[1,100)"),
        ("[11,25)", "[6,7)", "[2,3)"),
        ("[-100,2000)", "[0,1)", "[7,8)"),
    ),
    "days": (
        "daterange",
        ("[2020-01-01,2020-02-01)", "[2021-01-01,2021-02-01)", "[2022-01-01,2022-02-01)"),
        ("[2020-03-01,2020-04-01)", "[2021-05-01,2021-06-01)", "[2022-07-01,2022-08-01)"),
        ("[1999-01-01,2000-01-01)", "[2010-01-01,2010-01-02)", "[2030-01-01,2040-01-01)"),
    ),
    "mood": ("mood", ("sad", "glad", "odd"), ("glad", "odd", "sad"), ("odd", "sad", "glad")),
    "home": (
        "place",
        ('("1 High Street",Leeds,111)', '("2 Low Road",York,222)', '("3 Mid Way",Bath,333)'),
        ('("10 Hill Street",London,155)', '("22 Lane",Yarm,299)', '("3 Ma",Bow,388)'),
        ('("x road",Zwickau,-11)', '("Somewhere far away",A,2000002)', '("9",Qq,71)'),
    ),
    "words": (
        "tsvector",
        ("'lovelac':1 'ada':2", "'karloff':3", "'lain':1"),
        ("'frank':1 'ann':2", "'kingsley':3", "'young':1"),
        ("'zoe':7", "'humboldt':1 'yorick':2", "'x':4"),
    ),
    "spot": (
        "point",
        ("(1.5,2.5)", "(3,4)", "(5,6)"),
        ("(1.75,2.25)", "(3.5,4.5)", "(5.5,6.5)"),
        ("(-100,20000)", "(0,0.001)", "(7,7)"),
    ),
    "nick": (
        "varchar(20)",
        ("ada1", "boris22", "cleo333"),
        ("anne1", "benni22", "cyrus333"),
        ("z", "yorick-the-third", "xx"),
    ),
    "code": ("char(6)", ("AB-12", "CD-34", "EF-56"), ("AX-99", "CY-88", "EZ-77"), ("ZZ", "Y", "XXXXXX")),
    "page": (
        "xml",
        ("<p>Ada</p>", "<p>Boris</p>", "<p>Cleo</p>"),
        ("<p>Anne</p>", "<p>Ben</p>", "<p>Cyrus</p>"),
        ("<p>Zoe the second</p>", "<p>y</p>", "<p>xxx</p>"),
    ),
    "pin": (
        "secret_text",
        ("alpha-7301", "bravo-7302", "carol-7303"),
        ("aspen-x7301", "brave-y-7302", "cedar-zz-7303"),
        ("zulu", "yankee-doodle-1", "x-ray"),
    ),
}
MASKED = tuple(VALUES)

DEFINITIONS = """
create type mood as enum ('glad', 'sad', 'odd');
create type place as (street text, city text, no int);
create domain secret_text as text;
create table people (id int primary key, grp int, note text, {columns});
create table orders (id int primary key, person int references people, total int, label text);
create table notes (id int primary key, body text);
create table chart as select g as id, chr(96 + g) as letter from generate_series(1, 26) g;
create view v_people as select id, note, name as who, email, salary from people;
create view v_shout as select id, upper(name) as shout, salary * 2 as doubled from people;
create view v_orders as select o.id, o.label, p.name, p.salary from orders o join people p on p.id = o.person;
create function peek(int) returns text language sql stable as 'select email from people where id = $1';
create function bump(int) returns int language sql immutable as 'select $1 + 1';
create function tell(text) returns text language plpgsql immutable as $$ begin raise notice '%', $1; return $1; end $$;
create sequence counter;
"""
ROWS = """
insert into orders values (1, 1, 10, 'new'), (2, 1, 20, 'paid'), (3, 2, 30, 'new');
insert into notes values (1, 'a note'), (2, 'another note');
"""
_TAGS = {"D": "row", "d": "copied", "A": "notification"}


def set_up(server: PostgresServer) -> TargetSchema:
    """Create the three databases with equal object numbers, and read the catalogue as the gateway does."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in VALUES.items())
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for name in DATABASES.values():
            admin.execute(f"drop database if exists {name} with (force)".encode())
        admin.execute(b"create database leaks_a")
        with psycopg.connect(server.dsn("leaks_a"), autocommit=True) as inside:
            inside.execute(DEFINITIONS.format(columns=columns).encode())
        for name in ("leaks_b", "leaks_c"):
            admin.execute(f"create database {name} template leaks_a".encode())
    for place, name in enumerate(DATABASES.values(), 1):
        with psycopg.connect(server.dsn(name), autocommit=True) as inside:
            _fill(inside, place)
    with psycopg.connect(server.dsn("leaks_a"), cursor_factory=psycopg.RawCursor) as inside:
        return _schema(inside)


def _fill(connection: psycopg.Connection, place: int) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, ("id", "grp", "note", *MASKED)))
    for row in range(3):
        values = [str(row + 1), str(row % 2), ("first", "second", "third")[row]]
        cells = [*values, *(of[place][row] for of in VALUES.values())]
        literals = sql.SQL(", ").join(map(sql.Literal, cells))
        connection.execute(sql.SQL("insert into people ({}) values ({})").format(names, literals))
    connection.execute(ROWS.encode())
    connection.execute(b"analyze")


def _schema(connection: psycopg.Connection) -> TargetSchema:
    answers = []
    for question in QUESTIONS:
        result = connection.execute(question.encode()).pgresult
        assert result is not None
        cells = [[result.get_value(row, at) for at in range(result.nfields)] for row in range(result.ntuples)]
        answers.append([tuple(None if cell is None else cell.decode() for cell in row) for row in cells])
    return target_schema(answers)


_TEMPORARY = re.compile(rb"pg_temp_[0-9]+")


def messages_of(data: bytes, last_oid: int) -> Answer:
    """Split received data into messages, without the parts that differ per session: process ids and numbers of new
    objects."""
    found: Answer = []
    while data:
        size = 1 + struct.unpack("!I", data[1:5])[0] if len(data) >= 5 else len(data) + 1
        if size > len(data):
            return [*found, Message("cut off", data)]
        tag, body, data = chr(data[0]), data[5:size], data[size:]
        if tag == "D":
            found.append(Message("row", b"", _cells(body)))
        elif tag == "T":
            found.append(Message(tag, _described(body, last_oid)))
        else:
            body = body[4:] if tag == "A" else _TEMPORARY.sub(b"pg_temp", body)
            found.append(Message(_TAGS.get(tag, tag), body))
    return found


def _described(body: bytes, last_oid: int) -> bytes:
    """Return a RowDescription in which tables and types that the session created have number 0."""
    found, at = body[:2], 2
    while at < len(body):
        end = body.index(b"\0", at) + 1
        table, place, kind, *rest = struct.unpack_from("!IhIhih", body, end)
        numbers = (table if table <= last_oid else 0, place, kind if kind <= last_oid else 0)
        found += body[at:end] + struct.pack("!IhIhih", *numbers, *rest)
        at = end + 18
    return found


def _cells(body: bytes) -> tuple[bytes | None, ...]:
    cells: list[bytes | None] = []
    at = 2
    while at < len(body):
        size = struct.unpack_from("!i", body, at)[0]
        cells.append(None if size < 0 else body[at + 4 : at + 4 + size])
        at += 4 + max(size, 0)
    return tuple(cells)


def asked(step: str, protocol: str) -> bytes:
    """Return the messages that send a statement; the extended protocol requests binary results.

    A step `@name: text` is sent by Parse, Bind and Execute under this name, in either protocol.
    """
    if step.startswith("@"):
        name, _, text = step[1:].partition(":")
        bound = pg.parse(text.strip(), name) + pg.bind(name, name)
        return bound + pg.describe_portal(name) + pg.execute(name) + pg.sync()
    if protocol == "simple":
        return pg.query(step)
    return pg.parse(step) + pg.bind(results=[1]) + pg.describe_portal() + pg.execute() + pg.sync()


@dataclass
class LinkSession:
    talk: Talk
    protocol: str
    last_oid: int

    def ask(self, step: str) -> Answer:
        return messages_of(self.talk.send(asked(step, self.protocol)), self.last_oid)

    @property
    def is_marked(self) -> bool:
        return self.talk.view.metrics.not_inspected > 0


def connected(port: int, database: str) -> tuple[socket.socket, dict[str, str]]:
    """Log in without a gateway, as its workers do; also return the settings that the server reported."""
    stream = wire.connect(port, TIMEOUT)
    stream.sendall(wire.startup(user="postgres", database=database, client_encoding="UTF8"))
    settings = {}
    while True:
        tag, body = wire.read_message(stream)
        assert tag != b"E", body
        if tag == b"S":
            name, value, _ = body.decode().split("\0")
            settings[name] = value
        if tag == b"Z":
            return stream, settings


@dataclass
class Postgres:
    """See `compare.Server`."""

    server: PostgresServer
    schema: TargetSchema
    settings: dict[str, str]
    last_oid: int
    name: str = "postgres"
    protocols: tuple[str, ...] = ("simple", "extended")
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
        body = next((message.body for message in answer if message.tag == "T"), b"\0\0")
        found, at = [], 2
        while at < len(body):
            end = body.index(b"\0", at) + 1
            found.append(body[end : end + 4] != bytes(4))
            at = end + 18
        return found

    def _run(self, policy: Policy, database: str, protocol: str, steps: Sequence[str], *, is_live: bool) -> Heard:
        name = DATABASES[database]
        memory = self._memory.setdefault((database, protocol, *steps), {})
        connect = (lambda: connected(self.server.port, name)[0]) if is_live else None
        far = Far(name.encode(), memory, connect)
        made = PostgresWire(client_encoding="UTF8", parameters=self.settings)
        session = LinkSession(talk(policy, self.name, self.schema, made, far), protocol, self.last_oid)
        try:
            return Heard([session.ask(step) for step in steps], session.is_marked)
        except TimeoutError as error:
            raise AssertionError(f"the server does not answer {steps}") from error
        finally:
            far.close()


@contextmanager
def postgres(server: PostgresServer) -> Iterator[Postgres]:
    schema = set_up(server)
    stream, settings = connected(server.port, SPOKEN_NAME.decode())
    stream.close()
    yield Postgres(server, schema, settings, last_oid(server))


def last_oid(server: PostgresServer) -> int:
    """Return the highest number of an existing object."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        row = admin.execute("select lo_unlink(oid), oid::int8 from lo_create(0) oid").fetchone()
    assert row is not None
    return int(row[1])
