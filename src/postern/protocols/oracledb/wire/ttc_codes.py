"""Numbers of TTC: messages, functions, data types, and bits of options."""

from __future__ import annotations

from typing import Final

# Messages
PROTOCOL: Final = 1
DATA_TYPES: Final = 2
FUNCTION: Final = 3
ERROR: Final = 4
ROW_HEADER: Final = 6
ROW_DATA: Final = 7
PARAMETER: Final = 8
STATUS: Final = 9
IO_VECTOR: Final = 11
LOB_DATA: Final = 14
WARNING: Final = 15
DESCRIBE_INFO: Final = 16
PIGGYBACK: Final = 17
FLUSH_OUT_BINDS: Final = 19
BIT_VECTOR: Final = 21
SERVER_PIGGYBACK: Final = 23
ONE_WAY: Final = 26
IMPLICIT_RESULTS: Final = 27
FAST_AUTH: Final = 34

# Functions
REEXECUTE: Final = 4
FETCH: Final = 5
LOGOFF: Final = 9
COMMIT: Final = 14
ROLLBACK: Final = 15
VERSION: Final = 59
REEXECUTE_AND_FETCH: Final = 78
EXECUTE: Final = 94
LOB_OPERATION: Final = 96
CLOSE_CURSORS: Final = 105
AUTH_PHASE_TWO: Final = 115
AUTH_PHASE_ONE: Final = 118
END_TO_END: Final = 135
PING: Final = 147
SET_SCHEMA: Final = 152
SESSION_STATE: Final = 176

FUNCTION_NAMES: Final = {
    REEXECUTE: "re-execute",
    FETCH: "fetch",
    LOGOFF: "logoff",
    COMMIT: "commit",
    ROLLBACK: "rollback",
    VERSION: "version",
    REEXECUTE_AND_FETCH: "re-execute and fetch",
    EXECUTE: "execute",
    LOB_OPERATION: "LOB operation",
    CLOSE_CURSORS: "close cursors",
    AUTH_PHASE_TWO: "authenticate (2)",
    AUTH_PHASE_ONE: "authenticate (1)",
    END_TO_END: "set end-to-end attributes",
    PING: "ping",
    SET_SCHEMA: "set schema",
    SESSION_STATE: "session state",
}

# Data types
VARCHAR: Final = 1
NUMBER: Final = 2
BINARY_INTEGER: Final = 3
FLOAT: Final = 4
STRING: Final = 5
VARNUM: Final = 6
LONG: Final = 8
VARCHAR_OLD: Final = 9
ROWID: Final = 11
DATE: Final = 12
RAW: Final = 23
LONG_RAW: Final = 24
UNSIGNED: Final = 68
LONG_VARCHAR: Final = 94
LONG_VARRAW: Final = 95
CHAR: Final = 96
CHARZ: Final = 97
BINARY_FLOAT: Final = 100
BINARY_DOUBLE: Final = 101
CURSOR: Final = 102
OBJECT: Final = 109
OBJECT_REF: Final = 111
CLOB: Final = 112
BLOB: Final = 113
BFILE: Final = 114
RESULT_SET: Final = 116
JSON: Final = 119
VECTOR: Final = 127
TIME: Final = 178
TIME_TZ: Final = 179
TIMESTAMP: Final = 180
TIMESTAMP_TZ: Final = 181
INTERVAL_YM: Final = 182
INTERVAL_DS: Final = 183
OCI_TIMESTAMP: Final = 187
OCI_TIMESTAMP_TZ: Final = 188
OCI_INTERVAL_YM: Final = 189
OCI_INTERVAL_DS: Final = 190
UROWID: Final = 208
TIMESTAMP_LTZ: Final = 231
OCI_TIMESTAMP_LTZ: Final = 232
BOOLEAN: Final = 252

CHARACTERS: Final = frozenset({VARCHAR, STRING, LONG, VARCHAR_OLD, LONG_VARCHAR, CHAR, CHARZ})
NUMBERS: Final = frozenset({NUMBER, BINARY_INTEGER, FLOAT, VARNUM, UNSIGNED})
BINARIES: Final = frozenset({RAW, LONG_RAW, LONG_VARRAW})
LONGS: Final = frozenset({LONG, LONG_RAW, LONG_VARCHAR, LONG_VARRAW})
TIMES: Final = frozenset(
    {
        *(DATE, TIMESTAMP, TIMESTAMP_TZ, TIMESTAMP_LTZ),
        *(OCI_TIMESTAMP, OCI_TIMESTAMP_TZ, OCI_TIMESTAMP_LTZ),
    }
)
INTERVALS_YM: Final = frozenset({INTERVAL_YM, OCI_INTERVAL_YM})
INTERVALS_DS: Final = frozenset({INTERVAL_DS, OCI_INTERVAL_DS})
LOBS: Final = frozenset({CLOB, BLOB, BFILE})
LOCATORS: Final = frozenset({*LOBS, JSON, VECTOR})  # types whose values have a locator
# Types whose values are one clr on the wire.
SCALARS: Final = frozenset(
    {
        *CHARACTERS,
        *NUMBERS,
        *BINARIES,
        *TIMES,
        *INTERVALS_YM,
        *INTERVALS_DS,
        *(BINARY_FLOAT, BINARY_DOUBLE, BOOLEAN),
    }
)

