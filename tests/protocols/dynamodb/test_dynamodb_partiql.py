from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.dynamodb.dialect.dynamodb_partiql import (
    PartiqlStatement,
    PartiqlTable,
    UnreadableStatement,
    read_partiql,
)

READ: list[tuple[str, PartiqlStatement]] = [
    ("SELECT * FROM orders", PartiqlStatement("SELECT", (PartiqlTable("orders"),), False)),
    ('select * from "Orders"."by-city" where "city" = \'Berlin\'',
     PartiqlStatement("SELECT", (PartiqlTable("Orders", "by-city"),), True)),
    ("SELECT id, address.city, tags[0] FROM orders WHERE id IN ['a', ?];",
     PartiqlStatement("SELECT", (PartiqlTable("orders"),), True, (("id",), ("address", "city"), ("tags",)))),
    ("SELECT size(note) FROM orders WHERE id=1",
     PartiqlStatement("SELECT", (PartiqlTable("orders"),), True, None, computes=True)),
    ("SELECT * FROM orders WHERE attribute_type(note, 'S')",
     PartiqlStatement("SELECT", (PartiqlTable("orders"),), True)),
    ("INSERT INTO \"my-table\" VALUE {'id': ?, 'tags': <<'a', 'it''s'>>, 'n': -1.5e3}",
     PartiqlStatement("INSERT", (PartiqlTable("my-table"),), False)),
    ("UPDATE orders SET total = total + 1 SET t = set_add(t, <<'x'>>) REMOVE note WHERE id='1' RETURNING ALL NEW *",
     PartiqlStatement("UPDATE", (PartiqlTable("orders"),), True, returns=True)),
    ("DELETE FROM orders WHERE id='1'", PartiqlStatement("DELETE", (PartiqlTable("orders"),), True)),
    ("EXISTS (SELECT * FROM orders WHERE id='1' AND total > 5)",
     PartiqlStatement("EXISTS", (PartiqlTable("orders"),), True)),
    ("SELECT \"from\" FROM orders", PartiqlStatement("SELECT", (PartiqlTable("orders"),), False, (("from",),))),
    ("SELECT a.from FROM orders", PartiqlStatement("SELECT", (PartiqlTable("orders"),), False, None, computes=True)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "statement"), READ)
def test_statement_is_read(text: str, statement: PartiqlStatement) -> None:
    assert read_partiql(text) == statement


UNREADABLE = [
    None,
    "",
    "orders",
    "SELECT",
    "SELECT *",
    "SELECT * FROM",
    "SELECT * FROM a.b.c",
    "SELECT * FROM a, b",
    "SELECT * FROM a JOIN b",
    "SELECT * FROM a -- comment",
    "SELECT * FROM a /* comment */",
    "SELECT * FROM a; DELETE FROM b WHERE id=1",
    "SELECT * FROM <<1, 2>>",
    "SELECT * FROM 'a'",
    'SELECT * FROM "a',
    "SELECT * FROM a WHERE id = 'open",
    "SELECT * FROM a WHERE id = `ion`",
    "CREATE TABLE a",
    "SELECT * FROM a WHERE x = 1" + " " * 9000,
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_other_text_is_unreadable(text: object) -> None:
    with pytest.raises(UnreadableStatement):
        read_partiql(text)


def test_text_in_a_string_is_not_a_table() -> None:
    statement = read_partiql("SELECT * FROM orders WHERE note = 'x FROM secrets' AND \"FROM\" = ''''")
    assert statement.tables == (PartiqlTable("orders"),)


@given(st.text(st.sampled_from("SELECTFROMselct *\"'.,()?a1;<>[]{}-/\n"), max_size=60))
def test_any_text_is_read_or_unreadable(text: str) -> None:
    try:
        statement = read_partiql(f"SELECT {text}")
    except UnreadableStatement:
        return
    assert statement.tables
