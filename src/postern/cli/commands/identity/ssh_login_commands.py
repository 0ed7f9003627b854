from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.printing import json_option, local_time
from postern.cli.row_commands import print_result
from postern.client.client_shapes import Row
from postern.domain.text import one_line


@click.group("ssh-login")
def ssh_login() -> None:
    """Approve or reject an SSH client that waits for your login, without a browser. The code is at the end of the
    address that the client shows.

    \b
    postern ssh-login approve BCDF-GHJK
    """


@ssh_login.command()
@click.argument("code")
@click.option("--number", help="Number in the terminal of the SSH client.  [default: asks for it]")
@json_option
def approve(code: str, number: str | None, as_json: bool) -> None:
    """Approve the client: it logs in as you. A wrong number rejects it."""
    with client() as api:
        if number is None:
            _show(api.ssh_logins.look(code))
            number = click.prompt("Number in the terminal of the SSH client", err=True)
        done = api.ssh_logins.decide(code, "allow", number)
    print_result(done, as_json, f"Approved: {one_line(done['user'])} on {_where(done)}.")


@ssh_login.command()
@click.argument("code")
@json_option
def refuse(code: str, as_json: bool) -> None:
    """Reject the client. It cannot be approved afterwards."""
    with client() as api:
        done = api.ssh_logins.decide(code, "deny")
    print_result(done, as_json, f"Rejected: {one_line(done['user'])} on {_where(done)}.")


def _show(asking: Row) -> None:
    click.echo(
        f"An SSH client wants to connect to {_where(asking)} as {one_line(asking['user'])}: from "
        f"{one_line(asking['address'])}, {one_line(asking['client']) or 'an unknown program'}, since "
        f"{local_time(asking['since'])}.\nContinue only if you started this yourself, in the terminal in "
        "front of you.",
        err=True,
    )


def _where(asking: Row) -> str:
    """A jump host has no connection in its user name."""
    return one_line(asking["connection"]) or "any connection"
