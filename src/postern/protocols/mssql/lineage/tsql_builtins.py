"""SQL Server's own functions, settings, tables and procedures that quote no data."""

from __future__ import annotations

from typing import Final

from postern.inspection.sql.sql_calls import Functions
from postern.inspection.sql.sql_tokens import words_of
from postern.protocols.mssql.dialect import tsql_words as words

# Results of these hold what a session, an error or an identity column holds.
IDENTITY_FUNCTIONS: Final = frozenset({"IDENT_CURRENT", "SCOPE_IDENTITY"})
SESSION_FUNCTIONS: Final = words_of(
    "CONTEXT_INFO SESSION_CONTEXT ERROR_LINE ERROR_NUMBER ERROR_PROCEDURE ERROR_SEVERITY ERROR_STATE"
)
_QUOTING: Final = frozenset({"CONTAINSTABLE", "ERROR_MESSAGE", "EVENTDATA", "FREETEXTTABLE", "CHANGETABLE", "OPENXML"})

# Functions whose result depends on their arguments, the clock, random numbers and the login only.
FUNCTIONS: Final = (words.FUNCTIONS.harmless - IDENTITY_FUNCTIONS - SESSION_FUNCTIONS - _QUOTING) | words_of(
    "CONTAINS FREETEXT IDENTITY COALESCE NULLIF TRY_CONVERT"
)

# Functions whose first argument is a part of a date.
DATE_PARTS: Final = words_of("DATEADD DATEDIFF DATEDIFF_BIG DATENAME DATEPART DATETRUNC DATE_BUCKET")

CALLS: Final = Functions(
    frozenset(),
    {},
    (words.FUNCTIONS.keywords - {"CONTAINS", "DEFAULT"}) | {"OFFSET"},
    {**words.FUNCTIONS.soft, "NEXT": frozenset({"FETCH"})},
)

# Reserved words of queries. All other words are names.
GRAMMAR: Final = words_of(
    """
    ALL AND ANY AS ASC BETWEEN BY CASE CROSS DEFAULT DELETE DESC DISTINCT ELSE END ESCAPE EXCEPT EXISTS FOR FROM FULL
    GROUP HAVING IN INNER INSERT INTERSECT INTO IS JOIN LEFT LIKE MERGE NOT NULL ON OR ORDER OUTER OVER PIVOT RIGHT
    SELECT SET SOME THEN TOP UNION UNPIVOT UPDATE VALUES WHEN WHERE WITH WITHIN
    """
)

# Words that call a function without brackets.
BARE: Final = words_of("CURRENT_DATE CURRENT_TIMESTAMP CURRENT_USER SESSION_USER SYSTEM_USER USER")

TABLE_HINTS: Final = words_of(
    """
    FASTFIRSTROW FORCESCAN FORCESEEK HOLDLOCK KEEPDEFAULTS KEEPIDENTITY IGNORE_CONSTRAINTS IGNORE_TRIGGERS NOEXPAND
    NOLOCK NOWAIT PAGLOCK READCOMMITTED READCOMMITTEDLOCK READPAST READUNCOMMITTED REPEATABLEREAD ROWLOCK SERIALIZABLE
    SNAPSHOT TABLOCK TABLOCKX UPDLOCK XLOCK
    """
)

# Variables of the server that only the server sets, or that count rows.
CALM_VARIABLES: Final = words_of(
    """
    @@connections @@cpu_busy @@cursor_rows @@dbts @@fetch_status @@idle @@io_busy @@max_connections
    @@max_precision @@microsoftversion @@nestlevel @@pack_received @@pack_sent @@packet_errors @@procid @@remserver
    @@rowcount @@servername @@servicename @@spid @@timeticks @@total_errors @@total_read @@total_write @@trancount
    @@version
    """
)
IDENTITY_VARIABLES: Final = frozenset({"@@identity"})

# System views that quote neither data nor statements of other sessions.
CALM_VIEWS: Final = words_of(
    """
    all_columns all_objects all_parameters all_sql_modules all_views allocation_units assemblies certificates
    check_constraints column_type_usages columns computed_columns configurations data_spaces database_files
    database_permissions database_principals database_role_members databases default_constraints dm_db_index_usage_stats
    dm_db_partition_stats dm_os_host_info dm_os_sys_info dm_os_sys_memory dm_server_services events extended_properties
    filegroups foreign_key_columns foreign_keys fulltext_catalogs fulltext_indexes index_columns indexes key_constraints
    languages linked_logins master_files messages objects parameters partition_functions partition_schemes partitions
    procedures schemas security_policies server_permissions server_principals server_role_members servers sql_modules
    stats stats_columns symmetric_keys synonyms syscharsets syscolumns syscomments sysdatabases sysfiles sysforeignkeys
    sysindexes sysindexkeys syslanguages syslogins sysmembers sysobjects syspermissions sysreferences systypes sysusers
    system_columns system_objects system_parameters system_sql_modules system_views tables table_types time_zone_info
    trigger_events triggers types views xml_indexes xml_schema_collections
    """
)
# Views of older versions, which need no schema.
OLD_VIEWS: Final = frozenset(name for name in CALM_VIEWS if name.startswith("sys") and "_" not in name)
QUOTING_OLD_VIEWS: Final = words_of("sysprocesses syscursors sysperfinfo syslockinfo syscacheobjects")

# Statements of these kinds change no table, view or function.
HARMLESS_KINDS: Final = words_of(
    """
    CERTIFICATE CREDENTIAL DATABASE FULLTEXT INDEX CLUSTERED COLUMNSTORE NONCLUSTERED UNIQUE LOGIN MASTER ROLE SERVER
    STATISTICS SYMMETRIC ASYMMETRIC USER EVENT ENDPOINT PRIMARY XML SPATIAL TRIGGER WORKLOAD RESOURCE APPLICATION
    """
)
