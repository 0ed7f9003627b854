"""Drivers of SQL Server as people use them, unmodified. scripts/install-services gets those that are not Python's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from tests.support.clients import clean_environment, need
from tests.support.installed_tools import installed_tool
from tests.support.mongodb_drivers import node

PROGRAMS: Final = Path(__file__).resolve().parents[1] / "e2e" / "drivers"

_VALUES: Final = "7 -300 100000 9000000000 1 0.5 {decimal} grün żółw ab   0102 {times} {guid} <a>ü</a> None"
_GUID: Final = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
_TIMES: Final = "2024-02-29 2024-02-29 13:14:15.123000 2024-02-29 13:14:15.123456 13:14:15"
TASKS: Final[Mapping[str, str]] = {
    "types": _VALUES.format(decimal="12.5 3.25", times=_TIMES, guid=_GUID),
    "parameters": "5 grün 1.5 None",
    "repeated": "0 2 4 6",
    "results": "1 2",
    "many rows": "12502500",
    "large value": "True",
    "changes": "3 2 3",
    "errors": "8134 245 2627 2628",
    "transactions": "0 1",
    "procedure": "42",
    "batch": "1225",
    "bulk": "499500",
    "table value": "1=x 2=ü",
    "cancelled": "5",
    "cancelled rows": "5",
    "reset": "208",
    "scrolled": "4 2 1",
    "schema": "id=int name=nvarchar",
}
_MORE: Final = frozenset({"table value", "cancelled", "cancelled rows", "reset", "scrolled", "schema"})


@dataclass(frozen=True)
class DriverAddress:
    """Where a driver connects to, and as whom. `authority` and `certificate` are files, for those who verify."""

    host: str
    port: int
    user: str
    password: str
    database: str
    authority: Path
    certificate: Path

    def arguments(self) -> list[str]:
        return [self.host, str(self.port), self.user, self.password, self.database]


@dataclass(frozen=True)
class SqlServerDriver:
    """A driver with one way to encrypt. `encrypted` is how the server sees that; `lacks` are tasks that it has not."""

    name: str
    encryption: str
    encrypted: str
    lacks: frozenset[str] = frozenset()
    answers: Mapping[str, str] | None = None  # that differ, by the types of its language
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "-".join([self.name, self.encryption, *(option.replace("=", "-") for option in self.options)])

    def expected(self) -> str:
        """Return what its program prints."""
        answers = {**TASKS, **(self.answers or {})}
        return "".join(f"{task}: {answer}\n" for task, answer in answers.items() if task not in self.lacks)

    def command(self, address: DriverAddress) -> list[str]:
        """Return the command that runs its tasks."""
        arguments = address.arguments()
        if self.name == "tedious":
            program = PROGRAMS / "mssql_node" / "mssql_tasks.mjs"
            folder = str(installed_tool("mssql-node"))
            return [node(), str(program), folder, *arguments, self.encryption, str(address.authority)]
        if self.name == "go-mssqldb":
            return [str(go_program()), *arguments, self.encryption, str(address.authority)]
        if self.name == "jdbc":
            return [*java_command("MssqlTasks"), *arguments, self.encryption, *self.options]
        verified = address.certificate if self.name == "odbc" else address.authority
        program = PROGRAMS / "mssql_python" / "mssql_tasks.py"
        return [sys.executable, str(program), self.name, *arguments, self.encryption, str(verified)]


_JAVA_TIMES: Final = "2024-02-29 2024-02-29 13:14:15.123 2024-02-29 13:14:15.1234567 13:14:15"
_NODE_TIMES: Final = "2024-02-29 00:00:00.000 2024-02-29 13:14:15.123 2024-02-29 13:14:15.123 1970-01-01 13:14:15.000"
_GO_TIMES: Final = (
    "2024-02-29 00:00:00.000000 2024-02-29 13:14:15.123000 2024-02-29 13:14:15.123456 0001-01-01 13:14:15.000000"
)
_GO_DECIMALS: Final = (
    "31322e3530 332e32353030"  # it returns decimals as the bytes of their text, and GUIDs as they come
)
_NODE: Final = {"types": _VALUES.format(decimal="12.5 3.25", times=_NODE_TIMES, guid=_GUID)}
_GO: Final = {"types": _VALUES.format(decimal=_GO_DECIMALS, times=_GO_TIMES, guid="ff19966f868b11d0b42d00c04fc964ff")}
_JAVA: Final = {
    "types": _VALUES.format(decimal="12.5 3.25", times=_JAVA_TIMES, guid=_GUID),
    "table value": "0=ü0 1=ü1",
}
_NODE_LACKS: Final = frozenset({"batch", "scrolled", "schema"})
_GO_LACKS: Final = frozenset({"batch", "cancelled rows", "reset", "scrolled", "schema"})
_JAVA_LACKS: Final = frozenset({"cancelled rows", "reset"})

DRIVERS: Final = (
    SqlServerDriver("pymssql", "login", "login", _MORE),
    SqlServerDriver("pytds", "no", "none", _MORE),
    SqlServerDriver("pytds", "login", "login", _MORE),
    SqlServerDriver("pytds", "yes", "all", _MORE),
    SqlServerDriver("odbc", "login", "login", _MORE),
    SqlServerDriver("odbc", "yes", "all", _MORE),
    SqlServerDriver("odbc", "strict", "strict", _MORE),
    SqlServerDriver("tedious", "no", "none", _NODE_LACKS, _NODE),
    SqlServerDriver("tedious", "yes", "all", _NODE_LACKS, _NODE),
    SqlServerDriver("tedious", "strict", "strict", _NODE_LACKS, _NODE),
    SqlServerDriver("go-mssqldb", "disable", "none", _GO_LACKS, _GO),
    SqlServerDriver("go-mssqldb", "true", "all", _GO_LACKS, _GO),
    # It writes the columns of a bulk load as TDS 7.1 has them, since the version 8.0 is a smaller number.
    SqlServerDriver("go-mssqldb", "strict", "strict", _GO_LACKS | {"bulk"}, _GO),
    SqlServerDriver("jdbc", "false", "login", _JAVA_LACKS, _JAVA),
    SqlServerDriver("jdbc", "true", "all", _JAVA_LACKS, _JAVA),
    SqlServerDriver("jdbc", "true", "all", _JAVA_LACKS, _JAVA, ("packetSize=512",)),
)


def run_program(command: list[str], folder: Path, *, timeout: float = 300) -> str:
    """Run a program of a driver. Its failure is the test's."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout, env=clean_environment(), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@lru_cache
def go_program() -> Path:
    """Return the program with go-mssqldb, which is built once."""
    program = _built("mssql-go") / "tasks"
    run_program([need("go", "golang-go"), "build", "-o", str(program), "."], PROGRAMS / "mssql_go")
    return program


@lru_cache
def java_command(name: str) -> tuple[str, ...]:
    """Return how a program with JDBC is started."""
    jars, folder = installed_tool("mssql-jdbc"), _built("mssql-java")
    source = str(PROGRAMS / "mssql_java" / f"{name}.java")
    run_program([need("javac", "default-jdk-headless"), "-cp", f"{jars}/*", "-d", str(folder), source], folder)
    return need("java", "default-jdk-headless"), "-cp", f"{folder}:{jars}/*", name


def _built(name: str) -> Path:
    import atexit
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix=f"postern-{name}-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
