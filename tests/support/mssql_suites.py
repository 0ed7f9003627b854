"""The own tests of drivers of SQL Server: those of pymssql, from its source package. They are downloaded, and no part
of this project. python-tds and tedious publish packages without tests."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest
from tests.support.mssql_server import SqlServer

_VERSION: Final = importlib.metadata.version("pymssql")
_PACKAGE: Final = f"pymssql-{_VERSION}"
_SECTION: Final = "SERVER"
TEST_TIMEOUT: Final = 60  # seconds of one test


def pymssql_suite() -> Path:
    """Return the folder with the tests. Without a network they are skipped, visibly."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "postern-tools" / "pymssql-suite"
    folder = cache / _PACKAGE
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    what = ["--no-binary", "pymssql", "--no-deps", "--dest", str(cache), f"pymssql=={_VERSION}"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", *what], capture_output=True, text=True, check=False
    )
    if done.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip(f"pymssql's source package cannot be downloaded: {done.stderr[-200:]}")
    with tarfile.open(cache / f"{_PACKAGE}.tar.gz") as package:
        # Without the library itself: the installed one is tested.
        members = [member for member in package.getmembers() if member.name.startswith(f"{_PACKAGE}/tests/")]
        package.extractall(cache, members=members, filter="data")
    return folder


def run_pymssql_tests(folder: Path, file: str, login: dict[str, str], report: Path) -> None:
    """Run the tests of one file. `login` has server, port, username, password and database; `report` is written as
    JUnit does it."""
    settings = "".join(f"{name} = {value.replace('%', '%%')}\n" for name, value in login.items())
    (folder / "tests" / "tests.cfg").write_text(f"[{_SECTION}]\n{settings}")
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--timeout={TEST_TIMEOUT}", "-c", "/dev/null", "--rootdir=."]
    command = [sys.executable, "-m", "pytest", *options, f"--pymssql-section={_SECTION}", f"--junitxml={report}"]
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTEST_ADDOPTS"}}
    with report.with_suffix(".log").open("wb") as log:
        subprocess.run([*command, f"tests/{file}.py"], cwd=folder, env=kept, stdout=log, stderr=log, check=False)


def login_of(server: SqlServer, user: str, password: str, database: str) -> dict[str, str]:
    address = {"server": "127.0.0.1", "ipaddress": "127.0.0.1", "port": str(server.port)}
    return {**address, "username": user, "password": password, "database": database}
