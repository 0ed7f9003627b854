"""The tables that are read: pgbench's own, lines of words and of hashes, ordinary rows, rows full of personal data."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from bench import masking as make
from psycopg import sql

_DIFFERENT = 2000  # rows made one by one; the rest repeats them


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows of each table, and pgbench's scale."""

    lines: int
    hashes: int
    ordinary: int
    dense: int
    scale: int


FULL = Sizes(lines=2_000_000, hashes=300_000, ordinary=600_000, dense=200_000, scale=10)
QUICK = Sizes(lines=1_000_000, hashes=100_000, ordinary=300_000, dense=60_000, scale=4)


def _line() -> str:
    return " ".join(make.words() for _ in range(6))[:100].ljust(100, ".")


# Three of the ten columns hold e-mail addresses.
_ORDINARY = {
    "name text": make.words,
    "email text": make.email,
    "billing text": make.email,
    "contact text": make.email,
    "city text": make.words,
    "amount numeric": make.number,
    "quantity integer": make.number,
    "code bigint": make.number,
    "created timestamp": make.moment,
    "changed timestamp": make.moment,
}
# A value of another type in each cell.
_DENSE = {
    "email text": make.email,
    "phone text": make.phone,
    "ssn text": make.ssn,
    "card text": make.card,
    "address text": make.address,
    "account text": make.iban,
}


def fill(url: str, sizes: Sizes) -> None:
    """`url` is the database owner's. Everything is in memory afterwards, as far as it fits."""
    pgbench = shutil.which("pgbench")
    assert pgbench is not None, "the caller has looked for it"
    subprocess.run([pgbench, "-i", "-q", "-s", str(sizes.scale), url], check=True, capture_output=True)
    with psycopg.connect(url, autocommit=True) as database:
        _table(database, "lines", {"line text": _line}, sizes.lines)
        database.execute(
            "create unlogged table hashes as select substr(repeat(md5(number::text), 4), 1, 100) as line "
            f"from generate_series(1, {sizes.hashes}) as number"
        )
        _table(database, "ordinary", _ORDINARY, sizes.ordinary)
        _table(database, "dense", _DENSE, sizes.dense)
        database.execute("vacuum analyze")


def _table(database: psycopg.Connection, name: str, columns: dict[str, Callable[[], str]], rows: int) -> None:
    seed, table = sql.Identifier(f"{name}_seed"), sql.Identifier(name)
    described = sql.SQL(", ").join(sql.SQL(column) for column in columns)
    database.execute(sql.SQL("create unlogged table {} ({})").format(seed, described))
    with database.cursor() as cursor, cursor.copy(sql.SQL("copy {} from stdin").format(seed)) as copy:
        for _ in range(_DIFFERENT):
            copy.write_row([one() for one in columns.values()])
    database.execute(
        sql.SQL("create unlogged table {} as select seed.* from generate_series(1, {}), {} as seed").format(
            table, sql.Literal(rows // _DIFFERENT), seed
        )
    )
