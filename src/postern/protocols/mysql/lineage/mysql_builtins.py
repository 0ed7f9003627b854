"""What MySQL and MariaDB bring along: functions, settings and tables of the system that quote no data."""

from __future__ import annotations

from typing import Final

from postern.inspection.sql.sql_calls import Functions
from postern.inspection.sql.sql_tokens import words_of
from postern.protocols.mysql.dialect import mysql_words as words

LAST_ID: Final = "last_insert_id()"  # kept as a variable of the session is

# Made of their arguments alone, or of the clock, chance, sequences and the session.
FUNCTIONS: Final = (words.FUNCTIONS.harmless - {"LAST_INSERT_ID"}) | {"NEXTVAL", "AGAINST", "DEFAULT"}

# Those whose arguments are not a plain list of expressions. All others are given to the parser under one name.
SPECIAL: Final = words_of(
    """
    ADDDATE AGAINST CAST CHAR CONVERT COUNT DATE_ADD DATE_SUB EXTRACT GET_FORMAT GROUP_CONCAT JSON_TABLE JSON_VALUE
    LAG LEAD FIRST_VALUE LAST_VALUE NTH_VALUE PERCENTILE_CONT PERCENTILE_DISC POSITION SUBDATE SUBSTR SUBSTRING
    TIMESTAMPADD TIMESTAMPDIFF TRIM WEIGHT_STRING JSON_OBJECTAGG JSON_ARRAYAGG MEDIAN NEXTVAL LASTVAL
    """
)

CALLS: Final = Functions(
    frozenset(),
    {},
    words.FUNCTIONS.keywords - {"DEFAULT"},
    {**words.FUNCTIONS.soft, "AGAINST": frozenset({")"}), "LATERAL": frozenset({"JOIN", ","})},
)

# Called without brackets.
BARE: Final = words_of(
    """
    current_date current_role current_time current_timestamp current_user localtime localtimestamp utc_date utc_time
    utc_timestamp
    """
)

# Words that only sqlglot knows: to the server they are names.
ONLY_NAMES: Final = words_of(
    """
    ANTI APPLY ASOF CLUSTER DISTRIBUTE FULL GLOB ILIKE ISNULL NOTNULL OVERLAPS PIVOT QUALIFY SEMI SIMILAR SORT
    TABLESAMPLE TOP UNPIVOT CONNECT START PREWHERE SAMPLE FINAL SETTINGS FORMAT MATCH_RECOGNIZE OVERWRITE FILTER
    """
)

# Words that the tree does not have to account for: keywords, types, units, and what only says how.
GRAMMAR: Final = words.FUNCTIONS.keywords | words_of(
    """
    ACTION ADD AFTER AGAINST ALGORITHM ALWAYS ANY ARRAY ASC AT ASCII BEFORE BEGIN BOOLEAN BOTH BUFFER BY CASCADED CAST
    CHARACTER CHARSET COLUMN COLUMNS CONVERT CROSS CUBE CURRENT CURRENT_DATE CURRENT_ROLE CURRENT_TIME
    CURRENT_TIMESTAMP CURRENT_USER DATE DATETIME DAY DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DELAYED DESC
    DISTINCTROW DUAL DUPLICATE EMPTY ERROR ESCAPE EXCLUDE EXPANSION EXTRACT FALSE FETCH FIRST FIXED FOLLOWING FORCE FULL
    GROUPS HASH HIGH_PRIORITY HOUR HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND IGNORE INNER INSERT INT1 INT2 INT3 INT4
    INT8 INTO JSON KEY KEYS LANGUAGE LATERAL LEADING LEFT LINES LOCALTIME LOCALTIMESTAMP LOCK LOCKED LONG LOW_PRIORITY
    MEMBER MICROSECOND MINUTE MINUTE_MICROSECOND MINUTE_SECOND MODE MONTH NATIONAL NATURAL NCHAR NESTED NEXT NO NOWAIT
    NULL NULLS OF OFFSET ONE ONLY OPTION ORDINALITY OTHERS OUTER OVER PATH PERCENT PRECEDING PREVIOUS PROCEDURE QUARTER
    QUERY QUICK RANGE RECURSIVE REPLACE RESPECT RETURNING RIGHT ROLLUP ROWS SAVE SECOND SECOND_MICROSECOND SHARE SIGNED
    SKIP SOUNDS SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_CACHE SQL_CALC_FOUND_ROWS SQL_NO_CACHE SQL_SMALL_RESULT
    STRAIGHT_JOIN SYSTEM_TIME TEXT TIES TIME TIMESTAMP TO TRAILING TRUE UNBOUNDED UNICODE UNKNOWN UNSIGNED UPDATE
    UTC_DATE UTC_TIME UTC_TIMESTAMP VALUE WAIT WEEK WHERE WINDOW WITHIN WITHOUT YEAR YEAR_MONTH
    """
)

