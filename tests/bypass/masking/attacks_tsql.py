"""Attacks on a masked column of SQL Server: each form of the column by each way to the client.

No server is available that runs all of them. Each attack is the texts of one session; every column of the last answer
shows the masked column `people.name`, and so must have it among its origins, or an unknown one.
"""

from __future__ import annotations

from collections.abc import Iterator

# An expression over the masked column, which `{0}` qualifies.
FORMS: tuple[str, ...] = (
    "{0}name",
    "{0}[name]",
    "{0}NAME",
    "({0}name)",
    "UPPER({0}name)",
    "upper /* ( */ ({0}name)",
    "SUBSTRING({0}name, 1, 1)",
    "LEFT({0}name, 1)",
    "ASCII({0}name)",
    "UNICODE({0}name) - 1",
    "LEN({0}name)",
    "REVERSE({0}name)",
    "{0}name + ''",
    "'' + {0}name",
    "CONCAT({0}name, 1)",
    "CAST({0}name AS nvarchar(max))",
    "TRY_CAST({0}name AS int)",
    "CONVERT(varbinary(50), {0}name)",
    "CONVERT(varchar(50), {0}name, 1)",
    "PARSE({0}name AS int USING 'en-US')",
    "CASE WHEN {0}name LIKE 'A%' THEN 1 ELSE 0 END",
    "IIF({0}name > 'M', 1, 0)",
    "NULLIF({0}name, 'x')",
    "ISNULL({0}name, '')",
    "COALESCE(NULL, {0}name)",
    "CHOOSE(1, {0}name, 'x')",
    "HASHBYTES('MD5', {0}name)",
    "CHECKSUM({0}name)",
    "SOUNDEX({0}name)",
    "PATINDEX('%a%', {0}name)",
    "CHARINDEX('a', {0}name)",
    "STUFF({0}name, 1, 0, '-')",
    "REPLACE({0}name, 'a', 'b')",
    "TRANSLATE({0}name, 'a', 'b')",
    "QUOTENAME({0}name)",
    "TRIM('x' FROM {0}name)",
    "DATALENGTH({0}name)",
    "COMPRESS({0}name)",
    "FORMATMESSAGE('%s', {0}name)",
    "STRING_ESCAPE({0}name, 'json')",
    "JSON_VALUE({0}name, '$.a')",
    "JSON_MODIFY('{{}}', '$.a', {0}name)",
    "{0}name COLLATE Latin1_General_BIN",
    "DATEADD(day, LEN({0}name), GETDATE())",
    "(SELECT {0}name)",
    "(SELECT MAX(x) FROM (VALUES ({0}name)) AS v(x))",
    "(SELECT {0}name FOR XML PATH(''))",
    "(SELECT {0}name AS n FOR JSON PATH, WITHOUT_ARRAY_WRAPPER)",
    "(SELECT value FROM STRING_SPLIT({0}name, ' ') ORDER BY value OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY)",
    "(SELECT COUNT(*) FROM chart c WHERE c.letter < {0}name)",
    "(SELECT 1 WHERE EXISTS (SELECT 1 FROM chart c WHERE c.letter = LEFT({0}name, 1)))",
    "CAST({0}name AS xml).value('.', 'nvarchar(50)')",
)