TYPE_NAMES: Final = {
    VARCHAR: "VARCHAR2",
    NUMBER: "NUMBER",
    BINARY_INTEGER: "BINARY_INTEGER",
    FLOAT: "FLOAT",
    LONG: "LONG",
    ROWID: "ROWID",
    DATE: "DATE",
    RAW: "RAW",
    LONG_RAW: "LONG RAW",
    CHAR: "CHAR",
    BINARY_FLOAT: "BINARY_FLOAT",
    BINARY_DOUBLE: "BINARY_DOUBLE",
    CURSOR: "REF CURSOR",
    OBJECT: "object",
    CLOB: "CLOB",
    BLOB: "BLOB",
    BFILE: "BFILE",
    JSON: "JSON",
    VECTOR: "VECTOR",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_TZ: "TIMESTAMP WITH TIME ZONE",
    TIMESTAMP_LTZ: "TIMESTAMP WITH LOCAL TIME ZONE",
    INTERVAL_YM: "INTERVAL YEAR TO MONTH",
    INTERVAL_DS: "INTERVAL DAY TO SECOND",
    UROWID: "UROWID",
    BOOLEAN: "BOOLEAN",
}

# Forms of character sets
IMPLICIT: Final = 1
NCHAR: Final = 2

AL32UTF8: Final = 873
AL16UTF16: Final = 2000

# Options of an execute
OPTION_PARSE: Final = 0x01
OPTION_BIND: Final = 0x08
OPTION_DEFINE: Final = 0x10
OPTION_EXECUTE: Final = 0x20
OPTION_FETCH: Final = 0x40
OPTION_COMMIT: Final = 0x100
OPTION_PLSQL_BIND: Final = 0x400
OPTION_NOT_PLSQL: Final = 0x8000
OPTION_DESCRIBE: Final = 0x20000
OPTION_NO_COMPRESSED_FETCH: Final = 0x40000
OPTION_BATCH_ERRORS: Final = 0x80000
COMMIT_REEXECUTE: Final = 0x01

FLAG_DML_ROW_COUNTS: Final = 0x4000

# Flags of binds and defines
BIND_ARRAY: Final = 0x40
BIND_SKIPPED: Final = 0x80  # its value is not sent
LOB_PREFETCH: Final = 0x2000000

# Directions of binds, in an I/O vector
OUTPUT: Final = 16
INPUT: Final = 32

# Operations on LOBs
LOB_GET_LENGTH: Final = 0x0001
LOB_READ: Final = 0x0002
LOB_TRIM: Final = 0x0020
LOB_WRITE: Final = 0x0040
LOB_FILE_OPEN: Final = 0x0100
LOB_CREATE_TEMPORARY: Final = 0x0110
LOB_FREE_TEMPORARY: Final = 0x0111
LOB_FILE_CLOSE: Final = 0x0200
LOB_FILE_IS_OPEN: Final = 0x0400
LOB_FILE_EXISTS: Final = 0x0800
LOB_CHUNK_SIZE: Final = 0x4000
LOB_OPEN: Final = 0x8000
LOB_CLOSE: Final = 0x10000
LOB_IS_OPEN: Final = 0x11000
LOB_ARRAY: Final = 0x80000
LOB_OPERATIONS: Final = frozenset(
    {
        *(LOB_GET_LENGTH, LOB_READ, LOB_TRIM, LOB_WRITE, LOB_FILE_OPEN, LOB_CREATE_TEMPORARY, LOB_FREE_TEMPORARY),
        *(LOB_FILE_CLOSE, LOB_FILE_IS_OPEN, LOB_FILE_EXISTS, LOB_CHUNK_SIZE, LOB_OPEN, LOB_CLOSE, LOB_IS_OPEN),
        LOB_FREE_TEMPORARY | LOB_ARRAY,
    }
)

# The status at the end of a call
IN_TRANSACTION: Final = 0x0002

# Errors with a meaning
NO_DATA_FOUND: Final = 1403
USER_CANCEL: Final = 1013
INSUFFICIENT_PRIVILEGES: Final = 1031
SESSION_KILLED: Final = 28
INVALID_CREDENTIALS: Final = 1017
END_OF_CHANNEL: Final = 3113
TTC_ERROR: Final = 3115
