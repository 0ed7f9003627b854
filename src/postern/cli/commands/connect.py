from __future__ import annotations

import os
from pathlib import Path

import click

from postern.cli import profile
from postern.cli.api import client
from postern.cli.output import emit, json_option, local_time
from postern.client.psql import psql_line
from postern.client.shapes import IssuedCredential, ServerInfo
from postern.domain.secret import Secret
from postern.errors import Invalid


@click.command()
@click.argument("name")
@click.option("--native", is_flag=True, required=True, help="Issue a credential and print the line to paste.")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="How long the credential is valid.")
@json_option
def connect(name: str, native: bool, hours: float | None, as_json: bool) -> None:
    """Reach a connection with a native client.

    With --native a connection credential is issued, and the psql line that uses it is printed: it goes straight to
    the gateway, and works in DBeaver, JDBC and scripts, too.

    \b
    postern connect shop-demo --native
    eval "$(postern connect shop-demo --native --hours 8)"
    """
    with client() as api:
        info = api.serverinfo()
        subtype = api.connections.get(name)["subtype"]
        if subtype != "postgres":
            raise Invalid(f"connection {name!r} is of subtype {subtype!r}, which has no native access yet")
        made = api.credentials.issue(name, None if hours is None else round(hours * 3600))
    authority = _keep_authority(info)
    address = {**made, "psql": _line(info, made, authority), "sslrootcert": str(authority)}
    emit(address, as_json, lambda value: click.echo(value["psql"]))
    if not as_json:
        click.echo(f"valid until {local_time(made['expires_at'])}; the password is shown this once", err=True)


def _keep_authority(info: ServerInfo) -> Path:
    """The gateway's CA certificate as a file, as psql wants it."""
    file = profile.path(os.environ).with_name("ca.crt")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(info["ca_certificate"] or "")
    return file


def _line(info: ServerInfo, made: IssuedCredential, authority: Path) -> str:
    return psql_line(
        made["username"],
        Secret(made["password"]),
        info["postgres_host"],
        info["postgres_port"],
        made["database"] or "postgres",
        authority,
    )
