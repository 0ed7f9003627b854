"""The shop's tables and rows. Every machine has the same rows, so that examples and tests can name them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from postern.demo import identifiers

CUSTOMERS = 500
ORDERS = 1500
_START = datetime(2025, 1, 6, 9, 0, tzinfo=UTC)

SCHEMA = """
create table customers (
    id integer primary key,
    name text not null,
    email text not null unique,
    phone text not null,
    other_phones text[] not null,
    card text not null,
    ssn text not null,
    iban text not null,
    ip inet not null,
    notes jsonb not null,
    created_at timestamptz not null
);
create table products (
    id integer primary key,
    sku text not null unique,
    name text not null,
    category text not null,
    price numeric(10, 2) not null,
    stock integer not null
);
create table orders (
    id integer primary key,
    customer_id integer not null references customers,
    status text not null check (status in ('new', 'paid', 'sent', 'returned')),
    ordered_at timestamptz not null
);
create table order_items (
    order_id integer not null references orders,
    product_id integer not null references products,
    quantity integer not null check (quantity > 0),
    unit_price numeric(10, 2) not null,
    primary key (order_id, product_id)
);
create index orders_customer on orders (customer_id);
create index orders_ordered_at on orders (ordered_at);
create view customer_spending as
    select customers.id, customers.name, customers.email,
           count(distinct orders.id) as orders, sum(quantity * unit_price) as spent
    from customers
    join orders on orders.customer_id = customers.id
    join order_items on order_items.order_id = orders.id
    group by customers.id;
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GIVEN = _words(
    "Alba Bo Cleo Dana Eden Faye Gale Hana Indra Jo Kit Lee Mika Noa Oli Pat Quinn Rae Sam Tal "
    "Uma Val Wren Xen Yuri Zoe"
)
FAMILY = _words(
    "Ash Birch Brook Clay Cliff Dale Dell Elm Fern Field Ford Glen Grove Heath Hill Holm Lake Linden Marsh Mead "
    "Moor Oak Pine Reed Ridge Rowan Shore Stone Vale Wells Willow Wood"
)
ITEMS = ("Kettle", "Lamp", "Notebook", "Backpack", "Chair", "Mug", "Umbrella", "Clock", "Blanket", "Compass")
FINISHES = (("Plain", Decimal("9.90")), ("Oak", Decimal("24.50")), ("Steel", Decimal("39.00")), ("Blue", Decimal(15)))
CATEGORIES = ("kitchen", "home", "office", "travel")
STATUSES = ("sent", "sent", "paid", "sent", "new", "returned", "sent")
REMARKS = ("prefers e-mail", "asked for an invoice", "gift wrapping", "call before delivery", "leave at the door")


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def tables() -> tuple[Table, ...]:
    """Return the tables in the order in which their references allow to load them. Times are UTC."""
    products = tuple(_products())
    return (
        Table(
            "customers",
            ("id", "name", "email", "phone", "other_phones", "card", "ssn", "iban", "ip", "notes", "created_at"),
            tuple(_customer(serial) for serial in range(1, CUSTOMERS + 1)),
        ),
        Table("products", ("id", "sku", "name", "category", "price", "stock"), products),
        Table(
            "orders",
            ("id", "customer_id", "status", "ordered_at"),
            tuple(_order(serial) for serial in range(1, ORDERS + 1)),
        ),
        Table(
            "order_items", ("order_id", "product_id", "quantity", "unit_price"), tuple(_items([p[4] for p in products]))
        ),
    )


def _customer(serial: int) -> tuple[Any, ...]:
    first_name = GIVEN[serial * 7 % len(GIVEN)]
    family = FAMILY[serial * 5 % len(FAMILY)]
    notes: dict[str, Any] = {"remark": REMARKS[serial % len(REMARKS)], "newsletter": serial % 3 == 0}
    if serial % 4 == 0:
        notes["invoice_to"] = identifiers.email("office", family, serial)
    others = [identifiers.phone(serial * 31 + extra) for extra in range(serial % 3)]
    return (
        serial,
        f"{first_name} {family}",
        identifiers.email(first_name, family, serial),
        identifiers.phone(serial),
        others,
        identifiers.card(serial),
        identifiers.ssn(serial),
        identifiers.iban(serial),
        identifiers.address(serial),
        json.dumps(notes),
        _START + timedelta(hours=serial * 17),
    )


def _products() -> Iterator[tuple[Any, ...]]:
    for serial in range(len(ITEMS) * len(FINISHES)):
        item, (finish, price) = ITEMS[serial % len(ITEMS)], FINISHES[serial % len(FINISHES)]
        sku = f"{item[:3].upper()}-{serial:03}"
        category = CATEGORIES[serial % len(ITEMS) % len(CATEGORIES)]
        yield serial + 1, sku, f"{finish} {item} {serial // 20 + 1}", category, price + serial, serial * 13 % 90


def _order(serial: int) -> tuple[Any, ...]:
    customer = 1 + serial * 101 % CUSTOMERS
    return serial, customer, STATUSES[serial % len(STATUSES)], _START + timedelta(days=360, minutes=serial * 89)


def _items(prices: list[Decimal]) -> Iterator[tuple[Any, ...]]:
    for order in range(1, ORDERS + 1):
        for line in range(1 + order % 4):
            product = (order * 3 + line * 7) % len(prices)
            yield order, product + 1, 1 + (order + line) % 3, prices[product]
