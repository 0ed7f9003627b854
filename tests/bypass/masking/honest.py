"""Ordinary queries on the same tables, and the effect of masking on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from tests.bypass.masking.compare import Answer, Message, Server
from tests.bypass.masking.strategies import Policing


class Outcome(StrEnum):
    UNCHANGED = "unchanged"
    MASKED = "masked"  # columns of the table are masked, and nothing else differs
    CONSTANT = "constant"  # a computed column differs from what the server said
    REFUSED = "refused"


_SHARED = """
select * from people
select id, name, email from people
select id, note from people order by id
select name, email from people where id = 1
select id from people where name like 'A%' order by id
select name from people where salary > 50000 order by id
select * from people order by name limit 10
select count(*) from people
select count(*), grp from people group by grp order by grp
select count(distinct name) from people
select count(phone) from people
select grp, count(*) as n from people group by grp having count(*) > 0 order by grp
select distinct grp from people order by grp
select distinct name from people
select name, count(*) from people group by name order by name
select grp, sum(salary) from people group by grp order by grp
select grp, avg(salary), min(salary), max(salary) from people group by grp order by grp
select max(birthday) from people
select sum(o.total), p.grp from orders o join people p on p.id = o.person group by p.grp order by p.grp
select o.id, o.label, p.name from orders o join people p on p.id = o.person order by o.id
select p.name, o.total from people p left join orders o on o.person = p.id order by p.id, o.id
select p.name, count(o.id) from people p left join orders o on o.person = p.id group by p.id, p.name order by p.id
select p.id, sum(o.total) as spent from people p join orders o on o.person = p.id group by p.id order by spent desc
select o.label, o.total * 2 as doubled from orders o order by o.id
select label, count(*), sum(total), avg(total) from orders group by label order by label
select upper(label) from orders order by id
select upper(name) from people order by id
select concat(name, ' <', email, '>') from people order by id
select salary / 12 as monthly from people order by id
select salary + 100 as raised, note from people order by id
select coalesce(phone, 'none') from people order by id
select case when phone is null then 'no' else 'yes' end from people order by id
select case when id = 1 then 'me' else note end from people order by id
select id, phone is null from people order by id
select cast(salary as char(10)) from people order by id
select who, salary from v_people order by id
select * from v_people
select * from v_shout
select * from v_orders
select id, label, name from v_orders where salary > 1000 order by id
select * from orders where person in (select id from people where name like 'A%') order by id
select * from orders o where exists (select 1 from people p where p.id = o.person and p.salary > 50000) order by id
select (select name from people where id = o.person) as buyer from orders o order by o.id
select o.label, (select count(*) from people) as n from orders o order by o.id
with rich as (select id, name from people where salary > 50000) select * from rich order by id
with totals as (select person, sum(total) as t from orders group by person) select p.name, t.t from totals t join people p on p.id = t.person order by p.id
select name from people where id = 1 union all select name from people where id = 2
select note from people union select label from orders order by 1
select id, row_number() over (order by id) from orders
select id, rank() over (order by salary desc) as place from people order by id
select id, sum(total) over (partition by person order by id) from orders order by id
select name, lag(name) over (order by id) from people order by id
select p.birthday, p.seen from people p order by id
select extract(year from birthday) from people order by id
select id, length(note) from people order by id
select id, length(name) from people order by id
select substr(email, 1, 3) from people order by id
select doc from people order by id
select body from notes order by id
select n.body, p.name from notes n join people p on p.id = n.id order by n.id
select 1
select null, 'x', 2 + 2
insert into notes (id, body) values (90, 'new')
update notes set body = 'changed' where id = 1
delete from notes where id = 90
update people set note = 'first' where name = 'Ada Lovelace'
select t.id, t.name from (select id, name, grp from people) t where t.grp = 0 order by t.id
select a.name, b.name from people a join people b on a.grp = b.grp and a.id < b.id order by a.id
select max(total) - min(total) from orders
select name as customer, email as contact from people order by id
""".strip().splitlines()

_POSTGRES = """
select name || ' ' || email from people order by id
select string_agg(name, ', ' order by id) from people
select array_agg(id order by id) from people
select array_agg(name order by id) from people
select json_agg(o order by o.id) from orders o
select row_to_json(p) from people p order by id
select to_char(birthday, 'YYYY-MM') as month, count(*) from people group by 1 order by 1
select date_trunc('month', seen), count(*) from people group by 1 order by 1
select doc->>'k', doc->'deep' from people order by id
select unnest(tags) from people where id = 1
select name::text, salary::numeric from people order by id
select age(birthday, date '2020-01-01') from people order by id
select distinct on (grp) grp, name from people order by grp, id
select count(*) filter (where salary > 50000) from people
select percentile_cont(0.5) within group (order by salary) from people
select o.*, p.name from orders o cross join lateral (select name from people where id = o.person) p order by o.id
select relname, relkind from pg_class where relname in ('people', 'orders') order by 1
select column_name, data_type from information_schema.columns where table_name = 'orders' order by ordinal_position
select current_user, version() is not null
show server_version
explain (costs off) select * from people where id = 1
begin
copy orders to stdout
copy people (id, name) to stdout with csv header
insert into notes (id, body) values (91, 'x') returning id, body
""".strip().splitlines()

_MYSQL = """
select group_concat(name order by id) from people
select ifnull(phone, 'none') from people order by id
select if(salary > 50000, 'rich', 'poor') from people order by id
select date_format(birthday, '%Y-%m') as month, count(*) from people group by month order by month
select year(birthday), count(*) from people group by year(birthday) order by 1
select json_extract(doc, '$.k') from people order by id
select name from people limit 1, 2
select found_rows()
show tables
show columns from orders
describe notes
show variables like 'autocommit'
select database(), user() is not null
explain select * from people where id = 1
select table_name from information_schema.tables where table_schema = 'leaks_a' order by 1
set @x = 1
select @x
start transaction
""".strip().splitlines()

QUERIES: Mapping[str, Sequence[str]] = {"postgres": (*_SHARED, *_POSTGRES), "mariadb": (*_SHARED, *_MYSQL)}


def outcome(server: Server, policing: Policing, query: str) -> Outcome:
    """Run a query, roll back its changes, and return the effect of masking."""
    steps = ("begin", query, "rollback")
    told = server.run(None, "a", server.protocols[0], steps).answers[1]
    shown = server.run(policing, "a", server.protocols[0], steps).answers[1]
    if any(b"masking rule" in message.body for message in shown):
        return Outcome.REFUSED
    if _without_reports(shown) == _without_reports(told):
        return Outcome.UNCHANGED
    plain = server.plain_columns(told)
    computed = [place for place in _changed(told, shown) if place < len(plain) and not plain[place]]
    return Outcome.CONSTANT if computed else Outcome.MASKED


def _without_reports(answer: Answer) -> Answer:
    """Remove the warnings and the execution flags of MySQL's OK and EOF packets, which users rarely see."""
    return [
        Message(message.tag, message.body[:2]) if message.tag == "result" and message.body[:1] == b"\0" else message
        for message in answer
        if message.tag != "eof"
    ]


def _changed(told: Answer, shown: Answer) -> set[int]:
    """Places of the columns in which some cell differs."""
    found: set[int] = set()
    for one, other in zip(told, shown, strict=False):
        if one.cells is not None and other.cells is not None:
            found |= {at for at, cells in enumerate(zip(one.cells, other.cells, strict=True)) if cells[0] != cells[1]}
    return found


def counts(server: Server, policing: Policing) -> Counter[Outcome]:
    return Counter(outcome(server, policing, query) for query in QUERIES[server.name])