# Settings that tell of data, as a query left it there.
QUOTING_SETTINGS: Final = {"last_insert_id": LAST_ID, "identity": LAST_ID}
# … and those that tell what went wrong with data.
COUNTING_SETTINGS: Final = frozenset({"error_count", "warning_count"})

# Tables of the system that quote neither data nor the statements of others; by database.
CALM_TABLES: Final = {
    "information_schema": words_of(
        """
        administrable_role_authorizations applicable_roles character_sets check_constraints
        collation_character_set_applicability collations column_privileges columns columns_extensions enabled_roles
        engines events files geometry_columns global_status index_statistics key_caches key_column_usage keywords
        parameters partitions plugins referential_constraints resource_groups role_column_grants role_routine_grants
        role_table_grants routines schema_privileges schemata schemata_extensions spatial_ref_sys
        sql_functions st_geometry_columns st_spatial_reference_systems st_units_of_measure statistics
        table_constraints table_constraints_extensions table_names table_privileges table_statistics tables
        tables_extensions tablespaces tablespaces_extensions triggers user_attributes user_privileges
        view_routine_usage view_table_usage views
        """
    ),
    "performance_schema": words_of("global_status"),
}
# … and those that tell the settings of the session.
SETTING_TABLES: Final = {
    "information_schema": words_of("global_variables session_variables system_variables"),
    "performance_schema": words_of("global_variables session_variables variables_info"),
}
SYSTEM: Final = frozenset({"information_schema", "performance_schema", "sys"})

# Of the database `mysql`: statistics that hold values, and what others asked.
QUOTING: Final = frozenset({"column_stats", "general_log", "slow_log", "innodb_table_stats", "transaction_registry"})

# What SHOW tells without a word of what tables hold or of what others ask.
SHOWS: Final = tuple(
    tuple(one.split())
    for one in [
        "\n    AUTHORS",
        "CHARACTER SET",
        "CHARSET",
        "COLLATION",
        "COLUMNS",
        "CONTRIBUTORS",
        "CREATE",
        "DATABASES",
        "ENGINES",
        "EVENTS",
        "FIELDS\n    ",
        "FULL COLUMNS",
        "FULL FIELDS",
        "FULL TABLES",
        "FUNCTION STATUS",
        "GLOBAL STATUS",
        "GRANTS",
        "INDEX",
        "INDEXES",
        "KEYS",
        "OPEN TABLES",
        "PACKAGE STATUS",
        "PLUGINS",
        "PRIVILEGES",
        "PROCEDURE STATUS",
        "SCHEMAS",
        "STORAGE ENGINES",
        "TABLE STATUS",
        "TABLE TYPES",
        "TABLES",
        "TRIGGERS",
        "BINARY LOGS",
        "MASTER LOGS",
        "MASTER STATUS\n    ",
        "BINARY LOG STATUS",
        "EXTENDED COLUMNS",
        "EXTENDED FULL COLUMNS",
        "EXTENDED INDEX",
        "EXTENDED TABLES\n    ",
        "EXTENDED FULL TABLES",
        "FUNCTION CODE",
        "PROCEDURE CODE\n    ",
    ]
)
# Counters of the session tell how long the values were that it was sent (`Bytes_sent`, `Memory_used`).
SHOWS_COUNTERS: Final = (("STATUS",), ("SESSION", "STATUS"), ("LOCAL", "STATUS"))
# Beginnings of the names of counters that do not.
CALM_COUNTERS: Final = (
    "aborted", "com", "connections", "open", "qcache", "queries", "questions", "slave", "slow", "ssl", "threads",
    "uptime", "wsrep",
)  # fmt: skip
SHOWS_SETTINGS: Final = tuple(
    tuple(one.split()) for one in ["VARIABLES", "GLOBAL VARIABLES", "SESSION VARIABLES", "LOCAL VARIABLES"]
)
