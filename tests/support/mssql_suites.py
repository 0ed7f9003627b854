"""The own tests of drivers of SQL Server, from their packages: those of pymssql, of go-mssqldb, of SQLAlchemy for its
dialects, and of the DB API. They are downloaded, and no part of this project. The packages of python-tds, tedious and
JDBC have no tests."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import pytest
from tests.support.clients import clean_environment, need
from tests.support.mssql_drivers import PROGRAMS
from tests.support.mssql_server import DATABASE
from tests.support.pymongo_suite import Outcome, outcomes

TEST_TIMEOUT: Final = 60  # seconds of one test
HOST: Final = "127.0.0.1"
PYMSSQL: Final = importlib.metadata.version("pymssql")
DBAPI_COMPLIANCE: Final = "1.15.0"
SQLALCHEMY_PYTDS: Final = "1.0.3"


class SuiteLogin(NamedTuple):
    """Where a suite logs in."""

    port: int
    user: str
    password: str


def failed_through_only(direct: Mapping[str, Outcome], through: Mapping[str, Outcome]) -> dict[str, str]:
    """Return the tests that pass without a gateway and not through it, with what they say."""
    missing = Outcome("missing", "it did not run")
    return {
        name: f"{other.kind}: {other.reason[:500]}"
        for name, outcome in direct.items()
        if outcome.kind == "passed" and (other := through.get(name, missing)).kind != "passed"
    }


def passing(direct: Mapping[str, Outcome]) -> int:
    return sum([outcome.kind == "passed" for outcome in direct.values()])


def downloaded(package: str, version: str, options: Sequence[str] = ("--no-binary", ":all:")) -> Path:
    """Return the file of a package from PyPI. Without a network the test is skipped, visibly."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "postern-tools" / f"{package}-suite"
    cache.mkdir(parents=True, exist_ok=True)
    name = f"{package.replace('-', '[-_]')}-{version}*"
    if not any(cache.glob(name)):
        what = [*options, "--no-deps", "--dest", str(cache), f"{package}=={version}"]
        command = [sys.executable, "-m", "pip", "download", "-q", *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            if os.environ.get("CI") == "true":
                pytest.fail(done.stderr)
            pytest.skip(f"{package} cannot be downloaded: {done.stderr[-200:]}")
    (file,) = cache.glob(name)
    return file


def run_tests(folder: Path, arguments: Sequence[str], report: Path, path: Sequence[Path] = ()) -> Mapping[str, Outcome]:
    """Run pytest in a folder. Return how each test ended; `path` are folders to import from."""
    options = ["-q", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT}", "-c", "/dev/null", "--rootdir=."]
    command = [sys.executable, "-m", "pytest", *options, *arguments, f"--junitxml={report}"]
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTEST_ADDOPTS"}}
    kept["PYTHONPATH"] = ":".join(map(str, path))
    with report.with_suffix(".log").open("wb") as log:
        subprocess.run(command, cwd=folder, env=kept, stdout=log, stderr=log, check=False)
    return outcomes(report)


# pymssql


def pymssql_suite() -> Path:
    """Return the package with the tests, and with the library itself: the installed one is tested."""
    return downloaded("pymssql", PYMSSQL, ("--no-binary", "pymssql"))


# About memory of pymssql alone, a size that takes a minute, or nothing without other packages or another Python.
_PYMSSQL_LEFT_OUT: Final = frozenset(
    {"test_free_threaded.py", "test_gil_safety.py", "test_green.py", "test_memory.py", "test_query_size.py"}
)
_PYMSSQL_SKIPPED: Final = (
    # The server has schemas of any name. After this test its transaction locks the tables of all others.
    "test_pymssql.py::TestTransaction::test_rollback_after_create_error",
    "test_threaded.py::ThreadedTests::testThreadedUse",  # 50,000 statements, which take longer than the timeout
)


def run_pymssql_tests(package: Path, login: SuiteLogin, folder: Path) -> Mapping[str, Outcome]:
    """Run the tests of pymssql."""
    inside = f"pymssql-{PYMSSQL}"
    with tarfile.open(package) as archive:
        members = [member for member in archive.getmembers() if member.name.startswith(f"{inside}/tests/")]
        archive.extractall(folder, members=members, filter="data")
    settings = {
        "server": HOST,
        "ipaddress": HOST,
        "port": str(login.port),
        "username": login.user,
        "password": login.password,
        "database": DATABASE,
    }
    lines = "".join(f"{name} = {value.replace('%', '%%')}\n" for name, value in settings.items())
    (folder / inside / "tests" / "tests.cfg").write_text(f"[SERVER]\n{lines}")
    found = sorted((folder / inside / "tests").glob("test_*.py"))
    files = [f"tests/{path.name}" for path in found if path.name not in _PYMSSQL_LEFT_OUT]
    skipped = [f"--deselect=tests/{name}" for name in _PYMSSQL_SKIPPED]
    arguments = ["-n", "0", "--pymssql-section=SERVER", *skipped, *files]
    return run_tests(folder / inside, arguments, folder / "report.xml")


# The DB API

_DBAPI_TESTS: Final = """
import dbapi20
import {module} as driver


class Test(dbapi20.DatabaseAPI20Test):
    driver = driver
    connect_args = {arguments!r}
    connect_kw_args = {options!r}
    lowerfunc = "lowered"

    def setUp(self):
        connection = self._connect()
        cursor = connection.cursor()
        cursor.execute("create or alter procedure lowered @a varchar(20) as select lower(@a)")
        connection.commit()
        connection.close()

    def test_setoutputsize(self):
        pass  # each driver has to test what it does

    def test_nextset(self):
        pass
"""


def run_dbapi_tests(module: str, login: SuiteLogin, folder: Path) -> Mapping[str, Outcome]:
    """Run the tests of the DB API for a driver: pymssql, pytds, or mssql_python (Microsoft's ODBC driver)."""
    with zipfile.ZipFile(downloaded("dbapi-compliance", DBAPI_COMPLIANCE)) as archive:
        (folder / "dbapi20.py").write_bytes(archive.read(f"dbapi-compliance-{DBAPI_COMPLIANCE}/dbapi20.py"))
    arguments: tuple[str, ...] = ()
    options: dict[str, object] = {"user": login.user, "password": login.password, "database": DATABASE}
    if module == "mssql_python":
        address = f"Server={HOST},{login.port};Database={DATABASE};Encrypt=no"
        arguments, options = (f"{address};UID={login.user};PWD={login.password}",), {}
    elif module == "pymssql":
        options |= {"server": HOST, "port": str(login.port)}
    else:
        options |= {"dsn": HOST, "port": login.port}
    text = _DBAPI_TESTS.format(module=module, arguments=arguments, options=options)
    (folder / "test_dbapi.py").write_text(text)
    return run_tests(folder, ["-n", "0", "test_dbapi.py"], folder / "report.xml")


# SQLAlchemy

_PYTDS_DIALECT: Final = "sqlalchemy_pytds.requirements:Requirements"
# The server has no names with brackets in them.
SQLALCHEMY_CHOSEN: Final = "not BizarroCharacterTest"
SQLALCHEMY_DRIVERS: Final[Mapping[str, str]] = {"pymssql": "", "pytds": "", "mssqlpython": "?Encrypt=no"}


def run_sqlalchemy_tests(driver: str, login: SuiteLogin, folder: Path) -> Mapping[str, Outcome]:
    """Run SQLAlchemy's tests of dialects, with the requirements that the dialect of python-tds states."""
    wheel = downloaded("sqlalchemy-pytds", SQLALCHEMY_PYTDS, ())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "dialect")
    (folder / "conftest.py").write_text(
        "from sqlalchemy.dialects import registry\n"
        "registry.register('mssql.pytds', 'sqlalchemy_pytds.dialect', 'MSDialect_pytds')\n"
        "import pytest\n"
        "pytest.register_assert_rewrite('sqlalchemy.testing.assertions')\n"
        "from sqlalchemy.testing.plugin.pytestplugin import *\n"
    )
    (folder / "test_suite.py").write_text("from sqlalchemy.testing.suite import *\n")
    (folder / "setup.cfg").write_text(
        f"[sqla_testing]\nrequirement_cls = {_PYTDS_DIALECT}\nprofile_file = profiles.txt\n"
    )
    user = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
    address = f"mssql+{driver}://{user}@{HOST}:{login.port}/{DATABASE}{SQLALCHEMY_DRIVERS[driver]}"
    arguments = ["-p", "no:xdist", "--tb=line", "--dburi", address, "-k", SQLALCHEMY_CHOSEN, "test_suite.py"]
    return run_tests(folder, arguments, folder / "report.xml", [folder / "dialect"])


