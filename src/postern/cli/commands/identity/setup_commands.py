"""`postern setup-link` on the gateway's machine, and `postern setup` for the user of the link."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click

from postern.cli.commands.identity.login_commands import keep_login, show
from postern.cli.login import profile
from postern.cli.login.sign_in_methods import Gateway
from postern.cli.options import config_option, load, organisation_option
from postern.cli.printing import emit, json_option
from postern.client.client import Client
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid
from postern.wiring.host import setup_link as wiring
from postern.wiring.program import program_name


@click.command("setup-link")
@click.argument("email", required=False)
@organisation_option("Organisation of the account.  [default: the default organisation]")
@click.option("--home", help="Data folder of the gateway.")
@config_option
@click.option("--reset-second-factors", is_flag=True, help="Also remove the account's second factors.")
@json_option
def setup_link(
    email: str | None,
    organisation: str | None,
    home: str | None,
    config: str | None,
    reset_second_factors: bool,
    as_json: bool,
) -> None:
    """Create a link that sets a password, on the gateway's machine.

    The link is for EMAIL, or for the first administrator. It works once, within 24 hours; older ones stop working. No
    login is needed: run it as the user that runs the gateway, which can read the data folder.

    \b
    postern setup-link
    postern setup-link ann@example.com
    postern setup-link ann@example.com --reset-second-factors
    """
    settings = load("setup-link", config=config, home=home)
    link = wiring.make(settings, email, organisation, reset_second_factors=reset_second_factors)
    answer = {
        "email": link.email,
        "url": link.url.reveal(),
        "token": link.token.reveal(),
        "expires_at": link.expires_at.isoformat(),
    }
    emit(answer, as_json, _print)


def _print(answer: dict[str, str]) -> None:
    click.echo(f"Set-up link for {answer['email']}, which works once until {answer['expires_at']}:\n")
    click.echo(f"    {answer['url']}\n")
    click.echo(f"Open it in a browser, or run: {program_name()} setup '{answer['url']}'")


@click.command()
@click.argument("link")
@click.option("--name", help="Your display name.")
@click.option("--password-stdin", is_flag=True, help="Read the new password from standard input.")
@click.option("--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="CA certificate to trust.")
@json_option
def setup(link: str, name: str | None, password_stdin: bool, ca: Path | None, as_json: bool) -> None:
    """Set your password with a set-up LINK, and log in.

    \b
    postern setup 'https://gateway.example.com:7480/setup#token=...'
    """
    address, token = _parse_link(link)
    environ = profile.environ()
    stored_profile = profile.find({**environ, "POSTERN_TOKEN": ""})
    same = stored_profile if stored_profile and stored_profile.api_url == address else None
    gateway = Gateway(address, ca.read_text() if ca else same.authority if same else "")
    password = Secret(sys.stdin.readline().rstrip("\r\n") if password_stdin else _ask_password())
    with gateway.http() as http:
        logged_in = Client(http).set_up(token, password, name)
    if logged_in is None:
        raise Denied("the password is set; this account has a second factor: log in with `postern login`")
    show(keep_login(environ, gateway, logged_in), as_json)


def _parse_link(link: str) -> tuple[str, Secret]:
    parts = urlsplit(link)
    tokens = parse_qs(parts.fragment).get("token", [])
    if parts.scheme not in ("http", "https") or not parts.netloc or len(tokens) != 1:
        raise Invalid("this is not a set-up link; a link ends with #token=… and must be in quotes", field="link")
    return f"{parts.scheme}://{parts.netloc}", Secret(tokens[0])


def _ask_password() -> str:
    answer: str = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return answer
