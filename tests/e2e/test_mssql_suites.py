"""The own tests of drivers against the server of tests, without a gateway and through one: which of them pass.

What fails is listed with its reason. What passes without a gateway passes through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import pytest
from tests.support.gateway import Gateway
from tests.support.mssql_gateway import mssql_connection
from tests.support.mssql_server import DATABASE, PLAIN_PASSWORD, PLAIN_USER, SqlServer, running_sqlserver
from tests.support.mssql_suites import go_suite, pymssql_suite, run_go_tests, run_pymssql_tests
from tests.support.pymongo_suite import outcomes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_NO_GLOBAL: Final = "the server has no temporary tables that sessions share"
_OTHER_PORT: Final = "the test connects to a port of its own, or by a name in FreeTDS's settings"
_SYNTAX: Final = "the server lacks what the statement uses"
# Tests of pymssql that fail, as patterns of `Class.test`, by their files.
PYMSSQL: Final[Mapping[str, Mapping[str, str]]] = {
    "test_bulk_copy": {r"Test_1021\.test_global_temp_table": _NO_GLOBAL, r"Test_912\.test": _SYNTAX},
    "test_charset": {},
    "test_connection_as_dict": {},
    "test_connection_timeout": {},
    "test_connections": {r"TestCons\.(test_conn_props_override|test_connection_tds_version)": _OTHER_PORT},
    "test_context_managers": {},
    "test_database": {},
    "test_datetime": {r"Test_695\..*": _SYNTAX},
    "test_debug_queries": {},
    "test_err_handle": {},
    "test_parameters": {},
}
_ONE_WRITER: Final = "one transaction that writes makes others wait, which SQL Server does only for the same rows"
_TYPES: Final = "the server lacks a type, a function, a statement or another detail that the test uses"
_TABLE_TYPES: Final = "the server has no types of tables: a procedure cannot declare one"
_OWN_SERVER: Final = "the test needs a server with a certificate, a language, or a login that it can change"
# Tests of go-mssqldb that fail.
GO: Final[Mapping[str, str]] = {
    r"TestConn_BeginTx|TestCustomTimezone|TestCancelDuringRollback": _ONE_WRITER,
    r"TestBulkcopy|TestBulkcopyWithGuidConversion|TestSelect|TestSelectWithGuidConversion": _TYPES,
    r"TestParameterTypes|TestINOUT\w+|TestColumnTypeIntrospection|TestDatetimeAccuracy": _TYPES,
    r"TestSprocWithCursorNoResult|TestClearReturnStatus|TestMessageQueueWithErrors": _TYPES,
    r"TestMultipleErrors|TestProcessQueryNextErrors|TestContext|TestSessionInitSQL": _TYPES,
    r"TestTVP\w*": _TABLE_TYPES,
    r"TestSetLanguage|TestChangePassword|TestConnectError|TestSecureConnection": _OWN_SERVER,
    r"TestLoginWithColumnEncryption|TestDisconnect5|TestLeakedConnections": _OWN_SERVER,
}
# They end the program, need Azure, or wait for a server that is not there.
GO_SKIPPED: Final = (
    r"Benchmark|TestBadServer|TestQueryTimeout|TestDriverWithFailover|TestLcids|TestAccessTokenConnector"
    r"|TestAlwaysEncrypted"
)
GO_PASSING: Final = 180


class Login(NamedTuple):
    """Where a suite logs in."""

    port: int
    user: str
    password: str


def _direct(server: SqlServer, gateway: Gateway) -> Login:
    return Login(server.port, PLAIN_USER, PLAIN_PASSWORD)


def _through_the_gateway(server: SqlServer, gateway: Gateway) -> Login:
    name = f"suite-{uuid4().hex[:8]}"
    mssql_connection(gateway, name, server, secret={"USER": PLAIN_USER, "PASS": PLAIN_PASSWORD})
    issued = gateway.credential(name)
    return Login(gateway.settings.mssql_port, issued.credential.username, issued.password.reveal())


ROUTES: Final = {"direct": _direct, "through the gateway": _through_the_gateway}


@pytest.fixture(params=ROUTES)
def login(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[Login]:
    with running_sqlserver() as server:
        yield ROUTES[request.param](server, gateway)


@pytest.mark.parametrize("file", PYMSSQL)
def test_pymssqls_own_tests_pass(login: Login, file: str, tmp_path: Path) -> None:
    settings = {
        "server": "127.0.0.1",
        "ipaddress": "127.0.0.1",
        "port": str(login.port),
        "username": login.user,
        "password": login.password,
        "database": DATABASE,
    }
    run_pymssql_tests(pymssql_suite(), file, settings, tmp_path / "report.xml")
    ended = outcomes(tmp_path / "report.xml")
    assert any(outcome.kind == "passed" for outcome in ended.values())
    failed = {name: outcome.reason[:500] for name, outcome in ended.items() if outcome.kind == "failed"}
    assert {name: why for name, why in failed.items() if not _explained(name, PYMSSQL[file])} == {}


def test_go_mssqldbs_own_tests_pass(login: Login, tmp_path: Path) -> None:
    user = f"{quote(login.user)}:{quote(login.password)}"
    address = f"sqlserver://{user}@127.0.0.1:{login.port}?database={DATABASE}&encrypt=disable"
    ended = run_go_tests(go_suite(tmp_path), address, GO_SKIPPED)
    assert {name for name, ending in ended.items() if ending == "FAIL" and not _explained(name, GO)} == set()
    assert list(ended.values()).count("PASS") >= GO_PASSING


def _explained(name: str, patterns: Mapping[str, str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
