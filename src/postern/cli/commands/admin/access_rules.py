from __future__ import annotations

from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import json_option
from postern.cli.rows import (
    confirm,
    connection_option,
    given,
    groups_option,
    of_rule,
    page_of,
    paging_options,
    show_page,
    show_row,
    tag_option,
    told,
    yes_option,
)

_COLUMNS = [
    ("name", "name"),
    ("groups", "groups"),
    ("connections", "connection_names"),
    ("with tags", "connection_tags"),
    ("description", "description"),
]
_PATH = "access-rules"


@click.group("access-rules")
def access_rules() -> None:
    """Choose which groups see and use which connections.

    Rules take effect while the feature access-control is on; then what no rule names is for administrators only.

    \b
    postern admin access-rules create shop --group dba --connection shop --connection shop-replica
    postern admin access-rules create staging --group developers --tag stage=staging
    postern admin features enable access-control
    postern access shop --user ann@example.com
    """


@access_rules.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List access rules, by name."""
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no access rules yet: postern admin access-rules create NAME")


@access_rules.command()
@click.argument("name", shell_complete=completion.access_rules)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one access rule."""
    with client() as api:
        show_row(api.collection(_PATH).get(name), as_json)


@access_rules.command()
@click.argument("name")
@click.option("--description", help="What it is for.")
@click.option(
    "--group",
    "groups",
    multiple=True,
    required=True,
    help="For members of this group; repeatable.",
    shell_complete=completion.groups,
)
@connection_option("What they may see and use; repeatable.")
@tag_option("And what carries all these; repeatable.")
@json_option
def create(name: str, as_json: bool, **more: Any) -> None:
    """Create an access rule."""
    with client() as api:
        made = api.collection(_PATH).create({"name": name, **of_rule(**more)})
    told(made, as_json, f"Created {made['name']}.")


@access_rules.command()
@click.argument("name", shell_complete=completion.access_rules)
@click.option("--name", "new_name", help="The new name.")
@click.option("--description", help="The new description.")
@groups_option
@connection_option("A connection from now on; replaces all.")
@click.option("--no-connections", is_flag=True, help="No connection by name from now on.")
@tag_option("A tag from now on; replaces all.")
@click.option("--no-tags", is_flag=True, help="No connection by tags from now on.")
@json_option
def update(name: str, new_name: str | None, no_connections: bool, no_tags: bool, as_json: bool, **changes: Any) -> None:
    """Change an access rule; what is left out stays as it is. Sessions that lose their access end at once."""
    body = given(name=new_name) | of_rule(**changes)
    body |= {"connection_names": []} if no_connections else {}
    body |= {"connection_tags": {}} if no_tags else {}
    with client() as api:
        changed = api.collection(_PATH).patch(name, body)
    told(changed, as_json, f"Changed {changed['name']}.")


@access_rules.command()
@click.argument("name", shell_complete=completion.access_rules)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete an access rule; sessions that no other rule allows end at once."""
    confirm(f"Delete the access rule {name}? Its groups lose what it lets them use", yes)
    with client() as api:
        api.collection(_PATH).delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")
