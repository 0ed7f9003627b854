"""The database of the PostgreSQL cases, and its catalogue as the gateway reads it."""

from __future__ import annotations

from postern.domain.targets.target_schema import Function, Relation, TargetSchema

SETUP = r"""
create schema app;
create table customers (id int primary key, name text, mail text, active bool default true, balance numeric default 0,
    data jsonb default '{}', "drop" int, parent int);
create table orders (id serial primary key, customer int references customers, total numeric, status text);
create table app.notes (id int primary key, body text);
insert into customers (id, name, mail) values (1, 'Ada', 'ada@example.com'), (2, 'Bob', 'bob@example.com'), (3, 'C', 'c');
insert into orders (customer, total, status) values (1, 10, 'new'), (2, 20, 'paid');
insert into app.notes values (1, 'DROP TABLE customers');
create sequence counter;
create type mood as enum ('happy', 'sad');
create view mails as select id, mail from customers;
create function app.burn() returns int language plpgsql volatile as
    $$ begin delete from app.notes; return 1; end $$;
create function calm(a int) returns int language sql immutable as 'select a + 1';
create function app.initcap(a text) returns text language plpgsql volatile as
    $$ begin delete from app.notes; return a; end $$;
create function app.checks(a int) returns bool language plpgsql volatile as
    $$ begin delete from app.notes; return true; end $$;
create function app.joins(a int, b int) returns int language plpgsql volatile as
    $$ begin delete from app.notes; return a; end $$;
create function nickname(a customers) returns text language plpgsql volatile as
    $$ begin delete from app.notes; return a.name; end $$;
create procedure app.clean() language plpgsql as $$ begin delete from app.notes; end $$;
create view app.trap as select app.burn() as burnt;
create view app.calls as select nextval('counter') as number;
create view app.mails_of_mails as select * from mails;
create view app.trap_behind as select * from app.trap;
create domain watched as int check (app.checks(value));
create table rung (step watched);
create type same as enum ('a', 'b');
create function app.equal(a same, b same) returns bool language plpgsql volatile as
    $$ begin delete from app.notes; return true; end $$;
create operator app.= (leftarg = same, rightarg = same, function = app.equal);
create operator app.<+> (leftarg = int, rightarg = int, function = app.joins);
select lo_from_bytea(4242, 'large');
grant select on large object 4242 to public;
create function app.run(words text) returns void language plpgsql as $$ begin execute words; end $$;
grant usage, create on schema public, app to public;
grant all on all tables in schema public, app to public;
grant all on all sequences in schema public, app to public;
"""

_CUSTOMERS = ("id", "name", "mail", "active", "balance", "data", "drop", "parent")


def _relation(schema: str, name: str, columns: tuple[str, ...], definition: str = "") -> Relation:
    return Relation(schema, name, columns, definition=definition)


_RELATIONS = (
    _relation("public", "customers", _CUSTOMERS),
    _relation("public", "orders", ("id", "customer", "total", "status")),
    _relation("public", "orders_id_seq", ()),
    _relation("public", "counter", ()),
    _relation("public", "rung", ("step",)),
    _relation("app", "notes", ("id", "body")),
    _relation("public", "mails", ("id", "mail"), " SELECT id,\n    mail\n   FROM customers;"),
    _relation("app", "trap", ("burnt",), " SELECT app.burn() AS burnt;"),
    _relation("app", "calls", ("number",), " SELECT nextval('counter'::regclass) AS number;"),
    _relation("app", "mails_of_mails", ("id", "mail"), " SELECT id,\n    mail\n   FROM mails;"),
    _relation("app", "trap_behind", ("burnt",), " SELECT burnt\n   FROM app.trap;"),
)
_FUNCTIONS = (
    *(
        Function("app", name, harmless=False)
        for name in ("burn", "initcap", "checks", "joins", "clean", "run", "equal")
    ),
    Function("public", "nickname", harmless=False),
    Function("public", "calm", harmless=True),
)
SCHEMA = TargetSchema(
    relations={(one.schema, one.name): one for one in _RELATIONS},
    functions={(one.schema, one.name): one for one in _FUNCTIONS},
    search_path=("public",),
    types={("public", "mood"): True, ("public", "watched"): False},
    operators={("app", "<+>"): False},
)
