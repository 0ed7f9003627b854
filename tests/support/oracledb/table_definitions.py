"""Reads Oracle's CREATE TABLE, and returns it for SQLite."""

from __future__ import annotations

import re

from sqlglot import exp
from tests.support.oracledb import type_codings as types
from tests.support.oracledb.sql_translation import SqlError
from tests.support.oracledb.type_codings import NATIONAL, OracleType, text_type

DECLARED = re.compile(
    r"(?P<name>[A-Z_0-9]+)\s*(?:\(\s*(?P<first>\d+|\*)[^,)]*(?:,\s*(?P<second>-?\d+))?\s*\))?(?P<rest>.*)"
)
AFFINITY = {types.NUMBER: "NUMERIC", types.RAW: "BLOB", types.BLOB: "BLOB", types.LONG_RAW: "BLOB"}
AFFINITY |= {types.BINARY_DOUBLE: "REAL", types.BINARY_FLOAT: "REAL"}


def oracle_type(declared: str) -> OracleType:
    """Return the type of a declaration. Raises SqlError 902 for one that this server does not have."""
    match = DECLARED.fullmatch(declared.upper().strip())
    if match is None:
        raise SqlError(902, "invalid datatype")
    name, first, second, rest = match.group("name", "first", "second", "rest")
    size = int(first) if first and first != "*" else 0
    match name:
        case "VARCHAR2" | "VARCHAR":
            return text_type(size or 4000)
        case "NVARCHAR2":
            return text_type(size or 2000, form=NATIONAL)
        case "CHAR":
            return text_type(size or 1, types.CHAR)
        case "NCHAR":
            return text_type(size or 1, types.CHAR, NATIONAL)
        case "NUMBER" | "DECIMAL" | "NUMERIC":
            return OracleType(types.NUMBER, 22, size, int(second or 0) if size else -127)
        case "INT" | "INTEGER" | "SMALLINT":
            return OracleType(types.NUMBER, 22, 38, 0)
        case "DATE":
            return types.DATE_TYPE
        case "TIMESTAMP" | "TIMESTAMPTZ" | "TIMESTAMPLTZ":
            digits = size if first else 6
            if "LOCAL" in rest or name == "TIMESTAMPLTZ":
                return OracleType(types.TIMESTAMP_LTZ, 11, 0, digits)
            zoned = "ZONE" in rest or name == "TIMESTAMPTZ"
            return OracleType(types.TIMESTAMP_TZ if zoned else types.TIMESTAMP, 13 if zoned else 11, 0, digits)
    return other_type(name, rest, size)


def other_type(name: str, rest: str, size: int) -> OracleType:
    match name:
        case "RAW":
            return OracleType(types.RAW, size or 2000)
        case "CLOB" | "TEXT":
            return OracleType(types.CLOB, 4000, form=types.IMPLICIT)
        case "NCLOB":
            return OracleType(types.CLOB, 4000, form=NATIONAL)
        case "BLOB":
            return OracleType(types.BLOB, 4000)
        case "FLOAT" | "REAL":
            return OracleType(types.NUMBER, 22, 126, -127)
        case "DOUBLE" | "BINARY_DOUBLE":
            return OracleType(types.BINARY_DOUBLE, 8)
        case "BINARY_FLOAT":
            return OracleType(types.BINARY_FLOAT, 4)
        case "LONG" | "BIGINT":
            return OracleType(types.LONG, 0, form=types.IMPLICIT)
    raise SqlError(902, "invalid datatype")


def table_columns(tree: exp.Create, text: str) -> dict[str, OracleType]:
    """Return the columns of a CREATE TABLE, and give SQLite's types to its tree."""
    columns = {}
    for definition in tree.find_all(exp.ColumnDef):
        identifier = definition.this
        name = identifier.name if identifier.args.get("quoted") else identifier.name.upper()
        declared = definition.args["kind"].sql("oracle")
        written = re.search(
            rf'\b{re.escape(identifier.name)}"?\s+(binary_float|int(?:eger)?|long)\b', text, re.IGNORECASE
        )
        kind = oracle_type(written.group(1) if written else declared)
        columns[name] = kind
        definition.set("this", exp.to_identifier(name, quoted=True))
        definition.set("kind", exp.DataType.build(AFFINITY.get(kind.number, "TEXT"), dialect="sqlite", udt=True))
    return columns
