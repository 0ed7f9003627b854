select email from users
select users.email from users
select lineage.users.email from users
select u.email as x from users u
select u.email x, name as `Quoted Name` from users as u
select EMAIL, `email`, Email e from users
select email 'as a text', name "and another" from users
select `Email Address`, `select` from `Mixed Case`
select m.`Email Address` as e from `Mixed Case` as m
select * from users
select users.* from users
select lineage.users.* from users
select u.*, o.note from users u, orders o
select *, upper(email) from users
select email, users.* from users
values ('a', 1)
values ((select email from users), 'x'), ('y', (select name from users))
select upper(email) from users as e
select concat(email, '') from users
select concat(email, name, note), concat_ws(',', email, note) from users, orders
select cast(email as char(4)), cast(name as binary), convert(email using latin1), convert(email, char(5)) from users
select substring(email from 1 for 7), substr(email, 2), mid(email, 2, 3), trim(both 'x' from email), left(email, 9) from users
select right(email, 1), lpad(email, 20, 'x'), rpad(name, 20, email), replace(email, 'U', 'V'), reverse(email) from users
select extract(year from placed), date_format(placed, '%Y'), placed + interval 1 day, date_add(placed, interval 1 day) from orders
select year(placed), unix_timestamp(placed), datediff(placed, '2020-01-01'), timestampdiff(day, '2020-01-01', placed) from orders
select case when email like 'Uemail1%' then 'yes' else 'no' end from users
select case name when 'Uname1' then 1 else 0 end, case when 1 then email end from users
select case when id > 0 then email else name end as pick from users
select if(id > 0, email, name), ifnull(null, email), nullif(email, name), coalesce(null, email, name) from users
select greatest(email, name), least(id, 3), elt(1, email, name), field('Uemail1', email), nvl(null, email) from users
select email = 'Uemail1', email in ('Uemail1', name), email is null, email between 'Uemail1' and 'Uemail1' from users
select email like '%1', email regexp '1$', email rlike '1$', not (email = 'Uemail1'), ! (email = 'Uemail1') from users
select email <=> 'Uemail1', email sounds like 'x', email <> 'Uemail1' from users
select email = any (select 'Uemail1'), email = all (select 'Uemail1'), email in (select email from staff) from users
select (email, name) = ('Uemail1', 'Uname1'), row(id, email) = row(id, 'Uemail1') from users
select json_extract(info, '$.k'), json_value(info, '$.k'), json_unquote(json_extract(info, '$.k')), json_keys(info) from users
select json_object('e', email, 'n', name), json_array(email, name), json_quote(email), json_length(info) from users
select json_arrayagg(email), json_objectagg(id, email), json_search(info, 'one', 'Uinfo1') from users
select json_set(info, '$.x', email), json_merge_patch(info, json_object('n', name)), json_contains(info, '"Uinfo1"', '$.k') from users
select md5(email), sha2(email, 256), hex(email), to_base64(email), length(repeat('x', right(email, 1))), crc32(email) from users
select format(amount, 2), round(amount), truncate(amount, 1), floor(amount), amount div 2, amount % 7, -amount, amount mod 7 from orders
select amount + 1, amount * 2, amount / 2, amount - 1, amount | 1, ~ 1, amount ^ 1, amount & 255, amount << 1 from orders
select regexp_replace(email, 'U', 'V'), regexp_substr(email, '[0-9]'), regexp_instr(email, '1'), instr(email, '1'), locate('1', email) from users
select position('1' in email), strcmp(email, 'Uemail1'), char_length(email), bit_length(email), ascii(right(email, 1)), ord(right(name, 1)) from users
select soundex(email), insert(email, 1, 1, name), export_set(5, email, name), make_set(3, email, name), quote(email), space(right(email, 1)) from users
select email collate utf8mb4_bin, binary email, _utf8mb4'x', convert(name using utf8mb4), email and 1, email or 0, email xor 0 from users
select email || name, email && name from users
select aes_encrypt(email, 'k'), compress(email), uncompressed_length(compress(email)), inet_aton('127.0.0.1'), uuid() is null from users
select count(*), count(email), count(distinct email, name), max(email), min(name) from users
select group_concat(email), group_concat(distinct email order by name separator ';'), group_concat(id, ':', email) from users
select sum(amount), avg(amount), stddev_pop(amount), var_pop(amount + length(note)), bit_or(amount), std(amount) from orders
select max(email) over (), first_value(name) over (order by email), lag(email, 0) over (partition by id order by id) from users
select max(email) over w, row_number() over w from users window w as (partition by name order by id)
select sum(amount) over (order by id rows unbounded preceding), rank() over (order by amount), ntile(2) over (order by id) from orders
select percentile_cont(0.5) within group (order by salary) over (), median(salary) over () from staff
select user_id, max(note) from orders group by user_id with rollup
select email, count(*) from users group by email having max(name) > '' order by max(id)
select distinct email from users order by name
select email from users where name like 'Uname%' order by name limit 1
select email from users limit 0, 1
select email from users for update
select email from users lock in share mode
select sql_no_cache email from users
select /*!40001 SQL_NO_CACHE */ * from `users`
select high_priority sql_small_result straight_join email from users
select email /* comment */ , name from users -- and one more
select /*! email */, name from users
select /*!99999 email, */ name from users
select /*M! email */, name from users
select (email), ((name)) from users
select (select email from users)
select (select max(salary) from hr.staff s where s.id = users.id) from users
select (select u.email) from users u
select (select concat(u.email, o.note) from orders o where o.user_id = u.id) from users u
select email as x, (select x) from users
select name as x, (select concat(x, email)) from users
select exists (select email from users), not exists (select 1 from users where email = 'nobody')
select x from (select email as x from users) t
select x from (select email as x from users limit 1) t
select t.* from (select email, upper(name) as shout from users) t
select name from (select email as name from users) orders
select note from (select email as note from users) orders
select * from (select u.email, o.* from users u join orders o on o.user_id = u.id) t
select a.x, b.x from (select email as x from users) a, (select name as x from users) b
select t.x from (select s.x from (select email as x from users) s) t
select max(x) from (select email as x from users union select name from users) t
select x from ((select email as x from users)) t
select u.email from (users u, orders o) join staff s on s.id = u.id
select o.note from users u left join (orders o inner join staff s on s.id = o.id) on o.user_id = u.id
select u.email, s.email from users u cross join staff s
select u.email, s.salary from users u straight_join hr.staff s on s.id = u.id
select * from users u join staff s using (id)
select * from users u left join staff s using (id, email)
select * from users u right join staff s using (id)
select * from users natural join orders
select * from users natural left join staff
select * from users natural right join orders
select id, u.id, s.id, email from users u join staff s using (id, email)
select * from orders o, users u join staff s using (id)
select * from orders o join users u on o.user_id = u.id join gone g on g.id = u.id
with t as (select email as x from users) select x from t
with t (a, b) as (select email, name from users) select b, a from t
with t as (select email as x from users), s as (select x as y from t) select y from s
with users as (select note as email from orders) select email from users
with t as (select * from users) select t.*, (select max(x.name) from t x) from t
with recursive t (n, x) as (select 1, email from users union all select n + 1, concat(x, '!') from t where n < 3) select * from t
with recursive t (n, x, y) as (select 1, 'a', cast('b' as char(50)) union all select n + 1, 'a', (select email from users) from t where n < 3) select * from t
with recursive t (n, a, b) as (select 1, cast('a' as char(50)), cast('b' as char(50)) union all select n + 1, b, (select email from users) from t where n < 4) select n, a from t
with a as (with b as (select email from users) select * from b) select * from a
select * from (with t as (select email from users) select * from t) s
select email from users union select note from orders
select email from users union all select name from users
(select email from users) union (select note from orders) order by 1 limit 5
select email, 1 from users union select 2, name from users
select email from users except select 'x'
select email from users intersect select email from users
(select email from users limit 1) union all (select body from notes limit 1)
select id, email from users union select id, note from orders union select id, body from notes
select * from v_users
select contact from v_users
select shout from v_users as w
select a, b from v_nested
select * from v_join
select * from v_total
select text from v_union
select * from v_both
select * from hr.v_last
select id from v_leak
select it from v_leak
select note from v_users orders, (select contact as note from v_users) x
select first, full_name from people
select * from people
select visible, unseen from half
select * from half
select x.b from (select unseen a, visible b from half) x
select x.body from lineage.notes, hr.notes x
select notes.body, h.body from notes, hr.notes h
select leak()
select leak(), email from users
select shout(email) from users
select lineage.leak(), id from users
select @x := email from users
select @x := email, @x from users
select @x := concat(email, name) as y, note from users, orders
select @x from (select @x := email from users) t
select 1 from users where (@x := email) is not null ;; select @x
select @x := email from users ;; select @x, @X, @`x`, @'x'
select email, name into @a, @b from users ;; select @b, @a
set @x = (select email from users) ;; select concat(@x, '!')
set @x = (select email from users), @y = @x ;; select @y
set @x := (select max(name) from users) ;; set @y = concat('a', @x) ;; select @y, @x, @z
do @x := (select email from users) ;; select @x
select count(@x := email) from users ;; select @x
select 1 from users order by (@x := email) ;; select @x
select 1 from users having (@x := max(email)) is not null ;; select @x
select exists (select @x := email from users) ;; select @x
select 1 from users u join orders o on (@x := u.email) is not null ;; select @x
select @a := @b, @b := email from users, orders ;; select @a, @b
set @q = 'select email from users' ;; prepare s from @q ;; execute s
prepare s from 'select email, name from users' ;; execute s
prepare s from 'select ?, name from users' ;; set @e = (select email from users) ;; execute s using @e
prepare S from 'select email from users' ;; execute s
set @q = concat('select email', ' from users') ;; prepare s from @q ;; execute s
set @q = if(1, 'select email from users', 'select 1') ;; prepare s from @q ;; execute s
prepare s from concat('select email ', 'from users') ;; execute s
execute immediate 'select email from users'
set @q = 'select 1' ;; set @q = 'select name from users' ;; prepare s from @q ;; execute s
select @q := 'select email from users' ;; prepare s from @q ;; execute s
prepare s from 'select 1' ;; prepare s from 'select email from users' ;; execute s
prepare s from 'select @x := email from users' ;; execute s ;; select @x
prepare s from 'select email into @x from users' ;; execute s ;; select @x
prepare s from 'select \'a\', email from users' ;; execute s
handler users open ;; handler users read first
handler users open as h ;; handler h read first
handler orders open as users ;; handler users read first
handler hr.staff open as s ;; handler s read `PRIMARY` = (7)
create temporary table mine as select email, name from users ;; select * from mine
create temporary table orders as select email as note from users ;; select note from orders
create temporary table mine (x text) ;; insert into mine select email from users ;; select x from mine
create or replace view v_made as select email as e from users ;; select e from v_made
create or replace view v_again as select email as name from users ;; select name from v_again
use hr ;; select * from staff
use hr ;; select body from notes
use hr ;; use lineage ;; select body from notes
use hr ;; use lineage ;; select * from staff
use hr ;; select email from lineage.users
call give()
call put() ;; select @given
call twist() ;; select @given
insert into notes (id, body) select 99, email from users returning body
insert into notes (id, body) values (98, (select name from users)) returning id, concat(body, '!')
insert into notes (id, body) values (97, 'x') returning *
replace into notes (id, body) select 96, email from users returning body, id
insert into notes (id, body) select id, email from users on duplicate key update body = concat('x', values(body)) returning body
delete from notes where body like '%' returning body
delete from users where id > 0 returning email, upper(name), users.*
insert into notes (id, body) select 99, @x := email from users ;; select @x
update notes set body = (select @x := email from users) ;; select @x
select last_insert_id(id) from users ;; select last_insert_id(), @@last_insert_id, @@identity
update users set name = 'x', id = last_insert_id(id) ;; select last_insert_id()
set last_insert_id = (select id from users) ;; select last_insert_id()
set @@group_concat_max_len = (select salary from staff) ;; select @@group_concat_max_len
set @@group_concat_max_len = (select salary from staff) ;; show variables like 'group_concat_max_len'
set group_concat_max_len = 1000 ;; select @@group_concat_max_len, @@version is null
select cast(email as signed) from users ;; show warnings
select cast(email as signed) from users ;; get diagnostics condition 1 @m = message_text ;; select @m
explain select * from users where email = 'x'
explain extended select * from users
analyze select * from users
describe users
show tables
show columns from users
show full columns from users like 'e%'
show create table users
show variables like 'autocommit'
show status like 'Threads_running'
show index from users
select table_name from information_schema.tables where table_schema = 'lineage'
select column_name, data_type from information_schema.columns where table_name = 'users'
select t.table_name, u.email from information_schema.tables t, users u where t.table_name = 'users' and t.table_schema = 'lineage'
select j.k from users, json_table(info, '$' columns (k varchar(20) path '$.k')) j
select j.* from users, json_table(json_array(email, name), '$[*]' columns (n for ordinality, v varchar(20) path '$')) j
select nextval(seq_made) is null, next value for seq_made is null
select 1 as email
select null, 1.5, 'email', x'41', 0x41, b'1', true, date '2020-01-01', timestamp '2020-01-01 00:00:00'
select now() is null, current_user, database(), version() is null, connection_id() is null, curdate() is null, utc_date is null
select "email" from users
select "email", 'a\'b', name from users
set sql_mode = 'ANSI_QUOTES' ;; select "email" from "users"
set sql_mode = 'ANSI_QUOTES' ;; select "email" as "x", 'email' from users u where "u"."id" = 7
set sql_mode = 'NO_BACKSLASH_ESCAPES' ;; select 'a\', email, 'b' from users
set sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES' ;; select '\', "email" from users -- '
set sql_mode = 'PIPES_AS_CONCAT' ;; select email || name from users
set statement max_statement_time = 5 for select email from users
select email from users partition (p0)
select email from users use index (primary) ignore index for order by (primary) where id = 7
select u.email from users as u force index (primary) where id > 0
select `users`.`email` AS `email`,ucase(`users`.`name`) AS `ucase(name)` from `users`
select lineage . users . email from users
select email from lineage . users
select/**/email/**/from/**/users
select email from users u where u.email in (select note from orders) or 1
select all email from users
select distinctrow email from users
select 1 from dual
select coalesce((select email from users where id > 0), 'x'), (select count(*) from users)
select u.email from users u, (select id from orders) o where u.id = o.id
select semi.email, anti.name from users semi join users anti on 1
select full.email from users full join orders o on 1
select ifnull(full_name, email), convert(concat(first, email), char) from people, users
select max(case when id = 7 then email end), sum(id = 7) from users
select substring_index(email, 'm', 1), find_in_set('x', concat(email, ',x')), oct(right(email, 1)), conv(right(email, 1), 10, 2) from users
select x.email from users x where exists (select 1 from users y where y.email = x.email)
select (select email from users u2 where u2.id = u1.id and u1.name is not null) from users u1
select (select group_concat(n.body, u.name) from notes n where n.id = u.id) from users u
select concat('a', (select email from users)) as c, length((select name from users))
select -right(email, 1), +right(name, 1), ~right(email, 1) from users
select interval(right(email, 1), 0, 2), char(64 + right(email, 1)), bin(right(email, 1)), benchmark(1, email) from users
select email as `a.b`, name as `c``d` from users
select t.`a.b` from (select email as `a.b`, name as `a` from users) t
select `x!y` from (select email as 'x!y', name as 'x?y' from users) t
select x_y from (select email as 'x!y', name as x_y from users) t
select (select x_y from (select name as 'x!y' from users) t) as z, o.x_y from (select email as x_y from users) o
select email a, name a from users
select t.a from (select email a, 1 b from users) t group by t.a with rollup
