"""The own tests of drivers of SQL Server: those of pymssql and of go-mssqldb, from their packages. They are downloaded,
and no part of this project. python-tds, tedious and JDBC publish packages without tests."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest
from tests.support.clients import clean_environment, need
from tests.support.mssql_drivers import PROGRAMS

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
    folder = Path(shutil.copytree(folder, report.with_suffix(".suite")))  # its settings are a file in it
    settings = "".join(f"{name} = {value.replace('%', '%%')}\n" for name, value in login.items())
    (folder / "tests" / "tests.cfg").write_text(f"[{_SECTION}]\n{settings}")
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--timeout={TEST_TIMEOUT}", "-c", "/dev/null", "--rootdir=."]
    command = [sys.executable, "-m", "pytest", *options, f"--pymssql-section={_SECTION}", f"--junitxml={report}"]
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTEST_ADDOPTS"}}
    with report.with_suffix(".log").open("wb") as log:
        subprocess.run([*command, f"tests/{file}.py"], cwd=folder, env=kept, stdout=log, stderr=log, check=False)


GO_DRIVER: Final = "github.com/microsoft/go-mssqldb"
_ENDED: Final = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)


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


def run_go_tests(suite: Path, address: str, skipped: str) -> dict[str, str]:
    """Run them. Return how each ended: PASS, FAIL or SKIP."""
    command = [str(suite), "-test.v", "-test.timeout=900s", "-test.skip", skipped]
    environment = clean_environment(SQLSERVER_DSN=address)
    done = subprocess.run(command, cwd=suite.parent, env=environment, capture_output=True, text=True, check=False)
    assert "panic:" not in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
    return {name: ending for ending, name in _ENDED.findall(done.stdout)}
