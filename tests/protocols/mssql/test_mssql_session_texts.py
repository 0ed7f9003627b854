"""What the wire tells of a session, for counts on another connection: texts with options, the database, bind values."""

from __future__ import annotations

import pytest
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.playbook import CHUNKS, pieces

from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_session_texts as s
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_values import plain
from postern.protocols.mssql.wire.mssql_wire import MssqlWire
from postern.protocols.wire_base import Request, TransactionState

FINE = ms.reply(ms.done())


def send(wire: MssqlWire, message: bytes, *replies: bytes, chunk: int = 4096) -> Request | None:
    """Send a message and its reply, and return the request, if it was one."""
    request = None
    for piece in pieces(message, chunk):
        wire.feed_client(piece)
        while (asked := wire.poll_client()) is not None:
            if isinstance(asked, Request):
                request = asked
                wire.forward(asked)
    for reply in replies:
        for piece in pieces(reply, chunk):
            wire.feed_target(piece)
            while wire.poll_target():
                pass
    return request


def state(wire: MssqlWire) -> TransactionState:
    return wire.transaction_state


MAY_SET = [
    "set dateformat dmy",
    "SET\n\tROWCOUNT 5",
    "set/**/rowcount 5",
    "set -- x\nrowcount 5",
    "select 1set rowcount 5",
    "select 1eset rowcount 5",
    "select 0xabset rowcount 5",
    "select 0xset rowcount 5",
    "1.eset rowcount 5",
    "select 'a'set rowcount 5",
    "if 1 = 1 set language german",
    "set nocount, ansi_nulls off",
    "set rowcount .5",
    "\uff33\uff25\uff34 rowcount 5",
    "update t set a = 1; set rowcount 5",
    "update t set /* x */ a = 1",
    "select ''set rowcount 5",
    "select 'a''b' set rowcount 5",
    "select [']set rowcount 5 --']",
    "-- it's\nset rowcount 5 --'",
    "/* ' */ set rowcount 5 /* ' */",
]
SETS_NOTHING = [
    "select 1",
    "update t set a = 1",
    "update t set t.[a b] += 1, c = 2",
    "update t set doc.write('x', 1, 2)",
    "set @x = 1",
    "set nocount on; delete t",
    "set xact_abort on",
    "set transaction isolation level serializable",
    "select xset rowcount, exset rowcount, reset rowcount",
    "select asset, settings, [offset] from t order by 1 offset 5 rows",
    "set textsize 2147483647",
    "insert into t values ('how it''s set up', [set])",
]


@pytest.mark.parametrize("text", MAY_SET)
def test_attack_text_that_may_set_an_option_is_kept(text: str) -> None:
    wire = MssqlWire()
    send(wire, ms.batch(text), FINE)
    assert state(wire).texts == (text,)


@pytest.mark.parametrize("text", SETS_NOTHING)
def test_text_that_sets_no_option_is_not_kept(text: str) -> None:
    wire = MssqlWire()
    send(wire, ms.batch(text), FINE)
    assert state(wire).texts == ()


@pytest.mark.parametrize(
    "text",
    ["execute as user = 'x'", "EXEC/**/AS USER = 'x'", "exec -- x\nas user = 'x'", "revert", "setuser 'x'",
     "exec sp_setapprole 'a', 'b'", "exec [sp_setapprole] 'a', 'b'",
     "declare @p sysname = 'sp_set' + 'approle' exec @p", "exec @rc = @p", "\uff45xec as user = 'x'"],
)  # fmt: skip
def test_attack_switch_to_another_user_is_noticed(text: str) -> None:
    wire = MssqlWire()
    send(wire, ms.batch(text), FINE)
    send(wire, ms.batch("select 1", status=p.RESET), FINE)
    assert (state(wire).reported or {})["switched"]


@pytest.mark.parametrize("text", ["exec sp_who", "exec @rc = dbo.p 1", "execute asset_report", "exec ('select 1')"])
def test_ordinary_call_is_no_switch_to_another_user(text: str) -> None:
    wire = MssqlWire()
    send(wire, ms.batch(text), FINE)
    assert not (state(wire).reported or {})["switched"]


@pytest.mark.parametrize(("name", "is_switched"), [("sp_setapprole", True), ("dbo.\uff53p_x", True), ("dbo.p", False)])
def test_attack_procedure_that_switches_the_user_is_noticed(name: str, is_switched: bool) -> None:
    wire = MssqlWire()
    send(wire, ms.rpc(ms.call(name, ms.nvarchar("a"))), FINE)
    assert bool((state(wire).reported or {})["switched"]) is is_switched


def test_texts_are_in_the_order_of_their_last_run() -> None:
    wire = MssqlWire()
    for text in ("set datefirst 1", "set datefirst 2", "set datefirst 1"):
        send(wire, ms.batch(text), FINE)
    assert state(wire).texts == ("set datefirst 2", "set datefirst 1")


