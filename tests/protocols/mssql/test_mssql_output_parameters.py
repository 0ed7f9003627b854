"""Output parameters and return values: which variable of a text each of them is, and what rules about columns do with
it, from the bytes of a request to those of the answer."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.mssql_test_messages import CLIENT, TARGET
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import new_link, sent_to

from postern.domain.rules.masking import MaskingRule, Strategy, Strictness
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.protocols.mssql.dialect.tsql_statement_facts import TSqlStatementFacts
from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage
from postern.protocols.mssql.lineage.tsql_session_lineage import TSqlSessionLineage
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_output_variables import declared_names
from postern.protocols.mssql.wire.mssql_wire import MssqlWire

SECRET = "Zyxanna"
PEOPLE = Relation("dbo", "people", ("id", "name", "salary"))
SCHEMA = TargetSchema({("dbo", "people"): PEOPLE}, {}, ("dbo",), database="shop")
OUT = 1  # status of an output parameter
ZERO = UUID(int=0)


def masking(strictness: Strictness = Strictness.STRICT, columns: tuple[str, ...] = ("people.name",)) -> Masking:
    rule = MaskingRule(ZERO, ZERO, "r", columns=columns, strategy=Strategy.REPLACE, strictness=strictness)
    origins = TSqlSessionLineage(TSqlLineage(), lambda: SCHEMA)
    return Masking(frozenset(), [rule], origins=origins, facts=TSqlStatementFacts())


def answer(
    request: bytes,
    *tokens: bytes,
    rules: Masking | None = None,
    before: tuple[tuple[bytes, bytes], ...] = (),
    version: int = k.TDS_74,
    size: int = 0,
) -> bytes:
    """Return the payload that the client gets for these tokens. `before` are earlier requests and their answers."""
    wire = MssqlWire(parameters={"tds_version": str(version)})
    link = new_link(wire, rules or masking())
    for asked, answered in before:
        link.receive(CLIENT, asked)
        link.receive(TARGET, answered)
    effects = link.receive(CLIENT, request)
    assert sent_to(TARGET, effects) == request
    reply = ms.reply(*tokens, ms.done(code=k.DONEPROC) if version >= k.TDS_72 else _old_done())
    return ms.payload(b"".join([sent_to(CLIENT, link.receive(TARGET, piece)) for piece in pieces(reply, size)]))


def _old_done() -> bytes:
    return k.encode_done(0, False, 0, 0xC1, k.DONEPROC)


def returned(place: int, text: str | None, name: str = "", characters: int = 20) -> bytes:
    """A RETURNVALUE with a text."""
    head = bytes((k.RETURNVALUE,)) + struct.pack("<H", place) + k.encode_short_text(name) + b"\1"
    return head + struct.pack("<IH", 0, 0) + ms.text_type(characters) + ms.text_cell(text)


def returned_number(place: int, number: int | None) -> bytes:
    return ms.handle(number, place)


def execute_sql(text: str, declared: str | None, *values: bytes) -> bytes:
    return ms.rpc(ms.call(r.EXECUTE_SQL, ms.nvarchar(text), ms.nvarchar(declared), *values))


def text_out(name: str = "") -> bytes:
    return ms.nvarchar(None, name, OUT)


def is_denied(payload: bytes) -> bool:
    return "blocked by masking rule".encode("utf-16-le") in payload


ONE_TEXT = "@o nvarchar(20) output"
# Texts that assign @o, and whether that can be the masked name.
TEXTS: dict[str, tuple[str, str]] = {
    "a column": ("select @o = name from people", "masked"),
    "another column": ("select @o = id from people", "passes"),
    "a constant": ("set @o = 'x'", "passes"),
    "nothing": ("select 1", "passes"),
    "a parameter": ("set @o = @o + 'x'", "passes"),
    "a computed value": ("select @o = left(name, 1) from people", "masked"),
    "a condition without a loop": ("if exists (select 1 from people where name > 'm') set @o = 'x'", "passes"),
    "a condition in a loop": (
        "declare @i int = 0 while @i < 9 begin if exists (select 1 from people where len(name) > @i) set @o = @o + 'x' "
        "set @i += 1 end",
        "masked",
    ),
    "a procedure": ("exec dbo.give @o output", "denied"),
    "the result of a procedure": ("exec @o = dbo.give", "denied"),
    "a function": ("set @o = dbo.name_of(1)", "denied"),
    "a table that is unknown": ("select @o = x from elsewhere", "denied"),
    "an error": ("begin try select 1/0 end try begin catch set @o = error_message() end catch", "denied"),
    "what is not understood": ("set @o = (select from where", "denied"),
    "GO as an alias": ("select @o = name from people\nGO\nselect 1", "denied"),
}


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("name", TEXTS)
def test_output_parameter_is_masked_by_the_origin_of_its_variable(name: str, size: int) -> None:
    text, outcome = TEXTS[name]
    payload = answer(execute_sql(text, ONE_TEXT, text_out("@o")), returned(2, SECRET, "@o"), size=size)
    assert is_denied(payload) == (outcome == "denied")
    assert (returned(2, SECRET, "@o") in payload) == (outcome == "passes")
    assert (returned(2, "****", "@o") in payload) == (outcome == "masked")


def test_null_is_masked_as_any_value_is() -> None:
    """Whether a value is NULL would tell a bit of the masked column."""
    text = "select @o = case when name like 'a%' then 'x' end from people"
    assert returned(2, "****") in answer(execute_sql(text, ONE_TEXT, text_out()), returned(2, None))
    denied = ms.rpc(ms.call("dbo.give", text_out("@o")))
    assert is_denied(answer(denied, returned(0, None, "@o")))


def test_masked_value_has_the_type_and_size_of_the_parameter() -> None:
    text = "select @o = name, @n = len(name) from people"
    request = execute_sql(text, "@o nvarchar(2) output, @n int output", text_out(), ms.integer(None, status=OUT))
    payload = answer(request, returned(2, "Zy", characters=2), returned_number(3, 7))
    assert returned(2, "**", characters=2) + returned_number(3, 0) in payload


# Two variables: the first is masked, the second is not. Each is the parameters of a call and the place of both.
PLACES: dict[str, tuple[str | None, tuple[bytes, ...], int, int]] = {
    "by position": ("@a nvarchar(20) output, @b nvarchar(20) output", (text_out(), text_out()), 2, 3),
    "by name": ("@a nvarchar(20) output, @b nvarchar(20) output", (text_out("@b"), text_out("@a")), 3, 2),
    "by name in other letters": ("@A nvarchar(20) out, @b nvarchar(20) out", (text_out("@a"), text_out("@B")), 2, 3),
    "after a value": ("@i int,@a nvarchar(20)\nOUT,@b sysname out", (ms.integer(1), text_out(), text_out()), 3, 4),
    "sizes and schemas": (
        "@d decimal(10, 2), @x [dbo].[kind] readonly, @a varchar(max) output,@b nvarchar(20) out",
        (ms.integer(1), ms.integer(1), text_out(), text_out()),
        4,
        5,
    ),
}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", PLACES)
def test_place_in_the_call_says_which_variable_it_is(name: str, order: int) -> None:
    """Large values come last, so that the order of answers says nothing."""
    declared, values, masked, known = PLACES[name]
    request = execute_sql("select @a = name, @b = id from people", declared, *values)
    payload = answer(request, *[returned(masked, SECRET), returned(known, "7")][::order])
    assert returned(masked, "****") in payload
    assert returned(known, "7") in payload


# Declarations and values from which it is unknown which variable a place is: both are masked, or both are denied.
UNCLEAR: dict[str, tuple[str | None, tuple[bytes, ...]]] = {
    "a comment": ("@b int /* , @a int */, @a nvarchar(20) output", (text_out(), text_out())),
    "a line comment": ("@b nvarchar(20) output --, @a int\n, @a nvarchar(20) output", (text_out(), text_out())),
    "a quoted type": ("@b [a,@x int], @a nvarchar(20) output", (text_out(), text_out())),
    "a default with a comma": ("@b nvarchar(20) = ',@x int', @a nvarchar(20) output", (text_out(), text_out())),
    "a name that is not declared": ("@b nvarchar(20) output", (text_out("@b"), text_out("@a"))),
    "a place after a name": ("@a nvarchar(20) out, @b nvarchar(20) out", (text_out("@b"), text_out())),
    "a wide letter": ("@\uff42 nvarchar(20) output, @a nvarchar(20) output", (text_out(), text_out())),
    "no declaration": (None, (text_out(), text_out())),
    "one too many": ("@b nvarchar(20) output", (text_out(), text_out())),
    "a variable of the server": ("@@b nvarchar(20) output, @a nvarchar(20) output", (text_out(), text_out())),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_attack_unclear_place_shows_no_value(name: str) -> None:
    declared, values = UNCLEAR[name]
    payload = answer(execute_sql("select @a = name, @b = id from people", declared, *values), returned(2, SECRET))
    assert is_denied(payload)
    assert SECRET.encode("utf-16-le") not in payload


@pytest.mark.parametrize(
    "token", [returned(7, SECRET), returned(2, SECRET, "@a"), returned(0, SECRET)], ids=["place", "name", "statement"]
)
def test_attack_value_that_is_at_no_place_can_be_any_variable(token: bytes) -> None:
    declared = "@b nvarchar(20) output, @a nvarchar(20) output"
    request = execute_sql("select @a = name, @b = id from people", declared, text_out(), text_out())
    payload = answer(request, token)
    assert not is_denied(payload)
    assert SECRET.encode("utf-16-le") not in payload


def test_place_is_no_place_before_tds_7_2() -> None:
    """It was the length of the value then."""
    declared = "@b nvarchar(20) output, @a nvarchar(20) output"
    for values in ((text_out(), text_out()), (text_out("@b"), text_out("@a"))):
        call = ms.call(r.EXECUTE_SQL, ms.nvarchar("select @a = name from people"), ms.nvarchar(declared), *values)
        old = bytes((k.RETURNVALUE,)) + struct.pack("<H", 2) + b"\0\1" + bytes(4)
        payload = answer(p.message(p.RPC, call, 4096), old + ms.text_type(20) + ms.text_cell(SECRET), version=k.TDS_71)
        assert SECRET.encode("utf-16-le") not in payload


PREPARED = "select @a = name from people"


def _prepared(text: str, declared: str, handle: int) -> tuple[bytes, bytes]:
    call = ms.call(r.PREPARE, ms.integer(None, status=OUT), ms.nvarchar(declared), ms.nvarchar(text))
    return ms.rpc(call), ms.reply(ms.handle(handle), ms.status(0), ms.done(code=k.DONEPROC))


def test_prepared_statement_has_the_variables_of_its_own_text() -> None:
    before = (
        _prepared("select @b = id from people", "@a nvarchar(20) output, @b nvarchar(20) output", 7),
        _prepared(PREPARED, "@b nvarchar(20) output, @a nvarchar(20) output", 8),
    )
    for handle, first, second in ((7, SECRET, SECRET), (8, SECRET, "****")):
        run = ms.rpc(ms.call(r.EXECUTE, ms.integer(handle), text_out(), text_out()))
        payload = answer(run, returned(1, SECRET), returned(2, SECRET), before=before)
        assert returned(1, first) + returned(2, second) in payload


def test_attack_names_in_another_order_make_an_execution_unknown() -> None:
    """Whether a server takes the values of sp_execute by name is not documented."""
    before = (_prepared(PREPARED, "@a nvarchar(20) output, @b nvarchar(20) output", 7),)
    for names in (("@b", "@a"), ("@b", "")):
        run = ms.rpc(ms.call(r.EXECUTE, ms.integer(7), *map(text_out, names)))
        assert is_denied(answer(run, returned(1, SECRET), before=before))
    run = ms.rpc(ms.call(r.EXECUTE, ms.integer(7), text_out("@a"), text_out("@b")))
    assert returned(1, "****") in answer(run, returned(1, SECRET), before=before)


def test_attack_handle_that_is_used_again_has_the_variables_of_its_new_text() -> None:
    declared = "@a nvarchar(20) output"
    end = (ms.rpc(ms.call(r.UNPREPARE, ms.integer(7))), ms.reply(ms.status(0), ms.done(code=k.DONEPROC)))
    before = (_prepared("set @a = 'x'", declared, 7), end, _prepared(PREPARED, declared, 7))
    run = ms.rpc(ms.call(r.EXECUTE, ms.integer(7), text_out()))
    assert returned(1, "****") in answer(run, returned(1, SECRET), before=before)
    again = ms.rpc(
        ms.call(r.PREPARE_EXECUTE, ms.integer(7, status=OUT), ms.nvarchar(declared), ms.nvarchar(PREPARED), text_out())
    )
    payload = answer(again, ms.handle(7), returned(3, SECRET), before=before[:1])
    assert ms.handle(7) in payload
    assert returned(3, "****") in payload


def test_attack_output_of_several_calls_can_be_of_any_of_them() -> None:
    calls = [
        ms.call(r.EXECUTE_SQL, ms.nvarchar(text), ms.nvarchar(ONE_TEXT), text_out())
        for text in ("set @o = 'x'", "select @o = name from people")
    ]
    done = ms.done(more=True, code=k.DONEPROC)
    payload = answer(ms.rpc(*calls), returned(2, SECRET), ms.status(0), done, returned(2, SECRET))
    assert payload.count(returned(2, "****")) == 2
    payload = answer(ms.rpc(calls[0], calls[0]), returned(2, SECRET), ms.status(0), done, returned(2, SECRET))
    assert payload.count(returned(2, SECRET)) == 2
    assert is_denied(answer(ms.rpc(calls[0], ms.call("dbo.give", text_out("@o"))), returned(2, SECRET)))
    assert is_denied(answer(ms.rpc(ms.call("dbo.give", text_out("@o")), calls[0]), returned(2, SECRET)))


def test_rows_of_a_table_parameter_are_the_clients_own() -> None:
    kind = b"\xf3\x00\x00" + k.encode_short_text("names") + struct.pack("<H", 1)
    kind += struct.pack("<IH", 0, 0) + ms.text_type(20) + b"\0" + b"\0"
    table = k.encode_short_text("@t") + b"\0" + kind + b"\x01" + ms.text_cell("a") + b"\0"
    declared = "@t names readonly, @o nvarchar(20) output"
    for text, shown in (
        ("select top 1 @o = n from @t", SECRET),
        ("select top 1 @o = p.name from people p join @t t on t.n = p.id", "****"),
    ):
        payload = answer(execute_sql(text, declared, table, text_out("@o")), returned(3, SECRET, "@o"))
        assert returned(3, shown, "@o") in payload


def test_best_effort_rule_masks_an_output_of_a_procedure_by_its_name() -> None:
    for strictness, columns, shown in (
        (Strictness.BEST_EFFORT, ("name",), "****"),
        (Strictness.BEST_EFFORT, ("people.name",), SECRET),
    ):
        rules = masking(strictness, columns)
        payload = answer(ms.rpc(ms.call("dbo.give", text_out("@Name"))), returned(0, SECRET, "@Name"), rules=rules)
        assert returned(0, shown, "@Name") in payload


def test_status_of_a_text_is_the_number_of_its_error_and_passes() -> None:
    error = ms.error(8134, "Divide by zero error encountered.")
    payload = answer(
        execute_sql("select 1/0", None), error, ms.done(more=True, error=True, code=k.DONEINPROC), ms.status(8134)
    )
    assert ms.status(8134) in payload
    assert not is_denied(payload)


@pytest.mark.parametrize(
    "text",
    [
        "declare @s int select @s = 50000 + salary from people; throw @s, 'x', 1",
        "exec dbo.give",
        "raiserror('%d', 16, 1, @s)",
    ],
)
def test_attack_status_that_a_text_can_choose_is_replaced(text: str) -> None:
    payload = answer(execute_sql(text, None), ms.status(83412))
    assert ms.status(50000) in payload


@pytest.mark.parametrize(
    "request_", [ms.rpc(ms.call("dbo.give")), ms.batch("exec dbo.give")], ids=["a call", "a batch"]
)
def test_status_of_a_procedure_is_denied(request_: bytes) -> None:
    assert is_denied(answer(request_, ms.status(83412)))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        (" ", None),
        ("@a int", ["@a"]),
        ("@P0 nvarchar(4000),@P1 int OUTPUT", ["@p0", "@p1"]),
        ("@0 int, @_x$#@ double precision out", ["@0", "@_x$#@"]),
        ("@a int,", None),
        (",@a int", None),
        ("@a", None),
        ("a int", None),
        ("@a int, ,@b int", None),
        ("@a decimal(1,2,3)", None),
        ("@a int; drop table t", None),
    ],
)
def test_declared_names_are_those_of_a_plain_declaration(text: str, names: list[str] | None) -> None:
    assert declared_names(text) == names


NAME = st.from_regex(r"@[A-Za-z0-9_#$][A-Za-z0-9_@#$]{0,9}", fullmatch=True)
TYPE = st.sampled_from(
    ["int", "nvarchar(4000)", "decimal(38, 4)", "[dbo].[kind] readonly", "varbinary(max)", "dbo.kind"]
)


@given(st.lists(st.tuples(NAME, TYPE, st.sampled_from(["", " out", "\nOUTPUT"]))), st.sampled_from([",", " , ", ",\n"]))
def test_every_plain_declaration_is_read(parameters: list[tuple[str, str, str]], comma: str) -> None:
    text = comma.join([f"{name} {kind}{output}" for name, kind, output in parameters])
    assert declared_names(text) == [name.lower() for name, _, _ in parameters]


@given(st.text("@ab ,()[]'/*-\n\uff41x1", max_size=30))
def test_names_of_any_text_are_its_first_words_or_unknown(text: str) -> None:
    names = declared_names(text)
    assert names is None or names == [part.split()[0].lower() for part in _parts(text)]


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""] if text else [], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
