from __future__ import annotations

from typing import IO

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.json_files import one_object
from postern.cli.nouns import ISSUE_TEMPLATE
from postern.cli.printing import emit, fields, json_option, table
from postern.cli.resource_group import ResourceCommands, looking_up, new_name, resource_group
from postern.cli.scripts import script_options
from postern.client.client_shapes import Row
from postern.domain.text import one_line, printable

_COLUMNS = [
    ("name", "name"),
    ("project", "project_key"),
    ("request type", "request_type_id"),
    ("on close", "issue_transition_name_on_close"),
    ("description", "description"),
    ("id", "id"),
]


def _show(template: Row) -> None:
    fields([(title, template[name]) for title, name in _COLUMNS])
    for item in template["mapping_types"]["items"]:
        click.echo(f"{item['tracker_field']}  {item['type']}  {one_line(item['value'])}")
    for item in template["prompt_types"]["items"]:
        click.echo(f"{item['tracker_field']}  asked ({item['field_type']}{_required_mark(item)})  {item['label']}")
    for item in template["cmdb_types"]["items"]:
        value = item["value"] or f"asked ({item['tracker_object_type']}{_required_mark(item)})"
        click.echo(f"{item['tracker_field']}  asset  {value}")
    for key in template["connection_ids"]:
        click.echo(f"connection  {key}")


def _required_mark(row: Row) -> str:
    return ", required" if row["required"] else ""


def _question(template: Row) -> str:
    count = len(template["connection_ids"])
    return (
        f"Delete the issue template {template['name']}? Sessions of its {count} connections then no longer open issues"
    )


issue_templates = resource_group(
    ResourceCommands(
        noun=ISSUE_TEMPLATE,
        help="""Choose the content of the issues that sessions open. TEMPLATE is a name or id.

        \b
        postern admin issue-templates show changes --json > changes.json
        postern admin issue-templates preview -f changes.json
        postern admin issue-templates create -f changes.json
        postern admin issue-templates update changes -f changes.json
        postern connections update shop --set tracker_issue_template_id=ID

        \b
        A template's file:
        {"name": "changes", "project_key": "OPS", "request_type_id": "10",
         "mapping_types": {"items": [{"tracker_field": "summary", "type": "preset", "value": "session.connection"}]},
         "prompt_types": {"items": [{"tracker_field": "customfield_7", "label": "Reason", "required": true}]}}
        """,
        columns=_COLUMNS,
        options=[new_name()],
        file=True,
        show=_show,
        created="Created {name} ({id}).",
        says={
            "create": "Create an issue template from a JSON file.",
            "update": "Change an issue template, or replace it with a JSON file. Its connections stay if the file "
            "has no connection_ids.",
            "delete": "Delete an issue template. Sessions of its connections no longer open issues.",
        },
        question=_question,
    )
)


_STATES = {
    "unknown": "unknown preset; the template cannot be saved",
    "empty": "this session has no such value",
    "prompted": "the user is prompted for it",
}


@issue_templates.command()
@click.argument("template", required=False, shell_complete=completion.names(ISSUE_TEMPLATE))
@click.option("-f", "--file", type=click.File(), help="JSON file with a draft, as for `create`.")
@click.option("--session", help="Session whose issue is shown, by id.  [default: an example session]")
@script_options.issue_fields
@json_option
def preview(
    template: str | None, file: IO[str] | None, session: str | None, fields: tuple[str, ...], as_json: bool
) -> None:
    """Show the issue that a template, by name or id, or a draft creates for a session, and the fields that stay empty.
    Nothing is sent to the tracker."""
    if (template is None) == (file is None):
        raise click.UsageError("give either TEMPLATE or --file")
    body = {
        "template": None if file is None else one_object(file.name, file.read()),
        "session_id": session,
        "tracker_fields": script_options.fields_of(fields),
    }
    with client() as api, looking_up(api, ISSUE_TEMPLATE, template or "") as items:
        if template is not None:
            body["template_id"] = items.get(template)["id"]
        issue = items.call("preview", body=body)
    emit(issue, as_json, _show_preview)


def _show_preview(issue: Row) -> None:
    fields([(name, issue[key]) for name, key in [("project", "project_key"), ("request type", "request_type_id")]])
    fields([("summary", issue["summary"])])
    for field in issue["fields"]:
        click.echo(f"{field['tracker_field']}  {one_line(field['value'])}")
    click.echo(f"\n{printable(issue['text'])}")
    if issue["unfilled"]:
        click.echo()
        rows = [
            [field["tracker_field"], field["source"], f"{_STATES[field['state']]}{_required_mark(field)}"]
            for field in issue["unfilled"]
        ]
        table(["empty field", "source", "why"], rows, "")
