"""A gateway with all of its processes, and a target of every protocol: for what follows a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import psycopg
from tests.support.archiver_process import Archiver
from tests.support.aws_ways import Cloudwatch, Dynamodb, aws_targets
from tests.support.features import Http, Mongodb, Mssql, Mysql, Oracle, Postgres, SshCommand, SshShell, Way
from tests.support.gateway import Gateway
from tests.support.http_gateway import web_app
from tests.support.mariadb import MariaDbServer
from tests.support.mongodb import MongoServer
from tests.support.mssql_server import SqlServer
from tests.support.oracledb.running_server import OracleTestServer
from tests.support.postgres import PostgresServer, free_port
from tests.support.ssh_clients import Clients
from tests.support.sshds import sshd
from tests.support.terminals import ApiProcess

from postern.domain.sessions.session import Session
from postern.proof.export_reading import verify_package
from postern.proof.proof_findings import VerificationReport


class Targets(NamedTuple):
    """Servers that tests share. `direct` goes to PostgreSQL around the gateway."""

    postgres: PostgresServer
    direct: psycopg.Connection
    maria: MariaDbServer
    mssql: SqlServer
    oracle: OracleTestServer
    mongo: MongoServer


@dataclass
class WholeSite:
    """A gateway with an archiver, which writes the ledger, and an API with its administrator. `greeter` is the port of
    a server that speaks first."""

    gateway: Gateway
    ways: dict[type[Way], Way]
    clients: Clients
    folder: Path
    greeter: int
    api: ApiProcess
    administrator: httpx.Client

    def export_file(self, around: Session | None = None) -> Path:
        """Export everything, or the second before and after a session began."""
        gateway, near = self.gateway, timedelta(seconds=1)
        since, until = (around.start_date - near, around.start_date + near) if around else (None, None)

        async def read() -> bytes:
            pieces = await gateway.services.exports.begin(gateway.admin, since, until)
            return b"".join([piece async for piece in pieces])

        path = self.folder / "export.tar"
        path.write_bytes(gateway.call(read()))
        return path

    def export(self, around: Session | None = None) -> VerificationReport:
        """Verify such an export."""
        gateway = self.gateway
        keys = [key.public for key in gateway.call(gateway.services.checkpoints.keys(gateway.admin))]
        return verify_package(self.export_file(around), keys)

    def verify(self) -> VerificationReport:
        """Verify the store, after a checkpoint of all that the ledger has."""
        services = self.gateway.services
        self.gateway.call(services.checkpoints.make(self.gateway.admin))
        return self.gateway.call(services.verifier.verify(self.gateway.admin.org_id))


class WholeGateway(NamedTuple):
    """A gateway with an archiver and an API. `client` is the administrator at the API."""

    gateway: Gateway
    api: ApiProcess
    client: httpx.Client


@contextmanager
def whole_gateway() -> Iterator[WholeGateway]:
    gateway = Gateway(gateway_commands=True, api_port=free_port(), control_port=free_port())
    with ExitStack() as stack:
        stack.callback(gateway.stop)
        gateway.start()
        stack.callback(Archiver(gateway).kill)
        api = ApiProcess(gateway)
        stack.callback(api.kill)
        api.start()
        headers = {"Authorization": f"Bearer {gateway.token.reveal()}"}
        with httpx.Client(base_url=f"{api.url}/api", headers=headers, timeout=60) as client:
            yield WholeGateway(gateway, api, client)


@contextmanager
def whole_site(targets: Targets, folder: Path) -> Iterator[WholeSite]:
    for name in ("sshd", "home"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(sshd(folder / "sshd", {"Subsystem": "sftp internal-sftp"}))
        aws = stack.enter_context(aws_targets())
        whole = stack.enter_context(whole_gateway())
        gateway = whole.gateway
        clients = Clients(gateway, folder / "home")
        ways: dict[type[Way], Way] = {
            Postgres: Postgres(gateway, targets.postgres, targets.direct),
            Mysql: Mysql(gateway, targets.maria),
            Mssql: Mssql(gateway, targets.mssql),
            Oracle: Oracle(gateway, targets.oracle),
            Mongodb: Mongodb(gateway, targets.mongo),
            Http: Http(gateway, stack.enter_context(web_app())),
        }
        ways |= {kind: kind(gateway, aws[kind.subtype]) for kind in (Dynamodb, Cloudwatch)}
        ways |= {kind: kind(gateway, server, clients, folder) for kind in (SshCommand, SshShell)}
        yield WholeSite(gateway, ways, clients, folder, targets.maria.port, whole.api, whole.client)
