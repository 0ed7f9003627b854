"""The own tests of drivers against the server of tests, without a gateway and through one: what passes direct passes
through. That so many pass keeps the server honest: what it lacks is a failure on both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from tests.support.gateway import Gateway
from tests.support.mssql_gateway import mssql_connection
from tests.support.mssql_server import PLAIN_PASSWORD, PLAIN_USER, SqlServer, running_sqlserver
from tests.support.mssql_suites import (
    SQLALCHEMY_DRIVERS,
    SuiteLogin,
    failed_through_only,
    go_suite,
    passing,
    pymssql_suite,
    run_dbapi_tests,
    run_go_tests,
    run_pymssql_tests,
    run_sqlalchemy_tests,
)
from tests.support.pymongo_suite import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

# How many tests pass without a gateway, at least.
PYMSSQL: Final = 280
DBAPI: Final[Mapping[str, int]] = {"pymssql": 28, "pytds": 30, "mssql_python": 30}
SQLALCHEMY: Final[Mapping[str, int]] = {"pymssql": 600, "pytds": 600, "mssqlpython": 600}
# They end the program, need Azure, or wait for a server that is not there.
GO_SKIPPED: Final = (
    r"Benchmark|TestBadServer|TestQueryTimeout|TestDriverWithFailover|TestLcids|TestAccessTokenConnector"
    r"|TestAlwaysEncrypted"
)
GO_PASSING: Final = 180

Run = Callable[[SuiteLogin, Path], Mapping[str, Outcome]]


def _through(gateway: Gateway, server: SqlServer) -> SuiteLogin:
    name = f"suite-{uuid4().hex[:8]}"
    mssql_connection(gateway, name, server, secret={"USER": PLAIN_USER, "PASS": PLAIN_PASSWORD})
    issued = gateway.credential(name)
    return SuiteLogin(gateway.settings.mssql_port, issued.credential.username, issued.password.reveal())


def check(gateway: Gateway, folder: Path, run: Run, least: int) -> None:
    """Run a suite in both ways, each with a server of its own."""
    (folder / "direct").mkdir()
    (folder / "through").mkdir()
    with running_sqlserver() as server:
        direct = run(SuiteLogin(server.port, PLAIN_USER, PLAIN_PASSWORD), folder / "direct")
    with running_sqlserver() as server:
        through = run(_through(gateway, server), folder / "through")
    assert failed_through_only(direct, through) == {}
    assert passing(direct) >= least


def test_pymssqls_own_tests_pass_as_without_a_gateway(gateway: Gateway, tmp_path: Path) -> None:
    package = pymssql_suite()
    check(gateway, tmp_path, lambda login, folder: run_pymssql_tests(package, login, folder), PYMSSQL)


@pytest.mark.parametrize("module", DBAPI)
def test_tests_of_the_db_api_pass_as_without_a_gateway(gateway: Gateway, module: str, tmp_path: Path) -> None:
    check(gateway, tmp_path, lambda login, folder: run_dbapi_tests(module, login, folder), DBAPI[module])


@pytest.mark.parametrize("driver", SQLALCHEMY_DRIVERS)
def test_sqlalchemys_tests_of_dialects_pass_as_without_a_gateway(gateway: Gateway, driver: str, tmp_path: Path) -> None:
    check(gateway, tmp_path, lambda login, folder: run_sqlalchemy_tests(driver, login, folder), SQLALCHEMY[driver])


def test_go_mssqldbs_own_tests_pass_as_without_a_gateway(gateway: Gateway, tmp_path: Path) -> None:
    suite = go_suite(tmp_path)
    check(gateway, tmp_path, lambda login, _: run_go_tests(suite, login, GO_SKIPPED), GO_PASSING)
