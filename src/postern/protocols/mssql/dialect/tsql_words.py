"""Vocabulary of T-SQL: effects of statements by their first words, of functions and of procedures."""

from __future__ import annotations

from typing import Final

from postern.domain.rules.statement import Effect
from postern.inspection.sql.sql_calls import COMPARED, Functions
from postern.inspection.sql.sql_tokens import words_of
from postern.inspection.sql.sqlglot_tree import Grammar

READ, WRITE, DDL, GRANT = Effect.READ, Effect.WRITE, Effect.DDL, Effect.GRANT
SESSION, ADMIN, UNKNOWN = Effect.SESSION, Effect.ADMIN, Effect.UNKNOWN

# Reserved words: each starts a statement wherever it is, except in the places that `tsql_batches` knows.
STARTERS: Final = words_of(
    """
    ALTER BACKUP BEGIN BREAK BULK CHECKPOINT CLOSE COMMIT CONTINUE CREATE DBCC DEALLOCATE DECLARE DELETE DENY DROP
    DUMP ELSE END EXEC EXECUTE FETCH GOTO GRANT IF INSERT KILL LOAD MERGE OPEN PRINT RAISERROR READTEXT RECONFIGURE
    RESTORE RETURN REVERT REVOKE ROLLBACK SAVE SELECT SET SETUSER SHUTDOWN TRUNCATE UPDATE UPDATETEXT USE WAITFOR
    WHILE WRITETEXT
    """
)

GRAMMAR: Final = Grammar(
    "tsql",
    ("[", "]"),
    (STARTERS | {"INTO"}) - {"SET", "END", "ELSE", "BEGIN", "FETCH", "USE"},
    system=frozenset({"information_schema", "sys"}),
)

STATEMENTS: Final[dict[tuple[str, ...], frozenset[Effect]]] = {
    tuple(words.split()): frozenset(effects)
    for effects, listed in (
        (
            (SESSION,),
            "USE|BEGIN TRAN|BEGIN TRANSACTION|BEGIN DISTRIBUTED|COMMIT|ROLLBACK|SAVE|OPEN|CLOSE|DEALLOCATE|PRINT|THROW"
            "|RAISERROR|WAITFOR|RETURN|BREAK|CONTINUE|GOTO|DECLARE|SET|BEGIN|END|ELSE|IF|WHILE|REVERT|SETUSER"
            "|EXEC AS|EXECUTE AS",
        ),
        ((READ, SESSION), "FETCH"),
        ((READ,), "READTEXT"),
        (
            (WRITE,),
            "WRITETEXT|UPDATETEXT|SEND|BEGIN DIALOG|BEGIN CONVERSATION|END CONVERSATION|GET CONVERSATION"
            "|MOVE CONVERSATION|RECEIVE",
        ),
        ((DDL,), "CREATE|ALTER|DROP|ENABLE TRIGGER|DISABLE TRIGGER"),
        ((DDL, WRITE), "TRUNCATE"),
        (
            (GRANT,),
            "GRANT|DENY|REVOKE|ADD SIGNATURE|ADD COUNTER|"
            + "|".join(
                f"{verb} {what}"
                for verb in ("CREATE", "ALTER", "DROP")
                for what in (
                    "LOGIN",
                    "USER",
                    "ROLE",
                    "APPLICATION ROLE",
                    "SERVER ROLE",
                    "CREDENTIAL",
                    "AUTHORIZATION",
                    "CERTIFICATE",
                    "SYMMETRIC KEY",
                    "ASYMMETRIC KEY",
                    "MASTER KEY",
                    "SECURITY POLICY",
                    "DATABASE SCOPED CREDENTIAL",
                    "SERVICE MASTER KEY",
                    "SIGNATURE",
                    "COLUMN MASTER KEY",
                    "COLUMN ENCRYPTION KEY",
                    "CRYPTOGRAPHIC PROVIDER",
                )
            ),
        ),
        (
            (ADMIN,),
            "BACKUP|RESTORE|DBCC|KILL|SHUTDOWN|RECONFIGURE|CHECKPOINT|DUMP|LOAD|UPDATE STATISTICS"
            "|ALTER SERVER CONFIGURATION|ALTER RESOURCE",
        ),
        (
            (ADMIN, DDL),
            "CREATE DATABASE|ALTER DATABASE|DROP DATABASE|CREATE ASSEMBLY|ALTER ASSEMBLY|DROP ASSEMBLY|CREATE ENDPOINT"
            "|ALTER ENDPOINT|DROP ENDPOINT|CREATE AVAILABILITY|ALTER AVAILABILITY|DROP AVAILABILITY|CREATE EVENT"
            "|ALTER EVENT|DROP EVENT|CREATE EXTERNAL|ALTER EXTERNAL|DROP EXTERNAL|CREATE RESOURCE|DROP RESOURCE"
            "|CREATE SERVER AUDIT|ALTER SERVER AUDIT|DROP SERVER AUDIT|CREATE DATABASE AUDIT|ALTER DATABASE AUDIT"
            "|DROP DATABASE AUDIT|CREATE WORKLOAD|DROP WORKLOAD",
        ),
        ((WRITE, ADMIN), "BULK INSERT"),  # from a file of the server
        ((WRITE,), "INSERT BULK"),  # rows that the client sends
    )
    for words in listed.split("|")
}

