"""Views of MySQL and MariaDB that read a guarded table, and statements that read those views.

Every view in `READING` returns the protected value, as a test checks on a real server; those in `APART` do not read
the table.
"""

from __future__ import annotations

GUARDED = "vault.secrets"
VALUE = "hush-4711"

TABLES = f"""
create database vault;
create database elsewhere;
create table vault.secrets (id int primary key, pin varchar(20), at date);
insert into vault.secrets values (1, '{VALUE}', '2024-05-06');
create table scratch.sink (pin text);
create table scratch.secrets (id int, pin varchar(20));
create table scratch.people (id int, name varchar(20));
insert into scratch.people values (1, 'Ann');
create table elsewhere.people (id int, name varchar(20))
"""

# By name, in the order in which they are created; the database is `scratch` where the name has none.
READING = {
    "plain": "select pin from vault.secrets",
    "star": "select * from vault.secrets",
    "aliased": "select s.pin as x from vault.secrets as s where s.id > 0",
    "computed": "select concat(upper(substr(pin, 1, 1)), substring(pin, 2), '') as x, pin from vault.secrets",
    "cast": "select cast(pin as char(20) character set utf8mb4) as x from vault.secrets",
    "subquery": "select (select max(pin) from vault.secrets) as x",
    "derived": "select x.pin from (select pin from vault.secrets) x",
    "expressed": "with c as (select pin from vault.secrets) select pin from c",
    "recursed": "with recursive c as (select pin, 1 as n from vault.secrets union all select pin, n + 1 from c"
    " where n < 2) select * from c",
    "united": "select name from scratch.people union select pin from vault.secrets",
    "joined": "select p.name, s.pin from scratch.people p left join vault.secrets s on s.id = p.id",
    "old_join": "select p.name, s.pin from scratch.people p, vault.secrets s where s.id = p.id",
    "grouped": "select id, group_concat(distinct pin order by pin desc separator ';') as x from vault.secrets"
    " group by id having count(0) > 0",
    "windowed": "select pin, row_number() over (partition by id order by pin) as n from vault.secrets",
    "dated": "select pin, at + interval 1 day as d, date_format(at, '%Y') as y from vault.secrets",
    "branched": "select case when id = 1 then pin else 'no' end as x, if(id is null, 1, 2) as y from vault.secrets",
    "quoted": "select 'it''s; -- ' as a, '\\\\' as b, pin as `a``b; drop` from vault.secrets",
    "as_json": "select json_object('pin', pin) as x from vault.secrets",
    "limited": "select pin from vault.secrets order by id desc limit 1",
    "matched": "select pin from vault.secrets where pin like '%7%' and id in (1, 2) and not id between 5 and 6",
    "of_plain": "select * from plain",
    "elsewhere.of_it": "select * from scratch.of_plain",
    "of_elsewhere": "select pin as y from elsewhere.of_it",
    "`odd ``name`": "select pin from vault.secrets",
    "MixedCase": "select pin from vault.secrets",
    "elsewhere.secrets": "select pin from vault.secrets",
    "hidden_people": "select name from scratch.people where exists (select 1 from vault.secrets)"
    f" union select '{VALUE}'",
}
# Clauses in front of VIEW.
CLAUSES = {
    "definers": "sql security definer",
    "invokers": "sql security invoker",
    "merged": "algorithm = merge",
    "materialized": "algorithm = temptable definer = root@localhost sql security definer",
}
APART = {
    "names": "select name from scratch.people",
    "of_names": "select upper(name) as n, 'vault.secrets' as text from names",
    "elsewhere.names": "select * from elsewhere.people",
    "own_secrets": "select pin from scratch.secrets",
}

# Statements that read or write what the view `{}` shows.
USES = """
select * from {}
select count(*) from {}
select x.* from {} as x
select * from (select * from {}) x
with c as (select * from {}) select * from c
select (select 1 from {} limit 1)
select 1 union select 1 from {}
select 1 from scratch.people where exists (select * from {})
select 1 from scratch.people p join {} v
select * from {} where 1 = 0 for update
insert into scratch.sink select 1 from {}
replace into scratch.sink select 1 from {}
create table scratch.leak as select * from {}
create view scratch.leaking as select * from {}
update {} set pin = 'x' where id = 1
delete from {} where id = 1
delete v from {} v where v.id = 1
delete from v using {} v where v.id = 1
update scratch.people p join {} v set p.name = 'x'
insert into {} values (1)
set @x = (select 1 from {} limit 1)
do (select 1 from {} limit 1)
explain select * from {}
analyze select * from {}
prepare p from 'select * from {}'
load data local infile 'x' into table {}
lock tables {} read
create procedure scratch.p() insert into scratch.sink select 1 from {}
create event scratch.e on schedule every 1 hour do insert into scratch.sink select 1 from {}
create procedure scratch.p() begin select * from {}; end
"""
