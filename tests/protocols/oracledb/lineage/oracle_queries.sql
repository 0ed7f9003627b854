select email, name from users
select u.*, o.note from users u join orders o on o.user_id = u.id
select * from users
select upper(email), email || name, substr(name, 1, 2), length(note) from users, orders
select (email) as x, name y from users order by city
select case when email = 'Uemail1' then name else city end from users
select decode(email, 'Uemail1', name, city) from users
select nvl(note, place), nullif(note, place), coalesce(place, note) from orders
select (select max(note) from orders) from users
select (select note from orders o where o.user_id = u.id) as n, name from users u
select max(email), min(name), count(city) from users
select count(distinct email) from users
select x from (select email as x from users) q
select * from (select name, city from users) q, orders o
select y.x from (select z.x from (select name as x from users) z) y
with c as (select email as e, name as n from users) select n, e from c
with c (a, b) as (select email, name from users) select b from c
with a as (select email as x from users), b as (select x as y from a) select * from b
with r (n, x) as (select 1, email from users union all select n + 1, x from r where n < 3) select x, n from r
with users as (select note as email from orders) select email from users
select email from users union all select note from orders
select email from users union select note from orders
select name from users minus select note from orders
select name from users intersect select name from users
select email from users where city like 'Ucity%'
select distinct city from users
select unique city from users
select row_number() over (order by email), first_value(name) over (order by id) from users
select rank() over (partition by city order by name) from users
select lag(email) over (order by id), sum(id) over (order by id rows between 1 preceding and current row) from users
select city, count(*) from users group by city having count(*) > 0
select email from users where rownum = 1
select o.note from orders o, users u where o.user_id = u.id
select "EMAIL", "NAME" from "USERS"
select replace(email, '1', '2'), trim(name), lower(city) from users
select to_char(id) || email from users
select greatest(email, name), least(email, name) from users
select users.email, orders.place from users, orders
select q.a from (select email as a, name as b from users) q where q.b is not null
select a.email from users a join users b on a.id = b.id join orders c on c.user_id = b.id
select note from orders where user_id in (select id from users where email = 'Uemail1')
select t.email from (select * from users) t
select id + length(email) from users
select email from users order by name offset 0 rows fetch next 1 rows only
select sysdate, 'x', 1 + 1 from users
select name, rownum from users
select email x, x.note from users, orders x
select instr(email, 'm'), id from users