PROCEDURES: Final[dict[str, frozenset[Effect]]] = {
    name: frozenset(effects)
    for effects, names in (
        (
            (READ,),
            "sp_help sp_helptext sp_helpindex sp_helpdb sp_helpconstraint sp_helpfile sp_columns sp_tables sp_pkeys"
            " sp_fkeys sp_statistics sp_stored_procedures sp_sproc_columns sp_databases sp_who sp_who2 sp_lock"
            " sp_spaceused sp_depends sp_helplogins sp_helpuser sp_helprole sp_helprotect sp_server_info"
            " sp_special_columns sp_describe_first_result_set sp_datatype_info sp_monitor",
        ),
        (
            (SESSION,),
            "sp_getapplock sp_releaseapplock sp_set_session_context sp_reset_connection sp_unprepare"
            " sp_cursorclose sp_cursorfetch",
        ),
        (
            (DDL,),
            "sp_rename sp_bindrule sp_unbindrule sp_bindefault sp_unbindefault sp_addtype sp_droptype sp_recompile"
            " sp_refreshview sp_addextendedproperty sp_updateextendedproperty sp_dropextendedproperty sp_tableoption",
        ),
        (
            (GRANT,),
            "sp_addlogin sp_droplogin sp_adduser sp_dropuser sp_grantdbaccess sp_revokedbaccess sp_grantlogin"
            " sp_denylogin sp_revokelogin sp_addrole sp_droprole sp_addrolemember sp_droprolemember sp_addsrvrolemember"
            " sp_dropsrvrolemember sp_password sp_defaultdb sp_change_users_login sp_changedbowner sp_changeobjectowner"
            " sp_setapprole sp_unsetapprole sp_addlinkedsrvlogin",
        ),
        (
            (ADMIN,),
            "xp_cmdshell xp_dirtree xp_fileexist xp_fixeddrives xp_subdirs xp_regread xp_regwrite xp_regdeletekey"
            " xp_regdeletevalue xp_regenumvalues xp_regenumkeys xp_instance_regread xp_instance_regwrite"
            " xp_servicecontrol xp_logevent xp_readerrorlog xp_delete_file xp_create_subdir xp_enumerrorlogs"
            " xp_getfiledetails xp_availablemedia xp_loginconfig xp_msver sp_configure sp_addlinkedserver"
            " sp_dropserver sp_serveroption"
            " sp_oacreate sp_oamethod sp_oagetproperty sp_oasetproperty sp_oadestroy sp_addextendedproc"
            " sp_dropextendedproc sp_attach_db sp_detach_db sp_dboption sp_add_job sp_add_jobstep sp_start_job"
            " sp_stop_job sp_delete_job sp_update_job sp_add_jobserver sp_add_jobschedule sp_cycle_errorlog"
            " sp_readerrorlog sp_updatestats sp_procoption sp_trace_create sp_trace_setstatus sp_send_dbmail"
            " sp_execute_external_script sp_makewebtask sp_testlinkedserver",
        ),
    )
    for name in names.split()
}

