from __future__ import annotations

from typing import IO

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.json_files import one_object
from postern.cli.output import emit, fields, json_option
from postern.cli.rows import confirm, page_of, paging_options, show_page, told, yes_option
from postern.client.client import Client
from postern.client.shapes import Row
from postern.domain.text import one_line
from postern.errors import NotFound

_COLUMNS = [
    ("name", "name"),
    ("project", "project_key"),
    ("request type", "request_type_id"),
    ("on close", "issue_transition_name_on_close"),
    ("description", "description"),
    ("id", "id"),
]
_PATH = ("integrations", "tracker", "issuetemplates")


@click.group("issuetemplates")
def issue_templates() -> None:
    """Choose what stands in the issues that sessions open. TEMPLATE is a name or id.

    \b
    postern admin issuetemplates show changes --json > changes.json
    postern admin issuetemplates create changes.json
    postern admin issuetemplates update changes changes.json
    postern connections update shop --set tracker_issue_template_id=ID

    \b
    A template's file:
    {"name": "changes", "project_key": "OPS", "request_type_id": "10",
     "mapping_types": {"items": [{"tracker_field": "summary", "type": "preset", "value": "session.connection"}]},
     "prompt_types": {"items": [{"tracker_field": "customfield_7", "label": "Reason", "required": true}]}}
    """


@issue_templates.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List issue templates, by name."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no issue templates yet: postern admin issuetemplates create --help")


@issue_templates.command()
@click.argument("template", shell_complete=completion.issue_templates)
@json_option
def show(template: str, as_json: bool) -> None:
    """Show one issue template."""
    with client() as api:
        emit(_known(api, template), as_json, _show)


def _show(found: Row) -> None:
    fields([(title, found[name]) for title, name in _COLUMNS])
    for one in found["mapping_types"]["items"]:
        click.echo(f"{one['tracker_field']}  {one['type']}  {one_line(one['value'])}")
    for one in found["prompt_types"]["items"]:
        click.echo(f"{one['tracker_field']}  asked ({one['field_type']}{_required(one)})  {one['label']}")
    for one in found["cmdb_types"]["items"]:
        said = one["value"] or f"asked ({one['tracker_object_type']}{_required(one)})"
        click.echo(f"{one['tracker_field']}  asset  {said}")
    for key in found["connection_ids"]:
        click.echo(f"connection  {key}")


def _required(one: Row) -> str:
    return ", required" if one["required"] else ""


@issue_templates.command()
@click.argument("file", type=click.File())
@json_option
def create(file: IO[str], as_json: bool) -> None:
    """Create an issue template from a JSON file ('-' for standard input)."""
    with client() as api:
        made = api.collection(*_PATH).create(one_object(file.name, file.read()))
    told(made, as_json, f"Created {made['name']} ({made['id']}).")


@issue_templates.command()
@click.argument("template", shell_complete=completion.issue_templates)
@click.argument("file", type=click.File())
@json_option
def update(template: str, file: IO[str], as_json: bool) -> None:
    """Replace an issue template by a JSON file; its connections stay where the file has no connection_ids."""
    with client() as api:
        changed = api.collection(*_PATH).update(_known(api, template)["id"], one_object(file.name, file.read()))
    told(changed, as_json, f"Changed {changed['name']}.")


@issue_templates.command()
@click.argument("template", shell_complete=completion.issue_templates)
@yes_option
@json_option
def delete(template: str, yes: bool, as_json: bool) -> None:
    """Delete an issue template; its connections open no issues any more."""
    with client() as api:
        found = _known(api, template)
        count = len(found["connection_ids"])
        confirm(f"Delete the issue template {found['name']}? {count} connections open no issues then", yes)
        api.collection(*_PATH).delete(found["id"])
    told({"deleted": found["name"]}, as_json, f"Deleted {found['name']}.")


def _known(api: Client, wanted: str) -> Row:
    """A name wins over an identifier of the same spelling."""
    known = api.collection(*_PATH).everything()["data"]
    for field in ("name", "id"):
        for one in known:
            if one[field] == wanted:
                return one
    raise NotFound(f"there is no issue template {wanted!r}; `postern admin issuetemplates list` shows which there are")
