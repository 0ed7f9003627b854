SELECT email FROM users
SELECT * FROM users
SELECT EMAIL, Name, "city" FROM USERS
SELECT UPPER(email), LOWER(name), LEN(email), LEFT(name, 6), RIGHT(email, 1), REVERSE(email) FROM users
SELECT SUBSTRING(email, 1, 7), REPLACE(name, 'U', 'V'), CHARINDEX('1', email), STUFF(name, 1, 1, 'x'), LTRIM(email) FROM users
SELECT CONCAT(email, name), email + name, email + '', CONCAT_WS('-', email, city), REPLICATE(email, 2) FROM users
SELECT ISNULL(email, name), COALESCE(NULL, email), NULLIF(email, 'x'), IIF(email = 'Uemail1', 1, 0), CHOOSE(2, name, email) FROM users
SELECT CASE WHEN email = 'Uemail1' THEN name ELSE city END FROM users
SELECT CASE email WHEN 'Uemail1' THEN 1 ELSE 2 END, CASE WHEN 1 = 1 THEN email END FROM users
SELECT CAST(email AS nvarchar(4)), CONVERT(nvarchar(50), name), TRY_CAST(email AS int), TRY_CONVERT(nvarchar(9), city) FROM users
SELECT ASCII(RIGHT(email, 1)), UNICODE(RIGHT(name, 1)), QUOTENAME(email), SPACE(2) + email FROM users
SELECT COUNT(*), COUNT(email), MAX(email), MIN(name) FROM users
SELECT STRING_AGG(email, ',') FROM users
SELECT STRING_AGG(email, ',') WITHIN GROUP (ORDER BY id) FROM users
SELECT MAX(email) OVER (), ROW_NUMBER() OVER (ORDER BY id), LAG(email, 1, name) OVER (ORDER BY id) FROM users
SELECT FIRST_VALUE(email) OVER (PARTITION BY id ORDER BY id), MAX(name) OVER (PARTITION BY id) FROM users
SELECT email FROM users UNION ALL SELECT note FROM orders
SELECT email, id FROM users UNION SELECT note, user_id FROM orders
SELECT email FROM users EXCEPT SELECT 'zzz'
SELECT x FROM (SELECT email AS x FROM users) q
SELECT * FROM (SELECT TOP 5 email, name AS n FROM users ORDER BY id) q
SELECT (SELECT email FROM users), (SELECT MAX(note) FROM orders)
SELECT (SELECT o.note FROM orders o WHERE o.user_id = u.id) AS n, u.email FROM users u
SELECT (SELECT u.email + o.note FROM orders o WHERE o.user_id = u.id) AS n FROM users u
WITH c AS (SELECT email AS x, name FROM users) SELECT x, name FROM c
WITH a AS (SELECT email AS x FROM users), b AS (SELECT x AS y FROM a) SELECT * FROM b
WITH orders AS (SELECT email AS note FROM users) SELECT note FROM orders
WITH C AS (SELECT email FROM users) SELECT * FROM c
SELECT email FROM users ORDER BY name
SELECT email FROM users ORDER BY id OFFSET 0 ROWS FETCH NEXT 5 ROWS ONLY
SELECT DISTINCT email, 'x' AS c FROM users
SELECT TOP (1) email FROM users
SELECT TOP 1 WITH TIES email FROM users ORDER BY id
SELECT email FROM users GROUP BY email HAVING MAX(id) > 0
SELECT u.email, o.note FROM users u LEFT JOIN orders o ON o.user_id = u.id
SELECT u.email, o.note FROM users u RIGHT OUTER JOIN orders o ON o.user_id = u.id
SELECT u.email, o.note FROM users u FULL JOIN orders o ON o.user_id = u.id
SELECT u.email, o.note FROM users u CROSS JOIN orders o
SELECT u.email, o.note FROM users u, orders o
SELECT a.email, b.name FROM users a JOIN users b ON a.id = b.id
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y)
SELECT 1, 'x', NULL, 1.5, 0x1F, -id FROM users
SELECT id + 1, id * 2, id % 2, email FROM users
SELECT DATEADD(day, LEN(email), '2020-01-01'), DATEPART(year, '2020-01-01') FROM users
SELECT email, COUNT(*) AS n FROM users GROUP BY email
SELECT EMAIL AS Email FROM dbo.users WITH (NOLOCK) OPTION (RECOMPILE)
SELECT @@ROWCOUNT, DB_NAME(), SUSER_SNAME()
DECLARE @x nvarchar(50); SELECT @x = email FROM users; SELECT @x AS x, 1 AS y
DECLARE @x nvarchar(50) = (SELECT name FROM users); SELECT @x + '!' AS x
DECLARE @x nvarchar(50), @y nvarchar(50); SELECT @x = email, @y = name FROM users; SET @x = @x + @y; SELECT @y AS y, @x AS x
DECLARE @x nvarchar(50); SET @x = (SELECT email FROM users); SELECT UPPER(@x) AS x, @x AS z
DECLARE @i int = 0; WHILE @i < 2 BEGIN SET @i = @i + 1; SELECT email, @i AS i FROM users END
IF (SELECT COUNT(*) FROM users) > 0 SELECT email AS x FROM users ELSE SELECT name AS x FROM users
BEGIN TRY SELECT email FROM users END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH
EXEC('SELECT email FROM users')
EXEC('SELECT ema' + 'il, name FROM users')
DECLARE @s nvarchar(99) = N'SELECT email FROM users'; EXEC(@s)
EXEC sp_executesql N'SELECT email FROM users WHERE id = @i', N'@i int', 1
EXEC sp_executesql N'SELECT @i AS i, name FROM users', N'@i nvarchar(9)', 'x'
DECLARE @e nvarchar(50) = (SELECT email FROM users); EXEC sp_executesql N'SELECT @p AS p', N'@p nvarchar(50)', @e
SELECT email, name INTO #t FROM users ;; SELECT name, email FROM #t
SELECT email AS x INTO #t FROM users; SELECT * FROM #t
SELECT email AS x INTO #t FROM users ;; SELECT UPPER(x) AS y INTO #u FROM #t ;; SELECT y FROM #u
CREATE TABLE #t (a nvarchar(50), b nvarchar(50)); INSERT INTO #t (b, a) SELECT email, name FROM users; SELECT a, b FROM #t
CREATE TABLE #t (a nvarchar(50), b nvarchar(50)) ;; INSERT INTO #t SELECT email, 'x' FROM users ;; SELECT * FROM #t
CREATE TABLE #t (a nvarchar(50)); INSERT INTO #t VALUES ('x'); INSERT INTO #t SELECT email FROM users; SELECT a FROM #t
SELECT email AS x INTO #t FROM users; UPDATE #t SET x = 'y'; SELECT x FROM #t
SELECT 1 AS id, email AS x INTO #t FROM users ;; DELETE FROM #t WHERE id = 2 ;; SELECT x, id FROM #t
SELECT email AS x INTO #t FROM users ;; DROP TABLE #t; SELECT name AS x INTO #t FROM users; SELECT x FROM #t
SELECT email INTO #t FROM users; SELECT t.email, u.name FROM #t t JOIN users u ON 1 = 1
DECLARE c CURSOR FOR SELECT email, name FROM users; OPEN c; FETCH NEXT FROM c
SELECT email FROM users; SELECT note FROM orders; SELECT name AS n FROM users
SET NOCOUNT ON SELECT email FROM users SELECT note FROM orders
DECLARE @e nvarchar(50); SELECT @e = email FROM users; SELECT @e AS e INTO #t; SELECT e FROM #t
DECLARE @e nvarchar(50); SELECT @e = email FROM users ;; SELECT name AS e FROM users
