from __future__ import annotations

from typing import Any

import click

from postern.cli import completion
from postern.cli.login import profile
from postern.cli.login.config_file import Config, Profile
from postern.cli.printing import emit, fields, json_option, table
from postern.cli.status import report_done


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def profiles(ctx: click.Context, as_json: bool) -> None:
    """List and choose profiles: the gateways that this machine knows.

    --profile or POSTERN_PROFILE chooses one for a single command.

    \b
    postern profiles
    postern profiles use staging
    postern profiles remove staging
    postern --profile staging connections
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@profiles.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List profiles. Tokens are never shown."""
    config = profile.config(profile.environ())
    rows = [_render_profile(config, name, entry) for name, entry in sorted(config.profiles.items())]
    emit(rows, as_json, _show_list)


def _render_profile(config: Config, name: str, entry: Profile) -> dict[str, Any]:
    return {
        "name": name,
        "current": name == config.current,
        "api_url": entry.api_url,
        "email": entry.email,
        "kind": entry.kind,
        "logged_in": entry.token is not None,
        "own_ca": bool(entry.authority),
    }


def _show_list(details: list[dict[str, Any]]) -> None:
    rows = [
        ["*" if row["current"] else "", row["name"], row["api_url"], row["email"], row["kind"], row["logged_in"]]
        for row in details
    ]
    titles = ["", "name", "gateway", "user", "kind", "logged in"]
    table(titles, rows, "There are no profiles yet: postern login URL")


@profiles.command()
@click.argument("name", shell_complete=completion.profiles)
@json_option
def use(name: str, as_json: bool) -> None:
    """Make a profile the current one."""
    profile.use(profile.environ(), name)
    emit({"current": name}, as_json, lambda _: report_done(f"{name} is the current profile."))


@profiles.command()
@click.argument("name", required=False, shell_complete=completion.profiles)
@json_option
def show(name: str | None, as_json: bool) -> None:
    """Show a profile.  [default: the one in force]. Its token is not shown."""
    environ = profile.environ()
    config = profile.config(environ)
    profile_name = name or profile.name_in_force(environ, config)
    details = {
        **_render_profile(config, profile_name, profile.existing(config, profile_name)),
        "config": str(profile.path(environ)),
    }
    emit(details, as_json, lambda row: fields(list(row.items())))


@profiles.command()
@click.argument("name", shell_complete=completion.profiles)
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a profile from this machine. Its login stays valid at the gateway; `postern logout --profile NAME` ends it
    first."""
    profile.remove(profile.environ(), name)
    emit({"removed": name}, as_json, lambda _: report_done(f"Removed profile {name}."))
