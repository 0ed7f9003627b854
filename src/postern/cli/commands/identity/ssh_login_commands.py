from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.printing import json_option, local_time
from postern.cli.row_commands import told
from postern.client.client_shapes import Row
from postern.domain.text import one_line


@click.group("ssh-login")
def ssh_login() -> None:
    """Let an SSH client in that waits for you, without a browser: the code is at the end of the address it shows.

    \b
    postern ssh-login approve BCDF-GHJK
    """


@ssh_login.command()
@click.argument("code")
@click.option("--number", help="What the terminal of the SSH client shows; asked for when missing.")
@json_option
def approve(code: str, number: str | None, as_json: bool) -> None:
    """Let it in as you. A wrong number refuses it."""
    with client() as api:
        if number is None:
            _show(api.ssh_logins.look(code))
            number = click.prompt("Number that its terminal shows", err=True)
        done = api.ssh_logins.decide(code, "allow", number)
    told(done, as_json, f"Let in: {one_line(done['user'])} on {_where(done)}.")


@ssh_login.command()
@click.argument("code")
@json_option
def refuse(code: str, as_json: bool) -> None:
    """Refuse it; it cannot be let in any more."""
    with client() as api:
        done = api.ssh_logins.decide(code, "deny")
    told(done, as_json, f"Refused {one_line(done['user'])} on {_where(done)}.")


def _show(asking: Row) -> None:
    click.echo(
        f"An SSH client wants to go to {_where(asking)} as {one_line(asking['user'])}: from "
        f"{one_line(asking['address'])}, {one_line(asking['client']) or 'an unknown program'}, since "
        f"{local_time(asking['since'])}.\nGo on only if you began this yourself, in the terminal in front of you.",
        err=True,
    )


def _where(asking: Row) -> str:
    """A jump host names no connection."""
    return one_line(asking["connection"]) or "any connection"
