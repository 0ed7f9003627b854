"""Statements as applications, their libraries and their tools send them to MySQL and MariaDB."""

from __future__ import annotations

from tests.bypass.lines import ordinary

_LISTED = {
    ("an ORM, reading", "r"): r"""
SELECT `users`.`id`, `users`.`email` FROM `users` WHERE `users`.`id` = 42 LIMIT 21
SELECT `users`.* FROM `users` WHERE `users`.`email` = 'ann@example.com' ORDER BY `users`.`id` ASC LIMIT 1
SELECT COUNT(*) AS `__count` FROM `orders` WHERE `orders`.`status` = 'open'
SELECT (1) AS `a` FROM `orders` WHERE `orders`.`id` = 5 LIMIT 1
SELECT DISTINCT `t`.`name` FROM `tags` `t` INNER JOIN `post_tags` ON (`t`.`id` = `post_tags`.`tag_id`) WHERE `post_tags`.`post_id` IN (1, 2, 3)
SELECT `a`.`id`, `b`.`name` FROM `a` LEFT OUTER JOIN `b` ON (`a`.`b_id` = `b`.`id`) WHERE `b`.`id` IS NULL
SELECT users.id AS users_id, users.name AS users_name FROM users WHERE users.name = 'x'
SELECT u.id, u.name FROM users AS u WHERE u.id = ? AND u.deleted_at IS NULL
SELECT `u`.`id` FROM `users` AS `u` WHERE (`u`.`age` >= 18 AND (`u`.`country` = 'DE' OR `u`.`country` = 'AT'))
select user0_.id as id1_0_, user0_.name as name2_0_ from user user0_ where user0_.id=?
select o from orders o where o between 1 and 5
SELECT * FROM `orders` WHERE `created_at` BETWEEN '2024-01-01' AND '2024-02-01' AND `status` NOT IN ('paid', 'void')
SELECT `id`, `data`->>'$.name' AS `name` FROM `events` WHERE `data`->'$.kind' = 'click'
SELECT JSON_UNQUOTE(JSON_EXTRACT(`data`, '$.a.b')) FROM `events` LIMIT 10 OFFSET 20
SELECT * FROM orders LIMIT 10, 20
SELECT EXISTS(SELECT 1 FROM `users` WHERE `email` = 'a@example.com') AS `found`
SELECT CASE WHEN total > 10 THEN 'big' WHEN total > 5 THEN 'middle' ELSE 'small' END AS size, COUNT(*) FROM orders GROUP BY size
SELECT IFNULL(SUM(total), 0) FROM orders WHERE customer_id = 7
SELECT COALESCE(a, b, 'x'), NULLIF(c, 0), IF(d > 0, 'yes', 'no') FROM t
SELECT CAST(total AS DECIMAL(10,2)), CONVERT(name USING utf8mb4) FROM orders
SELECT CAST(x AS UNSIGNED), CAST(y AS CHAR(20)) FROM t
SELECT YEAR(created_at), MONTH(created_at), COUNT(*) FROM orders GROUP BY YEAR(created_at), MONTH(created_at) HAVING COUNT(*) > 5
SELECT DATE_FORMAT(created_at, '%Y-%m-%d') AS day FROM orders WHERE created_at > NOW() - INTERVAL 7 DAY
SELECT DATE_ADD(CURDATE(), INTERVAL 1 MONTH), DATEDIFF(NOW(), created_at) FROM orders
SELECT GROUP_CONCAT(DISTINCT name ORDER BY name SEPARATOR ', ') FROM tags
SELECT a.id FROM a WHERE a.x = (SELECT MAX(b.x) FROM b WHERE b.a_id = a.id)
SELECT id, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY created_at DESC) AS n FROM orders
SELECT id, SUM(total) OVER w FROM orders WINDOW w AS (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
WITH recent AS (SELECT * FROM orders WHERE created_at > '2024-01-01') SELECT customer_id, COUNT(*) FROM recent GROUP BY customer_id
WITH RECURSIVE tree (id, parent) AS (SELECT id, parent FROM nodes WHERE parent IS NULL UNION ALL SELECT n.id, n.parent FROM nodes n JOIN tree ON tree.id = n.parent) SELECT * FROM tree
SELECT id FROM a UNION SELECT id FROM b ORDER BY id
(SELECT id FROM a LIMIT 5) UNION ALL (SELECT id FROM b LIMIT 5)
SELECT * FROM articles WHERE MATCH (title, body) AGAINST ('database' IN NATURAL LANGUAGE MODE)
SELECT * FROM orders USE INDEX (by_day) WHERE day = '2024-01-01'
SELECT SQL_CALC_FOUND_ROWS * FROM wp_posts WHERE post_type = 'post' ORDER BY post_date DESC LIMIT 0, 10
SELECT FOUND_ROWS()
SELECT LAST_INSERT_ID()
SELECT option_name, option_value FROM wp_options WHERE autoload = 'yes'
SELECT t.*, tt.* FROM wp_terms AS t INNER JOIN wp_term_taxonomy AS tt ON t.term_id = tt.term_id WHERE tt.taxonomy IN ('category') ORDER BY t.name ASC
SELECT * FROM users WHERE name LIKE '%o\'brien%'
SELECT * FROM users WHERE name REGEXP '^[a-z]+$'
SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4))
SELECT MD5(CONCAT(a, b)), SHA2(c, 256), HEX(d), UNHEX('ff'), UUID() FROM t
SELECT t.id, COUNT(c.id) AS comments FROM topics t LEFT JOIN comments c ON c.topic_id = t.id GROUP BY t.id WITH ROLLUP
SELECT ST_X(place), ST_Distance_Sphere(place, POINT(1, 2)) FROM shops
SELECT x.id FROM (SELECT id FROM orders ORDER BY id LIMIT 10) AS x
SELECT 1
SELECT 1 + 1 AS two, 'a' AS letter, NULL AS nothing, TRUE, -5, 3.14
SELECT NOW(), CURRENT_TIMESTAMP, UTC_TIMESTAMP(), CURRENT_TIMESTAMP(6)
SELECT SUBSTRING(name, 1, 3), LEFT(name, 2), RIGHT(name, 2), CHAR_LENGTH(name), REPLACE(name, 'a', 'b') FROM users
SELECT RAND(), FLOOR(1.5), ROUND(2.555, 2), GREATEST(1, 2), MOD(5, 2), 5 DIV 2, TRUNCATE(1.999, 1)
SELECT INET_NTOA(ip), INET6_ATON('::1') FROM visits
SELECT STR_TO_DATE('01.02.2024', '%d.%m.%Y'), UNIX_TIMESTAMP(), FROM_UNIXTIME(0)
SELECT * FROM a NATURAL JOIN b
SELECT * FROM a CROSS JOIN b
SELECT * FROM a, b WHERE a.id = b.a_id
SELECT * FROM a JOIN b USING (id)
TABLE users
VALUES ROW(1, 'a'), ROW(2, 'b')
SELECT `drop`, `delete`, `update` FROM `grants`
SELECT t.`select` FROM t WHERE t.`where` = 1
SELECT a AS truncate, b AS execute, c AS shutdown FROM t
SELECT comment, value, status, type, date, time, user, action FROM log
SELECT * FROM logs WHERE message = 'DROP TABLE users; --' OR message LIKE 'delete from %'
SELECT 'it''s; DELETE FROM users' AS text
SELECT "INSERT INTO x VALUES (1)" AS text
SELECT /* DROP TABLE x */ id FROM users -- delete from users
SELECT id FROM users # update users set x = 1
/* ApplicationName=DBeaver - Main */ SELECT * FROM users LIMIT 200
/*dddbs='app',ddps='web'*/ SELECT * FROM users WHERE id = 1
SELECT * FROM users WHERE id = 1;
""",
    ("an ORM, writing", "w"): r"""
INSERT INTO `users` (`name`, `email`) VALUES ('Ann', 'ann@example.com')
INSERT INTO `users` (`name`, `email`, `created_at`) VALUES ('Ann', 'ann@example.com', NOW()), ('Bob', NULL, NOW())
INSERT INTO users SET name = 'Ann', email = 'ann@example.com'
INSERT INTO users VALUES (DEFAULT, 'Ann', 5)
INSERT INTO users (name) VALUES (?)
INSERT INTO users () VALUES ()
INSERT IGNORE INTO `post_tags` (`post_id`, `tag_id`) VALUES (1, 2)
INSERT INTO `counters` (`id`, `n`) VALUES (1, 1) ON DUPLICATE KEY UPDATE `n` = `n` + 1
INSERT INTO `counters` (`id`, `n`) VALUES (1, 1) ON DUPLICATE KEY UPDATE `n` = VALUES(`n`)
INSERT INTO t (a, b) VALUES (1, 'DROP TABLE t'), (2, 'it\'s')
INSERT INTO t (a) VALUES (UUID()), (MD5('x')), (CONCAT('a', 'b'))
REPLACE INTO `cache` (`key`, `value`) VALUES ('a', 'b')
UPDATE `users` SET `name` = 'Ann', `updated_at` = CURRENT_TIMESTAMP WHERE `users`.`id` = 1
UPDATE users SET visits = visits + 1 WHERE id = 5
UPDATE users SET name = REPLACE(name, 'a', 'b') WHERE id = 5
UPDATE users SET name = ? WHERE id = ?
UPDATE `orders` SET `status` = CASE `id` WHEN 1 THEN 'open' WHEN 2 THEN 'paid' END WHERE `id` IN (1, 2)
UPDATE orders o JOIN customers c ON c.id = o.customer_id SET o.name = c.name WHERE c.id = 3
UPDATE t SET `delete` = 1, `drop` = 2 WHERE id = 3 ORDER BY id LIMIT 1
UPDATE t SET data = JSON_SET(data, '$.a', 1) WHERE id = 3
DELETE FROM `users` WHERE `users`.`id` IN (1, 2, 3)
DELETE FROM sessions WHERE expires < NOW() - INTERVAL 1 HOUR LIMIT 1000
DELETE FROM `sessions` WHERE `last_activity` <= 1700000000
DELETE a FROM a INNER JOIN b ON a.b_id = b.id WHERE b.gone = 1
DELETE FROM wp_postmeta WHERE post_id = 5 AND meta_key = '_edit_lock'
INSERT INTO t (d) VALUES (x'ffd8'), (_binary'abc'), (0xFF)
INSERT INTO wp_options (option_name, option_value, autoload) VALUES ('x', 'a:1:{s:1:\"a\";i:1;}', 'no') ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)
LOAD DATA LOCAL INFILE 'users.csv' INTO TABLE users FIELDS TERMINATED BY ',' IGNORE 1 LINES
""",
    ("an ORM, reading and writing", "rw"): r"""
INSERT INTO archive (id, name) SELECT id, name FROM users WHERE deleted_at < '2020-01-01'
INSERT INTO archive SELECT * FROM users WHERE id = 1
REPLACE INTO totals (customer_id, n) SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id
UPDATE users SET orders = (SELECT COUNT(*) FROM orders WHERE orders.user_id = users.id) WHERE id = 5
DELETE FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE gone = 1)
INSERT INTO t (a) VALUES (1) RETURNING id
WITH old AS (SELECT id FROM users WHERE gone = 1) DELETE FROM users WHERE id IN (SELECT id FROM old)
INSERT INTO t (a) SELECT 1 FROM dual WHERE NOT EXISTS (SELECT 1 FROM t WHERE a = 1)
""",
    ("a driver, beginning a session", "s"): r"""
SET NAMES utf8mb4
SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci'
SET autocommit=0
SET AUTOCOMMIT = 1
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
SET sql_mode='STRICT_TRANS_TABLES,NO_ZERO_DATE'
SET SESSION sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'
SET time_zone = '+00:00'
SET @@session.time_zone = '+00:00'
SET foreign_key_checks = 0
SET SQL_SAFE_UPDATES=0
SET CHARACTER SET utf8mb4
SET character_set_results = NULL
SET @x = 1, @y = 'a'
SET NAMES latin1
START TRANSACTION
START TRANSACTION READ ONLY
START TRANSACTION WITH CONSISTENT SNAPSHOT
BEGIN
COMMIT
ROLLBACK
SAVEPOINT `s1`
ROLLBACK TO SAVEPOINT `s1`
RELEASE SAVEPOINT `s1`
USE app
USE `app`
LOCK TABLES users READ, orders WRITE
UNLOCK TABLES
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */
/*!40101 SET NAMES utf8mb4 */
/*!40103 SET TIME_ZONE='+00:00' */
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
""",
    ("a tool, looking around", "r"): r"""
SHOW TABLES
SHOW FULL TABLES FROM `app` WHERE Table_type = 'BASE TABLE'
SHOW DATABASES
SHOW CREATE TABLE `users`
SHOW FULL COLUMNS FROM `users`
SHOW INDEX FROM `users`
SHOW VARIABLES LIKE 'sql_mode'
SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'tx_isolation')
SHOW STATUS
SHOW WARNINGS
SHOW PROCESSLIST
SHOW ENGINES
SHOW GRANTS FOR CURRENT_USER()
SHOW TABLE STATUS LIKE 'users'
SELECT @@version_comment LIMIT 1
SELECT @@session.auto_increment_increment AS a, @@character_set_client AS b, @@sql_mode AS c
SELECT DATABASE(), VERSION(), CURRENT_USER(), CONNECTION_ID()
SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'app' AND table_name = 'users' ORDER BY ordinal_position
SELECT kcu.CONSTRAINT_NAME, kcu.COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE kcu WHERE kcu.TABLE_SCHEMA = SCHEMA() AND kcu.REFERENCED_TABLE_NAME IS NOT NULL
EXPLAIN SELECT * FROM users WHERE id = 1
EXPLAIN FORMAT=JSON SELECT * FROM users
EXPLAIN DELETE FROM users WHERE id = 1
DESCRIBE users
DESC users
SHOW REPLICA STATUS
SHOW MASTER STATUS
""",
    ("migrations", "d"): r"""
CREATE TABLE `users` (`id` bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, `name` varchar(255) NOT NULL DEFAULT '', `created_at` timestamp NULL, UNIQUE KEY `by_name` (`name`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE='utf8mb4_unicode_ci'
CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, kind ENUM('a','b'), price DECIMAL(10,2) CHECK (price > 0), at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6))
CREATE TABLE c (id INT, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE SET NULL)
CREATE TABLE m (id INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)
ALTER TABLE `users` ADD COLUMN `age` int NULL, ADD INDEX `by_age` (`age`)
ALTER TABLE `users` DROP FOREIGN KEY `fk`
ALTER TABLE users MODIFY COLUMN name VARCHAR(100) NOT NULL
ALTER TABLE users ADD CONSTRAINT x FOREIGN KEY (a) REFERENCES b (id)
CREATE INDEX by_mail ON users (email(20))
CREATE UNIQUE INDEX by_mail ON users (email)
DROP INDEX by_mail ON users
DROP TABLE IF EXISTS `users`
DROP TABLE users
RENAME TABLE a TO b
CREATE DATABASE app CHARACTER SET utf8mb4
CREATE VIEW v AS SELECT id, name FROM users WHERE gone = 0
CREATE OR REPLACE VIEW v AS SELECT id FROM users
DROP VIEW IF EXISTS v
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4
""",
    ("a tool, truncating", "dw"): "TRUNCATE TABLE `cache`\nTRUNCATE cache",
    ("a queue", "rw"): r"""
SELECT * FROM jobs WHERE done = 0 ORDER BY id LIMIT 1 FOR UPDATE
SELECT * FROM jobs WHERE done = 0 LIMIT 1 FOR UPDATE SKIP LOCKED
""",
    ("a queue", "rs"): r"""
SELECT * FROM jobs WHERE done = 0 LIMIT 1 LOCK IN SHARE MODE
SELECT GET_LOCK('migrations', 10)
SELECT RELEASE_LOCK('migrations')
""",
}

ORDINARY = ordinary(_LISTED)
