from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from postern.cli import profile
from postern.cli.output import emit, json_option
from postern.cli.profile import Profile
from postern.client.client import Client
from postern.client.http import Http
from postern.domain.secret import Secret

DEFAULT_URL = "http://localhost:7480"


@click.command()
@click.argument("url", required=False)
@click.option("--email", help="Who you are; asked for when missing.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="CA certificate to trust.")
@json_option
def login(url: str | None, email: str | None, password_stdin: bool, ca: Path | None, as_json: bool) -> None:
    """Log in to a gateway.

    URL is the gateway's address; without it the last one is used, else http://localhost:7480.

    \b
    postern login
    postern login https://gateway.example.com:7480 --ca ca.crt
    postern login --email me@example.com --password-stdin < password-file
    """
    known = profile.find(os.environ)
    address = (url or (known.api_url if known else DEFAULT_URL)).rstrip("/").removesuffix("/api")
    same = known if known and known.api_url == address else None
    authority = ca.read_text() if ca else same.authority if same else ""
    email = email or click.prompt("E-mail", default=(same.email if same else "") or None, err=True)
    password = Secret(sys.stdin.readline().rstrip("\r\n") if password_stdin else _ask_password())
    with Http(address, authority=authority or None) as http:
        token = Client(http).login(email, password, _ask_code)
    with Http(address, token, authority=authority or None) as http:
        user = Client(http).userinfo()
    file = profile.save(os.environ, Profile(address, token, user["email"], authority))
    emit(
        {"api_url": address, "email": user["email"], "config": str(file)},
        as_json,
        lambda value: click.echo(f"Logged in to {value['api_url']} as {value['email']}."),
    )


def _ask_password() -> str:
    answer: str = click.prompt("Password", hide_input=True, err=True)
    return answer


def _ask_code() -> Secret:
    return Secret(click.prompt("Code of your authenticator app, or a recovery code", hide_input=True, err=True))


@click.command()
@json_option
def logout(as_json: bool) -> None:
    """Forget the login.

    Removes the token from this machine. Connection credentials stay valid; `postern credentials revoke` ends them.
    """
    forgotten = profile.forget(os.environ)
    emit(
        {"logged_out": forgotten},
        as_json,
        lambda _: click.echo("Logged out." if forgotten else "Nobody was logged in."),
    )
