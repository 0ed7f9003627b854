"""Every protocol fulfils every contract: the table of protocols and contracts.

Commands and SSH channels share `terminal`; file transfers through such channels have their own wire.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocols.http.test_http_wire import GARBAGE as HTTP_GARBAGE
from tests.support.oracledb_links import OracleOrderCheck, oracle_content
from tests.support.protocols import cloudwatch_test_messages as cw
from tests.support.protocols import dynamodb_test_messages as dd
from tests.support.protocols import http_test_frames as ht
from tests.support.protocols import mongodb_test_messages as mg
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols import oracledb_test_messages as om
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import OrderCheck
from tests.support.protocols.query_contracts import (
    MOST,
    Lens,
    asked,
    check_catalogue,
    check_lens,
    check_query,
    check_script,
)
from tests.support.protocols.wire_contracts import Conversation, check_masking, check_opaque_wire, check_wire

from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import ProtocolViolation
from postern.protocols.cloudwatch.queries.cloudwatch_catalogue import CATALOGUE as CLOUDWATCH_CATALOGUE
from postern.protocols.cloudwatch.queries.cloudwatch_catalogue import catalogue_query as cloudwatch_query
from postern.protocols.cloudwatch.queries.cloudwatch_script import CloudwatchScript as CloudwatchScript
from postern.protocols.cloudwatch.recorded.cloudwatch_text_renderer import CloudwatchTextRenderer
from postern.protocols.dynamodb.queries.dynamodb_catalogue import CATALOGUE as DYNAMODB_CATALOGUE
from postern.protocols.dynamodb.queries.dynamodb_catalogue import catalogue_query as dynamodb_query
from postern.protocols.dynamodb.queries.dynamodb_script import DynamodbScript as DynamodbScript
from postern.protocols.dynamodb.recorded.dynamodb_answers import DynamodbTextRenderer
from postern.protocols.framing import encode_length
from postern.protocols.gateway_queries import Catalogue, Query, Row, Script
from postern.protocols.http.recorded.http_text_renderer import HttpTextRenderer
from postern.protocols.http.wire.http_wire import HttpWire
from postern.protocols.httpproxy.httpproxy_dialect import HttpproxyDialect
from postern.protocols.httpproxy.httpproxy_script import HttpproxyScript as HttpproxyScript
from postern.protocols.mongodb.queries.mongodb_catalogue import CATALOGUE as MONGODB_CATALOGUE
from postern.protocols.mongodb.queries.mongodb_query import MAX_REPLY as MAX_MONGODB_REPLY
from postern.protocols.mongodb.queries.mongodb_query import MongodbQuery as MongodbQuery
from postern.protocols.mongodb.queries.mongodb_script import MongodbScript as MongodbScript
from postern.protocols.mongodb.recorded.mongodb_text_renderer import MongodbTextRenderer
from postern.protocols.mongodb.wire import mongodb_messages as mongo
from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire as MongodbWire
from postern.protocols.mssql.queries.mssql_catalogue import CATALOGUE as MSSQL_CATALOGUE
from postern.protocols.mssql.queries.mssql_query import MssqlQuery
from postern.protocols.mssql.queries.mssql_script import MssqlScript
from postern.protocols.mssql.recorded.mssql_text_renderer import MssqlTextRenderer
from postern.protocols.mssql.wire import mssql_requests as mr
from postern.protocols.mssql.wire.mssql_wire import MssqlWire
from postern.protocols.mysql.queries.mysql_catalogue import CATALOGUE as MYSQL_CATALOGUE
from postern.protocols.mysql.queries.mysql_query import MysqlQuery as MysqlQuery
from postern.protocols.mysql.queries.mysql_script import MysqlScript as MysqlScript
from postern.protocols.mysql.recorded.mysql_text_renderer import MysqlTextRenderer
from postern.protocols.mysql.wire import mysql_messages as mm
from postern.protocols.mysql.wire.mysql_wire import MysqlWire
from postern.protocols.oracledb.queries.oracle_catalogue import CATALOGUE as ORACLE_CATALOGUE
from postern.protocols.oracledb.queries.oracle_query import OracleQuery
from postern.protocols.oracledb.queries.oracle_script import OracleScript
from postern.protocols.oracledb.recorded.oracle_text_renderer import OracleTextRenderer
from postern.protocols.oracledb.wire.oracle_notes import AnswerNote
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.postgres.queries.postgres_catalogue import CATALOGUE as POSTGRES_CATALOGUE
from postern.protocols.postgres.queries.postgres_query import PostgresQuery as PostgresQuery
from postern.protocols.postgres.queries.postgres_script import PostgresScript as PostgresScript
from postern.protocols.postgres.recorded.postgres_text_renderer import PostgresTextRenderer
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.registry import PROTOCOLS
from postern.protocols.tcp.readable_bytes import ReadableBytes
from postern.protocols.tcp.tcp_wire import TcpWire
from postern.protocols.terminal import terminal_frames as tm
from postern.protocols.terminal.files import sftp_messages as sm
from postern.protocols.terminal.files.copying import CopyingWire
from postern.protocols.terminal.files.sftp import SftpWire
from postern.protocols.terminal.script import TerminalScript as CommandScript
from postern.protocols.terminal.terminal_text import TerminalTextRenderer
from postern.protocols.terminal.terminal_wire import PipedWire, ScriptWire, TypedWire
from postern.protocols.wire_base import Side, Wire

SECRET = b"secret-4711"
SCRIPT = "select 'grüße'; select 2"


@dataclass(frozen=True)
class Talk:
    """The arguments of `check_wire`."""

    wire: Callable[[], Wire]
    conversation: Conversation
    garbage: Conversation
    carries: bool = False
    read: Callable[[bytes], bytes] = field(default=bytes)
    order: Callable[[], OrderCheck] | None = None


@dataclass(frozen=True)
class Masked:
    """The arguments of `check_masking`."""

    wire: Callable[[], Wire]
    conversation: Conversation
    read: Callable[[bytes], bytes] = field(default=bytes)
    order: Callable[[], OrderCheck] = OrderCheck


@dataclass(frozen=True)
class Answered:
    """The arguments of `check_query`."""

    query: Callable[[], Query]
    answer: bytes
    error: bytes
    garbage: Sequence[bytes]
    rows: Sequence[Row] | None = None  # None: CELLS
    most: int = MOST


@dataclass(frozen=True)
class Run:
    """The arguments of `check_script`."""

    script: Callable[[str], Script]
    wire: Callable[[], Wire]
    answer: bytes
    failing: bytes
    text: str = SCRIPT
    asked: bytes = b""


@dataclass(frozen=True)
class Shown:
    """The arguments of `check_lens`."""

    lens: Callable[[], Lens]
    shown: bytes
    text: Sequence[tuple[str, bytes]]


def printed(data: bytes) -> bytes:
    """Return the output and exit status of a command, whatever its frames."""
    frames = tm.TerminalFrameReader().feed(data)
    kinds = (tm.STDOUT, tm.STDERR, tm.EXIT)
    return b"\n\n".join([b"".join([payload for kind, payload in frames if kind == one]) for one in kinds])


def whole() -> ScriptWire:
    return ScriptWire()


def piped() -> PipedWire:
    return PipedWire(arguments=("cat",))


def typed() -> TypedWire:
    return TypedWire(arguments=("bash",))


def web() -> HttpWire:
    return HttpWire(HttpproxyDialect(), "app.test:80")


HTTP_SCRIPT = "GET /users?a=1\nX-A: b"
HTTP_JSON = {"content-type": "application/json"}
HTTP_TEXT = {"content-type": "text/plain"}


def http_shown(data: bytes) -> bytes:
    """Return status, body and end of the last response."""
    shown = ht.Shown(data)
    return b"%d %b %d" % (shown.status, shown.body, shown.ends)


CELLS: list[Row] = [("grüße", None), ("", "x" * 300)]
FIELDS = [mm.MysqlField("a", mm.VAR_STRING), mm.MysqlField("b", mm.VAR_STRING)]
MORE = mm.AUTOCOMMIT | mm.MORE_RESULTS
MY_ROWS = my.rows(*CELLS, names=("a", "b"))
PG_ROWS = pg.row_description("a", "b") + b"".join(pg.data_row(*row) for row in CELLS) + pg.command_complete("SELECT 2")
PG_BOUND = pg.parse_complete() + pg.bind_complete()

NO_FRAME: Conversation = [
    (Side.CLIENT, tm.frame(99)),
    (Side.CLIENT, b"\x02\xff\xff\xff\xff"),
    (Side.TARGET, tm.frame(99)),
    (Side.TARGET, b"\x11\x7f\xff\xff\xff"),
]
PG_GARBAGE: Conversation = [
    (Side.CLIENT, b"~\0\0\0\x04"),
    (Side.CLIENT, b"Q\0\0\0\0"),
    (Side.TARGET, b"~\0\0\0\x04"),
    (Side.TARGET, pg.ready()),
]
MY_GARBAGE: Conversation = [
    (Side.CLIENT, b"\x01\x00\x00\x07\x0e"),
    (Side.CLIENT, mm.packet(0, b"")),
    (Side.TARGET, my.ok()),
    (Side.TARGET, mm.packet(1, b"\x05hello")),
]

MG_FIND = mg.command("find", "customers")
MG_ERROR = mg.error("there is no t", code=26, name="NamespaceNotFound")
MG_ROWS = mg.batch({"a": "grüße", "b": None}, {"a": "", "b": "x" * 300})
DD_SCRIPT = 'Scan {"TableName": "t"}'
MG_SCRIPT = '{"find": "t", "filter": {"a": "grüße"}, "$db": "shop"}'
MG_GARBAGE: Conversation = [
    (Side.CLIENT, mg.raw_message(b"x" * 30, kind=mongo.OP_QUERY)),
    (Side.CLIENT, mg.raw_message(b"x" * 30, kind=mongo.OP_COMPRESSED)),
    (Side.CLIENT, b"\0" * 16),
    (Side.CLIENT, b"\xff" * 16),
    (Side.CLIENT, mg.request({"find": "c", "$db": "x"}, flags=4)),
    (Side.CLIENT, mg.request({"find": "c", "$db": "x"}, flags=1 << 15)),
    (Side.CLIENT, mg.raw_message(bytes(4) + b"\2" + bson.encode({"find": "c"}))),
    (Side.CLIENT, mg.raw_message(bytes(4) + b"\0" + bson.encode({"a": 1}) + b"\0" + bson.encode({"a": 1}))),
    (Side.CLIENT, mg.raw_message(bytes(4) + mg.sequence("documents", {"a": 1}))),
    (Side.TARGET, mg.ok(1)),
]

MS_COLUMNS = ms.columns(ms.column("a", ms.text_type(400)), ms.column("b", ms.text_type(400)))
MS_ROWS = MS_COLUMNS + ms.null_row([1], 2, ms.text_cell("grüße")) + ms.row(ms.text_cell(""), ms.text_cell("x" * 300))
MS_SECRETS = (
    ms.row(ms.text_cell("x"), ms.text_cell(f"to {SECRET.decode()}"))
    + ms.null_row([0], 2, ms.text_cell(SECRET.decode()))
    + ms.row(ms.text_cell(""), ms.text_cell(""))
)

OR_COLUMNS = (om.Described("A"), om.Described("B"))
OR_ROWS = (om.row(om.clr("grüße".encode()), om.clr(None)), om.row(om.clr(None), om.clr(b"x" * 300)))
OR_OPTIONS = 0x8061 | 0x40000  # all values of each row
OR_SECRETS = (om.row(om.clr(b"x"), om.clr(b"to " + SECRET)), om.row(om.clr(None), om.clr(SECRET)))


def oracle_wire() -> OracleWire:
    return OracleWire(layout=TtcLayout())


WIRES: Mapping[str, Talk] = {
    "oracledb": Talk(
        oracle_wire,
        [
            (Side.CLIENT, om.data(om.execute("select a, b from t", options=OR_OPTIONS))),
            (Side.TARGET, om.data(om.result(OR_COLUMNS, *OR_ROWS), size=64)),
            (Side.CLIENT, om.data(om.execute("insert into t values (:1)", b"x", options=OR_OPTIONS), size=64)),
            (Side.TARGET, om.data(om.PARAMETERS + om.done(rows=1, status=2))),
            (Side.CLIENT, om.data(om.COMMIT)),
            (Side.TARGET, om.data(om.status())),
        ],
        [
            (Side.CLIENT, b"\0\0\0\1\6\0\0\0"),
            (Side.CLIENT, om.data(b"\1\1\1\1\1")),
            (Side.CLIENT, om.data(om.PING + b"\0")),
            (Side.TARGET, om.data(om.status())),
        ],
        read=oracle_content,
        order=OracleOrderCheck,
    ),
    "postgres": Talk(
        PostgresWire,
        [
            (Side.CLIENT, pg.query("select a, b from t")),
            (Side.TARGET, PG_ROWS + pg.ready()),
            (Side.CLIENT, pg.parse("select 1") + pg.bind() + pg.describe_portal() + pg.execute() + pg.sync()),
            (Side.TARGET, PG_BOUND + PG_ROWS + pg.ready()),
        ],
        PG_GARBAGE,
    ),
    "mysql": Talk(
        MysqlWire,
        [
            (Side.CLIENT, my.query("select a, b from t")),
            (Side.TARGET, MY_ROWS),
            (Side.CLIENT, my.prepare("select ?")),
            (Side.TARGET, my.AnswerPackets().prepared(1, 1, [mm.MysqlField("a", mm.LONGLONG)]).bytes),
            (Side.CLIENT, my.execute(1, [(mm.LONGLONG, "5")])),
            (
                Side.TARGET,
                my.AnswerPackets().columns(mm.MysqlField("a", mm.LONGLONG)).binary_row((mm.LONGLONG, "5")).eof().bytes,
            ),
        ],
        MY_GARBAGE,
    ),
    "mssql": Talk(
        MssqlWire,
        [
            (Side.CLIENT, ms.batch("select a, b from t", size=512)),
            (Side.TARGET, ms.reply(MS_ROWS, ms.done(2), size=512)),
            (Side.CLIENT, ms.rpc(ms.call(mr.PREPARE, ms.integer(None, status=1), ms.nvarchar(""), ms.nvarchar("x")))),
            (Side.TARGET, ms.reply(ms.handle(1), ms.status(0), ms.done(code=0xFE))),
            (Side.CLIENT, ms.rpc(ms.call(mr.EXECUTE, ms.integer(1)))),
            (Side.TARGET, ms.reply(MS_ROWS, ms.done(2, more=True, code=0xFF), ms.done(code=0xFE))),
        ],
        [
            (Side.CLIENT, b"\x53\x01\0\0\x10\0\0\0"),  # MARS
            (Side.CLIENT, ms.rpc(ms.call("p", b"\0\0\xff"))),  # a value of an unknown type
            (Side.TARGET, ms.reply(ms.done())),
        ],
    ),
    "mongodb": Talk(
        MongodbWire,
        [
            (Side.CLIENT, MG_FIND),
            (Side.TARGET, mg.batch({"a": "x", "b": {"c": [1, bson.Int64(2), None, True]}}, {"b": 2.5}, cursor=5)),
            (Side.CLIENT, mg.command("getMore", bson.Int64(5), 2, collection="customers")),
            (Side.TARGET, mg.batch({"b": bson.ObjectId(bytes(12))}, to=2, more=True)),
            (Side.CLIENT, mg.request({"insert": "c", "$db": "shop"}, 3, sections=mg.sequence("documents", {"a": 1}))),
            (Side.TARGET, mg.error("duplicate", 3, keyValue={"a": 1})),
        ],
        MG_GARBAGE,
    ),
    "dynamodb": Talk(
        dd.dynamodb_wire,
        [
            (Side.CLIENT, dd.request("GetItem", TableName="orders", Key={"id": {"S": "grüße"}})),
            (Side.TARGET, dd.response(b'{"Item": {"id": {"S": "gr\xc3\xbc\xc3\x9fe"}, "n": {"N": "1.0"}}}')),
            (Side.CLIENT, dd.request("Scan", 2, TableName="orders")),
            (Side.TARGET, dd.response({"Items": [], "LastEvaluatedKey": {"id": {"S": "1"}}}, 2)),
            (Side.CLIENT, dd.request("PutItem", 3, TableName="nothing")),
            (Side.TARGET, dd.error("ResourceNotFoundException", "there is no t", 3)),
        ],
        [(Side.CLIENT, b"\xff" * 9), (Side.TARGET, b"\xff" * 9)],
    ),
    "cloudwatch": Talk(
        cw.cloudwatch_wire,
        [
            (Side.CLIENT, cw.request("GetLogEvents", logGroupName="g", logStreamName="grüße")),
            (Side.TARGET, cw.response({"events": [{"timestamp": 1, "message": "grüße"}]})),
            (Side.CLIENT, cw.request("FilterLogEvents", 2, logGroupName="g", filterPattern="x")),
            (Side.TARGET, cw.response({"events": [], "nextToken": "t"}, 2)),
            (Side.CLIENT, cw.request("DescribeLogStreams", 3, logGroupName="nothing")),
            (Side.TARGET, cw.error("ResourceNotFoundException", "there is no t", 3)),
        ],
        [(Side.CLIENT, b"\xff" * 9), (Side.TARGET, b"\xff" * 9)],
    ),
    "httpproxy": Talk(
        web,
        [
            (Side.CLIENT, ht.request("/a", headers={"accept-encoding": "identity"})),
            (Side.TARGET, ht.response(b"fine\n", headers=HTTP_TEXT, sized=False, piece=100)),
        ],
        HTTP_GARBAGE,
    ),
    "terminal, a script": Talk(
        whole,
        [
            (Side.CLIENT, tm.START_FRAME + tm.frames(tm.STDIN, b"echo 1\n") + tm.STDIN_END_FRAME),
            (Side.TARGET, tm.frame(tm.STDOUT, b"1\n") + tm.frame(tm.STDERR, b"a warning\n") + tm.exit_frame(0)),
        ],
        NO_FRAME,
    ),
    "terminal, through pipes": Talk(
        piped,
        [
            (Side.CLIENT, tm.START_FRAME),
            (Side.CLIENT, tm.frame(tm.STDIN, b"one\n") + tm.STDIN_END_FRAME),
            (Side.TARGET, tm.frame(tm.STDOUT, b"one\n") + tm.exit_frame(0)),
        ],
        NO_FRAME,
    ),
    "terminal, with files by sftp": Talk(
        SftpWire,
        [
            (Side.CLIENT, tm.START_FRAME + tm.frames(tm.STDIN, sm.packet(sm.INIT, encode_length(3)))),
            (Side.TARGET, tm.frames(tm.STDOUT, sm.packet(sm.VERSION, encode_length(3)))),
            (Side.CLIENT, tm.frames(tm.STDIN, sm.packet(sm.REMOVE, encode_length(1), sm.text(b"f")))),
            (
                Side.TARGET,
                tm.frames(
                    tm.STDOUT, sm.packet(sm.STATUS, encode_length(1), encode_length(0), sm.text(b""), sm.text(b""))
                ),
            ),
            (Side.TARGET, tm.exit_frame(0)),
        ],
        NO_FRAME,
        carries=True,
    ),
    "terminal, with files by scp": Talk(
        lambda: CopyingWire("scp -t /data"),
        [
            (Side.CLIENT, tm.START_FRAME + tm.frames(tm.STDIN, b"T1 0 1 0\n")),
            (Side.TARGET, tm.frames(tm.STDOUT, b"\0") + tm.exit_frame(0)),
        ],
        NO_FRAME,
        carries=True,
    ),
}


@pytest.mark.parametrize("talk", WIRES.values(), ids=WIRES.keys())
def test_wire_of_each_protocol_fulfils_the_wire_contract(talk: Talk) -> None:
    check_wire(
        talk.wire, talk.conversation, garbage=talk.garbage, carries=talk.carries, read=talk.read, order=talk.order
    )


# Wires that read nothing: no rule about content can be enforced, so that the contracts of rules are not for them.
OPAQUE_WIRES: Mapping[str, tuple[Callable[[], Wire], Conversation]] = {
    "tcp": (
        lambda: TcpWire(recorded_input=1 << 20),
        [
            (Side.TARGET, b"220 ready\r\n"),
            (Side.CLIENT, b"HELO \xff\x00"),
            (Side.CLIENT, "grüße\n".encode() * 50),
            (Side.TARGET, bytes(range(256)) * 3),
        ],
    ),
}


@pytest.mark.parametrize("name", OPAQUE_WIRES)
def test_wire_of_each_opaque_protocol_fulfils_the_opaque_contract(name: str) -> None:
    check_opaque_wire(*OPAQUE_WIRES[name])


def shows(*parts: bytes) -> bytes:
    return b"".join([tm.frame(tm.STDOUT, part) for part in parts])


MASKED: Mapping[str, Masked] = {
    "postgres, rows": Masked(
        PostgresWire,
        [
            (Side.CLIENT, pg.query("select a, b from t")),
            (Side.TARGET, pg.row_description("a", "b") + pg.data_row("x", b"to " + SECRET)),
            (Side.TARGET, pg.data_row(None, SECRET) + pg.data_row("", "") + pg.command_complete("SELECT 3")),
            (Side.TARGET, pg.ready()),
        ],
    ),
    "postgres, a copy": Masked(
        PostgresWire,
        [
            (Side.CLIENT, pg.query("copy t to stdout")),
            (Side.TARGET, pg.copy_out() + pg.copy_data(b"a\t" + SECRET + b"\n") + pg.copy_data(b"b\tc\n")),
            (Side.TARGET, pg.copy_done() + pg.command_complete("COPY 2") + pg.ready()),
        ],
    ),
    "postgres, an error": Masked(
        PostgresWire,
        [
            (Side.CLIENT, pg.query("insert")),
            (Side.TARGET, pg.error(f"Key (k)=({SECRET.decode()}) already exists", "23505") + pg.ready()),
        ],
    ),
    "mysql, rows": Masked(
        MysqlWire,
        [
            (Side.CLIENT, my.query("select a, b from t")),
            (Side.TARGET, my.rows(("x", b"to " + SECRET), (None, SECRET), ("", ""), names=("a", "b"))),
        ],
    ),
    "mysql, a prepared statement": Masked(
        MysqlWire,
        [
            (Side.CLIENT, my.prepare("select ?")),
            (Side.TARGET, my.AnswerPackets().prepared(1, 0, FIELDS[:1]).bytes),
            (Side.CLIENT, my.execute(1)),
            (Side.TARGET, my.AnswerPackets().columns(FIELDS[0]).binary_row((mm.VAR_STRING, SECRET)).eof().bytes),
        ],
    ),
    "mysql, an error": Masked(
        MysqlWire,
        [
            (Side.CLIENT, my.query("insert")),
            (Side.TARGET, my.error(f"Duplicate entry '{SECRET.decode()}' for key", 1062)),
        ],
    ),
    "oracledb, rows": Masked(
        oracle_wire,
        [
            (Side.CLIENT, om.data(om.execute("select a, b from t"))),
            (Side.TARGET, om.data(om.result(OR_COLUMNS, *OR_SECRETS), size=64)),
        ],
        oracle_content,
        OracleOrderCheck,
    ),
    "oracledb, an error": Masked(
        oracle_wire,
        [
            (Side.CLIENT, om.data(om.execute("insert into t values (1)"))),
            (Side.TARGET, om.data(om.failed(20_001, f"no {SECRET.decode()} here"))),
        ],
        oracle_content,
        OracleOrderCheck,
    ),
    "mssql, rows": Masked(
        MssqlWire,
        [
            (Side.CLIENT, ms.batch("select a, b from t")),
            (Side.TARGET, ms.reply(MS_COLUMNS, MS_SECRETS, ms.done(3), size=512)),
        ],
        ms.shown,
    ),
    "mssql, an error": Masked(
        MssqlWire,
        [
            (Side.CLIENT, ms.batch("insert")),
            (Side.TARGET, ms.reply(ms.error(2627, f"The value is ({SECRET.decode()})."), ms.done(error=True))),
        ],
        ms.shown,
    ),
    "mongodb, documents": Masked(
        MongodbWire,
        [
            (Side.CLIENT, MG_FIND),
            (Side.TARGET, mg.batch({"a": "x"}, {"b": {"c": [SECRET.decode(), 1]}})),
            (Side.CLIENT, mg.command("ping", 1, 2)),
            (Side.TARGET, mg.ok(2)),
        ],
    ),
    "mongodb, an error": Masked(
        MongodbWire,
        [(Side.CLIENT, MG_FIND), (Side.TARGET, mg.error(f"the value {SECRET.decode()} is taken"))],
    ),
    "dynamodb, items": Masked(
        dd.dynamodb_wire,
        [
            (Side.CLIENT, dd.request("Query", TableName="orders")),
            (Side.TARGET, dd.response({"Items": [{"a": {"S": "x"}}, {"b": {"M": {"c": {"SS": [SECRET.decode()]}}}}]})),
            (Side.CLIENT, dd.request("ListTables", 2)),
            (Side.TARGET, dd.response({"TableNames": []}, 2)),
        ],
        dd.bodies,
    ),
    "dynamodb, an error": Masked(
        dd.dynamodb_wire,
        [
            (Side.CLIENT, dd.request("PutItem", TableName="orders")),
            (Side.TARGET, dd.error("ValidationException", f"the value {SECRET.decode()} is taken")),
        ],
        dd.bodies,
    ),
    "cloudwatch, events": Masked(
        cw.cloudwatch_wire,
        [
            (Side.CLIENT, cw.request("FilterLogEvents", logGroupName="g")),
            (
                Side.TARGET,
                cw.response({"events": [{"message": "x"}, {"message": f'{{"a":{{"b":"{SECRET.decode()}"}}}}'}]}),
            ),
            (Side.CLIENT, cw.request("DescribeLogGroups", 2)),
            (Side.TARGET, cw.response({"logGroups": []}, 2)),
        ],
        cw.bodies,
    ),
    "cloudwatch, an error": Masked(
        cw.cloudwatch_wire,
        [
            (Side.CLIENT, cw.request("FilterLogEvents", logGroupName="g")),
            (Side.TARGET, cw.error("InvalidParameterException", f"the value {SECRET.decode()} is not valid")),
        ],
        cw.bodies,
    ),
    "httpproxy, a text": Masked(
        web,
        [
            (Side.CLIENT, ht.request("/")),
            (Side.TARGET, ht.response(b"to %b\nand\n" % SECRET, headers=HTTP_TEXT, sized=False, piece=100)),
            (Side.CLIENT, ht.request("/", number=2)),
            (Side.TARGET, ht.response(b"fine\n", headers=HTTP_TEXT, number=2, sized=False, piece=100)),
        ],
        http_shown,
    ),
    "terminal, a script": Masked(
        whole,
        [
            (Side.CLIENT, tm.START_FRAME + tm.frames(tm.STDIN, b"cat\n") + tm.STDIN_END_FRAME),
            (Side.TARGET, shows(b"to " + SECRET[:4], SECRET[4:] + b"\n", b"b") + tm.frame(tm.STDERR, SECRET + b"\n")),
            (Side.TARGET, tm.exit_frame(0)),
        ],
        printed,
    ),
    "terminal, through pipes": Masked(
        piped,
        [
            (Side.CLIENT, tm.START_FRAME),
            (Side.TARGET, shows(b"to " + SECRET[:4], SECRET[4:] + b" without a line end") + tm.exit_frame(0)),
        ],
        printed,
    ),
    "terminal, somebody sits there": Masked(
        typed,
        [
            (Side.CLIENT, tm.START_FRAME),
            (Side.TARGET, shows(b"to " + SECRET[:4], SECRET[4:] + b"\r\n", b"$ ")),
        ],
        printed,
    ),
}


@pytest.mark.parametrize("masked", MASKED.values(), ids=MASKED.keys())
def test_wire_of_each_protocol_fulfils_the_masking_contract(masked: Masked) -> None:
    check_masking(masked.wire, masked.conversation, secret=SECRET, read=masked.read, order=masked.order)


QUERIES: Mapping[str, Answered] = {
    "postgres": Answered(
        lambda: PostgresQuery("select a, b from t where c = $1", ["x"]),
        PG_BOUND + PG_ROWS + pg.ready(),
        pg.error("there is no t", "42P01") + pg.ready(),
        [
            b"D\xff\xff\xff\xff",
            b"D\0\0\0\x03",
            b"D\x40\0\0\0",
            pg.copy_out(),
            PG_BOUND + b"D\0\0\0\x0a\0\x02\0\0\0\0",
        ],
    ),
    "mysql": Answered(
        lambda: MysqlQuery("select a, b from t where c = ?", ["x"]),
        MY_ROWS,
        my.error("there is no t", 1146),
        [
            b"\xff\xff\xff\x01",
            mm.packet(1, b""),
            mm.packet(1, mm.lenenc(5000)),
            my.AnswerPackets().wants_file("/etc/passwd").bytes,
            MY_ROWS[:-9] + mm.packet(7, b"\x05ab"),
        ],
    ),
    "mssql": Answered(
        lambda: MssqlQuery("select a, b from t where c = ?", ["x"]),
        ms.reply(MS_ROWS, ms.done(2, more=True, code=0xFF), ms.status(0), ms.done(code=0xFE), size=512),
        ms.reply(ms.error(208, "there is no t"), ms.done(error=True, code=0xFE)),
        [
            b"\x12\x01\0\x08\0\0\0\0",
            b"\x04\x01\0\x07\0\0\0\0",
            ms.reply(MS_ROWS),
            ms.reply(MS_ROWS, b"\x33"),
        ],
    ),
    "oracledb": Answered(
        lambda: OracleQuery("select a, b from t where c = :1", ["x"]),
        om.data(om.result(OR_COLUMNS, *OR_ROWS), size=64),
        om.data(om.failed(942, "there is no t")),
        [
            om.marker(1),
            om.marker(2),
            b"\0\0\0\7\6\0\0\0",
            b"\x7f\xff\xff\xff\6\0\0\0",
            om.data(b"\xff"),
            om.data(om.row(om.clr(b"x"), om.clr(b"x"))),
            om.data(om.result(OR_COLUMNS) + b"\0"),
        ],
        rows=[("grüße", None), (None, "x" * 300)],
    ),
    "mongodb": Answered(
        lambda: MongodbQuery('{"find": "t", "filter": {"c": {"$parameter": 1}}, "$db": "shop"}', ["x"]),
        MG_ROWS,
        MG_ERROR,
        [
            b"\x05\0\0\0" + bytes(12),
            b"\xff\xff\xff\x7f" + bytes(12),
            (MAX_MONGODB_REPLY + 1).to_bytes(4, "little") + bytes(8) + b"\xdd\x07\0\0",
            MG_ROWS[:12] + b"\xd4\x07\0\0" + MG_ROWS[16:],
            MG_ROWS[:12] + b"\xdc\x07\0\0" + MG_ROWS[16:],
            mg.reply({"a": 1}),
            MG_ROWS[: mongo.HEAD + 5] + b"\xff\xff\xff\x7f" + MG_ROWS[mongo.HEAD + 9 :],
        ],
        rows=[('{"a": "grüße", "b": null}',), (f'{{"a": "", "b": "{"x" * 300}"}}',)],
        most=MAX_MONGODB_REPLY,
    ),
    "dynamodb": Answered(
        lambda: dynamodb_query("tables", []),
        dd.response({"TableNames": ["a", "größe"]}),
        dd.error("AccessDeniedException", "not allowed"),
        [b"\x11" + b"\xff" * 8, dd.response({})[:9] + b"x" * 1000],
        rows=[("a", "a"), ("größe", "größe")],
    ),
    "cloudwatch": Answered(
        lambda: cloudwatch_query("relations", []),
        cw.response({"logGroups": [{"logGroupName": "a"}, {"logGroupName": "größe"}]}),
        cw.error("AccessDeniedException", "not allowed"),
        [b"\x11" + b"\xff" * 8, cw.response({})[:9] + b"x" * 1000],
        rows=[("a",), ("größe",)],
    ),
}


@pytest.mark.parametrize("one", QUERIES.values(), ids=QUERIES.keys())
def test_query_of_each_protocol_fulfils_the_query_contract(one: Answered) -> None:
    rows = CELLS if one.rows is None else one.rows
    check_query(one.query, one.answer, rows, error=one.error, garbage=one.garbage, most=one.most)


@pytest.mark.parametrize("one", QUERIES.values(), ids=QUERIES.keys())
@given(data=st.data())
@settings(max_examples=200)
def test_damaged_query_answer_is_rows_an_error_or_a_violation(one: Answered, data: st.DataObject) -> None:
    """The answer is read by its own lengths, which can be damaged."""
    said = bytearray(one.answer)
    for _ in range(data.draw(st.integers(1, 3))):
        said[data.draw(st.integers(0, len(said) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolViolation):
        asked(one.query(), bytes(said), most=one.most)


CATALOGUES: Mapping[str, Catalogue] = {
    "postgres": POSTGRES_CATALOGUE,
    "mysql": MYSQL_CATALOGUE,
    "mssql": MSSQL_CATALOGUE,
    "oracledb": ORACLE_CATALOGUE,
    "mongodb": MONGODB_CATALOGUE,
    "dynamodb": DYNAMODB_CATALOGUE,
    "cloudwatch": CLOUDWATCH_CATALOGUE,
}
CATALOGUE_ROWS: Mapping[TargetTaskKind, Row] = {
    TargetTaskKind.TEST: ("1",),
    TargetTaskKind.DATABASES: ("shop",),
    TargetTaskKind.TABLES: ("public", "größen"),
    TargetTaskKind.COLUMNS: ("größe", "varchar(80)", "YES"),
    TargetTaskKind.SCHEMA: ("2", "public", "größen", "VIEW", None, None, "0"),
}


@pytest.mark.parametrize("catalogue", CATALOGUES.values(), ids=CATALOGUES.keys())
def test_catalogue_of_each_protocol_fulfils_the_catalogue_contract(catalogue: Catalogue) -> None:
    check_catalogue(catalogue, CATALOGUE_ROWS)


SCRIPTS: Mapping[str, Run] = {
    "postgres": Run(
        PostgresScript,
        PostgresWire,
        PG_ROWS + pg.command_complete("SELECT 1") + pg.ready(),
        PG_ROWS + pg.error("there is no t", "42P01") + pg.ready(),
    ),
    "mysql": Run(
        MysqlScript,
        MysqlWire,
        my.AnswerPackets().columns("a").row("grüße").eof(MORE).columns("b").row("2").eof().bytes,
        my.AnswerPackets().columns("a").row("grüße").eof(MORE).error("there is no t").bytes,
    ),
    "mssql": Run(
        MssqlScript,
        MssqlWire,
        ms.reply(MS_ROWS, ms.done(2, more=True), MS_ROWS, ms.done(2), size=512),
        ms.reply(MS_ROWS, ms.done(2, more=True), ms.error(208, "there is no t"), ms.done(error=True)),
        asked=ms.utf16(SCRIPT),
    ),
    "oracledb": Run(
        OracleScript,
        oracle_wire,
        om.data(om.result(OR_COLUMNS, *OR_ROWS), size=64),
        om.data(om.failed(942, "there is no t")),
        "select 'grüße' from dual",
    ),
    "mongodb": Run(
        MongodbScript,
        MongodbWire,
        MG_ROWS,
        MG_ERROR,
        MG_SCRIPT,
        MongodbScript(MG_SCRIPT).start()[mongo.HEAD :],
    ),
    "dynamodb": Run(
        DynamodbScript,
        dd.dynamodb_wire,
        dd.response({"Items": [{"a": {"S": "grüße"}}]}),
        dd.error("ResourceNotFoundException", "there is no t"),
        DD_SCRIPT,
        b'{"TableName":"t"}',
    ),
    "cloudwatch": Run(
        CloudwatchScript,
        cw.cloudwatch_wire,
        cw.response({"events": [{"message": "grüße"}]}),
        cw.error("ResourceNotFoundException", "there is no t"),
        'FilterLogEvents {"logGroupName": "t"}',
        b'{"logGroupName": "t"}',
    ),
    "httpproxy": Run(
        HttpproxyScript,
        web,
        ht.response(b"hello"),
        ht.response(b"there is no t", status=404),
        HTTP_SCRIPT,
        b'"GET","/users?a=1","app.test:80"',
    ),
    "terminal": Run(
        CommandScript,
        whole,
        shows("grüße\n".encode()) + tm.exit_frame(0),
        shows("grüße\n".encode()) + tm.exit_frame(3),
    ),
}


@pytest.mark.parametrize("run", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_script_of_each_protocol_fulfils_the_script_contract(run: Run) -> None:
    check_script(run.script, run.wire, run.text, answer=run.answer, failing=run.failing, asked=run.asked)


LENSES: Mapping[str, Shown] = {
    "postgres": Shown(
        PostgresTextRenderer,
        PG_ROWS + pg.error("there is no t", "42P01") + pg.ready(),
        [
            ("o", "a\tb\ngrüße\t\n\t".encode() + b"x" * 300 + b"\nSELECT 2\n"),
            ("e", b"ERROR: there is no t (42P01)\n"),
        ],
    ),
    "mysql": Shown(
        MysqlTextRenderer,
        MY_ROWS + my.error("there is no t", 1146),
        [
            ("o", "a\tb\ngrüße\tNULL\n\t".encode() + b"x" * 300 + b"\n2 rows in set\n"),
            ("e", b"ERROR 1146 (42000): there is no t\n"),
        ],
    ),
    "mssql": Shown(
        MssqlTextRenderer,
        ms.reply(MS_ROWS, ms.done(2), size=512) + ms.reply(ms.error(208, "there is no t"), ms.done(error=True)),
        [
            ("o", "a\tb\ngrüße\tNULL\n\t".encode() + b"x" * 300 + b"\n(2 rows affected)\n"),
            ("e", b"Msg 208, Level 16, State 1, Line 1: there is no t\n"),
        ],
    ),
    "oracledb": Shown(
        OracleTextRenderer,
        AnswerNote(TtcLayout(), "SELECT", (OracleColumn(1, 9, name="A", form=1), OracleColumn(1, 9, name="B"))).encode()
        + om.data(*OR_ROWS, om.no_more(), size=64)
        + om.data(om.failed(942, "there is no t")),
        [
            ("o", "A\tB\ngrüße\tNULL\nNULL\t".encode() + b"x" * 300 + b"\n(2 rows selected)\n"),
            ("e", b"ORA-00942: there is no t\n"),
        ],
    ),
    "mongodb": Shown(
        MongodbTextRenderer,
        mg.batch({"a": "grüße"}, cursor=7) + mg.batch(more=True) + MG_ERROR + mg.ok(n=1),
        [
            ("o", '{"a": "grüße"}\n1 document\n'.encode()),
            ("e", b"ERROR 26 (NamespaceNotFound): there is no t\n"),
            ("o", b'{"n": 1}\n'),
        ],
    ),
    "dynamodb": Shown(
        DynamodbTextRenderer,
        dd.response({"Items": [{"a": {"S": "grüße"}, "n": {"N": "1"}}]}) + dd.error("X", "there is no t", 2),
        [("o", '{"a": "grüße", "n": 1}\n1 item\n'.encode()), ("e", b"ERROR X: there is no t\n")],
    ),
    "cloudwatch": Shown(
        CloudwatchTextRenderer,
        cw.response({"events": [{"timestamp": 1, "message": "grüße"}]}) + cw.error("X", "there is no t", 2),
        [("o", "1970-01-01T00:00:00.001Z grüße\n1 row\n".encode()), ("e", b"ERROR X: there is no t\n")],
    ),
    "httpproxy": Shown(
        HttpTextRenderer,
        ht.response(b'{"a": 1}', headers=HTTP_JSON)
        + ht.response(b"there is no t\n", status=404, headers=HTTP_TEXT, number=2),
        [
            ("o", b'HTTP 200 OK\nContent-Type: application/json\n\n{"a": 1}\n'),
            ("e", b"HTTP 404 Not Found\nContent-Type: text/plain\n\nthere is no t\n"),
        ],
    ),
    "terminal": Shown(
        TerminalTextRenderer,
        shows("grüße\n".encode(), b"$ ") + tm.frame(tm.STDERR, b"there is no t\n") + tm.exit_frame(1),
        [("o", "grüße\n$ ".encode()), ("e", b"there is no t\n")],
    ),
    "tcp": Shown(
        ReadableBytes,
        "+grüße\n".encode() + bytes(range(16)) + b"a row of letters, and more\n",
        [
            (
                "o",
                "+grüße\n".encode()
                + b"00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  |................|\n"
                + b"61 20 72 6f 77 20 6f 66 20 6c 65 74 74 65 72 73  |a row of letters|\n"
                + b", and more\n",
            )
        ],
    ),
}


@pytest.mark.parametrize("one", LENSES.values(), ids=LENSES.keys())
def test_renderer_of_each_protocol_fulfils_the_rendering_contract(one: Shown) -> None:
    check_lens(one.lens, one.shown, one.text)


def test_every_registered_protocol_is_in_the_contract_tables() -> None:
    """A new protocol of the gateway needs entries in the tables above."""
    scripts = {type(spec.script("")) for spec in PROTOCOLS.values() if spec.script is not None}
    assert scripts == {run.script for run in SCRIPTS.values()}
    catalogues = {name: found for name, spec in PROTOCOLS.items() if (found := spec.catalogue()) is not None}
    assert catalogues == CATALOGUES
    assert QUERIES.keys() == CATALOGUES.keys()
    opaque = {name for name, spec in PROTOCOLS.items() if spec.is_opaque}
    assert OPAQUE_WIRES.keys() == opaque
    for table in (WIRES, MASKED):
        assert {name.split(",")[0] for name in table} == SCRIPTS.keys()
    assert LENSES.keys() == SCRIPTS.keys() | opaque