_KEYWORDS: Final = words_of(
    """
    SELECT FROM WHERE AND OR NOT IN EXISTS ALL BETWEEN LIKE IS ON USING VALUES SET INTO AS BY HAVING WHEN THEN ELSE
    CASE END UNION EXCEPT INTERSECT OVER INDEX KEY JOIN APPLY WITH TOP DISTINCT DEFAULT CHECK PRIMARY UNIQUE ORDER
    GROUP TABLE FOR COLLATE UPDATE DELETE PIVOT UNPIVOT TABLESAMPLE OPTION IF WHILE RETURN PRINT EXEC EXECUTE
    VARYING CONTAINS INSERT MERGE RAISERROR
    """
)

_HARMLESS: Final = words_of(
    """
    ABS ACOS APPROX_COUNT_DISTINCT APP_NAME ASCII ASIN ATAN ATN2 AVG BINARY_CHECKSUM CAST CEILING CHAR CHARINDEX
    CHECKSUM CHECKSUM_AGG CHOOSE COALESCE COLUMNPROPERTY COL_LENGTH COL_NAME COMPRESS CONCAT CONCAT_WS
    CONNECTIONPROPERTY CONTAINS CONTAINSTABLE CONTEXT_INFO CONVERT COS COT COUNT COUNT_BIG CUME_DIST
    CURRENT_REQUEST_ID CURRENT_TRANSACTION_ID CURSOR_STATUS DATABASEPROPERTYEX DATABASE_PRINCIPAL_ID DATALENGTH
    DATEADD DATEDIFF DATEDIFF_BIG DATEFROMPARTS DATENAME DATEPART DATETIME2FROMPARTS DATETIMEFROMPARTS
    DATETIMEOFFSETFROMPARTS DATETRUNC DATE_BUCKET DAY DB_ID DB_NAME DECOMPRESS DEGREES DENSE_RANK DIFFERENCE EOMONTH
    ERROR_LINE ERROR_MESSAGE ERROR_NUMBER ERROR_PROCEDURE ERROR_SEVERITY ERROR_STATE EVENTDATA EXP FILEGROUP_ID
    FILEGROUP_NAME FILE_ID FILE_NAME FIRST_VALUE FLOOR FORMAT FORMATMESSAGE FREETEXT FREETEXTTABLE GENERATE_SERIES
    GETANSINULL GETDATE GETUTCDATE GET_FILESTREAM_TRANSACTION_CONTEXT GREATEST GROUPING GROUPING_ID HAS_DBACCESS
    HAS_PERMS_BY_NAME HASHBYTES HOST_ID HOST_NAME IDENT_CURRENT IDENT_INCR IDENT_SEED IIF INDEXKEY_PROPERTY
    INDEXPROPERTY INDEX_COL ISDATE ISJSON ISNULL ISNUMERIC IS_MEMBER IS_ROLEMEMBER IS_SRVROLEMEMBER JSON_ARRAY
    JSON_MODIFY JSON_OBJECT JSON_PATH_EXISTS JSON_QUERY JSON_VALUE LAG LAST_VALUE LEAD LEAST LEFT LEN LOG LOG10
    LOGINPROPERTY LOWER LTRIM MAX MIN MIN_ACTIVE_ROWVERSION MONTH NCHAR NEWID NEWSEQUENTIALID NTILE NULLIF
    OBJECTPROPERTY OBJECTPROPERTYEX OBJECT_DEFINITION OBJECT_ID OBJECT_NAME OBJECT_SCHEMA_NAME OPENJSON
    ORIGINAL_DB_NAME ORIGINAL_LOGIN PARSE PARSENAME PATINDEX PERCENTILE_CONT PERCENTILE_DISC PERCENT_RANK
    PERMISSIONS PI POWER QUOTENAME RADIANS RAND RANK REPLACE REPLICATE REVERSE RIGHT ROUND ROWCOUNT_BIG ROW_NUMBER
    RTRIM SCHEMA_ID SCHEMA_NAME SCOPE_IDENTITY SERVERPROPERTY SESSIONPROPERTY SESSION_CONTEXT SESSION_ID SIGN SIN
    SMALLDATETIMEFROMPARTS SOUNDEX SPACE SQRT SQL_VARIANT_PROPERTY SQUARE STATS_DATE STDEV STDEVP STR STRING_AGG
    STRING_ESCAPE STRING_SPLIT STUFF SUBSTRING SUM SUSER_ID SUSER_NAME SUSER_SID SUSER_SNAME SWITCHOFFSET
    SYSDATETIME SYSDATETIMEOFFSET SYSUTCDATETIME TAN TERTIARY_WEIGHTS TIMEFROMPARTS TODATETIMEOFFSET TRANSLATE
    TRIGGER_NESTLEVEL TRIM TRY_CAST TRY_CONVERT TRY_PARSE TYPEPROPERTY TYPE_ID TYPE_NAME UNICODE UPPER USER_ID
    USER_NAME VAR VARP XACT_STATE YEAR VARCHAR NVARCHAR DECIMAL NUMERIC VARBINARY BINARY DATETIME2 TIME FLOAT
    DATETIMEOFFSET NODES VALUE QUERY EXIST CHANGETABLE AT_TIME_ZONE
    """
) - {"NODES", "VALUE", "QUERY", "EXIST"}

