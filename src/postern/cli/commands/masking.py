from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import click

from postern.cli import completion, masking_options
from postern.cli.api import client
from postern.cli.json_files import one_object
from postern.cli.output import emit, fields, json_option, table
from postern.cli.rows import told
from postern.cli.status import Status, report, report_done
from postern.client.shapes import MaskedSamples, MaskingRule, Row
from postern.errors import NotFound

# What the API adds to a rule, and does not take for a test of it.
_NOT_TESTED = frozenset({"id", "connection_ids", "created_at", "updated_at"})


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def masking(ctx: click.Context, as_json: bool) -> None:
    """List, manage and try masking rules: what is hidden in answers, and what takes its place.

    \b
    postern masking
    postern masking presets
    postern masking create "customer data" --preset recommended --connection shop-demo
    postern masking create people --column customers.email --column "users.*name" --strategy hash \\
        --type PHONE_NUMBER --pattern "BADGE=B-[0-9]{6}" --connection shop-demo
    postern masking update people --strictness best_effort
    postern masking create rule.json
    postern masking test "customer data" "call 212-555-0142"
    postern masking test rule.json --cell users.email=ann@example.com

    \b
    A rule file:
    {"name": "customer data", "connection_ids": [], "strategy": "hash",
     "supported_entity_types": [{"name": "CONTACT", "entity_types": ["EMAIL_ADDRESS", "PHONE_NUMBER"]}],
     "custom_entity_types": [{"name": "BADGE", "regex": "B-[0-9]{6}", "score": 0.9}],
     "columns": ["users.*name", "tag:secret"]}
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@masking.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List masking rules."""
    with client() as api:
        found = api.masking_rules.list()
    emit(found, as_json, _show_list)


def _show_list(found: list[MaskingRule]) -> None:
    rows = [
        [one["id"], one["name"], one["strategy"], len(_types(one)), len(one["columns"]), len(one["connection_ids"])]
        for one in found
    ]
    titles = ["id", "name", "strategy", "types", "columns", "connections"]
    table(titles, rows, "There are no masking rules yet: postern masking create --help")


def _types(one: MaskingRule) -> list[str]:
    named = [name for group in one["supported_entity_types"] for name in group["entity_types"]]
    return [*named, *(custom["name"] for custom in one["custom_entity_types"])]


@masking.command()
@click.argument("rule", shell_complete=completion.masking_rules)
@json_option
def show(rule: str, as_json: bool) -> None:
    """Show one masking rule, by id or name."""
    with client() as api:
        found = api.masking_rules.get(_known(api.masking_rules.list(), rule)["id"])
    emit(found, as_json, _show)


def _show(one: MaskingRule) -> None:
    names = ("id", "name", "description", "strategy", "strictness", "score_threshold", "columns", "connection_ids")
    pairs: list[tuple[str, Any]] = [(name, dict(one)[name]) for name in names]
    fields([*pairs, ("types", _types(one))])


def _known(rules: list[MaskingRule], wanted: str) -> MaskingRule:
    for one in rules:
        if wanted in (one["id"], one["name"]):
            return one
    raise NotFound(f"there is no masking rule {wanted!r}; `postern masking` lists them")


@masking.command()
@json_option
def presets(as_json: bool) -> None:
    """List masking rules to begin with."""
    with client() as api:
        found = api.masking_rules.presets()
    emit(found, as_json, _show_presets)


def _show_presets(found: list[Row]) -> None:
    rows = [[one["name"], one["strategy"], one["strictness"], one["description"]] for one in found]
    table(["name", "strategy", "strictness", "description"], rows, "There are no presets.")


