"""Functions of T-SQL, as functions of SQLite. Their names begin with `f_` there."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_conversions import add, cast_type, convert, divide, like_pattern, unwrap
from tests.support.mssql.sqlserver_errors import SqlError
from tests.support.mssql.sqlserver_types import SqlType, parse_type
from tests.support.mssql.sqlserver_values import DAY_ZERO, VARIANT, SqlValue, as_text, parse_time

VERSION: Final = "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64) (test server)"


class FunctionState(Protocol):
    """What functions read of a session."""

    def global_value(self, name: str) -> SqlValue: ...
    def object_id(self, name: str, kind: str = "") -> SqlValue: ...
    def object_name(self, number: SqlValue, *database: SqlValue) -> SqlValue: ...
    def type_name(self, number: SqlValue) -> SqlValue: ...
    def database_name(self) -> str: ...
    def user_name(self) -> str: ...
    def error_value(self, name: str) -> SqlValue: ...


def _now(digits: int) -> Callable[[], str]:
    def now() -> str:
        return datetime.now(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")[: 20 + digits]

    return now


_PARTS: Final = {
    **dict.fromkeys(("year", "yy", "yyyy"), "year"),
    **dict.fromkeys(("quarter", "qq", "q"), "quarter"),
    **dict.fromkeys(("month", "mm", "m"), "month"),
    **dict.fromkeys(("dayofyear", "dy", "y"), "dayofyear"),
    **dict.fromkeys(("day", "dd", "d"), "day"),
    **dict.fromkeys(("week", "wk", "ww"), "week"),
    **dict.fromkeys(("weekday", "dw"), "weekday"),
    **dict.fromkeys(("hour", "hh"), "hour"),
    **dict.fromkeys(("minute", "mi", "n"), "minute"),
    **dict.fromkeys(("second", "ss", "s"), "second"),
    **dict.fromkeys(("millisecond", "ms"), "millisecond"),
    **dict.fromkeys(("microsecond", "mcs"), "microsecond"),
}
_SECONDS: Final = {"week": 604_800, "day": 86_400, "dayofyear": 86_400, "weekday": 86_400, "hour": 3600, "minute": 60}


def _part(name: str) -> str:
    if name.lower() not in _PARTS:
        raise SqlError(155, f"'{name}' is not a recognized datepart option.", 15)
    return _PARTS[name.lower()]


def _datepart(name: str, value: SqlValue) -> SqlValue:
    if value is None:
        return None
    moment, part = parse_time(as_text(value))[0], _part(name)
    computed = {
        "quarter": (moment.month + 2) // 3,
        "dayofyear": moment.timetuple().tm_yday,
        "weekday": moment.isoweekday() % 7 + 1,
        "week": int(moment.strftime("%U")) + 1,
        "millisecond": moment.microsecond // 1000,
    }
    return int(computed[part] if part in computed else getattr(moment, part))


def _dateadd(name: str, amount: SqlValue, value: SqlValue) -> SqlValue:
    if value is None or amount is None:
        return None
    moment, part, number = parse_time(as_text(value))[0], _part(name), int(as_text(amount))
    if part in ("year", "quarter", "month"):
        months = moment.year * 12 + moment.month - 1 + number * {"year": 12, "quarter": 3, "month": 1}[part]
        first = moment.replace(year=months // 12, month=months % 12 + 1, day=1)
        last = (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)
        moment = first.replace(day=min(moment.day, last.day))
    elif part in ("millisecond", "microsecond"):
        moment += timedelta(**{part + "s": number})
    else:
        moment += timedelta(seconds=number * _SECONDS.get(part, 1))
    return moment.isoformat(" ", "milliseconds")


def _datediff(name: str, start: SqlValue, end: SqlValue) -> SqlValue:
    if start is None or end is None:
        return None
    first, last, part = parse_time(as_text(start))[0], parse_time(as_text(end))[0], _part(name)
    if part in ("year", "quarter", "month"):
        months = (last.year - first.year) * 12 + last.month - first.month
        return last.year - first.year if part == "year" else months if part == "month" else months // 3
    if part in ("millisecond", "microsecond"):
        return (last - first) // timedelta(**{part + "s": 1})
    unit, zero = _SECONDS.get(part, 1), DAY_ZERO
    return int((last - zero).total_seconds() // unit) - int((first - zero).total_seconds() // unit)


def _like(value: SqlValue, pattern: SqlValue, escape: SqlValue = "") -> SqlValue:
    if value is None or pattern is None:
        return None
    return int(like_pattern(as_text(pattern), as_text(escape)).fullmatch(as_text(value)) is not None)


def _cast(value: SqlValue, kind: str, source: str = "") -> SqlValue:
    return convert(value, cast_type(kind), source=parse_type(source) if source else None)


def _try_cast(value: SqlValue, kind: str, source: str = "") -> SqlValue:
    try:
        return _cast(value, kind, source)
    except SqlError:
        return None


def _convert(kind: str, value: SqlValue, style: int = 0) -> SqlValue:
    return convert(value, cast_type(kind), style)


def _try_convert(kind: str, value: SqlValue, style: int = 0) -> SqlValue:
    try:
        return _convert(kind, value, style)
    except SqlError:
        return None


def _substring(value: SqlValue, start: SqlValue, size: SqlValue) -> SqlValue:
    if value is None or start is None or size is None:
        return None
    begin, count = int(as_text(start)), int(as_text(size))
    data = value if isinstance(value, bytes) else as_text(value)
    return data[max(begin - 1, 0) : max(begin - 1 + count, 0)]


def _text_function(work: Callable[..., SqlValue]) -> Callable[..., SqlValue]:
    """The first argument as a text; NULL for NULL."""

    def call(value: SqlValue, *rest: Any) -> SqlValue:
        return None if value is None or None in rest else work(as_text(unwrap(value)), *rest)

    return call


def _datalength(value: SqlValue) -> SqlValue:
    if value is None:
        return None
    return len(value) if isinstance(value, bytes) else len(value) * 2 if isinstance(value, str) else 8


def _variant_property(value: SqlValue, name: str) -> SqlValue:
    if isinstance(value, str) and value.startswith(VARIANT):
        kind = parse_type(value[1:].split(VARIANT, 1)[0])
        properties: dict[str, SqlValue] = {"basetype": kind.name, "precision": kind.precision, "scale": kind.scale}
        return properties.get(name.lower())
    return {int: "int", float: "float", str: "nvarchar", bytes: "varbinary"}.get(type(value))


def _hashbytes(algorithm: str, value: SqlValue) -> SqlValue:
    names = {"SHA2_256": "sha256", "SHA2_512": "sha512", "SHA1": "sha1", "SHA": "sha1", "MD5": "md5"}
    data = value if isinstance(value, bytes) else as_text(value).encode("utf-16-le")
    return None if value is None else hashlib.new(names[algorithm.upper()], data).digest()


def _char_index(wanted: str, text: SqlValue, start: int = 1) -> SqlValue:
    return None if text is None else as_text(text).lower().find(wanted.lower(), max(start - 1, 0)) + 1


def _concat(*values: SqlValue) -> SqlValue:
    return "".join(as_text(value) for value in values)


def _concat_ws(separator: str, *values: SqlValue) -> SqlValue:
    return separator.join(as_text(value) for value in values if value is not None)


def _isnumeric(value: SqlValue) -> int:
    try:
        float(as_text(value))
    except ValueError:
        return 0
    return int(value is not None)


def _number_function(work: Callable[..., Any]) -> Callable[..., SqlValue]:
    def call(*values: SqlValue) -> SqlValue:
        if None in values:
            return None
        return work(*(float(value) if isinstance(value, str) else value for value in values))  # type: ignore[no-any-return]

    return call


def _round(value: float, digits: int = 0) -> float | int:
    return type(value)(math.copysign(math.floor(abs(value) * 10**digits + 0.5) / 10**digits, value))


def _parsename(name: str, place: int) -> SqlValue:
    parts = [part.strip("[]") for part in name.split(".")]
    return parts[-place] if place <= len(parts) else None


PLAIN: Final[dict[str, Callable[..., SqlValue]]] = {
    "add": add,
    "divide": divide,
    "like": _like,
    "cast": _cast,
    "try_cast": _try_cast,
    "convert": _convert,
    "try_convert": _try_convert,
    "getdate": _now(3),
    "getutcdate": _now(3),
    "sysdatetime": _now(6),
    "sysutcdatetime": _now(6),
    "sysdatetimeoffset": lambda: _now(6)() + " +00:00",
    "newid": lambda: str(uuid.uuid4()).upper(),
    "newsequentialid": lambda: str(uuid.uuid1()).upper(),
    "datepart": _datepart,
    "datename": lambda name, value: as_text(_datepart(name, value)),
    "dateadd": _dateadd,
    "datediff": _datediff,
    "year": lambda value: _datepart("year", value),
    "month": lambda value: _datepart("month", value),
    "day": lambda value: _datepart("day", value),
    "len": _text_function(lambda text: len(text.rstrip(" "))),
    "left": _text_function(lambda text, size: text[:size]),
    "right": _text_function(lambda text, size: text[-size:] if size else ""),
    "upper": _text_function(str.upper),
    "lower": _text_function(str.lower),
    "ltrim": _text_function(lambda text: text.lstrip(" ")),
    "rtrim": _text_function(lambda text: text.rstrip(" ")),
    "trim": _text_function(lambda text: text.strip(" ")),
    "reverse": _text_function(lambda text: text[::-1]),
    "replicate": _text_function(lambda text, times: text * times),
    "replace": _text_function(lambda text, old, new: text.replace(as_text(old), as_text(new))),
    "stuff": _text_function(lambda text, start, size, new: text[: start - 1] + new + text[start - 1 + size :]),
    "ascii": _text_function(lambda text: ord(text[0])),
    "unicode": _text_function(lambda text: ord(text[0])),
    "char": _number_function(chr),
    "nchar": _number_function(chr),
    "space": _number_function(lambda size: " " * size),
    "str": lambda value, size=10, digits=0: f"{float(value):{size}.{digits}f}",
    "quotename": _text_function(lambda text: "[" + text.replace("]", "]]") + "]"),
    "parsename": _text_function(_parsename),
    "charindex": _char_index,
    "substring": _substring,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "datalength": _datalength,
    "isnumeric": _isnumeric,
    "hashbytes": _hashbytes,
    "sql_variant_property": _variant_property,
    "abs": _number_function(abs),
    "ceiling": _number_function(math.ceil),
    "floor": _number_function(math.floor),
    "round": _number_function(_round),
    "power": _number_function(lambda base, exponent: type(base)(base**exponent)),
    "sqrt": _number_function(math.sqrt),
    "sign": _number_function(lambda value: (value > 0) - (value < 0)),
    "isnull": lambda value, other: other if value is None else value,
    "choose": lambda place, *values: values[place - 1] if 0 < place <= len(values) else None,
    "schema_name": lambda *_: "dbo",
    "host_name": lambda: "client",
    "has_perms_by_name": lambda *_: 1,
    "has_dbaccess": lambda *_: 1,
    "is_srvrolemember": lambda *_: 1,
    "is_member": lambda *_: 1,
    "is_rolemember": lambda *_: 1,
    "databasepropertyex": lambda _, name: {"collation": "SQL_Latin1_General_CP1_CI_AS", "status": "ONLINE"}.get(
        name.lower()
    ),
    "objectproperty": lambda *_: 0,
    "columnproperty": lambda *_: 0,
    "connectionproperty": lambda name: {"net_transport": "TCP", "auth_scheme": "SQL"}.get(name.lower()),
    "fulltextserviceproperty": lambda *_: 0,
}
_PROPERTIES: Final[dict[str, SqlValue]] = {
    "productversion": "16.0.1000.6",
    "productlevel": "RTM",
    "edition": "Developer Edition (64-bit)",
    "engineedition": 3,
    "servername": "TESTSERVER",
    "machinename": "TESTSERVER",
    "collation": "SQL_Latin1_General_CP1_CI_AS",
    "productmajorversion": "16",
    "isintegratedsecurityonly": 0,
}


def functions_of(state: FunctionState) -> dict[str, Callable[..., SqlValue]]:
    """Return all functions, those of a session too."""
    errors = ("number", "message", "severity", "state", "line", "procedure")
    return {
        **PLAIN,
        "global": state.global_value,
        "object_id": state.object_id,
        "object_name": state.object_name,
        "type_name": state.type_name,
        "db_name": lambda *_: state.database_name(),
        "db_id": lambda *_: 5,
        "scope_identity": lambda: state.global_value("identity"),
        "ident_current": lambda *_: state.global_value("identity"),
        "xact_state": lambda: int(bool(state.global_value("trancount"))),
        "serverproperty": lambda name: _PROPERTIES.get(name.lower()),
        **dict.fromkeys(("suser_sname", "suser_name", "original_login"), lambda *_: state.user_name()),
        **dict.fromkeys(("user_name", "user"), lambda *_: "dbo"),
        **{f"error_{name}": lambda name=name: state.error_value(name) for name in errors},
    }


_TEXT: Final = t.NVARCHAR
RESULTS: Final[dict[str, SqlType]] = {
    **dict.fromkeys(("getdate", "getutcdate", "dateadd"), t.DATETIME),
    **dict.fromkeys(("sysdatetime", "sysutcdatetime"), SqlType("datetime2", scale=7)),
    "sysdatetimeoffset": SqlType("datetimeoffset", scale=7),
    **dict.fromkeys(("newid", "newsequentialid"), t.GUID),
    **dict.fromkeys(("datepart", "datediff", "year", "month", "day", "len", "ascii", "unicode", "charindex"), t.INT),
    **dict.fromkeys(("datalength", "isnumeric", "object_id", "db_id", "has_dbaccess", "is_srvrolemember"), t.INT),
    **dict.fromkeys(("is_member", "is_rolemember", "has_perms_by_name", "objectproperty", "columnproperty"), t.INT),
    **dict.fromkeys(("error_number", "error_severity", "error_state", "error_line"), t.INT),
    **dict.fromkeys(("upper", "lower", "ltrim", "rtrim", "trim", "reverse", "replicate", "replace", "stuff"), _TEXT),
    **dict.fromkeys(("left", "right", "substring", "concat", "concat_ws", "quotename", "error_message"), _TEXT),
    **dict.fromkeys(("db_name", "suser_sname", "suser_name", "original_login", "user_name", "schema_name"), t.SYSNAME),
    **dict.fromkeys(
        ("datename", "host_name", "parsename", "type_name", "object_name", "user", "error_procedure"), t.SYSNAME
    ),
    **dict.fromkeys(("scope_identity", "ident_current"), SqlType("numeric", precision=38)),
    **dict.fromkeys(("serverproperty", "databasepropertyex", "connectionproperty"), SqlType("sql_variant")),
    "sql_variant_property": SqlType("sql_variant"),
    "hashbytes": SqlType("varbinary", 8000),
    "char": SqlType("char", 1),
    "nchar": SqlType("nchar", 1),
    "xact_state": SqlType("smallint"),
    "sqrt": t.FLOAT,
}
GLOBALS: Final[dict[str, SqlType]] = {
    **dict.fromkeys(("rowcount", "trancount", "error", "fetch_status", "options", "microsoftversion"), t.INT),
    **dict.fromkeys(("version", "servername", "language", "servicename"), t.NVARCHAR),
    "identity": SqlType("numeric", precision=38),
    "spid": SqlType("smallint"),
    "max_precision": SqlType("tinyint"),
    "datefirst": SqlType("tinyint"),
}
