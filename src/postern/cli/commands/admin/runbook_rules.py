"""`postern admin runbookrules`: who may run which runbooks where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import json_option
from postern.cli.rows import (
    Decorator,
    confirm,
    given,
    groups_option,
    page_of,
    paging_options,
    show_page,
    show_row,
    told,
    yes_option,
)
from postern.client.shapes import Row

_COLUMNS = [
    ("name", "name"),
    ("runbooks", "runbooks"),
    ("connections", "connections"),
    ("groups", "user_groups"),
    ("description", "description"),
]
_PATH = ("runbooks", "rules")

Command = Callable[..., Any]


def _fields(command: Command) -> Command:
    """What creating and changing a rule have in common."""
    options: list[Decorator] = [
        click.option("--description", help="What it is for."),
        click.option(
            "--runbook",
            "runbooks",
            multiple=True,
            metavar="REPOSITORY[//PATH]",
            help="Those of a repository whose path begins so, or all of them; repeatable, replaces all.",
        ),
        click.option(
            "--connection",
            "connections",
            multiple=True,
            help="Where they may run; repeatable, replaces all.",
            shell_complete=completion.connections,
        ),
        groups_option,
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group("runbookrules")
def runbook_rules() -> None:
    """Choose who may run which runbooks where.

    While there is no rule, everybody may run every runbook on the connections that they may use. From the first one
    on, only administrators may run what no rule gives. A PATH is compared letter by letter: `deploy/` is a folder,
    `deploy` also begins `deploy-all`.

    \b
    postern admin runbookrules create deploys --runbook github.com/acme/ops//deploy/ --connection shop --group dev
    postern admin runbookrules create for-all --runbook github.com/acme/tools
    postern admin runbookrules update deploys --no-connections
    """


@runbook_rules.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List runbook rules, by name."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every)
    if not as_json:
        page["data"] = [_readable(one) for one in page["data"]]
    show_page(page, _COLUMNS, as_json, "There are no runbook rules yet: postern admin runbookrules create NAME")


@runbook_rules.command()
@click.argument("name", shell_complete=completion.runbook_rules)
@json_option
def get(name: str, as_json: bool) -> None:
    """Show one runbook rule."""
    with client() as api:
        rule = api.collection(*_PATH).get(name)
    show_row(rule if as_json else _readable(rule), as_json)


@runbook_rules.command()
@click.argument("name")
@_fields
def create(name: str, as_json: bool, **more: Any) -> None:
    """Create a runbook rule; for every connection without --connection, for everybody without --group."""
    body = {"name": name, "runbooks": [], "connections": [], "user_groups": [], **_given(**more)}
    with client() as api:
        made = api.collection(*_PATH).create(body)
    told(made, as_json, f"Created {made['name']}.")


@runbook_rules.command()
@click.argument("name", shell_complete=completion.runbook_rules)
@click.option("--name", "new_name", help="The new name.")
@click.option("--no-connections", is_flag=True, help="On every connection from now on.")
@click.option("--no-groups", is_flag=True, help="For everybody from now on.")
@_fields
def update(name: str, new_name: str | None, as_json: bool, no_connections: bool, no_groups: bool, **more: Any) -> None:
    """Change a runbook rule; what is left out stays as it is, and what is repeatable replaces all."""
    cleared: Row = {"connections": []} if no_connections else {}
    cleared |= {"user_groups": []} if no_groups else {}
    with client() as api:
        changed = api.collection(*_PATH).patch(name, given(name=new_name) | _given(**more) | cleared)
    told(changed, as_json, f"Changed {changed['name']}.")


@runbook_rules.command()
@click.argument("name", shell_complete=completion.runbook_rules)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a runbook rule; without the last one everybody may run everything."""
    confirm(f"Delete the runbook rule {name}? Without the last one everybody may run every runbook", yes)
    with client() as api:
        api.collection(*_PATH).delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")


def _given(runbooks: tuple[str, ...], groups: tuple[str, ...], **more: Any) -> Row:
    body = given(user_groups=groups, **more)
    return body | ({"runbooks": [_pattern(text) for text in runbooks]} if runbooks else {})


def _pattern(text: str) -> Row:
    """An address has two slashes at its beginning, which part nothing."""
    repository, slashes, name = text.rpartition("//")
    parted = slashes and not repository.endswith(":")
    return {"repository": repository, "name": name} if parted else {"repository": text, "name": ""}


def _readable(rule: Row) -> Row:
    runbooks = [f"{one['repository']}//{one['name']}" if one["name"] else one["repository"] for one in rule["runbooks"]]
    empty = "none: all were deleted" if rule["nowhere"] else "all"
    return {
        **rule,
        "runbooks": runbooks,
        "connections": rule["connections"] or empty,
        "user_groups": rule["user_groups"] or "everybody",
    }
