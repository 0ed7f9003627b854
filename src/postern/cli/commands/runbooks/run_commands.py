from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import click

from postern.cli.options import DurationType, config_option, load_agent
from postern.cli.row_commands import parse_pairs
from postern.domain.targets.connection import check_name
from postern.errors import Invalid
from postern.protocols.registry import PROTOCOLS
from postern.wiring.processes import declared_agent_process as wiring

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_DATABASES = {f"--{spec.name}": spec for spec in PROTOCOLS.values() if spec.uri is not None}
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _database_options(command: _Command) -> _Command:
    """Add an option for each kind of database, in the order of the registry."""
    for option, spec in reversed(_DATABASES.items()):
        text = f"Variable with the {spec.name}:// URI of a database, for {spec.servers}."
        command = click.option(option, metavar="VARIABLE", help=text)(command)
    return command


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--name", help="Name of the connection.  [default: this machine's host name]")
@_database_options
@click.option(
    "--review", "reviewers", multiple=True, metavar="GROUP", help="Group that must approve access. Repeatable."
)
@click.option(
    "--redact", "redact_types", multiple=True, metavar="TYPE", help="Mask this information type in output. Repeatable."
)
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag. Repeatable.")
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="PATTERN",
    help="Environment variables that the command gets, such as 'DB_*'. Repeatable.",
)
@click.option(
    "--policy",
    type=click.Path(dir_okay=False),
    help="TOML file with the policy: what this agent is allowed to serve and reach.",
)
@click.option("--grace", type=DurationType(), help="Seconds that sessions have to end when the agent is stopped.")
@config_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    name: str | None,
    command: tuple[str, ...],
    tags: tuple[str, ...],
    policy: str | None,
    grace: float | None,
    config: str | None,
    **options: Any,
) -> None:
    """Run an agent in an application's container. It declares the one connection that it serves, a command or a
    database; the connection is deleted with it.

    Secrets stay here; the gateway never gets them. The command gets the environment variables that every program needs,
    and those that --export names. POSTERN_KEY is a key of `postern admin agents create NAME --mode embedded`.

    \b
    POSTERN_KEY='grpcs://shop:xagt-...' postern run --name shop-console --export 'DB_*' -- bin/rails console
    POSTERN_KEY='grpcs://shop:xagt-...' postern run --name shop-db --postgres DATABASE_URL --redact EMAIL_ADDRESS
    """
    databases = {option: options.pop(spec.name) for option, spec in _DATABASES.items()}
    variables = {option: variable for option, variable in databases.items() if variable is not None}
    if len(variables) + bool(command) != 1:
        alternatives = ", or ".join(f"{option} VARIABLE" for option in _DATABASES)
        raise click.UsageError(f"give either a command, such as `postern run -- bash`, or {alternatives}, not both")
    for option, variable in variables.items():
        _check_variable(option, variable)
        if options["exports"]:
            raise click.UsageError("--export is for commands; a database has no environment")
    request = wiring.AgentRunRequest(
        name=_host_name() if name is None else name,
        command=command,
        database=next((_DATABASES[option].name for option in variables), ""),
        variable=next(iter(variables.values()), ""),
        tags=parse_pairs("--tag", tags),
        **options,
    )
    settings = load_agent(config=config, agent_policy=policy, agent_grace=grace)
    wiring.run(settings, os.environ, request)


def _check_variable(option: str, text: str) -> None:
    """Check that `text` is the name of a variable. Raises UsageError, which does not repeat it: it can be a URI with a
    password."""
    if "://" in text:
        raise click.UsageError(
            f"{option} takes the name of a variable, not the URI: all users of this machine can see "
            f"arguments of programs, and so the password. Set DATABASE_URL to the URI, and give {option} "
            "DATABASE_URL"
        )
    if not _VARIABLE.fullmatch(text):
        raise click.UsageError(f"{option} takes the name of a variable, such as {option} DATABASE_URL")


def _host_name() -> str:
    host_name = socket.gethostname()
    try:
        check_name(host_name)
    except Invalid:
        raise click.UsageError(
            f"this machine's host name, {host_name!r}, is not a valid name of a connection; give one with --name"
        ) from None
    return host_name