# Texts of one session; `{0}` stands for the form, which is over a table `{1}`.
_CARRIERS: dict[str, tuple[str, ...]] = {
    "plain": ("SELECT {p} FROM people p",),
    "alias": ("SELECT x = {p} FROM dbo.people AS p",),
    "string alias": ("SELECT {p} AS 'id' FROM dbo.people AS p",),
    "no alias": ("SELECT {people} FROM people",),
    "no qualifier": ("SELECT {} FROM people",),
    "brackets": ("SELECT {p} AS [id] FROM [dbo].[PEOPLE] AS [p]",),
    "three parts": ("SELECT {p} FROM leaks.dbo.people p",),
    "no schema": ("SELECT {p} FROM leaks..people p",),
    "comments": ("SELECT/**/{p}/* /* x */ */FROM--\n people/**/p",),
    "no semicolons": ("SELECT 1 AS a SELECT {p} FROM people p",),
    "subquery": ("SELECT x FROM (SELECT {p} AS x FROM people p) q",),
    "subquery of subqueries": ("SELECT y.x FROM (SELECT z.x FROM (SELECT {p} AS x FROM people p) z) y",),
    "list of columns": ("SELECT q.b FROM (SELECT 1, {p} FROM people p) q(a, b)",),
    "scalar subquery": ("SELECT (SELECT TOP 1 {p} FROM people p ORDER BY p.id) AS x",),
    "star": ("SELECT * FROM (SELECT {p} AS x FROM people p) q",),
    "CTE": ("WITH c AS (SELECT {p} AS x FROM people p) SELECT x FROM c",),
    "CTE in other letters": ("WITH Cc (Xx) AS (SELECT {p} FROM people p) SELECT CC.xX FROM cC",),
    "chain of CTEs": ("WITH a AS (SELECT {p} AS x FROM people p), b AS (SELECT x AS y FROM a) SELECT * FROM b",),
    "recursive CTE": (
        "WITH r AS (SELECT 1 AS n, {p} AS x FROM people p UNION ALL SELECT n + 1, x FROM r WHERE n < 3) SELECT x FROM r",
    ),
    "CTE that hides a table": ("WITH orders AS (SELECT {p} AS note FROM people p) SELECT note FROM orders",),
    "table behind a later CTE": ("WITH a AS (SELECT {p} AS x FROM people p), people AS (SELECT 1 AS y) SELECT x FROM a",),
    "union": ("SELECT note FROM orders UNION ALL SELECT {p} FROM people p",),
    "except": ("SELECT {p} FROM people p EXCEPT SELECT 'x'",),
    "cross apply": ("SELECT a.x FROM people p CROSS APPLY (SELECT {p} AS x) a",),
    "outer apply of values": ("SELECT a.x FROM people p OUTER APPLY (VALUES ({p}), (NULL)) a(x)",),
    "aggregate": ("SELECT MAX({p}) FROM people p",),
    "string_agg": ("SELECT STRING_AGG({p}, ',') WITHIN GROUP (ORDER BY p.id) FROM people p",),
    "window": ("SELECT FIRST_VALUE({p}) OVER (ORDER BY p.id ROWS UNBOUNDED PRECEDING) FROM people p",),
    "lag": ("SELECT LAG({p}, 1, 0) IGNORE NULLS OVER (PARTITION BY p.id ORDER BY p.id) FROM people p",),
    "rank": ("SELECT RANK() OVER (ORDER BY {p}) FROM people p",),
    "pivot": ("SELECT [1] FROM (SELECT p.id, {p} AS x FROM people p) s PIVOT (MAX(x) FOR id IN ([1], [2])) q",),
    "unpivot": ("SELECT q.v FROM (SELECT p.id, {p} AS x FROM people p) s UNPIVOT (v FOR k IN (x)) q",),
    "for xml": ("SELECT {p} AS x FROM people p FOR XML RAW, ROOT('r')",),
    "for xml in a subquery": ("SELECT (SELECT {p} AS x FROM people p FOR XML PATH(''), TYPE) AS d",),
    "for xml value": ("SELECT STUFF((SELECT ',' + {p} FROM people p FOR XML PATH(''), TYPE).value('.', 'varchar(99)'), 1, 1, '')",),
    "for json": ("SELECT {p} AS x FROM people p FOR JSON AUTO, INCLUDE_NULL_VALUES",),
    "openjson": ("SELECT j.v FROM people p CROSS APPLY OPENJSON((SELECT {p} AS v FOR JSON PATH)) WITH (v nvarchar(9) '$.v') j",),
    "nodes": ("SELECT n.c.value('.', 'varchar(9)') FROM people p CROSS APPLY (SELECT CAST({p} AS xml) AS d) x CROSS APPLY x.d.nodes('/a') AS n(c)",),
    "variable": ("DECLARE @v nvarchar(99) SELECT @v = {p} FROM people p SELECT @v AS x",),
    "variable in other letters": ("DECLARE @Vv nvarchar(99); SELECT @vV = {p} FROM people p; SELECT @VV",),
    "declared variable": ("DECLARE @v sql_variant = (SELECT TOP 1 {p} FROM people p); SELECT @v",),
    "set variable": ("DECLARE @v nvarchar(99), @w nvarchar(99); SET @v = (SELECT TOP 1 {p} FROM people p); SET @w = @v; SELECT @w + ''",),
    "appended variable": ("DECLARE @v nvarchar(max) = N'' SELECT @v += {p} FROM people p SELECT @v",),
    "variable of an update": ("DECLARE @v nvarchar(99); UPDATE p SET @v = {p}, note = '' FROM people p; SELECT @v",),
    "temporary table": ("SELECT {p} AS x INTO #t FROM people p", "SELECT x FROM #t"),
    "temporary table in one batch": ("SELECT {p} AS x INTO #t FROM people p SELECT * FROM #T",),
    "temporary table of another database": ("SELECT {p} AS x INTO #t FROM people p", "SELECT x FROM tempdb..#t"),
    "created temporary table": ("CREATE TABLE #t (i int, x nvarchar(99))", "INSERT #t SELECT 1, {p} FROM people p", "SELECT x FROM #t"),
    "named columns": ("CREATE TABLE #t (x nvarchar(99), i int); INSERT INTO #t (i, x) SELECT 1, {p} FROM people p; SELECT x FROM #t",),
    "chain of temporary tables": ("SELECT {p} AS x INTO #t FROM people p; SELECT x AS y INTO #u FROM #t", "SELECT * FROM #u"),
    "global temporary table": ("SELECT {p} AS x INTO ##t FROM people p", "SELECT x FROM ##t"),
    "altered temporary table": ("CREATE TABLE #t (i int)", "ALTER TABLE #t ADD x nvarchar(99)", "INSERT #t SELECT 1, {p} FROM people p", "SELECT x FROM #t"),
    "computed column": ("CREATE TABLE #t (i nvarchar(99), x AS i + '!')", "INSERT #t SELECT {p} FROM people p", "SELECT x FROM #t"),
    "update of a temporary table": ("SELECT 1 AS id, 'x' AS x INTO #t", "UPDATE t SET x = {p} FROM #t t JOIN people p ON p.id = t.id", "SELECT x FROM #t"),
    "update through a CTE": ("SELECT 1 AS id, 'x' AS x INTO #t", "WITH c AS (SELECT t.x, {p} AS y FROM #t t JOIN people p ON p.id = t.id) UPDATE c SET x = y", "SELECT x FROM #t"),
    "merge": ("CREATE TABLE #t (id int, x nvarchar(99))", "MERGE #t AS t USING people AS p ON t.id = p.id WHEN NOT MATCHED THEN INSERT (id, x) VALUES (1, {p});", "SELECT x FROM #t"),
    "table variable": ("DECLARE @t TABLE (x nvarchar(99)); INSERT @t SELECT {p} FROM people p; SELECT x FROM @t AS y",),
    "output": ("UPDATE p SET note = {p} OUTPUT inserted.note FROM people p",),
    "output of the old row": ("UPDATE people SET name = 'x' OUTPUT deleted.name",),
    "output into": ("CREATE TABLE #t (x nvarchar(99))", "DELETE p OUTPUT deleted.name INTO #t (x) FROM people p", "SELECT x FROM #t"),
    "output of an insert": ("INSERT INTO orders (note) OUTPUT inserted.note SELECT {p} FROM people p",),
    "output of a merge": ("MERGE orders AS o USING people AS p ON o.id = p.id WHEN MATCHED THEN UPDATE SET note = {p} OUTPUT inserted.note;",),
    "cursor": ("DECLARE c CURSOR FOR SELECT {p} FROM people p OPEN c", "FETCH NEXT FROM c"),
    "cursor into a variable": ("DECLARE @v nvarchar(99); DECLARE c CURSOR LOCAL FAST_FORWARD FOR SELECT {p} FROM people p; OPEN c; FETCH c INTO @v; WHILE @@FETCH_STATUS = 0 BEGIN FETCH NEXT FROM c INTO @v END; SELECT @v",),
    "cursor variable": ("DECLARE @c CURSOR; SET @c = CURSOR FOR SELECT {p} FROM people p; OPEN @c; FETCH NEXT FROM @c",),
    "dynamic": ("EXEC (N'SELECT {q} FROM people p')",),
    "dynamic in parts": ("EXEC ('SELE' + 'CT {q} FROM people p')",),
    "dynamic of a variable": ("DECLARE @s nvarchar(max) = N'SELECT {q} FROM people p'; EXEC (@s)",),
    "dynamic of a dynamic": ("EXEC ('EXEC (''SELECT {qq} FROM people p'')')",),
    "sp_executesql": ("EXEC sp_executesql N'SELECT {q} FROM people p WHERE p.id = @i', N'@i int', 1",),
    "sp_executesql with an output": ("DECLARE @v nvarchar(99); EXEC sys.sp_executesql N'SELECT @o = {q} FROM people p', N'@o nvarchar(99) OUTPUT', @o = @v OUTPUT; SELECT @v",),
    "argument of sp_executesql": ("DECLARE @v nvarchar(99) = (SELECT TOP 1 {p} FROM people p); EXEC sp_executesql N'SELECT @a AS x', N'@a nvarchar(99)', @a = @v",),
    "text of a value": ("DECLARE @v nvarchar(99) = (SELECT TOP 1 {p} FROM people p); EXEC ('SELECT ''' + @v + ''' AS x')",),
    "rows of a dynamic": ("CREATE TABLE #t (x nvarchar(99)); INSERT #t EXEC ('SELECT {q} FROM people p'); SELECT x FROM #t",),
    "written by a dynamic": ("CREATE TABLE #t (x nvarchar(99)); EXEC ('INSERT #t SELECT {q} FROM people p'); SELECT x FROM #t",),
    "prepared": ("DECLARE @h int; EXEC sp_prepexec @h OUTPUT, N'', N'SELECT {q} FROM people p'",),
    "view": ("SELECT who FROM v_people",),
    "view of a view": ("SELECT * FROM v_more",),
    "synonym": ("SELECT name FROM s_people",),
    "procedure": ("EXEC dbo.list_people",),
    "procedure without exec": ("list_people",),
    "function": ("SELECT dbo.name_of(1) AS x",),
    "table function": ("SELECT * FROM dbo.people_of(1)",),
    "rows of a procedure": ("CREATE TABLE #t (x nvarchar(99)); INSERT #t EXEC dbo.list_people; SELECT x FROM #t",),
    "temporary table of a procedure": ("CREATE TABLE #t (x nvarchar(99)); EXEC dbo.fill; SELECT x FROM #t",),
    "output of a procedure": ("DECLARE @v nvarchar(99); EXEC dbo.give @v OUTPUT; SELECT @v",),
    "return value": ("DECLARE @v int; EXEC @v = dbo.give; SELECT @v",),
    "new view": ("CREATE VIEW orders2 AS SELECT {p} AS x FROM people p", "SELECT x FROM orders2"),
    "replaced table": ("EXEC sp_rename 'people', 'old'; EXEC sp_rename 'orders', 'people'", "SELECT note FROM people"),
    "other database": ("USE other", "SELECT note FROM orders"),
    "context": ("DECLARE @v varbinary(99) = (SELECT TOP 1 CAST({p} AS varbinary(99)) FROM people p); SET CONTEXT_INFO @v", "SELECT CONTEXT_INFO()"),
    "session context": ("DECLARE @v nvarchar(99) = (SELECT TOP 1 {p} FROM people p); EXEC sp_set_session_context 'k', @v", "SELECT SESSION_CONTEXT(N'k')"),
    "identity": ("SET IDENTITY_INSERT orders ON; INSERT orders (id) SELECT {p} FROM people p", "SELECT SCOPE_IDENTITY()"),
    "identity variable": ("SET IDENTITY_INSERT orders ON; INSERT orders (id) SELECT {p} FROM people p", "SELECT @@IDENTITY"),
    "setting": ("DECLARE @n int = (SELECT TOP 1 {p} FROM people p); SET TEXTSIZE @n", "SELECT @@TEXTSIZE"),
    "error": ("BEGIN TRY SELECT 1 / 0 WHERE 1 = 0 AND {p1} = 1 END TRY BEGIN CATCH SELECT ERROR_MESSAGE() END CATCH", "SELECT ERROR_MESSAGE()"),
    "loop": (
        "DECLARE @i int = 1, @o nvarchar(99) = N''; WHILE @i < 99 BEGIN IF EXISTS (SELECT 1 FROM people p WHERE {p} > @i) SET @o = @o + N'x'; SET @i += 1 END; SELECT @o",
    ),
    "loop into a table": (
        "DECLARE @i int = 1; CREATE TABLE #t (x int); WHILE @i < 99 BEGIN IF (SELECT MAX({p}) FROM people p) > @i INSERT #t VALUES (@i) SET @i += 1 END; SELECT x FROM #t",
    ),
    "loop by labels": (
        "DECLARE @i int = 0; again: SET @i += 1; IF @i < (SELECT MAX({p}) FROM people p) GOTO again; SELECT @i",
    ),
    "loop of a dynamic": (
        "DECLARE @i int = 0, @r int = 0; WHILE @i < 9 BEGIN EXEC sp_executesql N'IF EXISTS (SELECT 1 FROM people p WHERE {q} > @n) SET @o = @n', N'@n int, @o int OUTPUT', @i, @r OUTPUT; SET @i += 1 END; SELECT @r",
    ),
    "double quotes": ('SELECT "p".{} AS "id" FROM "dbo"."people" AS "p"',),
    "trailing blanks": ("SELECT {p} FROM [people ] p",),
    "openquery": ("SELECT * FROM OPENQUERY(remote, 'SELECT name FROM people')",),
    "other server": ("SELECT note FROM remote.leaks.dbo.orders",),
    "statistics": ("DBCC SHOW_STATISTICS ('people', 'ix_name') WITH HISTOGRAM",),
    "histogram": ("SELECT range_high_key FROM sys.dm_db_stats_histogram(1, 1)",),
    "cached text": ("SELECT text FROM sys.dm_exec_cached_plans CROSS APPLY sys.dm_exec_sql_text(plan_handle)",),
    "query store": ("SELECT query_sql_text FROM sys.query_store_query_text",),
    "for browse": ("SELECT note FROM people FOR BROWSE",),
}  # fmt: skip


