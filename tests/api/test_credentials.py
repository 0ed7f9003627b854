"""Connection credentials: the lines for clients, and the caller's own credentials of all connections."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import INFO, TARGET, Api, message

from postern.api.application import serve
from postern.api.info import NativePort, ServerAddresses
from postern.api.schemas.targets.client_line_schemas import client_lines, gateway_identity
from postern.domain.identity.credential import Credential, Issued
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType
from postern.store.ports.common_ports import Topic


async def issue(api: Api, connection: str = "shop", seconds: int = 3600) -> dict[str, Any]:
    body = {"access_duration_seconds": seconds}
    answer = await api.as_ann.post(f"/connections/{connection}/credentials", json=body)
    assert answer.status_code == 201, answer.text
    issued: dict[str, Any] = answer.json()
    return issued


async def test_new_credential_has_a_line_for_each_client(api: Api) -> None:
    await api.make_connection(secret=TARGET | {"envvar:DB": "c2hvcA=="})
    issued = await issue(api)
    lines = {line["name"]: line for line in issued["lines"]}
    assert list(lines) == ["psql", "uri", "jdbc", "sqlalchemy", "django", "env", "pgpass"]
    user, address = issued["username"], f"{issued['host']}:{issued['port']}"
    assert lines["psql"] == {
        "name": "psql",
        "text": f'psql "postgresql://{user}@{address}/shop?sslmode=verify-full&sslrootcert=postern-ca.crt"',
        "password": "prompt",
        "variable": "PGPASSWORD",
    }
    with_password = [name for name, line in lines.items() if issued["password"] in line["text"]]
    assert with_password == [name for name, line in lines.items() if line["password"] == "line"] == ["env", "pgpass"]
    assert issued["gateway_identity"] == {
        "ca_certificate": INFO.ca_certificate,
        "ca_file": "postern-ca.crt",
        "ssh_known_hosts": None,
        "ssh_host_key_fingerprint": None,
    }


async def test_lines_name_no_file_if_systems_trust_the_certificate(api: Api) -> None:
    serve(api.app, api.services, replace(INFO, ca_certificate=None))
    await api.make_connection()
    issued = await issue(api)
    assert "sslrootcert=system" in issued["lines"][0]["text"]
    assert (issued["gateway_identity"]["ca_certificate"], issued["gateway_identity"]["ca_file"]) == (None, None)


def issued_for(subtype: str) -> Issued:
    connection = Connection(uuid4(), uuid4(), "target", ConnectionType.DATABASE, subtype, uuid4())
    created_at = datetime(2026, 1, 2, tzinfo=UTC)
    credential = Credential(
        uuid4(), connection.org_id, uuid4(), connection.id, "ann-target-abcdef", created_at, expires_at=None
    )
    return Issued(credential, Secret("s3cret"), connection)


def addresses(subtype: str, port: int) -> ServerAddresses:
    native = {subtype: NativePort(True, "gateway.example.com", port)}
    urls = ("http://localhost", native, INFO.tunnel_url, INFO.grpc_url)
    return ServerAddresses(*urls, INFO.ca_certificate, gateway_commands=False, ssh_host_key=INFO.ssh_host_key)


def test_mysql_line_without_a_database_names_none() -> None:
    lines = {line.name: line.text for line in client_lines(issued_for("mysql"), addresses("mysql", 7306))}
    assert lines["mysql"].startswith("mysql --host=gateway.example.com --port=7306 ")
    assert "--database" not in lines["mysql"]
    assert "--ssl-ca=postern-ca.crt" in lines["mysql"]


@pytest.mark.parametrize(("port", "host"), [(22, "gateway.example.com"), (7422, "[gateway.example.com]:7422")])
def test_ssh_clients_get_the_host_key_of_the_gateway(port: int, host: str) -> None:
    (line,) = client_lines(issued_for("ssh"), addresses("ssh", port))
    assert line.text == f"ssh -p {port} ann-target-abcdef@gateway.example.com"
    identity = gateway_identity("ssh", addresses("ssh", port))
    assert identity.ssh_known_hosts == f"{host} {INFO.ssh_host_key}"
    assert str(identity.ssh_host_key_fingerprint).startswith("SHA256:")
    assert (identity.ca_certificate, identity.ca_file) == (None, None)


async def test_own_credentials_of_all_connections_are_listed(api: Api) -> None:
    await api.make_connection()
    await api.make_connection("stock")
    first, second = await issue(api), await issue(api, "stock")
    assert (await api.as_bob.post("/connections/shop/credentials")).status_code == 201
    listed = (await api.as_ann.get("/credentials", params={"limit": 1})).json()
    rest = (await api.as_ann.get("/credentials", params={"cursor": listed["next_cursor"]})).json()
    shown = [*listed["data"], *rest["data"]]
    assert {one["id"]: one["connection_name"] for one in shown} == {first["id"]: "shop", second["id"]: "stock"}
    assert (listed["total"], rest["next_cursor"]) == (2, None)
    assert "password" not in str(shown)


async def test_own_credential_is_revoked_without_its_connection(api: Api) -> None:
    await api.make_connection()
    issued, kept = await issue(api), await issue(api, seconds=60)
    path = f"/credentials/{issued['id']}/revoke"
    for client in (api.as_bob, api.as_admin):  # an administrator names the connection
        message(await client.post(path), 404)
    for _ in range(2):
        assert (await api.as_ann.post(path)).status_code == 204
    assert {"credential_id": issued["id"]} in api.world.signals.of(Topic.CREDENTIAL_REVOKED)
    status = {one["id"]: one["status"] for one in (await api.as_ann.get("/credentials")).json()["data"]}
    assert status == {issued["id"]: "revoked", kept["id"]: "active"}
    active = (await api.as_ann.get("/credentials?status=active")).json()
    assert [one["id"] for one in active["data"]] == [kept["id"]]
    api.world.clock.forward(seconds=60)
    assert (await api.as_ann.get("/credentials?status=active")).json()["data"] == []
    entries = (await api.as_admin.get("/audit/logs?resource_type=credentials&action=revoke&outcome=success")).json()
    (changed,) = [entry["after"] for entry in entries["data"] if entry["after"]]  # the second one changed nothing
    assert (changed["id"], changed["revoked_at"] is None) == (issued["id"], False)
    message(await api.as_ann.post("/credentials/made-up/revoke"), 404)


async def test_credential_of_a_hidden_connection_can_still_be_revoked(api: Api) -> None:
    await api.make_connection()
    issued = await issue(api)
    assert (await api.as_admin.put("/feature-flags/access-control", json={"enabled": True})).status_code == 200
    message(await api.as_ann.get("/connections/shop"), 404)
    assert [one["id"] for one in (await api.as_ann.get("/credentials")).json()["data"]] == [issued["id"]]
    assert (await api.as_ann.post(f"/credentials/{issued['id']}/revoke")).status_code == 204


async def test_credential_of_a_tcp_service_is_a_certificate_that_only_its_answer_contains(api: Api) -> None:
    api.services.credentials._enforceable |= {"tcp"}
    fields = {"type": ConnectionType.APPLICATION, "subtype": "tcp"}
    await api.world.add_connection("cache", agent=api.agent, **fields)
    issued = await issue(api, "cache")
    certificate = issued["client_certificate"]
    assert certificate["certificate"].startswith("-----BEGIN CERTIFICATE-----")
    assert certificate["private_key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert certificate["serial_number"] == f"{UUID(issued['id']).int:x}"
    assert issued["password"] == ""
    lines = {line["name"]: line for line in issued["lines"]}
    assert lines["redis-cli"] == {
        "name": "redis-cli",
        "text": "redis-cli -h localhost -p 7460 --tls --cert cache.crt --key cache.key --cacert postern-ca.crt",
        "password": "certificate",
        "variable": "",
    }
    assert list(lines) == ["openssl", "redis-cli", "curl", "socat"]
    assert (certificate["certificate_file"], certificate["key_file"]) == ("cache.crt", "cache.key")
    secret_line = certificate["private_key"].splitlines()[1]
    for path in ("/audit/logs", "/connections/cache/credentials"):
        answer = await api.as_admin.get(path)
        assert issued["username"] in answer.text
        assert secret_line not in answer.text
        assert "client_certificate" not in answer.text
    await api.make_connection()
    assert (await issue(api, "shop"))["client_certificate"] is None
