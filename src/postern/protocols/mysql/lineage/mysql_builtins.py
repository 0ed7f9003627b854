"""MySQL's and MariaDB's own functions, settings and system tables that quote no data."""

from __future__ import annotations

from typing import Final

from postern.inspection.sql.sql_calls import Functions
from postern.inspection.sql.sql_tokens import words_of
from postern.protocols.mysql.dialect import mysql_words as words

LAST_ID: Final = "last_insert_id()"  # stored like a variable of the session

# Functions whose result depends on their arguments, the clock, random numbers, sequences and the session only.
FUNCTIONS: Final = (words.FUNCTIONS.harmless - {"LAST_INSERT_ID"}) | {"NEXTVAL", "AGAINST", "DEFAULT"}

# Functions whose arguments are not a plain list of expressions. All others get one name for the parser.
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

# Words that only sqlglot knows; the server treats them as names.
ONLY_NAMES: Final = words_of(
    """
    ANTI APPLY ASOF CLUSTER DISTRIBUTE FULL GLOB ILIKE ISNULL NOTNULL OVERLAPS PIVOT QUALIFY SEMI SIMILAR SORT
    TABLESAMPLE TOP UNPIVOT CONNECT START PREWHERE SAMPLE FINAL SETTINGS FORMAT MATCH_RECOGNIZE OVERWRITE FILTER
    """
)

# Words that need not be in the tree: keywords, types, units, and options.
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

# Settings that reveal data, as a query left it there.
QUOTING_SETTINGS: Final = {"last_insert_id": LAST_ID, "identity": LAST_ID}
# Settings that reveal errors about data.
COUNTING_SETTINGS: Final = frozenset({"error_count", "warning_count"})

# System tables that quote neither data nor other sessions' statements; by database.
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
# System tables with the settings of the session.
SETTING_TABLES: Final = {
    "information_schema": words_of("global_variables session_variables system_variables"),
    "performance_schema": words_of("global_variables session_variables variables_info"),
}
SYSTEM: Final = frozenset({"information_schema", "performance_schema", "sys"})

# Tables of the database `mysql`: statistics that contain values, and other sessions' queries.
QUOTING: Final = frozenset({"column_stats", "general_log", "slow_log", "innodb_table_stats", "transaction_registry"})

# SHOW statements whose result quotes no data and no queries of other sessions.
SHOWS: Final = tuple(
    tuple(phrase.split())
    for phrase in [
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
# Counters of the session reveal the length of values (`Bytes_sent`, `Memory_used`).
SHOWS_COUNTERS: Final = (("STATUS",), ("SESSION", "STATUS"), ("LOCAL", "STATUS"))
# Prefixes of counters that do not.
CALM_COUNTERS: Final = (
    "aborted", "com", "connections", "open", "qcache", "queries", "questions", "slave", "slow", "ssl", "threads",
    "uptime", "wsrep",
)  # fmt: skip
SHOWS_SETTINGS: Final = tuple(
    tuple(phrase.split()) for phrase in ["VARIABLES", "GLOBAL VARIABLES", "SESSION VARIABLES", "LOCAL VARIABLES"]
)
