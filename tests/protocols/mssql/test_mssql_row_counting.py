"""What the catalogue and the values of a request say about a count, and how a query is stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.playbook import CHUNKS, pieces

from postern.domain.rules.row_count import Uncountable
from postern.errors import ProtocolViolation
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.protocols.gateway_queries import Row
from postern.protocols.mssql.dialect.tsql_count_plans import TsqlCountPlan
from postern.protocols.mssql.dialect.tsql_side_effect_free import FoundTable
from postern.protocols.mssql.queries import mssql_row_counting as counting
from postern.protocols.mssql.queries.mssql_query import MssqlExchange, MssqlQuery
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_types import UTF16
from postern.protocols.mssql.wire.mssql_values import plain

PLAN = TsqlCountPlan("DELETE", ("", "t"), columns=frozenset({"id", fold_identifier("Größe")}), variables=("@a", "@b"))
U = ("5", "dbo", "t", "U ", "2026", "0", "0", "0")


def refusal(check: Callable[[], object]) -> str:
    with pytest.raises(Uncountable) as refused:
        check()
    return str(refused.value)


def table_row(**changes: str) -> Row:
    names = ("number", "schema", "name", "kind", "changed", "external", "files", "archive")
    return tuple({**dict(zip(names, U, strict=True)), **changes}.values())


FOUND: list[tuple[tuple[str, str], list[Row], str]] = [
    (("", "t"), [U], "dbo"),
    (("dbo", "T"), [table_row(name="T"), table_row(schema="hr", name="T")], "dbo"),
    (("", "t"), [table_row(schema="hr")], "hr"),
    (("", "events"), [table_row(name="events"), table_row(schema="sys", name="events", kind="V")], "dbo"),
]


@pytest.mark.parametrize(("name", "rows", "default"), FOUND)
def test_table_is_found_by_its_name(name: tuple[str, str], rows: list[Row], default: str) -> None:
    number, table, _ = counting.found_table(name, rows, default)
    assert (number, table) == ("5", FoundTable(rows[0][1] or "", rows[0][2] or ""))


NOT_FOUND: list[tuple[tuple[str, str], list[Row], str]] = [
    (("", "t"), [], "there is no table t"),
    (("hr", "t"), [U], "there is no table hr.t"),
    (("", "t"), [table_row(schema="hr")], "there is no table t"),
    (("", "t"), [U, table_row(schema="hr")], "there are several tables t"),
    (("", "sysobjects"), [table_row(schema="sys", name="sysobjects", kind="V")], "a view"),
    (("", "sysobjects"), [U, table_row(schema="sys", name="sysobjects", kind="V")], "several tables"),
    (("sys", "objects"), [table_row(schema="sys", kind="V")], "sys.objects is a view"),
    (("", "t"), [table_row(kind="V ")], "t is a view"),
    (("", "t"), [table_row(kind="SN")], "t is a synonym"),
    (("", "t"), [table_row(kind="IT")], "t is a system table"),
    (("", "t"), [table_row(kind="ET")], "t is stored on another server"),
    (("", "t"), [table_row(external="1")], "t is stored on another server"),
    (("", "t"), [table_row(files="1")], "t is a FileTable"),
    (("", "t"), [table_row(archive="1")], "t is stored in part on another server"),
]


@pytest.mark.parametrize(("name", "rows", "why"), NOT_FOUND)
def test_attack_what_is_no_ordinary_table_is_not_counted(name: tuple[str, str], rows: list[Row], why: str) -> None:
    assert why in refusal(lambda: counting.found_table(name, rows, "dbo"))


ID: Row = ("ID", "int", "0", "0", None)
COLUMNS: list[tuple[Row, str]] = [
    (("Größe", "int", "1", "0", None), "its column Größe is computed"),
    (("Größe", "xml", "0", "0", None), "has the type xml"),
    (("Größe", "text", "0", "0", None), "has the type text"),
    (("Größe", "sql_variant", "0", "0", None), "has the type sql_variant"),
    (("Größe", None, "0", "1", None), "has the type of a user"),
    (("Größe", "int", "0", "1", None), "has the type int"),
    (("Größe", "int", "0", None, None), "has the type int"),
    (("Größe", "varchar", "0", "0", "2"), "its column Größe is encrypted"),
]


@pytest.mark.parametrize(("row", "why"), COLUMNS)
def test_attack_column_that_is_no_plain_value_is_not_counted(row: Row, why: str) -> None:
    assert why in refusal(lambda: counting.used_columns(PLAN, [ID, row]))
    other = TsqlCountPlan("DELETE", ("", "t"), columns=frozenset({"id"}))
    assert counting.used_columns(other, [ID, row]) == ("ID",)
    whole = TsqlCountPlan("DELETE", ("", "t"))
    assert why in refusal(lambda: counting.used_columns(whole, [ID, row]))


@pytest.mark.parametrize(
    ("row", "is_folded", "why"),
    [(("0", "dbo", "Latin1_General_CI_AS"), False, "grant it VIEW DEFINITION"),
     ((None, "dbo", "Latin1_General_CI_AS"), False, "grant it VIEW DEFINITION"),
     (("1", "dbo", "Latin1_General_CS_AS"), True, "upper and lower case"),
     (("1", "dbo", "Latin1_General_BIN2"), True, "upper and lower case"),
     (("1", "dbo", None), True, "upper and lower case")],
)  # fmt: skip
def test_attack_what_the_user_cannot_see_prevents_the_count(row: Row, is_folded: bool, why: str) -> None:
    plan = TsqlCountPlan("DELETE", ("", "t"), is_folded=is_folded)
    assert why in refusal(lambda: counting.check_session([row], plan))
    assert counting.check_session([("1", "hr", "Latin1_General_CI_AS")], plan) == "hr"


KEY: Row = ("key", "items", "ID", "1", "1")
NOTES: list[tuple[str, frozenset[str], Row, str]] = [
    (
        "DELETE",
        frozenset(),
        ("trigger", "g", "DELETE", "0", "0"),
        "the trigger g of dbo.t runs, and can change more rows",
    ),
    ("DELETE", frozenset(), ("trigger", "g", "DELETE", "1", "0"), "the trigger g runs in its place"),
    ("DELETE", frozenset(), ("trigger", "g", "UPDATE", "0", "0"), ""),
    ("MERGE", frozenset(), ("trigger", "g", "INSERT", "0", "0"), "the trigger g of dbo.t runs"),
    ("DELETE", frozenset(), KEY, "rows of items refer to these rows"),
    ("UPDATE", frozenset({"id"}), KEY, "rows of items refer to these rows"),
    ("UPDATE", frozenset({"name"}), KEY, ""),
    ("MERGE", frozenset(), KEY, "rows of items refer to these rows"),
    ("DELETE", frozenset(), ("key", "items", "id", "1", "0"), ""),
    ("UPDATE", frozenset({"id"}), ("key", "items", "id", "0", "1"), ""),
]


@pytest.mark.parametrize(("action", "sets", "row", "note"), NOTES)
def test_what_can_change_the_count_is_noted(action: str, sets: frozenset[str], row: Row, note: str) -> None:
    plan = TsqlCountPlan(action, ("", "t"), sets=sets)
    assert [note in text for text in counting.read_notes(plan, "dbo.t", [row, row])] == ([True] if note else [])


def bound(declaration: str, *values: bytes) -> bytes:
    payload = ms.rpc(ms.call(r.EXECUTE_SQL, *values))[p.HEAD :]
    (call,) = r.read_calls(payload, r.after_headers(payload, True), True)
    return r.encode_bound(payload, declaration, call.parameters)


VALUES = {
    "in order": bound("@a int, @b nvarchar(9)", ms.integer(5), ms.nvarchar("x")),
    "by name": bound("@A int,@b AS nvarchar(9) OUTPUT", ms.nvarchar("x", "@B"), ms.integer(5, "@a")),
    "more than is used": bound(
        "@z uniqueidentifier, @a int, @b nvarchar(9)", ms.nvarchar(None), ms.integer(5), ms.nvarchar("x")
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_are_sent_with_their_types(case: str) -> None:
    values = counting.bind_values(PLAN, VALUES[case])
    assert {name: values[name][0] for name in PLAN.variables} == {"@a": "int", "@b": "nvarchar(9)"}
    message = counting.count(PLAN, {}, values).start()
    payload = b"".join([each.payload for each in p.TdsPackets().feed(message)])
    (call,) = r.read_calls(payload, r.after_headers(payload, True), True)
    texts = [plain(each.type, each.value or b"").decode() for each in call.parameters]
    assert texts == ["BEGIN TRANSACTION; ; ROLLBACK TRANSACTION", "@a int, @b nvarchar(9)", "5", "x"]
    assert [each.name for each in call.parameters] == ["", "", "@a", "@b"]


TWO = (ms.integer(5), ms.nvarchar("x"))
NO_VALUES = {
    "no parameters": (b"", "@a, which is not a parameter"),
    "one is missing": (bound("@a int, @b nvarchar(9)", ms.integer(5)), "the bind value @b is missing"),
    "not declared": (bound("@a int, @c nvarchar(9)", *TWO), "the bind value @b is missing"),
    "too many": (bound("@a int", *TWO), "not understood"),
    "twice": (bound("@a int, @b int", ms.integer(5, "@a"), ms.integer(6, "@a")), "not understood"),
    "declared twice": (bound("@a int, @A int", *TWO), "not understood"),
    "order after names": (bound("@a int, @b nvarchar(9)", ms.integer(5, "@a"), ms.nvarchar("x")), "not understood"),
    "a default": (
        bound("@a int, @b nvarchar(9)", ms.integer(5), ms.nvarchar("x", status=r.DEFAULT_VALUE)),
        "understood",
    ),
    "a type of a user": (bound("@a int, @b kind", *TWO), "the type of the bind value @b"),
    "a type of a schema": (bound("@a int, @b dbo.kind", *TWO), "not understood"),
    "xml": (bound("@a int, @b xml", *TWO), "the type of the bind value @b"),
    "a declaration with code": (bound("@a int = 5; exec p --", *TWO), "not understood"),
    "a declaration with a comment": (bound("@a int, @b /* x */ int", *TWO), "not understood"),
}


@pytest.mark.parametrize("case", NO_VALUES)
def test_attack_unclear_bind_value_prevents_the_count(case: str) -> None:
    data, why = NO_VALUES[case]
    assert why in refusal(lambda: counting.bind_values(PLAN, data))


@pytest.mark.parametrize(
    ("code", "is_catalogue", "why"),
    [("HY000/1222", False, "another session has locked"), ("HY000/229", False, "not allowed to read"),
     ("HY000/207", False, "names a column that does not exist"), ("HY000/207", True, "as SQL Server 2016 and later do"),
     ("HY000/8134", False, "(error 8134)"), ("x", False, "(error x)")],
)  # fmt: skip
def test_error_of_the_target_is_said_by_its_number(code: str, is_catalogue: bool, why: str) -> None:
    assert why in counting.why(code, is_catalogue=is_catalogue)


# Attentions

ROWS = ms.columns(ms.column("a", ms.INT, 0)) + ms.row(ms.int_cell(7))


def feed(query: MssqlExchange, data: bytes, chunk: int) -> list[Row]:
    rows: list[Row] = []
    for piece in pieces(data, chunk):
        rows += query.feed(piece)
    return rows


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize(
    "response",
    [ms.reply(ROWS, ms.done(status=k.DONE_ATTENTION), size=512), ms.reply(ROWS, ms.done(1)) + ms.done_attention()],
    ids=["within", "behind"],
)
def test_stopped_query_ends_with_the_acknowledgement(chunk: int, response: bytes) -> None:
    query = MssqlQuery("select 1")
    assert query.start()
    assert query.cancel() == ms.attention()
    feed(query, response[:-1], chunk)
    assert not query.finished
    query.feed(response[-1:])
    assert query.finished


def test_query_without_attention_ends_with_its_response() -> None:
    query = MssqlQuery("select 1")
    assert feed(query, ms.reply(ROWS, ms.done(1)), 5) == [("7",)]
    assert query.finished


def test_attack_response_without_an_end_is_a_violation() -> None:
    query = MssqlQuery("select 1")
    query.cancel()
    with pytest.raises(ProtocolViolation):
        query.feed(ms.reply(ROWS))


def test_settings_come_before_those_of_the_count() -> None:
    text = counting.settings(0.5, ["SET LOCK_TIMEOUT 9"]).start()[30:].decode(UTF16)
    assert text.startswith("SET LOCK_TIMEOUT 9; SET NOCOUNT ON; ")
    assert "SET LOCK_TIMEOUT 500; SET TRANSACTION ISOLATION LEVEL READ COMMITTED" in text
