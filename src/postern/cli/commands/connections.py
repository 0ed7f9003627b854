from __future__ import annotations

import base64
import json
import os
import shlex
from typing import IO, Any

import click

from postern.cli.api import client
from postern.cli.output import emit, fields, json_option, table
from postern.cli.rows import pairs, told
from postern.client.shapes import Connection


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def connections(ctx: click.Context, as_json: bool) -> None:
    """List and manage connections.

    \b
    postern connections
    postern connections show shop-demo
    postern connections create orders --subtype postgres \\
        --env HOST=db.example.com --env PORT=5432 --env USER=app --env PASS --env DB=orders
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@connections.command("list")
@click.option("--search", help="Only those whose name, type or subtype holds this text.")
@click.option("--subtype", help="Only those of this subtype, as in postgres.")
@click.option("--tags", "tag_selector", help="Only those with these tags: key=value,key!=value")
@json_option
def list_(
    as_json: bool, search: str | None = None, subtype: str | None = None, tag_selector: str | None = None
) -> None:
    """List connections."""
    with client() as api:
        found = api.connections.list(search=search, subtype=subtype, tag_selector=tag_selector)
    emit(found, as_json, _show_list)


def _show_list(found: list[Connection]) -> None:
    rows = [[one["name"], one["subtype"] or one["type"], one["status"], one.get("connection_tags")] for one in found]
    table(["name", "type", "status", "tags"], rows, "There are no connections yet: postern connections create --help")


@connections.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one connection, by name or id."""
    with client() as api:
        found = api.connections.get(name)
    emit(found, as_json, lambda one: fields([(key, _shown(key, value)) for key, value in one.items()]))


def _shown(key: str, value: Any) -> Any:
    """Of the secret its keys: values are null, or references."""
    return sorted(value) if key == "secret" and isinstance(value, dict) else value


@connections.command()
@click.argument("name", required=False)
@click.option("--type", "kind", default="database", show_default=True, help="database, application or custom.")
@click.option("--subtype", default="postgres", show_default=True, help="What speaks there.")
@click.option("--command", help="A program and its arguments that the agent runs; type and subtype are then custom.")
@click.option("--env", "variables", multiple=True, metavar="KEY[=VALUE]", help="A secret of the target; repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag; repeatable.")
@click.option("--redact", "redact_types", multiple=True, metavar="TYPE", help="Mask this in output; repeatable.")
@click.option("--guardrail", "guardrails", multiple=True, metavar="ID", help="A guard rail to apply; repeatable.")
@click.option("--agent", help="The agent that reaches the target; the gateway's own, or the only one, when missing.")
@click.option("--file", "file", type=click.File(), help="Take the whole connection as JSON from here ('-' for stdin).")
@json_option
def create(name: str | None, file: IO[str] | None, agent: str | None, as_json: bool, **given: Any) -> None:
    """Create a connection.

    Values of --env are kept encrypted and are shown to nobody who connects. A KEY without a value takes it from the
    environment variable of that name, which keeps a password out of the list of processes.
    """
    if (name is None) == (file is None):
        raise click.UsageError("give a NAME with options, or --file")
    with client() as api:
        body = _read(file) if file else _body(str(name), api.agents.id_of(agent), given)
        created = api.connections.create(body)
    emit(created, as_json, lambda one: click.echo(f"Created {one['name']} ({one['id']})."))


def _read(file: IO[str]) -> dict[str, Any]:
    try:
        body = json.load(file)
    except ValueError as error:
        raise click.UsageError(f"--file: not JSON: {error}") from None
    if not isinstance(body, dict):
        raise click.UsageError("--file: must hold one JSON object")
    return body


def _body(name: str, agent_id: str, given: dict[str, Any]) -> dict[str, Any]:
    variables = pairs("--env", tuple(_filled(text) for text in given["variables"]))
    command = _words(given["command"] or "")
    return {
        "name": name,
        "type": "custom" if command else given["kind"],
        "subtype": "" if command else given["subtype"],
        "command": command,
        "agent_id": agent_id,
        "access_mode_connect": "enabled",
        "access_mode_exec": "enabled",
        "access_mode_runbooks": "enabled",
        "access_schema": "enabled",
        "secret": {f"envvar:{key}": base64.b64encode(value.encode()).decode() for key, value in variables.items()},
        "connection_tags": pairs("--tag", given["tags"]),
        "redact_enabled": bool(given["redact_types"]),
        "redact_types": list(given["redact_types"]),
        "guardrail_rules": list(given["guardrails"]),
    }


def _words(command: str) -> list[str]:
    """As a shell would split it; no shell ever sees it."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--command: {error}") from None


def _filled(text: str) -> str:
    if "=" in text:
        return text
    if not text.isidentifier():  # it may be a password that was mistyped: it is not repeated
        raise click.UsageError("--env: needs KEY=VALUE or KEY")
    if text not in os.environ:
        raise click.UsageError(f"--env: give {text}=VALUE, or set the environment variable {text}")
    return f"{text}={os.environ[text]}"


@connections.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a connection; its sessions stay on record."""
    if not yes:
        click.confirm(f"Delete connection {name}?", abort=True, err=True)
    with client() as api:
        api.connections.delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")
