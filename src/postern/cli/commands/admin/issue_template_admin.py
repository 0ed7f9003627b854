from __future__ import annotations

import click

from postern.cli.nouns import ISSUE_TEMPLATE
from postern.cli.printing import fields
from postern.cli.resource_group import ResourceCommands, new_name, resource_group
from postern.client.client_shapes import Row
from postern.domain.text import one_line

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
