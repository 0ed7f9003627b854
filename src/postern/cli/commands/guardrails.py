from __future__ import annotations

from typing import IO, Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.commands.guardrail_trials import from_preset, presets, simulate, test
from postern.cli.json_files import one_object
from postern.cli.output import emit, fields, json_option, table
from postern.cli.rows import told
from postern.cli.status import Status, report, report_done
from postern.client.shapes import GuardRail
from postern.errors import NotFound


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def guardrails(ctx: click.Context, as_json: bool) -> None:
    """List and manage guard rails: what is refused on its way in or out.

    \b
    postern guardrails
    postern guardrails show ID > rule.json
    postern guardrails create rule.json
    postern guardrails update ID rule.json
    postern guardrails presets
    postern guardrails create "read only" --preset read-only --connection shop
    postern guardrails test ID --text "delete from orders"
    postern guardrails simulate ID --since 30d

    \b
    A rule file:
    {"name": "no drops", "connection_ids": [],
     "input": {"rules": [{"type": "pattern_match", "words": [], "pattern_regex": "(?i)drop\\\\s+table"}]}}
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@guardrails.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List guard rails."""
    with client() as api:
        found = api.guardrails.list()
    emit(found, as_json, _show_list)


def _show_list(found: list[GuardRail]) -> None:
    rows = [
        [one["id"], one["name"], _count(one["input"]), _count(one["output"]), len(one["connection_ids"] or [])]
        for one in found
    ]
    titles = ["id", "name", "input rules", "output rules", "connections"]
    table(titles, rows, "There are no guard rails yet: postern guardrails create --help")


def _count(side: dict[str, Any] | None) -> int:
    return len((side or {}).get("rules") or [])


@guardrails.command()
@click.argument("rule", shell_complete=completion.guardrails)
@json_option
def show(rule: str, as_json: bool) -> None:
    """Show one guard rail, by id or name, with its rules."""
    with client() as api:
        found = api.guardrails.get(_id(api.guardrails.list(), rule))
    emit(found, as_json, _show)
    _advise(found)


def _show(one: GuardRail) -> None:
    fields([("id", one["id"]), ("name", one["name"]), ("description", one["description"])])
    for where, side in (("input", one["input"]), ("output", one["output"])):
        for rule in (side or {}).get("rules") or []:
            action = rule.get("action", "deny")
            click.echo(f"{where:<6}  {action}  {rule['type']}  {rule.get('name') or ''}  {about(rule)}")


def about(rule: dict[str, Any]) -> str:
    """What a rule is about, in one line."""
    if rule.get("pattern_regex") or rule.get("words"):
        return rule.get("pattern_regex") or ", ".join(rule["words"])
    if rule.get("most"):
        return str(rule["most"])
    return ", ".join([*rule.get("effects", []), *rule.get("objects", [])])


def _id(known: list[GuardRail], wanted: str) -> str:
    return _known(known, wanted)["id"]


def _known(known: list[GuardRail], wanted: str) -> GuardRail:
    for one in known:
        if wanted in (one["id"], one["name"]):
            return one
    raise NotFound(f"there is no guard rail {wanted!r}; `postern guardrails` lists them")


@guardrails.command()
@click.argument("file_or_name")
@click.option("--preset", help="Begin with the rules of this preset; the argument is then the new guard rail's name.")
@click.option("--connection", "connections", multiple=True, help="With --preset: a connection by name; repeatable.")
@json_option
def create(file_or_name: str, preset: str | None, connections: tuple[str, ...], as_json: bool) -> None:
    """Create a guard rail from a JSON file ('-' for standard input), or from a preset."""
    if preset is None:
        if connections:
            raise click.UsageError("--connection is for --preset; a file has its connection_ids")
        with click.open_file(file_or_name) as file:
            body = one_object(file.name, file.read())
    with client() as api:
        if preset is not None:
            body = from_preset(api, preset)
            body |= {"name": file_or_name, "connection_ids": [api.connections.get(one)["id"] for one in connections]}
        created = api.guardrails.create(body)
    emit(created, as_json, lambda one: report_done(f"Created {one['name']} ({one['id']})."))
    _advise(created)


@guardrails.command()
@click.argument("rule", shell_complete=completion.guardrails)
@click.argument("file", type=click.File())
@json_option
def update(rule: str, file: IO[str], as_json: bool) -> None:
    """Replace a guard rail by a JSON file; live sessions follow at once."""
    with client() as api:
        changed = api.guardrails.update(_id(api.guardrails.list(), rule), one_object(file.name, file.read()))
    emit(changed, as_json, lambda one: report_done(f"Updated {one['name']} ({one['id']})."))
    _advise(changed)


def _advise(one: GuardRail) -> None:
    for notice in one.get("notices", []):
        report(Status.INFO, f"{notice}.")


@guardrails.command()
@click.argument("rule", shell_complete=completion.guardrails)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(rule: str, yes: bool, as_json: bool) -> None:
    """Delete a guard rail, by id or name, and take it off its connections."""
    with client() as api:
        known = _known(api.guardrails.list(), rule)
        if not yes:
            where = f" on {len(known['connection_ids'])} connections" if known["connection_ids"] else ""
            click.confirm(f"Delete guard rail {rule}? What it refused{where} is then let through", abort=True, err=True)
        api.guardrails.delete(known["id"], force=True)
    told({"deleted": rule}, as_json, f"Deleted {rule}.")


for _command in (presets, test, simulate):
    guardrails.add_command(_command)