FUNCTIONS: Final = Functions(
    _HARMLESS,
    {
        **{name: frozenset({UNKNOWN}) for name in ("OPENQUERY", "OPENDATASOURCE")},
        "OPENROWSET": frozenset({ADMIN, UNKNOWN}),
        "OPENXML": frozenset(),
        "FN_XE_FILE_TARGET_READ_FILE": frozenset({ADMIN}),
        "FN_GET_AUDIT_FILE": frozenset({ADMIN}),
        "FN_TRACE_GETTABLE": frozenset({ADMIN}),
        "FN_DBLOG": frozenset({ADMIN}),
    },
    _KEYWORDS,
    {
        "PATH": frozenset({"XML", "JSON"}),
        "RAW": frozenset({"XML"}),
        "ROOT": frozenset({","}),
        "SETS": frozenset({"GROUPING"}),
        "ROLLUP": frozenset({"BY", ","}),
        "CUBE": frozenset({"BY", ","}),
        **COMPARED,
    },
    {f"SYS.{name}": frozenset({READ}) for name in (
        "DM_EXEC_SQL_TEXT", "DM_EXEC_QUERY_PLAN", "DM_DB_INDEX_PHYSICAL_STATS", "DM_DB_INDEX_OPERATIONAL_STATS",
        "DM_SQL_REFERENCED_ENTITIES", "FN_HELPCOLLATIONS", "FN_MY_PERMISSIONS", "FN_BUILTIN_PERMISSIONS")}
    | {f"SYS.{name}": frozenset({ADMIN}) for name in ("XP_CMDSHELL", "FN_XE_FILE_TARGET_READ_FILE", "FN_GET_AUDIT_FILE",
                                                      "DM_OS_FILE_EXISTS", "DM_OS_ENUMERATE_FILESYSTEM")},
)  # fmt: skip
