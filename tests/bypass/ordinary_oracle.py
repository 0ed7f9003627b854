"""Statements as applications, their libraries and their tools send them to Oracle Database."""

from __future__ import annotations

from tests.bypass.lines import ordinary

_LISTED = {
    ("an ORM, reading", "r"): r"""
SELECT users.id, users.name FROM users WHERE users.id = :id_1
SELECT u.id AS id1_0_, u.name AS name2_0_ FROM users u WHERE u.id = ?
SELECT "USERS"."ID", "USERS"."NAME" FROM "USERS" WHERE "USERS"."EMAIL" = :arg0 FETCH FIRST 21 ROWS ONLY
SELECT * FROM users WHERE name = 'it''s'
SELECT COUNT(*) FROM orders WHERE status = 'open'
SELECT * FROM (SELECT a.*, ROWNUM rnum FROM (SELECT * FROM orders ORDER BY id) a WHERE ROWNUM <= 20) WHERE rnum > 10
SELECT * FROM orders ORDER BY id OFFSET 10 ROWS FETCH NEXT 10 ROWS ONLY
SELECT * FROM orders WHERE ROWNUM <= 10
SELECT o.id, c.name FROM orders o INNER JOIN customers c ON c.id = o.customer_id WHERE c.country IN ('DE', 'AT')
SELECT o.id, c.name FROM orders o, customers c WHERE o.customer_id = c.id(+) AND c.gone IS NULL
SELECT a.id FROM a LEFT OUTER JOIN b ON a.id = b.a_id WHERE b.id IS NULL
SELECT DISTINCT name FROM tags ORDER BY name NULLS LAST
SELECT NVL(a, 0), NVL2(b, 1, 2), DECODE(c, 1, 'x', 'y'), COALESCE(d, e), NULLIF(f, 0) FROM t
SELECT TO_CHAR(created_at, 'YYYY-MM-DD'), TO_DATE('2024-01-01', 'YYYY-MM-DD'), TO_NUMBER('5'), TRUNC(SYSDATE) FROM orders
SELECT SYSDATE, SYSTIMESTAMP, CURRENT_DATE, USER FROM dual
SELECT 1 FROM dual
SELECT 'x' || name || 'y' FROM users
SELECT SUBSTR(name, 1, 3), INSTR(name, 'a'), LENGTH(name), UPPER(name), INITCAP(name), LPAD(id, 5, '0'), REPLACE(name, 'a', 'b') FROM users
SELECT REGEXP_REPLACE(name, '[0-9]', ''), REGEXP_SUBSTR(name, '\d+') FROM users WHERE REGEXP_LIKE(name, '^a')
SELECT CASE WHEN total > 10 THEN 'big' ELSE 'small' END AS kind FROM orders
SELECT customer_id, SUM(total), AVG(total), MAX(total), MIN(total) FROM orders GROUP BY customer_id HAVING COUNT(*) > 1
SELECT customer_id, COUNT(*) FROM orders GROUP BY ROLLUP (customer_id)
SELECT id, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY created_at DESC) rn FROM orders
SELECT id, RANK() OVER (ORDER BY total), LAG(total) OVER (ORDER BY id), SUM(total) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) FROM orders
SELECT LISTAGG(name, ', ') WITHIN GROUP (ORDER BY name) FROM tags
SELECT LEVEL, id, parent_id, SYS_CONNECT_BY_PATH(name, '/') FROM nodes START WITH parent_id IS NULL CONNECT BY PRIOR id = parent_id
SELECT LEVEL FROM dual CONNECT BY LEVEL <= 10
WITH recent AS (SELECT * FROM orders WHERE created_at > SYSDATE - 7) SELECT customer_id, COUNT(*) FROM recent GROUP BY customer_id
WITH tree (id, parent) AS (SELECT id, parent FROM nodes WHERE parent IS NULL UNION ALL SELECT n.id, n.parent FROM nodes n JOIN tree t ON t.id = n.parent) SELECT * FROM tree
SELECT id FROM a UNION SELECT id FROM b
SELECT id FROM a UNION ALL SELECT id FROM b ORDER BY 1
SELECT id FROM a MINUS SELECT id FROM b
SELECT id FROM a INTERSECT SELECT id FROM b
SELECT * FROM users WHERE EXISTS (SELECT 1 FROM orders WHERE orders.user_id = users.id)
SELECT * FROM users WHERE id NOT IN (SELECT user_id FROM orders)
SELECT * FROM users WHERE (a, b) IN ((1, 2), (3, 4))
SELECT * FROM users WHERE created_at BETWEEN DATE '2024-01-01' AND DATE '2024-02-01'
SELECT * FROM users WHERE created_at > SYSTIMESTAMP - INTERVAL '7' DAY
SELECT EXTRACT(YEAR FROM created_at), ADD_MONTHS(created_at, 1), MONTHS_BETWEEN(SYSDATE, created_at), LAST_DAY(created_at) FROM orders
SELECT CAST(total AS NUMBER(10,2)), CAST(name AS VARCHAR2(20)) FROM orders
SELECT JSON_VALUE(data, '$.name'), JSON_QUERY(data, '$.tags') FROM events WHERE JSON_EXISTS(data, '$.kind')
SELECT /*+ FIRST_ROWS(10) INDEX(o orders_ix) */ o.id FROM orders o
SELECT /* DROP TABLE x */ id FROM users -- DELETE FROM users
SELECT 'DROP TABLE users; --', q'[it's; DELETE FROM x]' FROM dual
SELECT "drop", "delete", "DROP" FROM "grants"
SELECT t."delete" FROM t
SELECT id AS "update", name AS "insert into" FROM t
SELECT type, status, name, description, value, action, state, owner, comments FROM log
SELECT hr.employees.last_name FROM hr.employees
SELECT e.last_name, d.department_name FROM hr.employees e JOIN hr.departments d USING (department_id)
SELECT * FROM a NATURAL JOIN b
SELECT * FROM a CROSS JOIN b
SELECT * FROM a FULL OUTER JOIN b ON a.id = b.id
SELECT x.id FROM (SELECT id FROM orders WHERE total > 5) x
SELECT (SELECT MAX(total) FROM orders o WHERE o.customer_id = c.id) FROM customers c
SELECT ABS(-1), CEIL(1.2), FLOOR(1.8), ROUND(1.234, 2), MOD(5, 2), POWER(2, 3), SQRT(4), SIGN(-5), GREATEST(1, 2), LEAST(1, 2) FROM dual
SELECT RAWTOHEX(SYS_GUID()), STANDARD_HASH('x', 'SHA256'), ORA_HASH('x') FROM dual
SELECT SYS_CONTEXT('USERENV', 'SESSION_USER') FROM dual
SELECT rowid, id FROM users
SELECT TRIM(BOTH 'x' FROM name), LTRIM(name), TRANSLATE(name, 'abc', 'xyz') FROM users
SELECT * FROM orders@warehouse WHERE id = 5
SELECT * FROM users SAMPLE (10)
SELECT * FROM orders PARTITION (p2024)
SELECT s.CURRVAL FROM dual
SELECT id FROM users WHERE id = 1;
SELECT DBMS_METADATA.GET_DDL('TABLE', 'USERS') FROM dual
SELECT DBMS_LOB.GETLENGTH(body) FROM documents
SELECT FIRST_VALUE(a) OVER (ORDER BY b), NTILE(4) OVER (ORDER BY b), PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY c) OVER (PARTITION BY d) FROM t
SELECT COUNT(DISTINCT a), STDDEV(b), VARIANCE(b), MEDIAN(b) FROM t
SELECT MAX(a) KEEP (DENSE_RANK LAST ORDER BY b) FROM t
SELECT * FROM (SELECT a, b, c FROM t) PIVOT (SUM(c) FOR b IN ('x' AS x, 'y' AS y))
SELECT * FROM (SELECT a, b, c FROM t) PIVOT XML (SUM(c) FOR b IN (ANY))
SELECT a, quarter, amount FROM t UNPIVOT INCLUDE NULLS (amount FOR quarter IN (q1 AS '1', q2 AS '2'))
WITH r (id, boss, lvl) AS (SELECT id, boss, 1 FROM staff WHERE boss IS NULL UNION ALL SELECT s.id, s.boss, r.lvl + 1 FROM staff s JOIN r ON s.boss = r.id) SEARCH DEPTH FIRST BY id SET seq CYCLE id SET is_cycle TO 'Y' DEFAULT 'N' SELECT id, lvl, is_cycle FROM r ORDER BY seq
SELECT symbol, start_day, end_day FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES strt.day AS start_day, LAST(up.day) AS end_day ONE ROW PER MATCH AFTER MATCH SKIP TO LAST up PATTERN (strt down+ up+) DEFINE down AS down.price < PREV(down.price), up AS up.price > PREV(up.price)) mr ORDER BY symbol
SELECT country, year, sales FROM sales_view MODEL PARTITION BY (country) DIMENSION BY (year) MEASURES (sales) RULES (sales[2002] = sales[2000] + sales[2001]) ORDER BY country
SELECT name FROM users WHERE UPPER(name) LIKE UPPER(:p) ESCAPE '\'
SELECT NULL, 1.5, -3, 1e5, .5 FROM dual
""",
    ("a tool, looking around", "r"): r"""
SELECT table_name FROM user_tables ORDER BY table_name
SELECT owner, object_name, object_type FROM all_objects WHERE owner = 'APP'
SELECT column_name, data_type, nullable FROM all_tab_columns WHERE table_name = 'USERS' ORDER BY column_id
SELECT constraint_name, constraint_type FROM all_constraints WHERE owner = USER
SELECT * FROM v$version
SELECT sid, serial#, username FROM v$session WHERE type = 'USER'
SELECT * FROM nls_session_parameters
SELECT text FROM all_source WHERE name = 'P' AND type = 'PROCEDURE' ORDER BY line
SELECT sys_context('userenv', 'current_schema') FROM dual
SELECT sequence_name, last_number FROM user_sequences
SELECT privilege FROM session_privs
SELECT banner FROM v$version WHERE ROWNUM = 1
SELECT value FROM v$parameter WHERE name = 'processes'
SELECT index_name, uniqueness FROM user_indexes
SELECT t.table_name, t.comments FROM all_tab_comments t
""",
    ("an ORM, writing", "w"): r"""
INSERT INTO users (id, name, email) VALUES (:1, :2, :3)
INSERT INTO users (id, name) VALUES (users_seq.NEXTVAL, 'Ann')
INSERT INTO users VALUES (1, 'DROP TABLE x', SYSDATE)
INSERT INTO "USERS" ("NAME") VALUES (:arg0)
INSERT INTO app.users (name) VALUES (q'[it's]')
INSERT INTO t (a, b) VALUES (NULL, TO_DATE('2024-01-01', 'YYYY-MM-DD'))
INSERT INTO t (a) VALUES (SYS_GUID())
INSERT /*+ APPEND */ INTO t (a) VALUES (1)
UPDATE users SET name = :1, updated_at = SYSTIMESTAMP WHERE id = :2
UPDATE users SET visits = visits + 1 WHERE id = 5
UPDATE users u SET u.name = UPPER(u.name) WHERE u.id = 5
UPDATE "USERS" SET "NAME" = :arg0 WHERE "USERS"."ID" = :arg1
UPDATE t SET "DELETE" = 1 WHERE "DROP" = 2
UPDATE t SET a = CASE b WHEN 1 THEN 2 ELSE 3 END WHERE id IN (1, 2, 3)
UPDATE t SET a = NVL(a, 0) + 1, b = 'it''s; DELETE FROM x' WHERE id = 3
DELETE FROM users WHERE id = :1
DELETE users WHERE id = 5
DELETE FROM logs WHERE created_at < SYSDATE - 30
DELETE FROM logs WHERE created_at < SYSDATE - 30 AND ROWNUM <= 1000
DELETE FROM "USERS" WHERE "USERS"."ID" IN (:arg0, :arg1)
MERGE INTO t USING s ON (t.id = s.id) WHEN MATCHED THEN UPDATE SET t.a = s.a WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, s.a)
MERGE INTO t USING s ON (t.id = s.id) WHEN MATCHED THEN UPDATE SET t.a = s.a WHERE s.b = 1
MERGE INTO t USING s ON (t.id = s.id) WHEN MATCHED THEN UPDATE SET t.a = s.a DELETE WHERE t.gone = 1
""",
    ("an ORM, reading and writing", "rw"): r"""
INSERT INTO users (name) VALUES (:1) RETURNING id INTO :2
UPDATE users SET name = :1 WHERE id = :2 RETURNING name INTO :3
INSERT INTO archive (id, name) SELECT id, name FROM users WHERE gone = 1
INSERT INTO archive SELECT * FROM users WHERE id = 1
INSERT ALL INTO a (x) VALUES (1) INTO a (x) VALUES (2) SELECT * FROM dual
MERGE INTO t USING (SELECT 1 AS id, 'a' AS name FROM dual) s ON (t.id = s.id) WHEN MATCHED THEN UPDATE SET t.name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)
UPDATE users u SET u.orders = (SELECT COUNT(*) FROM orders o WHERE o.user_id = u.id) WHERE u.id = 5
DELETE FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE gone = 1)
SELECT users_seq.NEXTVAL FROM dual
SELECT users_seq.nextval FROM DUAL
SELECT * FROM jobs WHERE done = 0 FOR UPDATE SKIP LOCKED
SELECT id FROM jobs WHERE id = :1 FOR UPDATE NOWAIT
EXPLAIN PLAN FOR SELECT * FROM users
EXPLAIN PLAN SET STATEMENT_ID = 'x' FOR SELECT * FROM users WHERE id = 1
""",
    ("a driver, in its session", "s"): r"""
ALTER SESSION SET NLS_DATE_FORMAT = 'YYYY-MM-DD HH24:MI:SS'
ALTER SESSION SET NLS_TERRITORY = 'AMERICA'
ALTER SESSION SET TIME_ZONE = 'UTC'
ALTER SESSION SET CURRENT_SCHEMA = app
COMMIT
COMMIT WORK
ROLLBACK
ROLLBACK TO SAVEPOINT s1
SAVEPOINT s1
SET TRANSACTION READ ONLY
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
SET ROLE reader
SET CONSTRAINTS ALL DEFERRED
LOCK TABLE users IN SHARE MODE
""",
    ("migrations", "d"): r"""
CREATE TABLE users (id NUMBER(19) GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name VARCHAR2(255 CHAR) DEFAULT '' NOT NULL, created_at TIMESTAMP(6) DEFAULT SYSTIMESTAMP)
CREATE TABLE c (id NUMBER, p NUMBER, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE)
CREATE GLOBAL TEMPORARY TABLE tmp (id NUMBER) ON COMMIT DELETE ROWS
ALTER TABLE users ADD age NUMBER(3)
ALTER TABLE users ADD (age NUMBER(3), city VARCHAR2(50))
ALTER TABLE users MODIFY name VARCHAR2(500)
ALTER TABLE users DROP COLUMN age
ALTER TABLE users RENAME COLUMN a TO b
ALTER TABLE users ADD CONSTRAINT u UNIQUE (email)
CREATE INDEX users_ix ON users (name)
CREATE UNIQUE INDEX users_ux ON users (LOWER(email))
DROP INDEX users_ix
DROP TABLE users
DROP TABLE users CASCADE CONSTRAINTS
CREATE SEQUENCE users_seq START WITH 1 INCREMENT BY 1
DROP SEQUENCE users_seq
CREATE OR REPLACE VIEW v AS SELECT id, name FROM users WHERE gone = 0
DROP VIEW v
CREATE OR REPLACE SYNONYM s FOR app.users
CREATE OR REPLACE TRIGGER x BEFORE INSERT ON users FOR EACH ROW BEGIN SELECT users_seq.NEXTVAL INTO :new.id FROM dual; END;
COMMENT ON COLUMN users.name IS 'what people are called; drop table x'
ALTER INDEX users_ix REBUILD
RENAME a TO b
""",
    ("a driver or tool, with blocks", "s"): r"""
BEGIN DBMS_OUTPUT.ENABLE(NULL); END;
begin dbms_output.get_lines(:lines, :numlines); end;
begin dbms_output.get_line(:1, :2); end;
BEGIN DBMS_APPLICATION_INFO.SET_MODULE(module_name => :1, action_name => :2); END;
begin :1 := sysdate; end;
DECLARE v NUMBER := 5; w VARCHAR2(30) := 'x'; BEGIN IF v > 3 THEN v := v - 1; ELSE w := UPPER(w) || '!'; END IF; :out := v; END;
CALL DBMS_APPLICATION_INFO.SET_CLIENT_INFO('x')
""",
    ("an application, reading in blocks", "rs"): r"""
BEGIN OPEN :1 FOR SELECT id, name FROM users WHERE id = :2; END;
DECLARE n NUMBER; BEGIN SELECT COUNT(*) INTO n FROM orders WHERE status = 'open'; :out := n; END;
begin for r in (select id, name from users where id < 10) loop dbms_output.put_line(r.id || ': ' || r.name); end loop; end;
DECLARE CURSOR c IS SELECT * FROM users; r c%ROWTYPE; BEGIN OPEN c; LOOP FETCH c INTO r; EXIT WHEN c%NOTFOUND; DBMS_OUTPUT.PUT_LINE(r.name); END LOOP; CLOSE c; END;
DECLARE c SYS_REFCURSOR; BEGIN OPEN c FOR SELECT * FROM users; DBMS_SQL.RETURN_RESULT(c); END;
DECLARE c INTEGER; n NUMBER; v VARCHAR2(30); BEGIN c := DBMS_SQL.OPEN_CURSOR; DBMS_SQL.PARSE(c, 'SELECT name FROM users', DBMS_SQL.NATIVE); DBMS_SQL.DEFINE_COLUMN(c, 1, v, 30); n := DBMS_SQL.EXECUTE(c); WHILE DBMS_SQL.FETCH_ROWS(c) > 0 LOOP DBMS_SQL.COLUMN_VALUE(c, 1, v); DBMS_OUTPUT.PUT_LINE(v); END LOOP; DBMS_SQL.CLOSE_CURSOR(c); END;
CALL DBMS_LOB.READ(:1)
""",
    ("an application, writing in blocks", "sw"): r"""
BEGIN UPDATE users SET name = :1 WHERE id = :2; COMMIT; EXCEPTION WHEN OTHERS THEN ROLLBACK; RAISE; END;
BEGIN INSERT INTO users (id, name) VALUES (:1, :2); IF SQL%ROWCOUNT = 0 THEN RAISE_APPLICATION_ERROR(-20001, 'none'); END IF; END;
DECLARE TYPE ids IS TABLE OF NUMBER INDEX BY PLS_INTEGER; l ids; BEGIN l(1) := 5; FORALL i IN 1 .. l.COUNT DELETE FROM users WHERE id = l(i); END;
begin execute immediate 'update users set name = :1 where id = :2' using :name, :id; end;
""",
    ("an application, writing with a result", "rw"): r"""
INSERT INTO users (name) VALUES (:1) RETURNING id INTO :2
UPDATE users SET name = :1 WHERE id = :2 RETURNING id, name INTO :3, :4
DELETE FROM users WHERE id = :1 RETURNING name BULK COLLECT INTO :2
""",
}

ORDINARY = ordinary(_LISTED)
