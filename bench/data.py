"""The tables that are read: pgbench's own, lines of words and of hashes, ordinary rows, rows full of personal data."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from faker import Faker
from psycopg import sql

from bench import masking as make

_DIFFERENT = 2000  # rows made one by one; the rest repeats them


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows of each table, and pgbench's scale."""

    lines: int
    hashes: int
    ordinary: int
    dense: int
    scale: int
    megabytes: int  # of each ordinary result


FULL = Sizes(lines=2_000_000, hashes=300_000, ordinary=600_000, dense=200_000, scale=10, megabytes=100)
QUICK = Sizes(lines=1_000_000, hashes=100_000, ordinary=300_000, dense=60_000, scale=4, megabytes=25)


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

_people = Faker("en_US")
_people.seed_instance(7)


def _note() -> str:
    """A telephone number in some of them."""
    text = _people.sentence(nb_words=9)
    return f"{text} Call {make.phone()}." if make.SEED.random() < 0.05 else text


def _day() -> str:
    return make.moment()[:10]


def _truth() -> str:
    return make.SEED.choice(("true", "false"))


def _document() -> str:
    person = {"id": make.SEED.randint(1, 10**6), "name": _people.name(), "email": _people.ascii_email()}
    order = {
        "total": make.SEED.randint(100, 10**5) / 100,
        "placed": make.moment(),
        "lines": [make.words(), make.words()],
    }
    return json.dumps({"customer": person, "order": order, "is_paid": True})


def _emails() -> str:
    return "{" + ",".join(_people.ascii_email() for _ in range(3)) + "}"


def _numbers() -> str:
    return "{" + ",".join(make.number() for _ in range(6)) + "}"


_CUSTOMERS: dict[str, Callable[[], str]] = {
    "id bigint": make.number,
    "account integer": make.number,
    "name text": _people.name,
    "email text": _people.ascii_email,
    "notes text": _note,
    "born date": _day,
    "created timestamptz": make.moment,
    "amount numeric": make.number,
    "is_active boolean": _truth,
    "reference uuid": _people.uuid4,
}
# As programs ask for them; by table.
_ANSWERS: dict[str, dict[str, Callable[[], str]]] = {
    "customers": _CUSTOMERS,
    "entries": {
        "id bigint": make.number,
        "account integer": make.number,
        "balance numeric": make.number,
        "booked timestamp": make.moment,
    },
    "wide": {
        "email text": _people.ascii_email,
        "notes text": _note,
        **{f"amount_{number} numeric": make.number for number in range(10)},
        **{f"count_{number} integer": make.number for number in range(10)},
        **{f"moment_{number} timestamp": make.moment for number in range(8)},
        **{f"word_{number} text": make.words for number in range(10)},
    },
}
# A quarter of the size: masking them takes its time.
_SMALLER: dict[str, dict[str, Callable[[], str]]] = {
    "copied": _CUSTOMERS,
    "documents": {"id bigint": make.number, "document jsonb": _document},
    "lists": {"id bigint": make.number, "emails text[]": _emails, "amounts integer[]": _numbers},
}
# Columns of theirs that a rule is about: three of ten, one of four, two of forty, …
MARKED = ("name", "email", "notes", "balance", "document", "emails")


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
        for name, columns in _ANSWERS.items():
            _table(database, name, columns, megabytes=sizes.megabytes)
        for name, columns in _SMALLER.items():
            _table(database, name, columns, megabytes=sizes.megabytes // 4)
        database.execute("vacuum analyze")


def _table(
    database: psycopg.Connection,
    name: str,
    columns: dict[str, Callable[[], str]],
    rows: int = 0,
    *,
    megabytes: int = 0,
) -> None:
    """As many rows, or as many as make an answer of that size in the text format, roughly."""
    seed, table = sql.Identifier(f"{name}_seed"), sql.Identifier(name)
    described = sql.SQL(", ").join(sql.SQL(column) for column in columns)
    database.execute(sql.SQL("create unlogged table {} ({})").format(seed, described))
    with database.cursor() as cursor, cursor.copy(sql.SQL("copy {} from stdin").format(seed)) as copy:
        for _ in range(_DIFFERENT):
            copy.write_row([one() for one in columns.values()])
    if megabytes:
        written = database.execute(sql.SQL("select sum(octet_length(seed::text)) from {} seed").format(seed)).fetchone()
        assert written is not None
        framing = _DIFFERENT * (7 + 3 * len(columns))  # lengths of four bytes where the text has a comma
        rows = _DIFFERENT * round(megabytes * 1e6 / (written[0] + framing))
    database.execute(
        sql.SQL("create unlogged table {} as select seed.* from generate_series(1, {}), {} as seed").format(
            table, sql.Literal(rows // _DIFFERENT), seed
        )
    )