@masking.command()
@click.argument("name_or_file")
@click.option("--preset", help="Begin with this preset; the other options say what is different.")
@masking_options.options
@json_option
def create(name_or_file: str, preset: str | None, as_json: bool, **given: Any) -> None:
    """Create a masking rule: by a name and options, or from a JSON file ('-' for standard input).

    \b
    postern masking create people --column customers.email --strategy hash --connection shop-demo
    postern masking create people --preset recommended --connection shop-demo
    postern masking create rule.json
    """
    by_options = preset is not None or any(value not in (None, ()) for value in given.values())
    if not by_options:
        with click.open_file(name_or_file) as file:
            body = one_object(file.name, file.read())
    with client() as api:
        if by_options:
            start = {} if preset is None else masking_options.from_preset(api, preset)
            body = {**start, **masking_options.changes(api, given), "name": name_or_file}
        created = api.masking_rules.create(body)
    emit(created, as_json, lambda one: report_done(f"Created {one['name']} ({one['id']})."))


@masking.command()
@click.argument("rule", shell_complete=completion.masking_rules)
@click.argument("file", type=click.File(), required=False)
@click.option("--name", help="Rename it.")
@masking_options.options
@json_option
def update(rule: str, file: IO[str] | None, name: str | None, as_json: bool, **given: Any) -> None:
    """Change a masking rule, by id or name: by options, or replace it by a JSON file. Live sessions follow at once.

    What is given by options takes the place of what the rule has of that kind; the rest stays as it is.
    """
    with client() as api:
        changes = masking_options.changes(api, given) | ({} if name is None else {"name": name})
        if (file is None) == (not changes):
            raise click.UsageError("give options that say what changes, or a file with the whole rule")
        known = _known(api.masking_rules.list(), rule)
        kept = {key: value for key, value in known.items() if key not in masking_options.READ_ONLY}
        body = {**kept, **changes} if file is None else one_object(file.name, file.read())
        changed = api.masking_rules.update(known["id"], body)
    emit(changed, as_json, lambda one: report_done(f"Updated {one['name']} ({one['id']})."))


@masking.command()
@click.argument("rule", shell_complete=completion.masking_rules)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(rule: str, yes: bool, as_json: bool) -> None:
    """Delete a masking rule, by id or name, and take it off its connections."""
    with client() as api:
        known = _known(api.masking_rules.list(), rule)
        if not yes:
            where = f" on {len(known['connection_ids'])} connections" if known["connection_ids"] else ""
            click.confirm(f"Delete masking rule {rule}? What it hid{where} is then shown", abort=True, err=True)
        api.masking_rules.delete(known["id"], force=True)
    told({"deleted": rule}, as_json, f"Deleted {rule}.")


@masking.command()
@click.argument("rule", shell_complete=completion.masking_rules)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--cell", "cells", multiple=True, metavar="COLUMN=VALUE", help="A cell of a row; repeatable.")
@json_option
def test(rule: str, texts: tuple[str, ...], cells: tuple[str, ...], as_json: bool) -> None:
    """Show what a rule, by id or name or in a JSON file, makes of texts and of a row."""
    if not texts and not cells:
        raise click.UsageError("give texts, or --cell COLUMN=VALUE")
    pairs = [cell.partition("=") for cell in cells]
    if not all(equals for _, equals, _ in pairs):
        raise click.UsageError("--cell needs COLUMN=VALUE")
    with client() as api:
        path = Path(rule)
        body = one_object(rule, path.read_text()) if path.is_file() else dict(_known(api.masking_rules.list(), rule))
        asked = {
            "rule": {name: value for name, value in body.items() if name not in _NOT_TESTED},
            "texts": list(texts),
            "columns": [name for name, _, _ in pairs],
            "rows": [[value for _, _, value in pairs]] if pairs else [],
        }
        found = api.masking_rules.test(asked)
    emit(found, as_json, lambda one: _show_masked(one, [name for name, _, _ in pairs]))


def _show_masked(one: MaskedSamples, columns: list[str]) -> None:
    for text in one["texts"]:
        click.echo(text)
    for row in one["rows"]:
        fields([(name, "NULL" if value is None else value) for name, value in zip(columns, row, strict=True)])
    for name, count in sorted(one["info_types"].items()):
        report(Status.INFO, f"{name}: {count}")
    if not one["info_types"]:
        report(Status.INFO, "nothing was masked")
