from __future__ import annotations

import os
import re
import socket
from typing import Any

import click

from postern import logs
from postern.cli.rows import pairs
from postern.domain.connection import check_name
from postern.errors import Invalid
from postern.settings import load_agent
from postern.wiring import declared as wiring

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--name", help="The connection's name; this machine's host name when missing.")
@click.option("--postgres", metavar="VARIABLE", help="The variable that holds the postgres:// URI of a database.")
@click.option("--mysql", metavar="VARIABLE", help="The same of a mysql:// URI, for MySQL and MariaDB.")
@click.option("--review", "reviewers", multiple=True, metavar="GROUP", help="Who has to approve; repeatable.")
@click.option("--redact", "redact_types", multiple=True, metavar="TYPE", help="Mask this in output; repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag; repeatable.")
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="PATTERN",
    help="Variables of this environment that the command sees, as in 'DB_*'; repeatable.",
)
@click.option("--policy", type=click.Path(dir_okay=False), help="TOML file of what this agent may serve and reach.")
@click.option("--grace", type=click.FloatRange(min=0), help="Seconds that sessions have to end when it is stopped.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    name: str | None,
    postgres: str | None,
    mysql: str | None,
    command: tuple[str, ...],
    tags: tuple[str, ...],
    policy: str | None,
    grace: float | None,
    **given: Any,
) -> None:
    """Run an agent in an application's container: it declares the one connection that it serves, a command or a
    database, and goes with it.

    Secrets stay here: the gateway never has them. The command sees of this environment what every program needs, and
    what --export names. The key in POSTERN_KEY is one of `postern admin agents create NAME --mode embedded`.

    \b
    POSTERN_KEY='grpcs://shop:xagt-...' postern run --name shop-console --export 'DB_*' -- bin/rails console
    POSTERN_KEY='grpcs://shop:xagt-...' postern run --name shop-db --postgres DATABASE_URL --redact EMAIL_ADDRESS
    """
    databases = {"--postgres": postgres, "--mysql": mysql}
    variables = {option: variable for option, variable in databases.items() if variable is not None}
    if len(variables) + bool(command) != 1:
        raise click.UsageError(
            "give a command, as in `postern run -- bash`, or --postgres VARIABLE, or --mysql VARIABLE, and not both"
        )
    for option, variable in variables.items():
        _check_variable(option, variable)
        if given["exports"]:
            raise click.UsageError("--export is for commands: a database has no environment")
    wanted = wiring.Wanted(
        name=_host_name() if name is None else name,
        command=command,
        postgres=postgres or "",
        mysql=mysql or "",
        tags=pairs("--tag", tags),
        **given,
    )
    settings = load_agent(os.environ, agent_policy=policy, agent_grace=grace)
    logs.configure(settings.log_level, settings.log_format, "agent")
    wiring.run(settings, os.environ, wanted)


def _check_variable(option: str, text: str) -> None:
    """What is no name is not repeated: it may well be a URI with its password."""
    if "://" in text:
        raise click.UsageError(
            f"{option} takes the name of a variable, not the URI itself: everybody on this machine sees the arguments "
            f"of its programs, and so the password. Set DATABASE_URL to the URI, and type {option} DATABASE_URL"
        )
    if not _VARIABLE.fullmatch(text):
        raise click.UsageError(f"{option} takes the name of a variable, as in {option} DATABASE_URL")


def _host_name() -> str:
    found = socket.gethostname()
    try:
        check_name(found)
    except Invalid:
        raise click.UsageError(
            f"this machine's host name, {found!r}, is no name for a connection; give one with --name"
        ) from None
    return found
