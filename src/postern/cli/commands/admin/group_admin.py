from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.nouns import GROUP
from postern.cli.printing import json_option
from postern.cli.resource_group import ResourceCommands, item_argument, looking_up, new_name, resource_group
from postern.cli.row_commands import print_result

groups = resource_group(
    ResourceCommands(
        noun=GROUP,
        help="""List and manage groups. `postern admin users list --group NAME` lists a group's members.

        \b
        postern admin groups create dba
        postern admin groups update dba --name database-admins
        """,
        columns=[("name", "name"), ("members", "members"), ("created", "created_at"), ("id", "id")],
        options=[new_name()],
        says={
            "update": "Rename a group. Its members stay in it.",
            "delete": "Delete a group. Its members stay users.",
        },
        question="Delete group {key}? Its members lose the access that it gives",
    )
)


@groups.command(hidden=True)
@item_argument(GROUP)
@click.argument("new_name")
@json_option
def rename(key: str, new_name: str, as_json: bool) -> None:
    """Rename a group, as `update --name` does."""
    with client() as api, looking_up(api, GROUP, key) as items:
        row = items.update(key, {"name": new_name})
    print_result(row, as_json, f"{key} is now called {row['name']}.")
