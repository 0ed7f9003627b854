"""`postern upgrade check`."""

from __future__ import annotations

import os

import click

from postern import settings
from postern.cli.commands.doctor_commands import show_findings
from postern.cli.doctor import of_upgrade
from postern.cli.doctor.finding import FindingState, run
from postern.cli.lazy import FAILED
from postern.cli.options import config_option


@click.group()
def upgrade() -> None:
    """Check whether the gateway can be upgraded, on its own machine. No login is needed.

    \b
    postern upgrade check
    """


@upgrade.command()
@click.option("--home", default=None, help="Data folder of the gateway.  [default: POSTERN_HOME]")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_context
def check(ctx: click.Context, home: str | None, config: str | None, as_json: bool) -> None:
    """Compare the installed version with the store: whether it can open it, and whether there is a way back.

    Run it after a backup and the installation of the new version, before starting it. It changes nothing. The exit code
    is 1 if the gateway would not start; warnings do not change it.
    """
    findings = run(of_upgrade.checks(settings.load(os.environ, config=config, home=home), os.environ))
    show_findings(findings, as_json)
    if any(finding.state is FindingState.WRONG for finding in findings):
        ctx.exit(FAILED)
