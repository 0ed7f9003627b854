"""Every protocol fulfils every contract: the table of protocols and contracts.

Commands and SSH channels share `terminal`; file transfers through such channels have their own wire.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.query_contracts import Lens, asked, check_catalogue, check_lens, check_query, check_script
from tests.support.protocols.wire_contracts import Conversation, check_masking, check_wire

from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import ProtocolViolation
from postern.protocols.framing import encode_length
from postern.protocols.gateway_queries import Catalogue, Query, Row, Script
from postern.protocols.mysql.queries.mysql_catalogue import CATALOGUE as MYSQL_CATALOGUE
from postern.protocols.mysql.queries.mysql_query import MysqlQuery as MysqlQuery
from postern.protocols.mysql.queries.mysql_script import MysqlScript as MysqlScript
from postern.protocols.mysql.recorded.mysql_text_renderer import MysqlTextRenderer
from postern.protocols.mysql.wire import mysql_messages as mm
from postern.protocols.mysql.wire.mysql_wire import MysqlWire
from postern.protocols.postgres.queries.postgres_catalogue import CATALOGUE as POSTGRES_CATALOGUE
from postern.protocols.postgres.queries.postgres_query import PostgresQuery as PostgresQuery
from postern.protocols.postgres.queries.postgres_script import PostgresScript as PostgresScript
from postern.protocols.postgres.recorded.postgres_text_renderer import PostgresTextRenderer
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.registry import PROTOCOLS
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


@dataclass(frozen=True)
class Masked:
    """The arguments of `check_masking`."""

    wire: Callable[[], Wire]
    conversation: Conversation
    read: Callable[[bytes], bytes] = field(default=bytes)


@dataclass(frozen=True)
class Answered:
    """The arguments of `check_query`."""

    query: Callable[[], Query]
    answer: bytes
    error: bytes
    garbage: Sequence[bytes]


@dataclass(frozen=True)
class Run:
    """The arguments of `check_script`."""

    script: Callable[[str], Script]
    wire: Callable[[], Wire]
    answer: bytes
    failing: bytes


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

WIRES: Mapping[str, Talk] = {
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
    check_wire(talk.wire, talk.conversation, garbage=talk.garbage, carries=talk.carries)


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
    check_masking(masked.wire, masked.conversation, secret=SECRET, read=masked.read)


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
}


@pytest.mark.parametrize("one", QUERIES.values(), ids=QUERIES.keys())
def test_query_of_each_protocol_fulfils_the_query_contract(one: Answered) -> None:
    check_query(one.query, one.answer, CELLS, error=one.error, garbage=one.garbage)


@pytest.mark.parametrize("one", QUERIES.values(), ids=QUERIES.keys())
@given(data=st.data())
@settings(max_examples=200)
def test_damaged_query_answer_is_rows_an_error_or_a_violation(one: Answered, data: st.DataObject) -> None:
    """The answer is read by its own lengths, which can be damaged."""
    said = bytearray(one.answer)
    for _ in range(data.draw(st.integers(1, 3))):
        said[data.draw(st.integers(0, len(said) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolViolation):
        asked(one.query(), bytes(said))


CATALOGUES: Mapping[str, Catalogue] = {"postgres": POSTGRES_CATALOGUE, "mysql": MYSQL_CATALOGUE}
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
    "terminal": Run(
        CommandScript,
        whole,
        shows("grüße\n".encode()) + tm.exit_frame(0),
        shows("grüße\n".encode()) + tm.exit_frame(3),
    ),
}


@pytest.mark.parametrize("run", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_script_of_each_protocol_fulfils_the_script_contract(run: Run) -> None:
    check_script(run.script, run.wire, SCRIPT, answer=run.answer, failing=run.failing)


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
    "terminal": Shown(
        TerminalTextRenderer,
        shows("grüße\n".encode(), b"$ ") + tm.frame(tm.STDERR, b"there is no t\n") + tm.exit_frame(1),
        [("o", "grüße\n$ ".encode()), ("e", b"there is no t\n")],
    ),
}


@pytest.mark.parametrize("one", LENSES.values(), ids=LENSES.keys())
def test_renderer_of_each_protocol_fulfils_the_rendering_contract(one: Shown) -> None:
    check_lens(one.lens, one.shown, one.text)


def test_every_registered_protocol_is_in_the_contract_tables() -> None:
    """A new protocol of the gateway needs entries in the tables above."""
    assert {type(spec.script("")) for spec in PROTOCOLS.values()} == {run.script for run in SCRIPTS.values()}
    catalogues = {name: found for name, spec in PROTOCOLS.items() if (found := spec.catalogue()) is not None}
    assert catalogues == CATALOGUES
    assert QUERIES.keys() == CATALOGUES.keys()
    for table in (WIRES, MASKED, LENSES):
        assert {name.split(",")[0] for name in table} == SCRIPTS.keys()
