"""`postern config`: checks and shows the configuration of a gateway and an agent on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import click

from postern.cli.lazy import USAGE
from postern.cli.options import settings_options
from postern.cli.printing import as_text, emit, table
from postern.cli.status import Status, report, report_done
from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.settings import AgentSettings, Settings
from postern.settings_example import example as render_example
from postern.settings_values import Resolved
from postern.wiring.host import config_checks as wiring

HIDDEN = "***"
_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group()
def config() -> None:
    """Check and show the configuration of a gateway or an agent, on its own machine.

    Settings come from options, then environment variables, then the configuration file, then defaults: the first that
    has a value wins.

    \b
    postern config example > /etc/postern/postern.toml
    postern config check
    postern config show
    """


@config.command()
@_json
@settings_options(hidden=True)
@click.pass_context
def check(ctx: click.Context, /, as_json: bool, **flags: Any) -> None:
    """Check all settings without starting anything. The options of `postern gateway` count, too.

    It prints all problems, and the exit code is 2 if there are any. It cannot know whether other machines answer:
    `postern doctor --gateway` asks them.
    """
    try:
        gateway, _, problems = wiring.read(os.environ, flags)
        file = gateway.file
    except Misconfigured as error:
        file, problems = None, [error]
    if as_json:
        found = [{"setting": problem.field, "message": problem.message} for problem in problems]
        click.echo(as_text({"file": str(file) if file else None, "problems": found}, indent=2))
    elif problems:
        for problem in problems:
            report(Status.ERROR, problem.message)
    else:
        report_done(f"The configuration is valid ({file or 'there is no configuration file'}).")
    if problems:
        ctx.exit(USAGE)


@config.command()
@_json
@settings_options(hidden=True)
@click.pass_context
def show(ctx: click.Context, /, as_json: bool, **flags: Any) -> None:
    """Show each setting with its value and where it comes from. The options of `postern gateway` count, too.

    Secrets are shown as ***. The last ones are an agent's.
    """
    gateway, agent, _ = wiring.read(os.environ, flags)
    rows = [
        *_rows(Settings, gateway),
        *(row for row in _rows(AgentSettings, agent) if row["name"] not in gateway.values),
    ]
    emit(rows, as_json, _print)
    problems = {problem.message for resolved in (gateway, agent) for problem in resolved.problems}
    for message in sorted(problems):
        report(Status.ERROR, message)
    if problems:
        ctx.exit(USAGE)


@config.command()
@click.option("--all", "is_whole", is_flag=True, help="All settings, with their defaults.")
def example(is_whole: bool) -> None:
    """Print a configuration file with comments, to begin with.

    Everything in it is commented out: it changes nothing until you do.
    """
    click.echo(render_example(is_whole=is_whole), nl=False)


def _rows(kind: type, resolved: Resolved) -> Iterator[Mapping[str, Any]]:
    for name, value in resolved.values.items():
        origin = resolved.origins[name]
        yield {"name": name, "value": _visible(value), "source": {"kind": origin.kind, "name": origin.name}}


def _visible(value: object) -> object:
    """Return the value without secrets: also those in URLs."""
    if isinstance(value, Secret):
        return HIDDEN if value else ""
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return _without_credentials(text) if "://" in text else text


def _without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    user = f"{HIDDEN}@" if "@" in parts.netloc else ""
    query = f"?{HIDDEN}" if parts.query else ""
    return f"{parts.scheme}://{user}{host}{parts.path}{query}"


def _print(rows: list[Mapping[str, Any]]) -> None:
    cells = [[row["name"], row["value"], " ".join(row["source"].values()).strip()] for row in rows]
    table(["setting", "value", "source"], cells, "There are no settings.")
