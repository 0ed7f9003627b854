"""Names of types, as `pg_type.typname` spells them, with their modifiers: `varchar(20)`, `numeric(10,2)`, `int4[]`.

The wire has numbers only. Those of types that users define differ between databases, so they have no name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.protocols.postgres.wire.postgres_messages import PostgresField
from postern.protocols.postgres.wire.postgres_types import ARRAYS

NAMES: Final[Mapping[int, str]] = {
    16: "bool", 17: "bytea", 18: '"char"', 19: "name", 20: "int8", 21: "int2", 22: "int2vector", 23: "int4",
    24: "regproc", 25: "text", 26: "oid", 27: "tid", 28: "xid", 29: "cid", 30: "oidvector", 114: "json", 142: "xml",
    194: "pg_node_tree", 600: "point", 601: "lseg", 602: "path", 603: "box", 604: "polygon", 628: "line", 650: "cidr",
    700: "float4", 701: "float8", 705: "unknown", 718: "circle", 774: "macaddr8", 790: "money", 829: "macaddr",
    869: "inet", 1033: "aclitem", 1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time", 1114: "timestamp",
    1184: "timestamptz", 1186: "interval", 1266: "timetz", 1560: "bit", 1562: "varbit", 1700: "numeric",
    1790: "refcursor", 2202: "regprocedure", 2203: "regoper", 2204: "regoperator", 2205: "regclass", 2206: "regtype",
    2249: "record", 2275: "cstring", 2278: "void", 2950: "uuid", 2970: "txid_snapshot", 3220: "pg_lsn",
    3614: "tsvector", 3615: "tsquery", 3734: "regconfig", 3769: "regdictionary", 3802: "jsonb", 3904: "int4range",
    3906: "numrange", 3908: "tsrange", 3910: "tstzrange", 3912: "daterange", 3926: "int8range", 4072: "jsonpath",
    4089: "regnamespace", 4096: "regrole", 4191: "regcollation", 4451: "int4multirange", 4532: "nummultirange",
    4533: "tsmultirange", 4534: "tstzmultirange", 4535: "datemultirange", 4536: "int8multirange", 5038: "pg_snapshot",
    5069: "xid8",
}  # fmt: skip
_HEADER: Final = 4  # VARHDRSZ, which some modifiers include
_SIZED: Final = frozenset({1042, 1043})
_BITS: Final = frozenset({1560, 1562})
_TIMED: Final = frozenset({1083, 1114, 1184, 1266})
_NUMERIC: Final = 1700
_INTERVAL: Final = 1186
_NO_PRECISION: Final = 0xFFFF


def type_name(field: PostgresField) -> str | None:
    """Return the name of a column's type; None if the wire does not tell it."""
    element = ARRAYS.get(field.oid)
    oid, suffix = (field.oid, "") if element is None else (element, "[]")
    name = NAMES.get(oid)
    return None if name is None else name + _modifier_text(oid, field.modifier) + suffix


def _modifier_text(oid: int, modifier: int) -> str:
    """Return a type's modifier as SQL writes it, by the `typmodout` functions of the server."""
    if modifier < 0:
        return ""
    if oid in _SIZED:
        return f"({modifier - _HEADER})"
    if oid in _BITS or oid in _TIMED:
        return f"({modifier})"
    if oid == _NUMERIC:
        precision, scale = (modifier - _HEADER) >> 16 & 0xFFFF, (modifier - _HEADER) & 0x7FF
        return f"({precision},{(scale ^ 1024) - 1024})"  # the scale has 11 bits and a sign
    if oid == _INTERVAL and modifier & 0xFFFF != _NO_PRECISION:
        return f"({modifier & 0xFFFF})"
    return ""