def test_reset_of_a_session_forgets_its_options() -> None:
    wire = MssqlWire()
    send(wire, ms.batch("set datefirst 1"), FINE)
    send(wire, ms.batch("select 1", status=p.RESET), FINE)
    assert state(wire).texts == ()


FAILURES = {
    "an error": [ms.reply(ms.error(102, "x"), ms.done(error=True))],
    "an attention": [ms.reply(ms.done(status=k.DONE_ATTENTION))],
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_attack_options_of_a_batch_that_failed_are_unknown(failure: str, chunk: int) -> None:
    wire = MssqlWire()
    more = ms.attention() if failure == "an attention" else b""
    send(wire, ms.batch("set datefirst 1") + more, *FAILURES[failure], chunk=chunk)
    assert state(wire).texts is None
    send(wire, ms.batch("select 1", status=p.RESET), FINE)
    assert state(wire).texts == ()


@pytest.mark.parametrize("text", ["exec sp_reset_connection", "set datefirst 1 -- " + "x" * s.MAX_CHARACTERS])
def test_attack_unknown_options_are_said(text: str) -> None:
    wire = MssqlWire()
    send(wire, ms.batch(text), FINE)
    assert state(wire).texts is None


def test_attack_many_texts_with_options_are_bounded() -> None:
    wire = MssqlWire()
    for number in range(s.MAX_TEXTS + 1):
        send(wire, ms.batch(f"set datefirst 1 -- {number}"), FINE)
    assert state(wire).texts is None


def changed(name: str) -> bytes:
    return ms.reply(ms.environment(k.ENV_DATABASE, k.encode_short_text(name), k.encode_short_text("shop")), ms.done())


USES = {
    ("use other", 0): True,
    ("USE [other];\nselect 1", 0): True,
    ("select 1", p.RESET): True,
    ("use other; exec('use shop')", 0): False,
    ("select 1; use other", 0): False,
    ("exec('use other')", 0): False,
    ("exec p", 0): False,
    ("use other; use shop", p.RESET): False,
}


@pytest.mark.parametrize(("text", "status"), USES)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_database_of_a_session_is_the_one_that_the_server_reports(text: str, status: int, chunk: int) -> None:
    wire = MssqlWire()
    send(wire, ms.batch(text, status=status), changed("other"), chunk=chunk)
    assert (state(wire).reported or {})["database"] == "other"
    assert (state(wire).texts is not None) is USES[text, status]


BOUND = {
    "sp_executesql": (
        ms.rpc(
            ms.call(r.EXECUTE_SQL, ms.nvarchar("delete t"), ms.nvarchar("@a int, @b nvarchar(9)"), ms.integer(5),
                    ms.nvarchar("größe", "@b"))
        ),
        "@a int, @b nvarchar(9)",
        [("", b"5"), ("@b", "größe".encode())],
    ),
    "sp_prepexec": (
        ms.rpc(
            ms.call(r.PREPARE_EXECUTE, ms.integer(None, status=1), ms.nvarchar("@P1 int"), ms.nvarchar("delete t"),
                    ms.integer(None))
        ),
        "@P1 int",
        [("", None)],
    ),
    "a long value": (
        ms.rpc(ms.call(r.EXECUTE_SQL, ms.nvarchar("delete t"), ms.nvarchar("@a nvarchar(max)"), ms.nvarchar_max("xyz")),
               size=512),
        "@a nvarchar(max)",
        [("", b"xyz")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BOUND)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_bind_values_are_as_the_client_sent_them(case: str, chunk: int) -> None:
    message, declared, expected = BOUND[case]
    request = send(MssqlWire(), message, chunk=chunk)
    assert request is not None
    declaration, parameters = r.read_bound(request.bound_values(0))
    assert declaration == declared
    values = [None if each.value is None else plain(each.type, each.value) for each in parameters]
    assert list(zip([each.name for each in parameters], values, strict=True)) == expected
    assert request.bound_values(1) == b""


@pytest.mark.parametrize("chunk", CHUNKS)
def test_bind_values_of_a_prepared_statement_have_its_declaration(chunk: int) -> None:
    wire = MssqlWire()
    prepared = ms.rpc(ms.call(r.PREPARE, ms.integer(None, status=1), ms.nvarchar("@P1 int"), ms.nvarchar("delete t")))
    send(wire, prepared, ms.reply(ms.handle(7), ms.status(0), ms.done(code=0xFE)), chunk=chunk)
    request = send(wire, ms.rpc(ms.call(r.EXECUTE, ms.integer(7), ms.integer(3))), chunk=chunk)
    assert request is not None
    declaration, (value,) = r.read_bound(request.bound_values(0))
    assert (declaration, value.value) == ("@P1 int", b"\x03\0\0\0")


@pytest.mark.parametrize("message", [ms.batch("delete t"), ms.rpc(ms.call("dbo.p", ms.integer(1)))])
def test_other_requests_have_no_bind_values(message: bytes) -> None:
    request = send(MssqlWire(), message)
    assert request is not None
    assert request.bound_values(0) == b""
