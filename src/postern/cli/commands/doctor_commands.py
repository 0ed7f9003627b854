from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Sequence

import click

from postern import settings
from postern.cli.doctor import of_client
from postern.cli.doctor.finding import DoctorFinding, FindingState, run
from postern.cli.lazy import FAILED
from postern.cli.login import profile
from postern.cli.options import config_option
from postern.cli.printing import json_option
from postern.cli.status import with_program_name
from postern.domain.text import one_line

_MARKS = {FindingState.OK: "ok   ", FindingState.WARNING: "warn ", FindingState.WRONG: "WRONG"}
_TAGS = {
    FindingState.OK: "[ok]   ",
    FindingState.WARNING: "[warn] ",
    FindingState.WRONG: "[error]",
}  # the output is a terminal


@click.command()
@click.option("--agent", "at_agent", is_flag=True, help="Check an agent's machine. Reads POSTERN_KEY like the agent.")
@click.option("--gateway", "at_gateway", is_flag=True, help="Check the gateway, on its own machine.")
@click.option("--home", default=None, help="With --gateway: its data folder.  [default: POSTERN_HOME]")
@config_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="A local port that you want to use for forwarding."
)
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    at_agent: bool,
    at_gateway: bool,
    home: str | None,
    config: str | None,
    port: int,
    as_json: bool,
) -> None:
    """Diagnose problems: what is wrong, why it matters, and what to do.

    Without options it checks this machine's connection to its gateway. It changes nothing. The exit code is 1 if
    something is wrong.

    \b
    postern doctor
    POSTERN_KEY='grpcs://edge:xagt-...' postern doctor --agent
    postern doctor --gateway --home /var/lib/postern
    """
    if at_agent and at_gateway:
        raise click.UsageError("give --agent or --gateway, not both")
    if at_agent:
        from postern.cli.doctor import of_agent  # loads grpc, which the other checks do not need

        checks = of_agent.checks(settings.load_agent(os.environ, config=config, key_required=False))
    elif at_gateway:
        from postern.cli.doctor import of_gateway  # loads the store

        checks = of_gateway.checks(settings.load(os.environ, config=config, home=home))
    else:
        checks = of_client.checks(profile.environ(), port)
    findings = run(checks)
    show_findings(findings, as_json)
    if any(finding.state is FindingState.WRONG for finding in findings):
        ctx.exit(FAILED)


def show_findings(findings: Sequence[DoctorFinding], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(doctor_finding) for doctor_finding in findings], indent=2))
        return
    width = max(len(finding.check) for finding in findings)
    marks = _TAGS if sys.stdout.isatty() else _MARKS
    indent = " " * (len(marks[FindingState.OK]) + 2 + width)
    for finding in findings:
        click.echo(f"{marks[finding.state]}  {finding.check.ljust(width)}  {one_line(finding.what)}")
        if finding.state is not FindingState.OK:
            click.echo(f"{indent}  why: {one_line(finding.why)}")
            click.echo(f"{indent}  do:  {with_program_name(one_line(finding.do))}")
