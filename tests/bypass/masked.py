"""Count the effects of a strict rule about columns on ordinary statements: `python -m tests.bypass.masked`.

Statements about system tables are omitted, and so are those whose tables are not in the schema below: a real schema
snapshot has both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from tests.bypass import ordinary_mysql, ordinary_postgres
from tests.bypass.world_postgres import SCHEMA

from postern.domain.rules.masking import MaskingRule, Strategy
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_columns import ColumnRule, ColumnRules
from postern.inspection.masking.strategies import Substitutes
from postern.interception.events import Column, TextKind
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage
from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage

# With rows: the others lose nothing.
_ANSWERS = re.compile(
    r"\s*(?:/\*.*?\*/\s*)?\(?(?:select|with|table|values|copy\b.*\bto|.*\breturning\b)", re.I | re.DOTALL
)
_SYSTEM = re.compile(r"pg_|information_schema|performance_schema|mysql\.", re.IGNORECASE)
# The demo's shop, as people ask it.
SHOP = """
select * from customers
select * from customers where id = 7
select id, name from customers order by name limit 20
select name, email from customers where email like '%@example.com'
select email as contact from customers c where c.id < 100
select name, email, orders, spent from customer_spending order by spent desc limit 10
select * from customer_spending where email = 'ann@example.com'
select date_trunc('month', created_at), count(*) from customers group by 1
select count(*) from customers
select count(email), count(distinct phone) from customers
select c.name, o.id, o.status from orders o join customers c on c.id = o.customer_id
select c.email, sum(i.quantity * i.unit_price) from customers c join orders o on o.customer_id = c.id
 join order_items i on i.order_id = o.id group by c.email
select status, count(*) from orders group by status
select date_trunc('month', ordered_at), count(*) from orders group by 1
select p.name, sum(i.quantity) from order_items i join products p on p.id = i.product_id group by p.name order by 2 desc
select category, avg(price), min(price), max(price) from products group by category
select o.id, (select count(*) from order_items i where i.order_id = o.id) from orders o
select exists (select 1 from orders o where o.customer_id = c.id), c.name from customers c
with big as (select order_id, sum(quantity * unit_price) as total from order_items group by order_id)
 select o.id, big.total from orders o join big on big.order_id = o.id
select c.id, c.email, row_number() over (order by c.id) from customers c
select notes ->> 'vip' from customers
select email from customers union select email from customer_spending
copy customers to stdout
copy (select id, email from customers) to stdout with csv
name || ' <' || email || '>'
lower(email)
split_part(email, '@', 2), count(*)
coalesce(phone, 'none')
min(email)
email is null
other_phones[1]
right(card, 4)
update customers set name = 'Ann' where id = 1 returning id, name
delete from order_items where order_id = 1 returning quantity
"""


def _world(view: str = "", **tables: str) -> TargetSchema:
    """`view` is the definition of the last of the tables."""
    relations = [Relation("shop", name, tuple(columns.split())) for name, columns in tables.items()]
    relations[-1:] = [replace(relations[-1], definition=view)]
    return TargetSchema({(one.schema, one.name): one for one in relations}, search_path=("shop",))


_VIEW = """select shop.customers.id, shop.customers.name, shop.customers.email, count(distinct shop.orders.id) as orders,
 sum(quantity * unit_price) as spent from shop.customers join shop.orders on orders.customer_id = customers.id
 join shop.order_items on order_items.order_id = orders.id group by customers.id"""
_SHOP = _world(
    _VIEW,
    customers="id name email phone other_phones card ssn iban ip notes created_at",
    products="id sku name category price stock",
    orders="id customer_id status ordered_at",
    order_items="order_id product_id quantity unit_price",
    customer_spending="id name email orders spent",
)
_MYSQL = _world(
    users="id name email phone age country created_at deleted_at",
    orders="id customer_id status total name created_at day",
    customers="id name email",
)


def _texts(lines: str) -> list[str]:
    """Split into one text per line. A line that begins with a blank continues the previous one, and an expression
    becomes a query on the customers."""
    joined = lines.strip().replace("\n ", " ").splitlines()
    return [one if _ANSWERS.match(one) else f"select {one} from customers" for one in joined]


def _outcome(origins: SessionLineage | MySqlSessionLineage, columns: ColumnRules, text: str) -> str:
    origins.record_statement(text)
    is_copy = text.startswith("copy")
    for width in (0,) if is_copy else range(1, 13):
        sources = origins.of(text, tuple(Column("?", TextKind.TEXT) for _ in range(width)))
        if sources is not None and None not in sources:
            break
    else:
        return "unknown"
    decided = columns.decide(tuple(Column("?", TextKind.TEXT) for _ in sources), sources)
    chosen = [one for one in decided.chosen if one is not None]
    if not chosen:
        return "shown"
    return "masked" if all(one.plain for one in chosen) else "constant"


def _counted(
    schema: TargetSchema, patterns: Iterable[str], texts: Iterable[str], *, mysql: bool = False
) -> Iterator[tuple[str, str]]:
    names = re.compile("|".join(sorted({key[1] for key in schema.relations})), re.IGNORECASE)
    rule = ColumnRule(
        MaskingRule(UUID(int=0), UUID(int=0), "pii", columns=tuple(patterns)), Substitutes(Strategy.NULL, b"")
    )
    for text in texts:
        if _SYSTEM.search(text) or not names.search(text) or not _ANSWERS.match(text):
            continue
        origins: SessionLineage | MySqlSessionLineage
        if mysql:
            origins = MySqlSessionLineage(MySqlLineage(), lambda: schema)
        else:
            origins = SessionLineage(Lineage(), lambda: schema)
        if outcome := _outcome(origins, ColumnRules([rule], origins), text):
            yield outcome, text


def main() -> None:
    worlds = {
        "demo's shop": _counted(
            _SHOP, ("customers.email", "customers.phone", "customers.other_phones", "customers.card"), _texts(SHOP)
        ),
        "ordinary_postgres": _counted(
            SCHEMA, ("customers.name", "customers.mail"), (one.text for one in ordinary_postgres.ORDINARY)
        ),
        "ordinary_mysql": _counted(
            _MYSQL,
            ("users.name", "users.email", "customers.email"),
            (one.text for one in ordinary_mysql.ORDINARY),
            mysql=True,
        ),
    }
    for name, found in worlds.items():
        outcomes = list(found)
        counts = Counter(outcome for outcome, _ in outcomes)
        print(f"{name}: {len(outcomes)} statements, " + ", ".join(f"{many} {what}" for what, many in counts.items()))
        for outcome, text in outcomes:
            if outcome == "constant":
                print(f"    {outcome}: {' '.join(text.split())[:100]}")


if __name__ == "__main__":
    main()
