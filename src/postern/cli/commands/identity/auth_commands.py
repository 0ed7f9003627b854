"""`postern auth`: login settings that can be changed only on the gateway's machine."""

from __future__ import annotations

from typing import Any

import click

from postern.cli.options import config_option, load
from postern.cli.printing import emit, json_option
from postern.cli.status import report_done
from postern.domain.text import one_line
from postern.wiring.host import auth_reset


@click.group()
def auth() -> None:
    """Recover access, on the gateway's own machine.

    These commands need no login. They work on the gateway's data folder; run them as the user that runs the gateway.
    """


@auth.command()
@click.option("--home", default=None, help="The gateway's data folder.")
@config_option
@click.confirmation_option(prompt="All users of the default organisation will log in with a password again. Continue?")
@json_option
def reset(home: str | None, config: str | None, as_json: bool) -> None:
    """Set the default organisation back to login with a password, from any address.

    Use it if users can no longer log in at the identity provider, or a network rule locks them out. The provider's
    settings stay; network rules that limit logins are disabled. A running gateway applies the change at once.

    \b
    postern auth reset
    postern auth reset --home /var/lib/postern --yes
    """
    done = auth_reset.run(load("auth", keep=False, config=config, home=home))
    answer = {
        "was": done.was,
        "auth_method": "local",
        "admin_with_password": done.admin_with_password,
        "disabled_network_rules": list(done.disabled_network_rules),
    }
    emit(answer, as_json, _say)


def _say(done: dict[str, Any]) -> None:
    report_done(f"Users log in with a password again; the method was {done['was']}.")
    if done["disabled_network_rules"]:
        click.echo(f"Disabled network rules: {', '.join(map(one_line, done['disabled_network_rules']))}.")
    if not done["admin_with_password"]:
        click.echo(
            "No active administrator has a password: create a set-up link with `postern setup-link` on this machine."
        )
