"""PyMongo's own tests: what passes with a direct connection to the server passes through the gateway.

Each file of the suite runs against a server, and at the same time through a gateway to another server of its own, since
tests make servers fail. EXCEPTIONS lists the tests that end differently, with reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.support.gateway import Gateway
from tests.support.mongodb import PASSWORD, USER, MongoServer, running_mongodb
from tests.support.pymongo_suite import Outcome, SuiteServer, downloaded_suite, outcomes, start_tests

pytestmark = pytest.mark.slow

FILES: Final = (
    *("test_crud_unified", "test_cursor", "test_collection", "test_database", "test_bulk", "test_client_bulk_write"),
    *("test_transactions", "test_transactions_unified", "test_session", "test_sessions_unified", "test_change_stream"),
    *("test_gridfs", "test_gridfs_bucket", "test_gridfs_spec", "test_grid_file", "test_causal_consistency"),
    *("test_retryable_writes", "test_retryable_writes_unified", "test_retryable_reads", "test_retryable_reads_unified"),
    *("test_command_monitoring", "test_run_command", "test_comment", "test_custom_types", "test_raw_bson"),
    *("test_collation", "test_collection_management", "test_index_management", "test_read_write_concern_spec"),
    *("test_versioned_api_integration", "test_examples", "test_threads", "test_heartbeat_monitoring"),
)
# The other files do not run with load balancers.
LOAD_BALANCED: Final = ("test_crud_unified", "test_gridfs_spec")

# Tests that are skipped through the gateway, by the reason that they give: they need another topology than the one that
# the gateway shows, which is a mongos.
TOPOLOGY: Final = re.compile(
    r"not a mongos|[Mm]ust not be a mongos|not connected to a replica set|runOnRequirements not satisfied"
    r"|\$clusterTime not supported|sharded cluster|load balancer",
    re.IGNORECASE,
)
_NO_CLUSTER_TIME: Final = "hello has no $clusterTime: the driver knows it after the first reply of the target"
_OTHER_USERS: Final = (
    "the test creates users at the target and logs in as them; clients of the gateway have credentials"
)
_AGENT_REPEATS: Final = "the agent repeats a login that fails like this, so that the driver sees no failed connection"
_NO_EXHAUST: Final = "the gateway removes exhaustAllowed: the driver's connection is back in its pool between batches"

# Tests that fail through the gateway, as patterns of `Class.test`.
EXCEPTIONS: Final[Mapping[str, str]] = {
    r"TestRawBatch(Command)?Cursor\.test_(find|aggregate)_raw_transaction": _NO_CLUSTER_TIME,
    r"TestCollection\.test_exhaust": _NO_EXHAUST,
    r"TestUnifiedHandshakeError\..*": _AGENT_REPEATS,
    r"TestBulkAuthorization\..*": _OTHER_USERS,
}


@pytest.fixture(scope="module")
def suite() -> Path:
    return downloaded_suite()


@pytest.fixture(scope="module")
def direct() -> Iterator[SuiteServer]:
    with running_mongodb(test_commands=True) as server:
        yield SuiteServer(server.port, "root", PASSWORD)


@pytest.fixture(scope="module")
def target() -> Iterator[MongoServer]:
    with running_mongodb(test_commands=True) as server:
        yield server


@pytest.fixture(scope="module")
def through(target: MongoServer) -> Iterator[SuiteServer]:
    """The suite looks for its user at the server, so the target has a user with the name of the credential."""
    # The target's version, by which the suite chooses tests, and its largest message, where drivers split batches.
    running = Gateway(mongodb_version="8.0", max_statement=48_000_000)
    try:
        running.start()
        secret = {"PORT": str(target.port), "USER": USER, "PASS": PASSWORD, "SSLMODE": "disable", "DB": ""}
        running.connection("suite", secret=secret, subtype="mongodb")
        issued = running.credential("suite")
        user, password = issued.credential.username, issued.password.reveal()
        with target.client() as client:
            client.admin.command("createUser", user, pwd=password, roles=["root"])
        yield SuiteServer(running.settings.mongodb_port, user, password)
    finally:
        running.stop()


def run_both(
    suite: Path, file: str, first: SuiteServer, second: SuiteServer, folder: Path
) -> list[Mapping[str, Outcome]]:
    reports = [folder / "first.xml", folder / "second.xml"]
    started = [
        start_tests(suite, file, server, report) for server, report in zip((first, second), reports, strict=True)
    ]
    try:
        for process in started:
            process.wait(1500)
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [outcomes(report) for report in reports]


def differences(
    expected: Mapping[str, Outcome], actual: Mapping[str, Outcome], exceptions: Mapping[str, str]
) -> dict[str, str]:
    """Return the tests that passed in the first run only, but for those that are explained."""
    different = {}
    for name, outcome in expected.items():
        other = actual.get(name, Outcome("missing", ""))
        if outcome.kind != "passed" or other.kind == "passed":
            continue
        if other.kind == "skipped" and TOPOLOGY.search(other.reason):
            continue
        if not any(re.fullmatch(pattern, name) for pattern in exceptions):
            different[name] = f"{other.kind}: {other.reason[:500]}"
    return different


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("file", FILES)
def test_what_passes_directly_passes_through_the_gateway(
    suite: Path, direct: SuiteServer, through: SuiteServer, file: str, tmp_path: Path
) -> None:
    expected, actual = run_both(suite, file, direct, through, tmp_path)
    assert any(outcome.kind == "passed" for outcome in actual.values())
    assert differences(expected, actual, EXCEPTIONS) == {}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("file", LOAD_BALANCED)
def test_what_passes_directly_passes_with_load_balanced_clients(
    suite: Path, direct: SuiteServer, through: SuiteServer, file: str, tmp_path: Path
) -> None:
    expected, actual = run_both(suite, file, direct, replace(through, load_balanced=True), tmp_path)
    assert any(outcome.kind == "passed" for outcome in actual.values())
    assert differences(expected, actual, EXCEPTIONS) == {}
