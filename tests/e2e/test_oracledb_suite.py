"""python-oracledb's own tests: what passes with a direct connection to the server of tests passes through the gateway.

The server lacks much that these tests use, so many fail on both routes. EXCEPTIONS has those that only pass directly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.support.gateway import Gateway
from tests.support.oracle_gateway import oracle_connection, plain_dsn
from tests.support.oracledb.running_server import running_oracle
from tests.support.oracledb_suite import make_schema, oracledb_suite, run_oracledb_tests
from tests.support.pymongo_suite import outcomes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# Files, and how many of their tests pass directly at least.
GROUPS: Final[Mapping[str, tuple[tuple[str, ...], int]]] = {
    "data_types": (
        (
            "1000_cursor",
            "1100_date",
            "1700_nchar",
            "1800_number",
            "2000_char",
            "1500_lobs",
            "1600_longs",
            "2100_timestamp",
            "3400_rowid",
        ),
        70,
    ),
    "cursor": (
        ("1000_execute", "1200_executemany", "2000_var", "2100_arrayvar", "2200_dml_returning", "1800_other"),
        140,
    ),
    "connection": (("1000_basic",), 30),
    "hooks": (("1000_outputtypehandler", "1100_typehandler", "1300_operation_callbacks"), 80),
    "pool": (("1000_pool",), 40),
    "misc": (("1100_error", "1600_defaults"), 14),
}
_OTHER_NAME: Final = "the test compares the name of the target's user with the one that it logged in as"
# Tests that fail through the gateway alone, as patterns of `file.test`.
EXCEPTIONS: Final[Mapping[str, str]] = {
    r"test_1000_basic\.test_connection_1026": _OTHER_NAME,
    r"test_1000_pool\.test_pool_(1025|1051)": _OTHER_NAME,
    r"test_1000_basic\.test_connection_1043": "the test uses a proxy user, which the gateway refuses",
}


@pytest.mark.parametrize("group", GROUPS)
def test_oracledbs_own_tests_pass_through_the_gateway(gateway: Gateway, group: str, tmp_path: Path) -> None:
    files, passing = GROUPS[group]
    suite = oracledb_suite()
    with running_oracle() as server:
        make_schema(server)
        oracle_connection(gateway, f"suite-{group}", server)
        issued = gateway.credential(f"suite-{group}")
        logins = {
            "direct": (server.user, server.password, server.easy_connect),
            "through": (issued.credential.username, issued.password.reveal(), plain_dsn(gateway)),
        }
        ended = {}
        for route, values in logins.items():
            login = dict(zip(("MAIN_USER", "MAIN_PASSWORD", "CONNECT_STRING"), values, strict=True))
            run_oracledb_tests(suite, [f"{group}/test_{file}" for file in files], login, tmp_path / f"{route}.xml")
            ended[route] = outcomes(tmp_path / f"{route}.xml")
    passed = {name for name, outcome in ended["direct"].items() if outcome.kind == "passed"}
    lost = {name: ended["through"][name] for name in passed if ended["through"][name].kind != "passed"}
    assert {name: outcome for name, outcome in lost.items() if not _explained(name)} == {}
    assert len(passed) >= passing


def _explained(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in EXCEPTIONS)
