"""Scripts with parameters in the extended protocol of PostgreSQL."""

from __future__ import annotations

import pytest
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.query_contracts import check_script
from tests.support.unsaved import unsaved_connection

from postern.domain.sessions.script_parameters import BoundScript
from postern.protocols.gateway_queries import Script
from postern.protocols.postgres.dialect.postgres_placeholders import number_placeholders
from postern.protocols.postgres.queries.postgres_script import BoundPostgresScript
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.protocols.registry import PROTOCOLS
from postern.services.script_binding import bind

SHOP = unsaved_connection("postgres")


def bound(script: str, **parameters: str | None) -> BoundScript:
    return bind(script, parameters, SHOP)


def test_each_statement_has_numbers_and_values_of_its_own() -> None:
    script = "select :a, :b, :a;\n-- two\nselect :c::int ;; update t set a = :b where c = ':a'"
    assert number_placeholders(bound(script, a="1", b=None, c="3")) == [
        ("select $1, $2, $1", ("1", None)),
        ("select $1::int", ("3",)),
        ("update t set a = $1 where c = ':a'", (None,)),
    ]


def test_positions_in_a_statement_are_those_of_the_script() -> None:
    script = "select :name, :größer from nothing".replace("ö", "oe").replace("ß", "ss")
    ((text, values),) = number_placeholders(bound(script, name="x", groesser="y"))
    assert (text, values) == ("select $1   , $2        from nothing", ("x", "y"))
    assert text.index("nothing") == script.index("nothing")


def test_more_than_nine_short_names_still_have_each_its_number() -> None:
    names = "abcdefghijkl"
    ((text, values),) = number_placeholders(
        bound("select " + ",".join(f":{name}" for name in names), **{name: name for name in names})
    )
    assert text == "select $1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12"
    assert values == tuple(names)


def test_script_that_cannot_be_parsed_is_sent_whole() -> None:
    assert number_placeholders(bound("selec :a; select :b", a="1", b="2")) == [("selec $1; select $2", ("1", "2"))]


def test_function_body_is_one_statement() -> None:
    script = "create function f() returns int begin atomic select 1; select 2; end; select :a;"
    texts = [text for text, _ in number_placeholders(bound(script, a="1"))]
    assert texts == [script.removesuffix("; select :a;"), "select $1"]


def test_bound_script_fulfils_the_script_contract() -> None:
    def make(text: str) -> Script:
        return BoundPostgresScript([(text, ("it's", None))])

    begun = pg.parse_complete() + pg.bind_complete()
    rows = pg.row_description("a") + pg.data_row("x") + pg.command_complete("SELECT 1")
    check_script(
        make,
        PostgresWire,
        "select $1, $2",
        answer=begun + rows + pg.ready(),
        failing=pg.parse_complete() + pg.error("invalid input", "22P02") + pg.ready(),
    )


@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_protocols_say_whether_they_bind(name: str) -> None:
    make = PROTOCOLS[name].bound_script
    assert (make is not None) == (name == "postgres")


def test_one_batch_is_one_transaction() -> None:
    make = PROTOCOLS["postgres"].bound_script
    assert make is not None
    sent = make(bound("select :a; select :b", a="1", b="2")).start()
    assert sent.count(m.SYNC_MESSAGE) == 1
    assert sent.endswith(m.SYNC_MESSAGE)
    assert sent.count(b"select $1\0") == 2
