"""python-oracledb's own tests, from the source package of the installed version. They are downloaded, and no part of
this project. The package lacks the script that makes their tables: SCHEMA has those that the test server can have."""

from __future__ import annotations

import datetime
import hashlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import oracledb
import pytest
from tests.support.oracledb.running_server import OracleTestServer

_PACKAGE: Final = f"oracledb-{oracledb.__version__}"
# Of the package's file, by its version.
_HASHES: Final = {"oracledb-26.1.0": "18e1e78073a1479326e8766deb8b9358ae7880d80b65f562580b010da07c73ee"}
_INDEX: Final = "https://pypi.org/simple"
TEST_TIMEOUT: Final = 30  # seconds of one test

TABLES: Final = (
    "nls_database_parameters (parameter varchar2(30), value varchar2(60))",
    "TestStrings (IntCol number(9) not null, StringCol varchar2(20) not null, RawCol raw(30) not null,"
    " FixedCharCol char(40) not null, NullableCol varchar2(50))",
    "TestUnicodes (IntCol number(9) not null, UnicodeCol nvarchar2(20) not null, FixedUnicodeCol nchar(40) not null,"
    " NullableCol nvarchar2(50))",
    "TestNumbers (IntCol number(9) not null, LongIntCol number(16) not null, NumberCol number(9, 2) not null,"
    " FloatCol float not null, UnconstrainedCol number not null, NullableCol number(38))",
    "TestDates (IntCol number(9) not null, DateCol date not null, NullableCol date)",
    "TestTimestamps (IntCol number(9) not null, TimestampCol timestamp not null, NullableCol timestamp,"
    " TimestampPrecisionCol timestamp(4))",
    "TestTimestampTZs (IntCol number(9) not null, TimestampTZCol timestamp with time zone not null,"
    " NullableCol timestamp with time zone, TimestampTZPrecisionCol timestamp(7) with time zone)",
    "TestTimestampLTZs (IntCol number(9) not null, TimestampLTZCol timestamp with local time zone not null,"
    " NullableCol timestamp with local time zone, TimestampLTZPrecisionCol timestamp(5) with local time zone)",
    "TestTempTable (IntCol number(9) not null primary key, StringCol1 varchar2(400), StringCol2 varchar2(400),"
    " NumberCol number(25, 2))",
    "TestArrayDML (IntCol number(9) not null primary key, StringCol varchar2(100), IntCol2 number(3))",
    *(
        f"Test{kind}s (IntCol number(9) not null, {kind}Col {kind} not null, ExtraNumCol1 number(9),"
        f" Extra{kind}Col1 {kind}, ExtraNumCol2 number(9), Extra{kind}Col2 {kind})"
        for kind in ("CLOB", "NCLOB", "BLOB")
    ),
    "TestLongs (IntCol number(9) not null, LongCol long)",
    "TestRowids (IntCol number(9) not null, RowidCol varchar2(18), URowidCol varchar2(4000))",
    "TestDataframe (Id number(9), FirstName varchar2(100), LastName varchar2(100), City varchar2(100),"
    " Country varchar2(100), DateOfBirth date, Salary number(9, 2), CreditScore number(3, 0), LastUpdated timestamp)",
)

_START: Final = datetime.datetime(2002, 12, 9)  # noqa: DTZ001 - a DATE has no time zone
_LATER: Final = datetime.datetime(2009, 12, 14)  # noqa: DTZ001
_ZONED: Final = datetime.datetime(2022, 6, 3)  # noqa: DTZ001


def _odd(number: int, value: Any) -> Any:
    return value if number % 2 else None


def _moments(start: datetime.datetime) -> Callable[[int], tuple[Any, ...]]:
    """Return what makes the row of a number in a table of timestamps."""

    def row(n: int) -> tuple[Any, ...]:
        first = start + datetime.timedelta(days=n, seconds=2 * n, microseconds=int(f"{50 * n}".ljust(6, "0")))
        second = start + datetime.timedelta(days=n + 1, seconds=3 * n, microseconds=int(f"{125 * n}".ljust(6, "0")))
        return n, first, _odd(n, second), _LATER

    return row