# go-mssqldb

GO_DRIVER: Final = "github.com/microsoft/go-mssqldb"
_ENDED: Final = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)
_GO_KINDS: Final = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def go_suite(folder: Path) -> Path:
    """Build the tests of go-mssqldb, of the version that the program of its tasks has. Return their program."""
    go, environment = need("go", "golang-go"), clean_environment()
    subprocess.run([go, "mod", "download"], cwd=PROGRAMS / "mssql_go", env=environment, check=True)
    listed = [go, "list", "-m", "-f", "{{.Dir}}", GO_DRIVER]
    found = subprocess.check_output(listed, cwd=PROGRAMS / "mssql_go", env=environment, text=True).strip()
    source = folder / "go-mssqldb"
    shutil.copytree(found, source)
    for path in [source, *source.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)  # a module cannot be written to
    subprocess.run([go, "test", "-c", "-o", "suite", "."], cwd=source, env=environment, check=True)
    return source / "suite"


def run_go_tests(suite: Path, login: SuiteLogin, skipped: str) -> Mapping[str, Outcome]:
    """Run them. Return how each ended."""
    user = f"{quote(login.user)}:{quote(login.password)}"
    address = f"sqlserver://{user}@{HOST}:{login.port}?database={DATABASE}&encrypt=disable"
    command = [str(suite), "-test.v", "-test.timeout=900s", "-test.skip", skipped]
    environment = clean_environment(SQLSERVER_DSN=address)
    done = subprocess.run(command, cwd=suite.parent, env=environment, capture_output=True, text=True, check=False)
    assert "panic:" not in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
    return {name: Outcome(_GO_KINDS[ending], "") for ending, name in _ENDED.findall(done.stdout)}
