"""mongosh, through the gateway's two logins, to SecantusDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.support.certificates import issue
from tests.support.mongodb import MongoServer, mongosh, run_mongosh, running_mongodb, server_tls
from tests.support.mongodb_gateway import ANN, SECRET, SplicingFronts, listening_gate, tunnel_request

from postern.domain.secret import Secret
from postern.protocols.clients import NativeCredential
from postern.protocols.mongodb.mongodb_client import carried_line, mongodb_uri

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(mongosh() is None, reason="no mongosh: scripts/install-services mongosh gets it from npm"),
]
INSERT = "db.customers.insertOne({name: 'ann'}); print('there are', db.customers.countDocuments({}))"


@pytest.fixture(scope="module")
def mongodb() -> Iterator[MongoServer]:
    with running_mongodb() as server:
        yield server


@pytest.mark.parametrize("asks", [False, True])
async def test_mongosh_logs_in_with_the_connection_string_that_it_is_given(
    mongodb: MongoServer, tmp_path: Path, asks: bool
) -> None:
    issued = issue("localhost")
    authority = tmp_path / "some one.pem"
    authority.write_text(issued.authority)
    fronts = SplicingFronts(mongodb)
    async with listening_gate(fronts, server_tls(issued, tmp_path), require_tls=True) as port:
        password = None if asks else Secret(SECRET)
        uri = mongodb_uri(NativeCredential(ANN, password, "localhost", port, "shop", authority))
        code, shown = await run_mongosh(uri, INSERT, tmp_path, typed=f"{SECRET}\n" if asks else "")
    assert code == 0, shown
    assert "there are" in shown
    assert fronts.starts[0].parameters["load_balanced"] == "yes"
    assert "mongosh" in fronts.starts[0].parameters["application"]


@pytest.mark.parametrize("options", ["authMechanism=SCRAM-SHA-256", ""])
async def test_mongosh_with_monitors_logs_in(mongodb: MongoServer, tmp_path: Path, options: str) -> None:
    async with listening_gate(SplicingFronts(mongodb)) as port:
        uri = f"mongodb://{ANN}:{quote(SECRET)}@localhost:{port}/shop?{options}"
        code, shown = await run_mongosh(uri, INSERT, tmp_path)
    assert code == 0, shown
    assert "there are" in shown


async def test_mongosh_shows_why_it_cannot_log_in(mongodb: MongoServer, tmp_path: Path) -> None:
    async with listening_gate(SplicingFronts(mongodb)) as port:
        uri = f"mongodb://{ANN}:wrong@localhost:{port}/shop?loadBalanced=true&authMechanism=SCRAM-SHA-256"
        code, shown = await run_mongosh(uri, INSERT, tmp_path)
    assert code == 1
    assert "the user name or password is wrong, or the credential is no longer valid" in shown


async def test_mongosh_shows_that_tls_is_required(mongodb: MongoServer, tmp_path: Path) -> None:
    context = server_tls(issue("localhost"), tmp_path)
    async with listening_gate(SplicingFronts(mongodb), context, require_tls=True) as port:
        uri = f"mongodb://localhost:{port}/shop?serverSelectionTimeoutMS=3000"
        code, shown = await run_mongosh(uri, INSERT, tmp_path)
    assert code == 1
    assert "add tls=true to the connection string" in shown


async def test_mongosh_waits_for_a_review_in_its_login(mongodb: MongoServer, tmp_path: Path) -> None:
    """Longer than it waits for a connection, which is 2 seconds here."""
    fronts = SplicingFronts(mongodb)
    fronts.decided.clear()
    async with listening_gate(fronts) as port:
        options = "loadBalanced=true&authMechanism=SCRAM-SHA-256&connectTimeoutMS=2000&serverSelectionTimeoutMS=2000"
        uri = f"mongodb://{ANN}:{quote(SECRET)}@localhost:{port}/shop?{options}"
        running = asyncio.create_task(run_mongosh(uri, INSERT, tmp_path))
        await asyncio.sleep(8)
        fronts.decided.set()
        code, shown = await running
    assert code == 0, shown


@pytest.mark.parametrize("monitors", [False, True])
async def test_mongosh_in_a_tunnel_needs_no_credential(mongodb: MongoServer, tmp_path: Path, monitors: bool) -> None:
    fronts = SplicingFronts(mongodb)
    async with listening_gate(fronts, tunnel=tunnel_request()) as port:
        uri = carried_line("localhost", port, "shop").split()[1].strip("'")
        uri = uri.replace("?loadBalanced=true", "") if monitors else uri
        code, shown = await run_mongosh(uri, INSERT, tmp_path)
    assert code == 0, shown
    assert fronts.starts
