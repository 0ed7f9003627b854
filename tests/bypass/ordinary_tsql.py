"""Statements as applications, their libraries and their tools send them to SQL Server."""

from __future__ import annotations

from tests.bypass.lines import ordinary

_LISTED = {
    ("an ORM, reading", "r"): r"""
SELECT [u].[Id], [u].[Email] FROM [Users] AS [u] WHERE [u].[Id] = @__id_0
SELECT TOP(1) [u].[Id], [u].[Name] FROM [Users] AS [u] WHERE [u].[Name] = N'Ann'
SELECT TOP 10 * FROM dbo.Orders ORDER BY CreatedAt DESC
SELECT TOP (10) PERCENT WITH TIES a FROM t ORDER BY a
SELECT COUNT(*) FROM [Orders] AS [o] WHERE [o].[Status] = N'open'
SELECT CASE WHEN EXISTS (SELECT 1 FROM [Users] AS [u] WHERE [u].[Name] = N'x') THEN CAST(1 AS bit) ELSE CAST(0 AS bit) END
SELECT [b].[Id], [p].[Title] FROM [Blogs] AS [b] LEFT JOIN [Posts] AS [p] ON [b].[Id] = [p].[BlogId] ORDER BY [b].[Id], [p].[Id]
SELECT [t].[Id] FROM (SELECT [x].[Id], ROW_NUMBER() OVER(PARTITION BY [x].[G] ORDER BY [x].[Id]) AS [row] FROM [X] AS [x]) AS [t] WHERE [t].[row] <= 1
SELECT [u].[Id] FROM [Users] AS [u] ORDER BY [u].[Id] OFFSET @__p_0 ROWS FETCH NEXT @__p_1 ROWS ONLY
SELECT users.id AS users_id FROM users WHERE users.name = ? ORDER BY users.id OFFSET 0 ROWS FETCH FIRST 5 ROWS ONLY
SELECT u.id, u.name FROM users u WITH (NOLOCK) INNER JOIN orders o WITH (NOLOCK, INDEX(ix)) ON o.uid = u.id
SELECT a, SUM(b) OVER (PARTITION BY c ORDER BY d ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t
SELECT DATEADD(day, -7, GETDATE()), DATEDIFF(hour, a, b), CONVERT(varchar(10), c, 120), FORMAT(d, 'yyyy') FROM t
SELECT CAST(a AS nvarchar(max)), TRY_CAST(b AS int), ISNULL(c, 0), COALESCE(d, e, ''), IIF(f > 1, 'x', 'y') FROM t
SELECT STRING_AGG(name, ', ') WITHIN GROUP (ORDER BY name) FROM tags
SELECT value FROM STRING_SPLIT('a,b', ',')
SELECT j.[key], j.value FROM t CROSS APPLY OPENJSON(t.data) AS j
SELECT * FROM OPENJSON(@json) WITH (id int '$.id', name nvarchar(50) '$.name')
SELECT JSON_VALUE(data, '$.a'), JSON_QUERY(data, '$.b') FROM events WHERE ISJSON(data) = 1
SELECT a FROM t FOR JSON PATH, ROOT('x')
SELECT a FROM t FOR XML PATH('row'), TYPE
SELECT a, b FROM t GROUP BY GROUPING SETS ((a), (b), ())
SELECT a, COUNT(*) FROM t GROUP BY ROLLUP(a) HAVING COUNT(*) > 1
SELECT a FROM t UNION ALL SELECT b FROM s EXCEPT SELECT c FROM r
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (id, name)
WITH c AS (SELECT id, parent FROM nodes WHERE parent IS NULL UNION ALL SELECT n.id, n.parent FROM nodes n JOIN c ON c.id = n.parent) SELECT * FROM c OPTION (MAXRECURSION 100)
;WITH c (a, b) AS (SELECT 1, 2) SELECT a FROM c
SELECT * FROM t WHERE a IN (SELECT b FROM s) AND NOT EXISTS (SELECT 1 FROM r WHERE r.x = t.x)
SELECT * FROM a CROSS JOIN b
SELECT * FROM a FULL OUTER JOIN b ON a.x = b.x
SELECT a.x FROM a OUTER APPLY (SELECT TOP 1 b.y FROM b WHERE b.x = a.x ORDER BY b.y) AS z
SELECT p.* FROM (SELECT a, b, c FROM t) AS s PIVOT (SUM(c) FOR b IN ([x], [y])) AS p
SELECT a FROM t WHERE b LIKE N'%[0-9]%' ESCAPE '\'
SELECT a FROM t WHERE c = 'it''s' AND d = N'ümlaut'
SELECT NEWID(), @@ROWCOUNT, @@IDENTITY, SCOPE_IDENTITY(), @@SPID, @@TRANCOUNT
SELECT 'DROP TABLE x', N'DELETE FROM y; --', 'EXEC xp_cmdshell'
SELECT [drop], [delete], [exec] FROM [grant]
SELECT t.[update], t.[insert] AS [merge] FROM t
SELECT a /* DROP TABLE x */ FROM t -- DELETE FROM t
SELECT type, status, name, description, value, action, state, owner FROM t
SELECT a FROM t INNER LOOP JOIN s ON t.a = s.a
SELECT a FROM t INNER HASH JOIN s ON t.a = s.a OPTION (MAXDOP 1, RECOMPILE)
SELECT a FROM t INNER MERGE JOIN s ON t.a = s.a
SELECT LEFT(a, 3), RIGHT(a, 2), LEN(a), REPLACE(a, 'x', 'y'), SUBSTRING(a, 1, 2), CHARINDEX('x', a), UPPER(a), LTRIM(RTRIM(a)) FROM t
SELECT ABS(-1), CEILING(1.2), ROUND(1.234, 2), POWER(2, 3), SQRT(4), RAND(), CHECKSUM(a) FROM t
SELECT YEAR(a), MONTH(a), DAY(a), EOMONTH(a), DATEPART(week, a), SYSUTCDATETIME() FROM t
SELECT HASHBYTES('SHA2_256', a), CONVERT(varchar(64), HASHBYTES('MD5', 'x'), 2) FROM t
SELECT LAG(a) OVER (ORDER BY b), LEAD(a, 1, 0) OVER (ORDER BY b), NTILE(4) OVER (ORDER BY b), DENSE_RANK() OVER (ORDER BY b) FROM t
SELECT a FROM t AS OF_t WHERE a BETWEEN 1 AND 5
SELECT a FROM history FOR SYSTEM_TIME AS OF '2024-01-01'
SELECT CURRENT_TIMESTAMP, CURRENT_USER, SYSTEM_USER
SELECT 1;
SELECT 1
SELECT 0x1F, 1e5, -5, .5, NULL
""",
    ("a tool, looking around", "r"): r"""
SELECT name FROM sys.databases
SELECT SERVERPROPERTY('ProductVersion'), DB_NAME(), SUSER_SNAME(), @@VERSION
SELECT s.name, t.name FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id ORDER BY 1, 2
SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_TYPE = 'BASE TABLE'
SELECT COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'users'
SELECT OBJECT_ID(N'[__EFMigrationsHistory]')
SELECT OBJECT_NAME(object_id), OBJECT_DEFINITION(object_id) FROM sys.objects WHERE type = 'P'
SELECT c.name, TYPE_NAME(c.user_type_id) FROM sys.columns c WHERE c.object_id = OBJECT_ID('dbo.users')
SELECT * FROM sys.dm_exec_requests r CROSS APPLY sys.dm_exec_sql_text(r.sql_handle)
SELECT HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'SELECT')
EXEC sp_help 'dbo.users'
EXEC sp_columns @table_name = N'users'
EXEC sys.sp_tables
exec sp_helptext 'dbo.v'
sp_who2
sp_helpdb
EXEC sp_spaceused
EXEC sp_describe_first_result_set N'SELECT 1'
EXEC sp_pkeys 'users'
EXEC sp_statistics 'users'
""",
    ("an ORM, writing", "w"): r"""
INSERT INTO [Users] ([Name], [Email]) VALUES (@p0, @p1)
INSERT INTO [Users] ([Name]) VALUES (N'Ann'), (N'Bob')
INSERT INTO dbo.t VALUES (1, 'DROP TABLE t')
INSERT t (a, b) VALUES (1, GETDATE())
INSERT INTO t DEFAULT VALUES
INSERT INTO t (id, name) VALUES (NEWID(), 'it''s')
INSERT INTO #temp (a) VALUES (1)
UPDATE [Users] SET [Name] = @p0 WHERE [Id] = @p1
UPDATE t SET a = a + 1, b = NULL, c = 'DELETE' WHERE id = 5
UPDATE t SET a += 1 WHERE id = 5
UPDATE u SET u.name = s.name FROM users u INNER JOIN staging s ON s.id = u.id WHERE s.ok = 1
UPDATE TOP (100) jobs SET taken = 1 WHERE taken = 0
UPDATE t WITH (ROWLOCK) SET a = 1 WHERE id = 2
UPDATE t SET [delete] = 1 WHERE [drop] = 2
UPDATE t SET a = CASE WHEN b = 1 THEN 2 ELSE 3 END WHERE id IN (1, 2)
DELETE FROM [Users] WHERE [Id] = @p0
DELETE TOP (1000) FROM logs WHERE at < DATEADD(day, -30, GETUTCDATE())
DELETE FROM t WHERE id IN (1, 2, 3)
DELETE o FROM orders o JOIN customers c ON c.id = o.cid WHERE c.gone = 1
DELETE users WHERE id = 3
MERGE INTO t AS target USING (VALUES (1, 'a')) AS source (id, name) ON target.id = source.id WHEN MATCHED THEN UPDATE SET name = source.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (source.id, source.name);
MERGE t USING s ON t.id = s.id WHEN MATCHED AND s.gone = 1 THEN DELETE WHEN NOT MATCHED BY TARGET THEN INSERT (id) VALUES (s.id);
""",
    ("an ORM, reading and writing", "rw"): r"""
INSERT INTO [Users] ([Name]) OUTPUT INSERTED.[Id] VALUES (@p0)
UPDATE [Users] SET [Name] = @p0 OUTPUT 1 WHERE [Id] = @p1
DELETE FROM [Users] OUTPUT DELETED.[Id] WHERE [Id] = @p0
INSERT INTO archive (id) SELECT id FROM users WHERE gone = 1
INSERT INTO archive SELECT * FROM users WHERE id = 1
WITH c AS (SELECT TOP (5) * FROM jobs WHERE taken = 0 ORDER BY id) UPDATE c SET taken = 1 WHERE taken = 0
DELETE FROM t WHERE id IN (SELECT id FROM gone)
INSERT INTO [Users] ([Name]) VALUES (@p0); SELECT SCOPE_IDENTITY()
UPDATE t SET a = (SELECT MAX(b) FROM s WHERE s.id = t.id) WHERE t.id = 5
SELECT NEXT VALUE FOR dbo.numbers
""",
    ("scripts", "sw"): r"""
SET NOCOUNT ON; INSERT INTO t (a) VALUES (1)
BEGIN TRAN INSERT INTO t (a) VALUES (1) COMMIT
SET XACT_ABORT ON BEGIN TRANSACTION UPDATE t SET a = 1 WHERE id = 1 COMMIT TRANSACTION
BEGIN TRY INSERT INTO t (a) VALUES (1) END TRY BEGIN CATCH THROW END CATCH
BEGIN TRY DELETE FROM t WHERE id = 1 END TRY BEGIN CATCH PRINT ERROR_MESSAGE(); THROW; END CATCH
DECLARE @x int = 5; UPDATE t SET a = @x WHERE id = @x
IF @@ROWCOUNT = 0 INSERT INTO t (a) VALUES (1)
IF @x IS NULL BEGIN INSERT INTO t (a) VALUES (1) END ELSE BEGIN UPDATE t SET a = 2 WHERE id = 1 END
SET IDENTITY_INSERT t ON; INSERT INTO t (id) VALUES (1); SET IDENTITY_INSERT t OFF
DECLARE @t TABLE (id int); INSERT INTO @t VALUES (1)
""",
    ("scripts, reading", "rs"): r"""
DECLARE @id int = 5 SELECT * FROM t WHERE id = @id
SET NOCOUNT ON SELECT a FROM t SET NOCOUNT OFF
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT a FROM t
DECLARE @n int; SELECT @n = COUNT(*) FROM t; PRINT @n
DECLARE @n int = (SELECT COUNT(*) FROM t)
SET @n = (SELECT MAX(id) FROM t)
IF EXISTS (SELECT 1 FROM t WHERE a = 1) PRINT 'yes' ELSE PRINT 'no'
IF OBJECT_ID('tempdb..#x') IS NOT NULL SELECT 1
DECLARE c CURSOR LOCAL FAST_FORWARD FOR SELECT id FROM t; OPEN c; FETCH NEXT FROM c INTO @id; CLOSE c; DEALLOCATE c
WHILE @i < 10 BEGIN SELECT @i SET @i = @i + 1 END
USE app SELECT a FROM t
""",
    ("a driver, in its session", "s"): r"""
SET NOCOUNT ON
SET ANSI_NULLS ON
SET QUOTED_IDENTIFIER ON
SET DATEFORMAT ymd
SET LANGUAGE us_english
SET LOCK_TIMEOUT 5000
SET TRANSACTION ISOLATION LEVEL READ COMMITTED
SET TEXTSIZE 2147483647
BEGIN TRANSACTION
BEGIN TRAN
COMMIT TRANSACTION
COMMIT
ROLLBACK
ROLLBACK TRAN
IF @@TRANCOUNT > 0 ROLLBACK TRAN
IF @@TRANCOUNT > 0 COMMIT
SAVE TRANSACTION s1
USE [app]
DECLARE @a int, @b nvarchar(50)
SET @a = 5
PRINT 'hello; DROP TABLE x'
RAISERROR('x', 16, 1)
""",
    ("migrations", "d"): r"""
CREATE TABLE [Users] ([Id] int NOT NULL IDENTITY(1,1), [Name] nvarchar(max) NULL, CONSTRAINT [PK_Users] PRIMARY KEY ([Id]))
CREATE TABLE dbo.t (a decimal(10,2) DEFAULT (0) CHECK (a >= 0), b datetime2(7) DEFAULT GETUTCDATE(), c AS (a * 2))
CREATE TABLE c (id int REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL)
CREATE TABLE #temp (a int)
ALTER TABLE [Users] ADD [Age] int NOT NULL DEFAULT 0
ALTER TABLE [Users] DROP CONSTRAINT [DF_x]
ALTER TABLE [Users] DROP COLUMN [Age]
ALTER TABLE [Users] ALTER COLUMN [Name] nvarchar(100) NOT NULL
ALTER TABLE a ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES c (id) ON DELETE CASCADE
CREATE INDEX [IX_Users_Name] ON [Users] ([Name])
CREATE UNIQUE NONCLUSTERED INDEX ix ON t (a DESC) INCLUDE (b) WHERE a IS NOT NULL
DROP INDEX [IX] ON [Users]
DROP TABLE [Users]
DROP TABLE IF EXISTS #temp
CREATE VIEW v AS SELECT a FROM t WHERE b = 1
ALTER VIEW v AS SELECT a, b FROM t
DROP VIEW v
CREATE PROCEDURE p @id int AS SET NOCOUNT ON; SELECT * FROM t WHERE id = @id; UPDATE t SET seen = 1 WHERE id = @id
CREATE SEQUENCE s START WITH 1
EXEC sp_rename N'[Users].[Name]', N'FullName', N'COLUMN'
CREATE SCHEMA app
ALTER INDEX ALL ON t REBUILD
""",
    ("DBeaver and Management Studio, connecting", "s"): r"""
SET TRANSACTION ISOLATION LEVEL READ COMMITTED
SET IMPLICIT_TRANSACTIONS OFF
SET LOCK_TIMEOUT 10000
SET ROWCOUNT 0 SET TEXTSIZE 2147483647 SET NOEXEC OFF SET SHOWPLAN_ALL OFF
SET ARITHABORT, ANSI_NULLS ON
USE [shop]
SET DEADLOCK_PRIORITY -10
""",
    ("DBeaver and Management Studio, browsing", "r"): r"""
SELECT @@VERSION
SELECT db_name(), schema_name(), original_login()
SELECT SERVERPROPERTY('EngineEdition'), SERVERPROPERTY('ProductVersion'), SERVERPROPERTY('IsClustered'), @@MICROSOFTVERSION
SELECT db.* FROM sys.databases db WHERE db.name = 'shop' ORDER BY db.name
SELECT ss.*, NULL AS description FROM [shop].sys.types ss WHERE ss.is_user_defined = 0 ORDER BY ss.name
SELECT s.*, ep.value AS description FROM [shop].sys.schemas s LEFT OUTER JOIN [shop].sys.extended_properties ep ON ep.class = 3 AND ep.major_id = s.schema_id AND ep.minor_id = 0 AND ep.name = 'MS_Description' ORDER BY s.name
SELECT o.*, ep.value AS description, t.* FROM [shop].sys.all_objects o LEFT OUTER JOIN [shop].sys.tables t ON t.object_id = o.object_id LEFT OUTER JOIN [shop].sys.extended_properties ep ON ep.class = 1 AND ep.major_id = o.object_id AND ep.minor_id = 0 AND ep.name = 'MS_Description' WHERE o.type IN ('U', 'S', 'V', 'TT') AND o.schema_id = @P0 ORDER BY o.name
SELECT c.*, t.name AS table_name, dc.name AS default_constraint_name, COALESCE(dc.definition, cc.definition) AS default_value, ep.value AS description FROM [shop].sys.all_columns c JOIN [shop].sys.all_objects t ON t.object_id = c.object_id LEFT OUTER JOIN [shop].sys.default_constraints dc ON dc.parent_object_id = t.object_id AND dc.parent_column_id = c.column_id LEFT OUTER JOIN [shop].sys.computed_columns cc ON cc.object_id = c.object_id AND cc.column_id = c.column_id LEFT OUTER JOIN [shop].sys.extended_properties ep ON ep.class = 1 AND ep.major_id = t.object_id AND ep.minor_id = c.column_id AND ep.name = 'MS_Description' WHERE t.object_id = @P0 ORDER BY c.object_id, c.column_id
SELECT i.*, t.name AS table_name, p.rows FROM [shop].sys.indexes i JOIN [shop].sys.objects t ON t.object_id = i.object_id JOIN [shop].sys.partitions p ON p.object_id = i.object_id AND p.index_id = i.index_id WHERE t.schema_id = @P0 ORDER BY i.object_id, i.index_id
SELECT fk.*, fkc.constraint_column_id FROM [shop].sys.foreign_keys fk JOIN [shop].sys.foreign_key_columns fkc ON fkc.constraint_object_id = fk.object_id WHERE fk.parent_object_id = @P0
SELECT p.*, ep.value AS description FROM [shop].sys.all_objects p LEFT OUTER JOIN [shop].sys.extended_properties ep ON ep.class = 1 AND ep.major_id = p.object_id AND ep.minor_id = 0 WHERE p.type IN ('P', 'PC', 'X', 'TF', 'FN', 'IF') AND p.schema_id = @P0 ORDER BY p.name
SELECT definition FROM [shop].sys.all_sql_modules WHERE object_id = @P0
SELECT tr.* FROM [shop].sys.triggers tr WHERE tr.parent_id = @P0
SELECT SUM(p.rows), SUM(a.total_pages) FROM [shop].sys.partitions p JOIN [shop].sys.allocation_units a ON p.partition_id = a.container_id WHERE p.object_id = @P0
EXEC [shop]..sp_columns 'orders', 'dbo'
EXEC sp_helptext N'dbo.v'
SELECT dtb.name AS [Name], dtb.state AS [State], CAST(CASE WHEN DATABASEPROPERTYEX(dtb.name, 'Updateability') = 'READ_WRITE' THEN 0 ELSE 1 END AS bit) AS [ReadOnly] FROM master.sys.databases AS dtb ORDER BY [Name] ASC
SELECT CAST(serverproperty(N'Servername') AS sysname) AS [Server_Name], tbl.name AS [Name], SCHEMA_NAME(tbl.schema_id) AS [Schema] FROM sys.tables AS tbl WHERE (tbl.is_filetable = 0 AND tbl.is_memory_optimized = 0) ORDER BY [Schema] ASC, [Name] ASC
SELECT HAS_DBACCESS('shop'), HAS_PERMS_BY_NAME(null, null, 'VIEW ANY DATABASE'), IS_SRVROLEMEMBER('sysadmin'), SUSER_SNAME()
select top 200 * from [shop].[dbo].[orders]
""",
}

ORDINARY = ordinary(_LISTED)
