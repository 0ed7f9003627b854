"""Functions of Oracle's SQL that SQLite lacks, in Python."""

from __future__ import annotations

import datetime
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from tests.support.oracledb.sql_translation import SqlError

PARTS = (
    ("YYYY", "%Y"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("HH24", "%H"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("FF6", "%f"),
    ("FF3", "%f"),
    ("FF", "%f"),
)
DATE_FORMAT = "YYYY-MM-DD HH24:MI:SS"
Value = Any  # what SQLite passes: int, float, str, bytes or None


class Sequences:
    """Sequences of a database. Transactions do not change them, as in Oracle."""

    def __init__(self) -> None:
        self._next: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def create(self, name: str, start: int, step: int) -> None:
        with self._lock:
            if name in self._next:
                raise SqlError(955, "name is already used by an existing object")
            self._next[name] = (start, step)

    def drop(self, name: str) -> None:
        with self._lock:
            if self._next.pop(name, None) is None:
                raise SqlError(2289, "sequence does not exist")

    def next_value(self, name: str) -> int:
        with self._lock:
            if name not in self._next:
                raise SqlError(2289, "sequence does not exist")
            value, step = self._next[name]
            self._next[name] = (value + step, step)
            return value


def python_format(oracle: str) -> str:
    """Return a format of dates as Python's. sqlglot has translated some already."""
    if "%" in oracle:
        return oracle
    for part, python in PARTS:
        oracle = oracle.upper().replace(part, python)
    return oracle


def to_char(value: Value, oracle_format: str | None = None) -> str | None:
    if value is None:
        return None
    if oracle_format is None or not isinstance(value, str):
        return number_text(value)
    return datetime.datetime.fromisoformat(value).strftime(python_format(oracle_format))


def number_text(value: Value) -> str:
    if isinstance(value, float):
        text = f"{value:.15g}"
        return text.removeprefix("0") if text.startswith("0.") else text
    return value.hex().upper() if isinstance(value, bytes) else str(value)


def to_date(value: Value, oracle_format: str | None = None) -> str | None:
    if value is None:
        return None
    try:
        if oracle_format is None:
            return moment_text(datetime.datetime.fromisoformat(str(value)))
        return moment_text(datetime.datetime.strptime(str(value), python_format(oracle_format)))  # noqa: DTZ007
    except ValueError as error:
        raise SqlError(1861, "literal does not match format string") from error


def moment_text(value: datetime.datetime) -> str:
    return value.isoformat(" ", "microseconds" if value.microsecond else "seconds")


def to_number(value: Value, _format: str | None = None) -> int | float | None:
    if value is None:
        return None
    try:
        return float(value) if "." in str(value) or "e" in str(value).lower() else int(value)
    except ValueError as error:
        raise SqlError(1722, "invalid number") from error


def joined(*values: Value) -> str | None:
    """Join texts: NULL is an empty one, and an empty result is NULL."""
    return "".join(number_text(value) for value in values if value is not None) or None


def truncated(value: Value, digits: Value = 0) -> Value:
    if isinstance(value, str):
        return value[:10] + " 00:00:00"
    if value is None:
        return None
    factor = 10 ** int(digits)
    return int(value * factor) / factor if digits else int(value)


def padded(value: Value, length: int, filler: str = " ", left: bool = True) -> str | None:
    if value is None:
        return None
    text = number_text(value)
    missing = (filler * length)[: max(length - len(text), 0)]
    return (missing + text if left else text + missing)[:length]


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def row_id_text(row: int | None) -> str | None:
    """Return the text of a ROWID whose slot and block are the number of a row in SQLite."""
    if row is None:
        return None
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = ""
    for number, length in ((1, 6), (1, 3), (row >> 12, 6), (row & 0xFFF, 3)):
        text += "".join(alphabet[number >> 6 * place & 63] for place in reversed(range(length)))
    return text


def register(
    connection: sqlite3.Connection,
    sequences: Sequences,
    failed: Callable[[SqlError], None],
    clock: Callable[[], datetime.datetime],
) -> None:
    """Give a connection of SQLite the functions. `failed` gets an error's number: SQLite passes on none."""
    current: dict[str, int] = {}

    def next_value(name: str) -> int:
        current[name] = sequences.next_value(name)
        return current[name]

    def current_value(name: str) -> int:
        if name not in current:
            raise SqlError(8002, f"sequence {name}.CURRVAL is not yet defined in this session")
        return current[name]

    functions: dict[str, Callable[..., Value]] = {
        "TO_CHAR": to_char,
        "TO_DATE": to_date,
        "TO_TIMESTAMP": to_date,
        "TO_NUMBER": to_number,
        "AS_MOMENT": to_date,
        "JOINED": joined,
        "TRUNC": truncated,
        "LPAD": padded,
        "RPAD": lambda value, length, filler=" ": padded(value, length, filler, False),
        "HEXTORAW": lambda text: bytes.fromhex(text) if text else None,
        "RAWTOHEX": lambda data: data.hex().upper() if data else None,
        "SYSDATE": lambda: clock().replace(microsecond=0, tzinfo=None).isoformat(" "),
        "SYSTIMESTAMP": lambda: clock().isoformat(" ", "microseconds"),
        "SYS_CONTEXT": lambda _, name, *rest: "ORCLPDB1" if name == "SERVICE_NAME" else "POSTERN",
        "UID": lambda: 100,
        "ROWID_TEXT": row_id_text,
        "NEXTVAL": next_value,
        "CURRVAL": current_value,
    }

    def guarded(function: Callable[..., Value]) -> Callable[..., Value]:
        def call(*arguments: Value) -> Value:
            try:
                return function(*arguments)
            except SqlError as error:
                failed(error)
                raise

        return call

    for name, function in functions.items():
        connection.create_function(name, -1, guarded(function))
