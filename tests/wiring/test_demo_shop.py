"""The demo's rules: what they must refuse, and the everyday statements that they must let through."""

from __future__ import annotations

import pytest
import re2

from postern.inspection.patterns import compiles
from postern.wiring.demo_shop import RULES

REFUSED = [
    ("drop table customers", "drop"),
    ("DROP   TABLE if exists customers cascade", "drop"),
    ("select 1; drop\nschema public cascade", "drop"),
    ("drop materialized view v", "drop"),
    ("alter table customers drop column email", "drop"),
    ("truncate customers", "truncate"),
    ('TRUNCATE TABLE only "orders"', "truncate"),
    ("delete from customers", "delete without where"),
    ("delete from customers;", "delete without where"),
    ("DELETE FROM customers c returning *", "delete without where"),
    ("delete from orders using customers", "delete without where"),
    ("delete from a; select * from b where id = 1", "delete without where"),
    ("update customers set name = 'x'", "update without where"),
    ("update only customers as c set name = 'x', email = 'wh'", "update without where"),
    ('UPDATE "customers" SET name = $1', "update without where"),
    ("delete from customers where true", "where that is always true"),
    ("update customers set name = 'x' where 1=1;", "where that is always true"),
]
ALLOWED = [
    "select * from customers",
    "select * from customers where name like '%drop%'",
    "select dropped, truncated from parcels",
    "delete from customers where id = 1",
    "DELETE FROM customers\nWHERE id = 1 RETURNING *",
    "delete from orders using customers where orders.customer_id = customers.id and customers.id = 4",
    "update customers set name = 'x' where id = 1",
    "update customers c set name = 'x'\n  where c.id = 1; select 1",
    "insert into products values (1) on conflict (id) do update set name = excluded.name",
    "select * from orders for update",
    "create table drops (id int)",
    "select true where true and id = 1",
    "create temp table t on commit drop as select 1",
]


def matching(statement: str) -> list[str]:
    return [name for name, pattern in RULES.items() if re2.search(pattern, statement)]


@pytest.mark.parametrize(("statement", "rule"), REFUSED)
def test_what_empties_or_removes_tables_is_refused_by_its_rule(statement: str, rule: str) -> None:
    assert rule in matching(statement)


@pytest.mark.parametrize("statement", ALLOWED)
def test_everyday_statements_pass(statement: str) -> None:
    assert matching(statement) == []


def test_every_rule_is_one_the_engine_takes() -> None:
    assert {name: compiles(pattern) for name, pattern in RULES.items()} == dict.fromkeys(RULES)