ROWS: Final[dict[str, Callable[[int], tuple[Any, ...]]]] = {
    "TestStrings": lambda n: (
        n,
        f"String {n}",
        f"Raw {n}".encode(),
        f"Fixed Char {n}".ljust(40),
        _odd(n, f"Nullable {n}"),
    ),
    "TestUnicodes": lambda n: (n, f"Unicode \u3042 {n}", f"Fixed Unicode {n}".ljust(40), _odd(n, f"Nullable {n}")),
    "TestNumbers": lambda n: (n, 38**n, n * 1.25, n * 1.75, n**3 + n * 0.5, _odd(n, 143**n)),
    "TestDates": lambda n: (
        n,
        _START + datetime.timedelta(days=n, minutes=144 * n),
        _odd(n, _START + datetime.timedelta(days=2 * n, minutes=216 * n)),
    ),
    "TestTimestamps": _moments(_START),
    "TestTimestampTZs": _moments(_ZONED),
    "TestTimestampLTZs": _moments(_ZONED),
}


def make_schema(server: OracleTestServer) -> None:
    """Make the tables that the tests use, with their rows."""
    with oracledb.connect(user=server.user, password=server.password, dsn=server.easy_connect) as client:
        cursor = client.cursor()
        for table in TABLES:
            cursor.execute(f"create table {table}")
        cursor.execute("insert into nls_database_parameters values ('NLS_CHARACTERSET', 'AL32UTF8')")
        for table, row in ROWS.items():
            rows = [row(number) for number in range(1, 11)]
            places = ", ".join(f":{number}" for number in range(1, len(rows[0]) + 1))
            cursor.executemany(f"insert into {table} values ({places})", rows)
        client.commit()


def oracledb_suite() -> Path:
    """Return the folder with the tests. Without a network they are skipped, visibly."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "postern-tools" / "oracledb-suite"
    folder = cache / _PACKAGE
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    try:
        data = _download()
    except OSError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"python-oracledb's source package: {error}")
        pytest.skip(f"python-oracledb's source package cannot be downloaded: {error}")
    assert hashlib.sha256(data).hexdigest() == _HASHES[_PACKAGE]
    with tarfile.open(fileobj=io.BytesIO(data)) as package:
        # Without the library itself: the installed one is tested.
        members = [member for member in package.getmembers() if member.name.startswith(f"{_PACKAGE}/tests/")]
        package.extractall(cache, members=members, filter="data")
    return folder


def _download() -> bytes:
    """Return the source package, by the address that the page of the package index has."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    index = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or _INDEX
    page = f"{index.rstrip('/')}/oracledb/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        links = re.findall(r'href="([^"#]+)', answer.read().decode())
    address = next(link for link in links if link.endswith(f"/{_PACKAGE}.tar.gz"))
    with urllib.request.urlopen(urljoin(page, address), timeout=120) as answer:
        return bytes(answer.read())


def run_oracledb_tests(folder: Path, files: Iterable[str], login: Mapping[str, str], report: Path) -> None:
    """Run the tests of files. `login` has what follows PYO_TEST_ in the names of variables; `report` is written as
    JUnit does it."""
    stubs = report.with_suffix(".stubs")
    stubs.mkdir()
    for name in ("numpy", "pandas"):  # the suite imports them, and uses them for data frames alone
        if importlib.util.find_spec(name) is None:
            (stubs / f"{name}.py").touch()
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--timeout={TEST_TIMEOUT}", "-c", "/dev/null", "--rootdir=."]
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}"]
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTEST_ADDOPTS"}}
    kept |= {"PYTHONPATH": str(stubs), "PYTHONDONTWRITEBYTECODE": "1"}
    kept |= {f"PYO_TEST_{name}": value for name, value in login.items()}
    with report.with_suffix(".log").open("wb") as log:
        paths = [f"tests/{file}.py" for file in files]
        subprocess.run([*command, *paths], cwd=folder, env=kept, stdout=log, stderr=log, check=False)
