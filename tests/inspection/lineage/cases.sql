select email from users
select users.email from users
select public.users.email from users
select u.email as x from users u
select u.email x, name as "Quoted Name" from users as u
select EMAIL, "email" from USERS
select "Email Address", "select" from "Mixed Case"
select m."Email Address" as e from "Mixed Case" as m
select u.a, u.b, u.name from users as u(a, b)
select * from users
select users.* from users
select u.*, o.note from users u, orders o
select *, upper(email) from users
select kept from gone
select * from gone
table users
table only animals
values ('a', 1)
values ((select email from users), 'x'), ('y', (select name from users))
select upper(email) from users as e
select pg_catalog.upper(email) from users
select email || '' from users
select email || name || note from users, orders
select email::varchar(4), cast(name as bytea), placed::text from users, orders
select substring(email from 1 for 7), overlay(name placing 'x' from 1 for 1), trim(both 'x' from email) from users
select extract(year from placed), date_trunc('year', placed), placed + 1, placed at time zone 'UTC' from orders
select case when email like 'Uemail1%' then 'yes' else 'no' end from users
select case name when 'Uname1' then 1 else 0 end, case when true then email end from users
select case when id > 0 then email else name end as pick from users
select coalesce(null, email, name), nullif(email, name), greatest(email, name), least(id, 3) from users
select email = 'Uemail1', email in ('Uemail1', name), email is null, email between 'Uemail1' and 'Uemail1' from users
select email similar to '%1', email ~ '1$', email ilike '%1', not (email = 'Uemail1') from users
select email is distinct from 'Uemail1', email = any (array['Uemail1']), email = all (labels) from users
select array[email, name], row(id, email), (array[email, name])[1] from users
select labels[1], labels[1:1], info -> 'k', info ->> 'k', info #>> '{k}' from users
select info @> '{"k": "Uinfo1"}', jsonb_pretty(info), jsonb_path_query_first(info, '$.k') from users
select md5(email), encode(sha256(email::bytea), 'hex'), length(email || repeat('x', right(email, 1)::int)) from users
select format('%s-%s', email, name), concat_ws(',', email, note), quote_literal(email) from users, orders
select regexp_replace(email, 'U', 'V'), translate(email, 'U', 'V'), replace(email, 'U', 'V'), left(email, 99) from users
select count(*), count(email), max(email), min(name) from users
select string_agg(email, ',' order by name), array_agg(email), json_agg(email) from users
select sum(amount), avg(amount), stddev_pop(amount + length(note)) from orders
select sum(amount) filter (where note like 'Onote1%') from orders
select percentile_cont(0.5) within group (order by salary), mode() within group (order by email) from hr.staff
select max(email) over (), first_value(name) over (order by email), lag(email, 0) over (partition by id) from users
select max(email) over w, row_number() over w from users window w as (partition by name order by id)
select sum(amount) over (w rows unbounded preceding) from orders window w as (order by id)
select json_build_object('e', email, 'n', name), json_object_agg(email, name) from users group by email, name
select row_to_json(u) from users u
select row_to_json(users) from users
select to_jsonb(u.*), to_json(u), jsonb_agg(u) from users u group by u.*
select u from users u
select users from users
select u::text, (u), array[u] from users u
select (u).email, (u).id from users u
select (u).* from users u
select (u.*).name from users u
select home, (home).city, (u.home).street, (home).* from users u
select row(u.*), row(u.*, 1) from users u
select (row_to_json(u) -> 'email')::text from users u
select s.x from (select email as x from users) s
select s.x, s.* from (select email, name from users) as s(x)
select upper from (select upper(email) from users) s
select "?column?" from (select email || 'x' from users) s
select text from (select email::text || '' as text, (name || '')::text from users) s(text, other)
select coalesce from (select coalesce(email, name) from users) s
select "exists", s."array" from (select exists(select 1), array(select email from users)) s
select s from (select email, name from users) s
select s.s from (select email as s, name from users) s
select row_to_json(s) from (select email as a, note as b from users, orders) s
select (select email from users)
select (select u.email from users u where u.id = o.user_id) from orders o
select (select max(u.email || o.note) from users u) from orders o
select (select o.note) from orders o
select (select s.email from (select u.email) s) from users u
select array(select email from users), row((select name from users), 1)
select exists (select email from users), 'Uemail1' in (select email from users)
select (email, name) = (select 'Uemail1', 'Uname1') from users
select email > any (select body from notes) from users
select x.y from (select (select email from users) as y) x
select id, (select count(*) from orders o where o.user_id = u.id) from users u
with c as (select email from users) select * from c
with c(a, b) as (select email, name from users) select b, a from c
with a as (select email from users), b as (select a.email as e from a) select * from b, a
with users as (select note as email from orders) select email from users
with users as (select email from users) select * from users
with users as (select note as email from orders) select u.email, (select email from public.users) from users u
with recursive r as (select 1 as n, email from users union all select n + 1, email || 'x' from r where n < 3) select * from r
with recursive r(n, a, b) as (select 1, email, name from users union all select n + 1, b, a from r where n < 3) select * from r
with recursive r(n, a, b, c) as (select 1, email, name, 'x' from users union all select n + 1, b, c, a from r where n < 4) select a, c from r
with recursive b as (select * from a), a as (select email from users) select * from b
with recursive t(n, s) as (values (1, 'x') union all select n + 1, body from t, notes where n < 2) select max(s), max(n) from t
with recursive t(n, s) as (select 1, body from notes union all select n + 1, s from t where n < 2) search depth first by s set o select n, o from t
with recursive t(n, s) as (select 1, body from notes union all select n, s from t) cycle n set is_cycle using p select * from t
with c as (select email from users) select (with c as (select note from orders) select * from c), email from c
with c as materialized (select * from users) select c.email, c from c
with c as (select email from users union select body from notes) select max(email) from c
with d as (delete from orders returning note, amount) select * from d
with i as (insert into notes select id, email from users returning body) select body from i
with u as (update notes set body = name from users returning notes.*) select * from u
with c as (values ('a', (select email from users))) select column2, column1 from c
select email from users union select body from notes
select email from users union all select body from notes union all select 'x'
(select email, name from users) union all (select body, 'x' from notes order by 1)
select email from users except select 'x'
select body from notes intersect select body from notes
select x from (select email from users union select body from notes) s(x)
select * from (values ('a', 1), ((select email from users), 2)) v(a, b)
select v.a from users u, lateral (values (u.email, 1)) v(a, b)
select * from users join orders on users.id = orders.user_id
select * from users u join gone g using (id)
select id, email, kept from users join gone using (id)
select u.id, g.id, id from users u full join gone g using (id)
select id from users left join gone using (id)
select id from users right join gone using (id)
select j.* from (users join gone using (id)) as j
select j.a, j.b from (users join gone using (id)) as j(a, b)
select x.id from users join gone using (id) as x
select * from users natural join gone
select email from users natural join gone
select * from notes natural join hr.notes
select body from hr.notes
select n.body, m.body from notes n, hr.notes m
select public.notes.body, hr.notes.body from public.notes, hr.notes
select hr.staff.salary, staff.email from hr.staff
select * from users cross join lateral (select note, email as mail from orders where user_id = users.id) o
select l.x from users u left join lateral (select u.email || o.note as x from orders o) l on true
select x.* from users u, lateral (select u.* ) x
select g, g.g from generate_series(1, 2) g
select g.n, email from generate_series(1, 1) as g(n), users
select x from users, unnest(labels) x
select t.x, t.i from users, unnest(labels) with ordinality as t(x, i)
select * from users u, unnest(u.labels) l
select * from unnest((select labels from users), (select array[name] from users)) as t(a, b)
select unnest(labels), email from users
select * from users, jsonb_each(info)
select key, value from users, jsonb_each_text(info) e
select e.k from users, jsonb_to_record(info) as e(k text)
select * from users u, jsonb_to_recordset(jsonb_build_array(u.info)) as x(k text)
select value from users, jsonb_array_elements(jsonb_build_array(email))
select r.* from users, regexp_split_to_table(email, 'e') r
select upper from users, upper(email)
select * from users, json_populate_record(null::place, json_build_object('city', name)) p
select (json_populate_record(null::place, json_build_object('city', name))).* from users
select * from rows from (generate_series(1, 1), unnest(array['x'])) as r(a, b)
select x.* from users, xmltable('/r' passing xmlelement(name r, email) columns v text path '.') x
select xmlelement(name a, xmlattributes(email as e), name), xmlforest(email), xmlconcat(xmlcomment(name)) from users
select contact, shout from v_users
select * from v_users
select v from v_users v
select a, b from v_nested
select * from hr.v_last
select * from v_join
select total, note from v_total
select whole, doc, (whole).email from v_row
select text from v_union
select * from v_both
select upper(a) || top from hr.v_last
select email from m_users
select it from v_leak
select id from v_leak
select * from v_leak
select leak()
select leak() || email, email from users
select shout(email) from users
select u.home_of from users u
select home_of(u) from users u
select (u).home_of from users u
select * from pairs()
select p.a, p.b from pairs() p
select initcap(name::name) from users
select email <?> 'x' from users
select sound from animals
select * from animals
select sound, owner from dogs
select sound from only animals
select kind, body from events
select body from events_a
select full_name from people
select first, full_name, lower(full_name) from people
insert into notes (body) values ('x') returning *
insert into notes (id, body) select id, email from users returning body, id
insert into notes select id, email || name from users returning notes.body || '!'
insert into notes as n (body) values ((select name from users)) returning n.*, n.body as again
insert into people (first) select email from users returning full_name
insert into v_users (number, contact) select 1, note from orders returning contact, number
update orders set note = 'x' returning note, amount
update orders o set note = u.email from users u where u.id = o.user_id returning o.note, o.amount, u.name
update orders set (note, amount) = (select email, id from users) returning *
update orders set (note, amount) = (body, 1) from notes returning note, amount
update people set first = email from users returning full_name
update v_users set contact = note from orders returning contact, shout
delete from orders returning *
delete from orders using users u where u.id = user_id returning note, u.email
delete from orders o returning (select max(email) from users), o
select email from users order by name limit 1 offset 0
select distinct email from users
select distinct on (id) email from users order by id, name
select name, count(*) from users group by name having count(*) > 0
select email from users for update
select grouping(email), email, count(*) from users group by rollup (email)
select email from users tablesample system (100)
select current_user, session_user, current_date is null, now() is null, version() is null, pg_typeof(email) from users
select current_setting('server_version'), current_setting('lineage.nothing', true)
select feeling, feeling::text, 'glad'::mood, enum_first(feeling) from users
select email collate "C", (email collate "C") || '' from users
select tableoid::regclass from users
select 1 as one, 'x', null, true
select null::users, (null::users).email
select -u.id, + amount, u.id * amount % 7, |/ amount::float, not (u.id > 0) from users u, orders
select relname from pg_class where relname = 'users'
select c.relname, a.attname from pg_catalog.pg_class c join pg_attribute a on a.attrelid = c.oid where c.relname = 'people'
select column_name from information_schema.columns where table_name = 'people'
select most_common_vals from pg_stats where tablename = 'users'
show server_version
explain select email from users
explain (costs off) select shout(email) from users
copy users (email, name) to stdout
copy orders to stdout
copy people to stdout
copy (select upper(email), note from users, orders) to stdout
copy (select * from v_users) to stdout
copy (delete from orders returning note, id) to stdout
declare c cursor for select email, note from users, orders ;; fetch all from c
declare c cursor for select email from users ;; fetch c
declare a cursor for select email from users ;; declare b cursor for select note from orders ;; fetch b
prepare p as select email, name from users ;; execute p
prepare p(text) as select email || $1 from users ;; execute p('x')
prepare p as insert into notes (body) select email from users returning body ;; execute p
prepare p as select 1 as x ;; deallocate p ;; prepare p as select email as x from users ;; execute p
create temp table t as select email as harmless from users ;; select harmless, upper(harmless) from t
create temp table notes as select 1 as id, email as body from users ;; select body, lower(body) from notes
select email as body, 1 as id into temp notes from users ;; select body || '' from notes
create temp view notes as select email as body from users ;; select body, upper(body) from notes
alter table notes rename to papers ;; alter table users rename to notes ;; select email, upper(email) from notes
alter table users rename column email to kept ;; select kept, upper(kept) from users
create or replace view v_users as select id as number, name as contact, email as shout from users ;; select shout, contact from v_users
set search_path to hr, public ;; select body, upper(body) from notes
set schema 'hr' ;; select body, n from notes n
select set_config('search_path', 'hr', false) ;; select upper(body) from notes
create temp table t (x text) ;; insert into t select email from users returning x
do $$ begin execute 'create temp table notes as select email as body from users'; end $$ ;; select upper(body) from notes
create function upper(text) returns text language sql as 'select name from users' ;; select public.upper(note), upper(note) from orders
create function lower(varchar) returns text language sql as 'select name from users' ;; select lower(note::varchar) from orders
create function either(varchar, varchar) returns text language sql as 'select email from public.users' ;; create operator public.|| (leftarg = varchar, rightarg = varchar, function = either) ;; select note::varchar || note::varchar from orders
select set_config('application_name', email, false) from users ;; show application_name
select set_config('application_name', email, false) from users ;; select current_setting('application_name')
select set_config('my.own', email, false) from users ;; show my.own
select set_config('my.own', email, false) from users ;; select current_setting('my.own')
create rule r as on insert to notes do instead select email from users ;; select 1 as x
create or replace view v_users as select id as number, name as contact, email as shout from users ;; select shout, contact from v_nested, v_users
