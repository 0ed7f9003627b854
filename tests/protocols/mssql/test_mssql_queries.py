"""Queries, scripts and recordings of SQL Server fulfil the contracts of every protocol."""

from __future__ import annotations

import pytest
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.query_contracts import check_catalogue, check_lens, check_query, check_script

from postern.domain.rules.trial import Answered
from postern.domain.sessions.results import Finished, Problem, Result, ResultColumns, Row
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import ProtocolViolation
from postern.protocols.mssql.queries.mssql_catalogue import CATALOGUE
from postern.protocols.mssql.queries.mssql_own_requests import encode_statement
from postern.protocols.mssql.queries.mssql_query import MssqlQuery
from postern.protocols.mssql.queries.mssql_script import MssqlScript
from postern.protocols.mssql.recorded.mssql_answer_reader import MssqlAnswers
from postern.protocols.mssql.recorded.mssql_cells import type_name
from postern.protocols.mssql.recorded.mssql_recorded_stream import MssqlRecordedTokens
from postern.protocols.mssql.recorded.mssql_tables import MssqlResults
from postern.protocols.mssql.recorded.mssql_text_renderer import MssqlTextRenderer
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire.mssql_packets import TdsMessages
from postern.protocols.mssql.wire.mssql_types import read_type
from postern.protocols.mssql.wire.mssql_wire import MssqlWire

SCRIPT = "select 'grüße'; select 2"
ROWS = (
    ms.columns(ms.column("a", ms.text_type(400)), ms.column("b", ms.text_type(400)))
    + ms.null_row([1], 2, ms.text_cell("grüße"))
    + ms.row(ms.text_cell(""), ms.text_cell("x" * 300))
)
IN_PROCEDURE, PROCEDURE = 0xFF, 0xFE
CALLED = ms.reply(ROWS, ms.done(2, more=True, code=IN_PROCEDURE), ms.status(0), ms.done(code=PROCEDURE), size=512)
NOT_FOUND = ms.error(208, "there is no t")


def test_query_fulfils_the_query_contract() -> None:
    check_query(
        lambda: MssqlQuery("select a, b from t where c = ?", ["x"]),
        CALLED,
        [("grüße", None), ("", "x" * 300)],
        error=ms.reply(NOT_FOUND, ms.status(1), ms.done(code=PROCEDURE, error=True)),
        garbage=[
            b"\x12\x01\0\x08\0\0\0\0",  # a packet of a client
            b"\x04\x01\0\x07\0\0\0\0",  # shorter than its header
            ms.reply(ROWS),  # without an end
            ms.reply(ROWS, b"\x33"),  # an unknown token
        ],
    )


@pytest.mark.parametrize(("statement", "values"), [("select 1", ["x"]), ("select ?", []), ("select ?, ?", [None])])
def test_number_of_values_has_to_match_the_statement(statement: str, values: list[str | None]) -> None:
    with pytest.raises(ProtocolViolation, match="placeholders"):
        MssqlQuery(statement, values).start()


def test_values_are_parameters_and_never_part_of_the_statement() -> None:
    hostile = "'; drop table t; --"
    (message,) = TdsMessages(1 << 20).feed(encode_statement("select ? where ? is null", [hostile, None]))
    (call,) = r.read_calls(message.payload, r.after_headers(message.payload, True), True)
    texts = [None if it.value is None else it.value.decode("utf-16-le") for it in call.parameters]
    assert call.number == r.EXECUTE_SQL
    assert texts == ["select @v1 where @v2 is null", "@v1 nvarchar(max), @v2 nvarchar(max)", hostile, None]


def test_catalogue_fulfils_the_catalogue_contract() -> None:
    rows = {
        TargetTaskKind.TEST: ("1",),
        TargetTaskKind.DATABASES: ("shop",),
        TargetTaskKind.TABLES: ("public", "größen"),
        TargetTaskKind.COLUMNS: ("größe", "varchar(80)", "YES"),
        TargetTaskKind.SCHEMA: ("2", "public", "größen", "VIEW", None, None, "0"),
    }
    check_catalogue(CATALOGUE, rows)


def test_script_fulfils_the_script_contract() -> None:
    check_script(
        MssqlScript,
        MssqlWire,
        SCRIPT,
        answer=ms.reply(ROWS, ms.done(2, more=True), ms.info("said"), ROWS, ms.done(2), size=512),
        failing=ms.reply(ROWS, ms.done(2, more=True), NOT_FOUND, ms.done(error=True)),
        asked=ms.utf16(SCRIPT),
    )


def test_script_sends_the_next_batch_after_the_answer_to_the_last() -> None:
    script = MssqlScript("select 1\nGO\nselect 2\nGO 2\n")
    sent = [script.start(), *[script.feed(ms.reply(ms.done(1))) for _ in range(3)]]
    assert [data[30:].decode("utf-16-le") for data in sent] == ["select 1", "select 2", "select 2", ""]
    assert (script.finished, script.exit_code()) == (True, 0)