# The same for output parameters: the last text assigns its parameter `@o`, which the client gets.
_OUTPUTS: dict[str, tuple[str, ...]] = {
    "select": ("SELECT @o = {p} FROM people p",),
    "other letters": ("SELECT @O = {p} FROM people p",),
    "wide letters": ("SELECT @ｏ = {p} FROM people p",),
    "top": ("SELECT TOP 1 @o = {p} FROM people p ORDER BY p.id",),
    "several at once": ("SELECT @x = 1, @o = {p}, @y = 2 FROM people p",),
    "appended": ("SELECT @o += {p} FROM people p",),
    "appended to itself": ("SELECT @o = @o + {p} FROM people p",),
    "of a subquery in FROM": ("SELECT @o = q.x FROM (SELECT {p} AS x FROM people p) q",),
    "of a CTE": ("WITH c AS (SELECT {p} AS x FROM people p) SELECT @o = x FROM c",),
    "of an APPLY": ("SELECT @o = a.x FROM people p CROSS APPLY (SELECT {p} AS x) a",),
    "of a union": ("SELECT @o = x FROM (SELECT note AS x FROM orders UNION ALL SELECT {p} FROM people p) q",),
    "set": ("SET @o = (SELECT TOP 1 {p} FROM people p)",),
    "set with more around": ("SET @o = 1 + (SELECT TOP 1 {p} FROM people p)",),
    "set and add": ("SET @o += (SELECT TOP 1 {p} FROM people p)",),
    "declared": ("DECLARE @v sql_variant = (SELECT TOP 1 {p} FROM people p) SET @o = @v",),
    "several variables": ("DECLARE @a int, @b int; SELECT @a = {p} FROM people p; SET @b = @a; SELECT @o = @b + 1",),
    "several parameters": ("SELECT @p2 = {p} FROM people p; SET @p3 = @p2; SET @o = @p3",),
    "in a branch": ("IF @i = 1 SELECT @o = {p} FROM people p ELSE SET @o = 'x'",),
    "before a branch": ("SELECT @o = {p} FROM people p; IF @i = 1 SET @o = 'x'",),
    "else": ("IF @i = 1 SET @o = 'x' ELSE BEGIN SELECT @o = {p} FROM people p END",),
    "try": ("BEGIN TRY SELECT @o = {p} FROM people p; SELECT 1 / 0; SET @o = 'x' END TRY BEGIN CATCH END CATCH",),
    "catch": ("BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH SELECT @o = {p} FROM people p END CATCH",),
    "error": ("BEGIN TRY SELECT 1 / 0 WHERE {p1} = 1 END TRY BEGIN CATCH SET @o = ERROR_MESSAGE() END CATCH",),
    "overwritten where it is skipped": ("SELECT @o = {p} FROM people p; SELECT @o = 'x' WHERE 1 = 0",),
    "backwards in a loop": (
        "WHILE @i < 3 BEGIN SET @o = @w; SET @w = @v; SELECT @v = {p} FROM people p; SET @i += 1 END",
    ),
    "condition of a loop": ("WHILE @i < (SELECT MAX({p}) FROM people p) SET @i += 1; SET @o = @i",),
    "condition in a loop": (
        "WHILE @i < 99 BEGIN IF EXISTS (SELECT 1 FROM people p WHERE {p} > @i) SET @o += 'x'; SET @i += 1 END",
    ),
    "condition with a label": ("again: SET @o += 1; IF @o < (SELECT MAX({p}) FROM people p) GOTO again",),
    "update": ("UPDATE p SET @o = {p}, note = '' FROM people p",),
    "update of a column and a variable": ("UPDATE p SET @o = note = {p} FROM people p",),
    "update of another table": ("UPDATE o SET @o = {p} FROM orders o JOIN people p ON p.id = o.person",),
    "update of a table variable": (
        "DECLARE @t TABLE (x nvarchar(9)); INSERT @t SELECT {p} FROM people p; UPDATE @t SET @o = x",
    ),
    "output into a table variable": (
        "DECLARE @t TABLE (x nvarchar(9)); UPDATE p SET note = {p} OUTPUT inserted.note INTO @t FROM people p; "
        "SELECT @o = x FROM @t",
    ),
    "deleted into a table variable": (
        "DECLARE @t TABLE (x nvarchar(9)); DELETE people OUTPUT deleted.name INTO @t (x); SELECT @o = x FROM @t",
    ),
    "temporary table": ("SELECT {p} AS x INTO #t FROM people p", "SELECT @o = x FROM #t"),
    "temporary table of a text": ("EXEC ('SELECT {q} AS x INTO #t FROM people p'); SELECT @o = x FROM #t",),
    "merge": ("MERGE orders AS o USING people AS p ON o.id = p.id WHEN MATCHED THEN UPDATE SET @o = {p};",),
    "fetch": ("DECLARE c CURSOR FOR SELECT {p} FROM people p OPEN c; FETCH NEXT FROM c INTO @o",),
    "fetch in a later text": ("DECLARE c CURSOR GLOBAL FOR SELECT {p} FROM people p OPEN c", "FETCH c INTO @o"),
    "fetch of several": ("DECLARE c CURSOR FOR SELECT 1, {p} FROM people p OPEN c; FETCH FROM c INTO @i, @o",),
    "cursor variable": ("DECLARE @c CURSOR; SET @c = CURSOR FOR SELECT {p} FROM people p; OPEN @c; FETCH @c INTO @o",),
    "sp_executesql": ("EXEC sp_executesql N'SELECT @x = {q} FROM people p', N'@x nvarchar(9) OUTPUT', @o OUTPUT",),
    "sp_executesql by name": (
        "EXEC sp_executesql N'SELECT @x = {q} FROM people p', N'@x nvarchar(9) OUTPUT', @x = @o OUTPUT",
    ),
    "sp_executesql in sp_executesql": (
        "EXEC sp_executesql N'EXEC sp_executesql N''SELECT @y = {qq} FROM people p'', N''@y nvarchar(9) OUTPUT'', @x OUTPUT',"
        " N'@x nvarchar(9) OUTPUT', @o OUTPUT",
    ),
    "argument of sp_executesql": (
        "DECLARE @v nvarchar(9) = (SELECT TOP 1 {p} FROM people p); "
        "EXEC sp_executesql N'SET @x = @y', N'@x nvarchar(9) OUTPUT, @y nvarchar(9)', @o OUTPUT, @v",
    ),
    "text of a parameter": ("EXEC sp_executesql @p2, N'@x nvarchar(9) OUTPUT', @o OUTPUT",),
    "text of a value": ("SELECT @p2 = {p} FROM people p; EXEC sp_executesql @p2, N'@x nvarchar(9) OUTPUT', @o OUTPUT",),
    "procedure": ("EXEC dbo.give @o OUTPUT",),
    "procedure in a variable": ("EXEC @p2 @o OUTPUT",),
    "procedure with a name": ("EXEC dbo.give @x = @o OUT",),
    "return value": ("EXEC @o = dbo.give",),
    "rows of a procedure": ("DECLARE @t TABLE (x int); INSERT @t EXEC dbo.list_people; SELECT @o = x FROM @t",),
    "rows of a text": ("DECLARE @t TABLE (x int); INSERT @t EXEC ('SELECT {q} FROM people p'); SELECT @o = x FROM @t",),
    "prepared": ("EXEC sp_prepexec @i OUTPUT, N'@x nvarchar(9) OUTPUT', N'SELECT @x = {q} FROM people p', @o OUTPUT",),
    "function": ("SET @o = dbo.name_of(1)",),
    "view": ("SELECT @o = who FROM v_people",),
    "view of a view": ("SELECT @o = x FROM v_more",),
    "XML": ("DECLARE @x xml = (SELECT {p} AS x FROM people p FOR XML RAW, TYPE); SET @o = @x.value('.', 'nvarchar(9)')",),
    "XML that is changed": ("SET @o.modify('insert sql:variable(\"@v\") into (/a)[1]')",),
    "JSON": ("SET @o = (SELECT {p} AS x FROM people p FOR JSON PATH)",),
    "aggregate": ("SELECT @o = STRING_AGG({p}, ',') FROM people p",),
    "context": ("SET @v = (SELECT TOP 1 {p} FROM people p); EXEC sp_set_session_context 'k', @v", "SET @o = SESSION_CONTEXT(N'k')"),
    "GO as an alias": ("SELECT @o = {p} FROM people p\nGO\nSELECT 1",),
    "GO after a variable": ("SELECT @v = {p} FROM people p\nGO\nSET @o = @v",),
    "receive": ("RECEIVE TOP (1) @o = message_body FROM queue",),
    "what is not understood": ("SELECT @o = {p} FROM people p WITHOUT SENSE OF (",),
}  # fmt: skip


def attacks() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the texts of each attack."""
    yield from _fill_all(_CARRIERS)


def output_attacks() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the texts of each attack by an output parameter."""
    yield from _fill_all(_OUTPUTS)


def _fill_all(carriers: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for way, texts in carriers.items():
        has_form = any("{" in text for text in texts)
        for form in FORMS if has_form else FORMS[:1]:
            if way == "double quotes" and not form.startswith("{0}"):
                continue
            yield f"{way}: {form.format('')}", tuple([_fill(text, form) for text in texts])


def _fill(text: str, form: str) -> str:
    column = form.format("p.")
    quoted = column.replace("'", "''")
    filled = text.replace("{p1}", f"(SELECT TOP 1 {column} FROM people p)").replace("{p}", column)
    filled = filled.replace("{qq}", quoted.replace("'", "''")).replace("{q}", quoted)
    return filled.replace("{people}", form.format("people.")).replace("{}", form.format(""))
