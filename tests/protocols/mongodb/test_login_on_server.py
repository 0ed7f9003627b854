"""Logins with MongoDB's own driver and at a real server: PyMongo, through the gateway's two logins, to SecantusDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymongo
import pytest
from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError, ServerSelectionTimeoutError
from tests.support.certificates import issue
from tests.support.mongodb import OLD, PASSWORD, USER, MongoServer, client_certificate, running_mongodb, server_tls
from tests.support.mongodb_gateway import ANN, SECRET, SplicingFronts, dial, keys, listening_gate, tunnel_request

from postern.errors import Unavailable
from postern.protocols.gateway_queries import TargetRefused


@pytest.fixture(scope="module")
def mongodb() -> Iterator[MongoServer]:
    with running_mongodb() as server:
        yield server


@pytest.fixture(scope="module")
def secured() -> Iterator[MongoServer]:
    with running_mongodb(certificate=issue("localhost"), client_certificate=client_certificate("app")) as server:
        yield server


async def test_target_login_succeeds_on_a_server(mongodb: MongoServer) -> None:
    target = await dial(keys(mongodb))
    target.stream.close()
    assert target.parameters["kind"] == "replica_set"
    assert target.parameters["version"].startswith("8.")
    assert int(target.parameters["max_wire_version"]) >= 21


async def test_target_login_with_the_default_of_tls_succeeds_on_a_server_without_it(mongodb: MongoServer) -> None:
    (await dial(keys(mongodb, SSLMODE=""))).stream.close()


async def test_target_login_by_connection_string_succeeds_on_a_server(mongodb: MongoServer) -> None:
    uri = f"mongodb://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{mongodb.port}/shop?authSource=admin"
    (await dial({"CONNECTION_STRING": uri})).stream.close()


@pytest.mark.parametrize("change", [{"PASS": "wrong"}, {"USER": "nobody"}, {"AUTHSOURCE": "shop"}])
async def test_target_login_reports_a_wrong_credential_of_a_server(
    mongodb: MongoServer, change: Mapping[str, str]
) -> None:
    with pytest.raises(TargetRefused) as refused:
        await dial(keys(mongodb, **change))
    assert refused.value.refuses_login


async def test_mechanism_that_a_server_does_not_have_is_an_error(mongodb: MongoServer) -> None:
    with pytest.raises(Unavailable):
        await dial(keys(mongodb, MECHANISM="SCRAM-SHA-1"))


async def test_target_login_over_tls_succeeds_on_a_standalone_server() -> None:
    issued = issue("localhost")
    with running_mongodb(standalone=True, certificate=issued) as server:
        more = {"HOST": "localhost", "SSLMODE": "verify-full", "SSLROOTCERT": issued.authority}
        target = await dial(keys(server, **more))
        target.stream.close()
        assert target.parameters["kind"] == "standalone"
        (await dial(keys(server, SSLMODE="prefer"))).stream.close()


Client = pymongo.AsyncMongoClient[dict[str, Any]]


def connect(port: int, **options: Any) -> Client:
    defaults = {"username": ANN, "password": SECRET, "serverSelectionTimeoutMS": 10_000, "appName": "shop"}
    return pymongo.AsyncMongoClient("localhost", port, **{**defaults, **options})


@pytest.mark.parametrize("load_balanced", [True, False])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", None])
async def test_driver_logs_in_and_works(mongodb: MongoServer, load_balanced: bool, mechanism: str | None) -> None:
    fronts = SplicingFronts(mongodb)
    more = {"authMechanism": mechanism} if mechanism else {}
    async with listening_gate(fronts) as port, connect(port, loadBalanced=load_balanced, **more) as client:
        await client.shop.customers.insert_one({"name": "ann"})
        assert await client.shop.customers.count_documents({"name": "ann"}) >= 1
        assert (await client.admin.command("connectionStatus"))["authInfo"]["authenticatedUsers"] == [
            {"user": USER, "db": "admin"}
        ]
    assert fronts.starts[0].parameters == {"application": "shop", "load_balanced": "yes" if load_balanced else ""}
    assert not fronts.refused


@pytest.mark.parametrize("source", ["admin", "shop"])
async def test_any_database_is_accepted_as_the_source_of_the_login(mongodb: MongoServer, source: str) -> None:
    async with listening_gate(SplicingFronts(mongodb)) as port, connect(port, authSource=source) as client:
        assert (await client.admin.command("ping"))["ok"] == 1


async def test_driver_logs_in_over_tls(mongodb: MongoServer, tmp_path: Path) -> None:
    issued = issue("localhost")
    (tmp_path / "authority.pem").write_text(issued.authority)
    context = server_tls(issued, tmp_path)
    tls = {"tls": True, "tlsCAFile": str(tmp_path / "authority.pem")}
    async with listening_gate(SplicingFronts(mongodb), context, require_tls=True) as port:
        async with connect(port, loadBalanced=True, **tls) as client:
            assert (await client.admin.command("ping"))["ok"] == 1
        async with connect(port, **tls) as client:
            assert (await client.admin.command("ping"))["ok"] == 1


@pytest.mark.parametrize("load_balanced", [True, False])
async def test_driver_without_tls_is_told_that_it_is_required(
    mongodb: MongoServer, tmp_path: Path, load_balanced: bool
) -> None:
    context = server_tls(issue("localhost"), tmp_path)
    async with listening_gate(SplicingFronts(mongodb), context, require_tls=True) as port:
        options = {"loadBalanced": load_balanced, "serverSelectionTimeoutMS": 1000}
        async with connect(port, **options) as client:
            with pytest.raises(PyMongoError, match="add tls=true to the connection string"):
                await client.admin.command("ping")


@pytest.mark.parametrize("who", [{"password": "wrong"}, {"username": "nobody"}])
@pytest.mark.parametrize("load_balanced", [True, False])
async def test_driver_is_told_that_its_credential_is_wrong(
    mongodb: MongoServer, who: Mapping[str, str], load_balanced: bool
) -> None:
    async with (
        listening_gate(SplicingFronts(mongodb)) as port,
        connect(port, loadBalanced=load_balanced, **who) as client,
    ):
        with pytest.raises(OperationFailure, match="the user name or password is wrong") as failed:
            await client.admin.command("ping")
    assert failed.value.code == 18


async def test_driver_with_another_mechanism_is_told_which_one_to_use(mongodb: MongoServer) -> None:
    async with listening_gate(SplicingFronts(mongodb)) as port, connect(port, authMechanism="SCRAM-SHA-1") as client:
        with pytest.raises(OperationFailure, match="authMechanism=SCRAM-SHA-256"):
            await client.admin.command("ping")


async def test_driver_without_a_credential_is_told_that_commands_need_one(mongodb: MongoServer) -> None:
    async with listening_gate(SplicingFronts(mongodb)) as port, connect(port, username=None, password=None) as client:
        with pytest.raises(OperationFailure, match="Command find requires authentication") as failed:
            await client.shop.customers.find_one()
    assert failed.value.code == 13


async def test_driver_is_told_why_the_target_cannot_be_reached(mongodb: MongoServer) -> None:
    fronts = SplicingFronts(mongodb, failure=Unavailable("the target does not answer"))
    async with listening_gate(fronts) as port, connect(port, loadBalanced=True) as client:
        with pytest.raises(OperationFailure, match="the target does not answer") as failed:
            await client.admin.command("ping")
    assert failed.value.code == 96


async def test_driver_waits_for_a_review_in_its_login(mongodb: MongoServer) -> None:
    fronts = SplicingFronts(mongodb)
    fronts.decided.clear()
    async with listening_gate(fronts) as port, connect(port, loadBalanced=True) as client:
        ping = asyncio.create_task(client.admin.command("ping"))
        done, _ = await asyncio.wait({ping}, timeout=1.0)
        assert not done
        fronts.decided.set()
        assert (await ping)["ok"] == 1


async def test_driver_finds_one_server_whatever_the_target_is(mongodb: MongoServer) -> None:
    async with listening_gate(SplicingFronts(mongodb)) as port, connect(port) as client:
        await client.admin.command("ping")
        topology = client.topology_description
        assert topology.topology_type_name == "Sharded"
        assert [server.address for server in topology.server_descriptions().values()] == [("localhost", port)]


async def test_driver_that_names_a_replica_set_finds_no_server(mongodb: MongoServer) -> None:
    options = {"replicaSet": "secantus", "serverSelectionTimeoutMS": 500}
    async with listening_gate(SplicingFronts(mongodb)) as port, connect(port, **options) as client:
        with pytest.raises((ServerSelectionTimeoutError, ConfigurationError)):
            await client.admin.command("ping")


async def test_driver_with_compression_goes_on_without(mongodb: MongoServer) -> None:
    async with listening_gate(SplicingFronts(mongodb)) as port, connect(port, compressors="zlib") as client:
        assert (await client.admin.command("ping"))["ok"] == 1


@pytest.mark.parametrize("mechanism", ["", "SCRAM-SHA-1"])
async def test_target_login_by_the_older_mechanism_succeeds_on_a_server(mongodb: MongoServer, mechanism: str) -> None:
    (await dial(keys(mongodb, USER=OLD, MECHANISM=mechanism))).stream.close()
    with pytest.raises(TargetRefused) as refused:
        await dial(keys(mongodb, USER=OLD, MECHANISM=mechanism, PASS="wrong"))
    assert refused.value.refuses_login


@pytest.mark.parametrize("user", ["", "CN=app"])
async def test_target_login_by_certificate_succeeds_on_a_server(secured: MongoServer, user: str) -> None:
    assert secured.certificate is not None
    assert secured.client_certificate is not None
    own = secured.client_certificate
    values = {"HOST": f"localhost:{secured.port}", "SSLROOTCERT": secured.certificate.authority}
    values |= {"SSLMODE": "verify-full", "MECHANISM": "MONGODB-X509", "USER": user}
    with pytest.raises(Unavailable, match="needs SSLCERT"):
        await dial(values)
    (await dial({**values, "SSLCERT": own.certificate.decode(), "SSLKEY": own.key.decode()})).stream.close()


async def test_server_that_demands_a_certificate_is_an_error_that_says_so(secured: MongoServer) -> None:
    assert secured.certificate is not None
    tls = {"SSLMODE": "verify-full", "SSLROOTCERT": secured.certificate.authority}
    with pytest.raises(Unavailable, match="if it demands a certificate, set SSLCERT"):
        await dial(keys(secured, HOST="localhost", **tls))


@pytest.mark.parametrize("load_balanced", [True, False])
async def test_driver_in_a_tunnel_needs_no_credential(mongodb: MongoServer, load_balanced: bool) -> None:
    """Its monitors open streams of the tunnel, too: no target is dialled for them."""
    fronts = SplicingFronts(mongodb)
    async with (
        listening_gate(fronts, tunnel=tunnel_request()) as port,
        connect(port, username=None, password=None, loadBalanced=load_balanced) as client,
    ):
        for number in range(3):
            await client.shop.tunnelled.insert_one({"number": number})
        assert await client.shop.tunnelled.count_documents({}) >= 3
    assert len(fronts.starts) == 1


async def test_driver_in_a_tunnel_with_a_credential_is_told_to_leave_it_out(mongodb: MongoServer) -> None:
    async with listening_gate(SplicingFronts(mongodb), tunnel=tunnel_request()) as port, connect(port) as client:
        with pytest.raises(OperationFailure, match="logged in already, by its tunnel"):
            await client.admin.command("ping")
