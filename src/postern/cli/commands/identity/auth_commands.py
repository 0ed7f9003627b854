"""`postern auth`: what only who commands the gateway's machine may do about logging in."""

from __future__ import annotations

from typing import Any

import click

from postern.cli.options import load
from postern.cli.printing import emit, json_option
from postern.cli.status import report_done
from postern.wiring.host import auth_reset


@click.group()
def auth() -> None:
    """Get back in, on the gateway's own machine.

    These commands need no login: they work on the gateway's data folder, as the user that the gateway runs as.
    """


@auth.command()
@click.option("--home", default=None, help="The gateway's data folder.")
@click.confirmation_option(prompt="Everybody of the default organisation logs in with a password again. Go on?")
@json_option
def reset(home: str | None, as_json: bool) -> None:
    """Set the default organisation back to local login.

    For when nobody gets in by the identity provider any more. The provider's settings stay, and a running gateway
    follows at once.

    \b
    postern auth reset
    postern auth reset --home /var/lib/postern --yes
    """
    done = auth_reset.run(load("auth", keep=False, home=home))
    emit({"was": done.was, "auth_method": "local", "admin_with_password": done.admin_with_password}, as_json, _say)


def _say(done: dict[str, Any]) -> None:
    report_done(f"Login is local again; it was {done['was']}.")
    if not done["admin_with_password"]:
        click.echo("No active administrator has a password: give one a new set-up link on this machine.")