def test_script_of_an_unreadable_text_is_one_batch() -> None:
    assert ms.utf16("select 'open\nGO\nselect 2") in MssqlScript("select 'open\nGO\nselect 2").start()


RECORDED = ms.reply(ROWS, ms.done(2), size=512) + ms.reply(
    ms.info("said"), NOT_FOUND, ms.status(7), ms.returned("@b", "ü"), ms.done(error=True, code=PROCEDURE)
)


def test_renderer_fulfils_the_rendering_contract() -> None:
    text = [
        ("o", "a\tb\ngrüße\tNULL\n\t".encode() + b"x" * 300 + b"\n(2 rows affected)\nsaid\n"),
        ("e", b"Msg 208, Level 16, State 1, Line 1: there is no t\n"),
        ("o", "(return status = 7)\n@b = ü\n".encode()),
    ]
    check_lens(MssqlTextRenderer, RECORDED, text)


def test_cells_are_one_line_and_one_field() -> None:
    odd = ms.reply(ms.columns(ms.column("a", ms.text_type(40))), ms.row(ms.text_cell("a\tb\nc\\d\0")), ms.done(1))
    assert MssqlTextRenderer().feed(odd) == [("o", b"a\na\\tb\\nc\\\\d\\0\n(1 row affected)\n")]


RESULTS: list[Result] = [
    ResultColumns(("a", "b"), ("nvarchar(400)", "nvarchar(400)")),
    Row(("grüße", None)),
    Row(("", "x" * 300)),
    Finished("2 rows affected"),
    Problem("INFO", "said", fails=False),
    Problem("ERROR", "there is no t", "208", "Line 1"),
]


@pytest.mark.parametrize("size", CHUNKS)
def test_results_have_columns_rows_ends_and_problems(size: int) -> None:
    reader = MssqlResults()
    assert [result for piece in pieces(RECORDED, size) for result in reader.feed(piece)] == RESULTS


def test_end_of_a_procedure_is_told_only_if_none_of_its_statements_was() -> None:
    reader = MssqlResults()
    assert reader.feed(CALLED)[-1] == Finished("2 rows affected")
    assert reader.feed(ms.reply(ms.status(0), ms.done(code=PROCEDURE))) == [Finished("Commands completed successfully")]


@pytest.mark.parametrize("size", CHUNKS)
def test_answers_have_the_texts_of_rows_messages_and_outputs(size: int) -> None:
    reader = MssqlAnswers()
    assert [answer for piece in pieces(RECORDED, size) for answer in reader.feed(piece)] == [
        Answered(("grüße".encode(),), rows=1),
        Answered((b"", b"x" * 300), rows=1),
        Answered((), ends=True),
        Answered((b"0", b"said")),
        Answered((b"208", b"there is no t")),
        Answered(("ü".encode(),)),
        Answered((), ends=True),
    ]


def test_bytes_that_are_no_answer_of_a_server_are_a_violation() -> None:
    for data in (b"\x01\x01\0\x08\0\0\0\0", ms.reply(b"\x33"), ms.reply(ROWS[:-3])):
        with pytest.raises(ProtocolViolation):
            MssqlRecordedTokens().feed(data)


TYPES = [
    (b"\x26\x01", "tinyint"),
    (b"\x26\x08", "bigint"),
    (b"\x38", "int"),
    (b"\x68\x01", "bit"),
    (b"\x6d\x04", "real"),
    (b"\x6e\x08", "money"),
    (b"\x6f\x04", "smalldatetime"),
    (b"\x6a\x09\x0a\x02", "decimal(10,2)"),
    (b"\x24\x10", "uniqueidentifier"),
    (b"\x28", "date"),
    (b"\x29\x03", "time(3)"),
    (b"\x2b\x07", "datetimeoffset(7)"),
    (b"\xaf\x05\x00" + ms.LATIN, "char(5)"),
    (b"\xa7\xff\xff" + ms.LATIN, "varchar(max)"),
    (b"\xef\x0a\x00" + ms.LATIN, "nchar(5)"),
    (b"\xe7\xff\xff" + ms.LATIN, "nvarchar(max)"),
    (b"\xad\x05\x00", "binary(5)"),
    (b"\xa5\xff\xff", "varbinary(max)"),
    (b"\x63\xff\xff\xff\x7f" + ms.LATIN, "ntext"),
    (b"\x22\xff\xff\xff\x7f", "image"),
    (b"\xf1\0", "xml"),
    (b"\x62\x49\x1f\0\0", "sql_variant"),
]


@pytest.mark.parametrize(("wire", "name"), TYPES, ids=[name for _, name in TYPES])
def test_type_is_named_as_a_definition_has_it(wire: bytes, name: str) -> None:
    assert type_name(read_type(wire, 0, len(wire))[0]) == name
