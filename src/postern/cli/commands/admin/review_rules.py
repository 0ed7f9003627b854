from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.moments import seconds
from postern.cli.output import json_option
from postern.cli.rows import (
    Decorator,
    confirm,
    connection_option,
    given,
    of_rule,
    page_of,
    paging_options,
    show_page,
    show_row,
    tag_option,
    told,
    yes_option,
)
from postern.client.shapes import Row

_COLUMNS = [
    ("name", "name"),
    ("for", "access_type"),
    ("reviewers", "reviewers_groups"),
    ("approvals", "min_approvals"),
    ("connections", "connection_names"),
    ("with tags", "connection_tags"),
    ("description", "description"),
]
_PATH = ("access-requests", "rules")
# Options that take groups → the field, and what is said of them.
_GROUPS = (
    ("--reviewers", "reviewers_groups", "Members of this group may agree"),
    ("--asked", "approval_required_groups", "Ask members of this group only; everybody when left out"),
    ("--skip", "skip_review_groups", "Never ask members of this group"),
    ("--force", "force_approval_groups", "Members of this group may approve alone"),
)

Command = Callable[..., Any]


def _fields(command: Command) -> Command:
    """What creating and changing a rule have in common."""
    options: list[Decorator] = [
        click.option("--description", help="What it is for."),
        click.option(
            "--for",
            "access_type",
            type=click.Choice(["jit", "command", "jit_command"]),
            help="Connecting (jit), running scripts (command), or both.",
        ),
        connection_option("What it is about; repeatable."),
        tag_option("And what carries all these; repeatable."),
        *(
            click.option(name, field, multiple=True, help=f"{says}; repeatable.", shell_complete=completion.groups)
            for name, field, says in _GROUPS
        ),
        click.option("--approvals", "min_approvals", type=int, help="So many people must agree; 1 unless you say."),
        click.option(
            "--all-groups/--any-group",
            "all_groups_must_approve",
            default=None,
            help="A person for each of the reviewers' groups, or people of any of them.",
        ),
        click.option(
            "--longest", "access_max_duration", type=seconds, metavar="DURATION", help="The longest access: 8h, 1h30m."
        ),
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group("reviewrules")
def review_rules() -> None:
    """Choose who must agree before somebody connects or runs a script.

    Rules hold at once, for administrators, too. Where several cover a connection, each must be met.

    \b
    postern admin reviewrules create prod-in-pairs --tag stage=prod --reviewers leads --reviewers sre --approvals 2
    postern admin reviewrules update prod-in-pairs --longest 1h
    postern access shop --user ann@example.com
    """


@review_rules.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List review rules, by name."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no review rules yet: postern admin reviewrules create NAME")


@review_rules.command()
@click.argument("name", shell_complete=completion.review_rules)
@json_option
def get(name: str, as_json: bool) -> None:
    """Show one review rule."""
    with client() as api:
        show_row(api.collection(*_PATH).get(name), as_json)


@review_rules.command()
@click.argument("name")
@_fields
def create(name: str, as_json: bool, access_type: str | None, **more: Any) -> None:
    """Create a review rule, for connecting and for scripts unless --for says otherwise."""
    body = {"name": name, "access_type": access_type or "jit_command", "reviewers_groups": [], **of_rule(**more)}
    with client() as api:
        made = api.collection(*_PATH).create(body)
    told(made, as_json, f"Created {made['name']}.")


@review_rules.command()
@click.argument("name", shell_complete=completion.review_rules)
@click.option("--name", "new_name", help="The new name.")
@click.option("--no-connections", is_flag=True, help="No connection by name from now on.")
@click.option("--no-tags", is_flag=True, help="No connection by tags from now on.")
@click.option("--no-asked", is_flag=True, help="Ask everybody from now on.")
@click.option("--no-skip", is_flag=True, help="Leave nobody out from now on.")
@click.option("--no-force", is_flag=True, help="Nobody may approve alone from now on.")
@click.option("--no-longest", is_flag=True, help="No bound of this rule from now on.")
@_fields
def update(name: str, new_name: str | None, as_json: bool, **changes: Any) -> None:
    """Change a review rule; what is left out stays as it is, and what is repeatable replaces all."""
    cleared: Row = {}
    for option, field, empty in (
        ("no_connections", "connection_names", []),
        ("no_tags", "connection_tags", {}),
        ("no_asked", "approval_required_groups", []),
        ("no_skip", "skip_review_groups", []),
        ("no_force", "force_approval_groups", []),
        ("no_longest", "access_max_duration", None),
    ):
        if changes.pop(option):
            cleared[field] = empty
    with client() as api:
        changed = api.collection(*_PATH).patch(name, given(name=new_name) | of_rule(**changes) | cleared)
    told(changed, as_json, f"Changed {changed['name']}.")


@review_rules.command()
@click.argument("name", shell_complete=completion.review_rules)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a review rule; from then on it asks nobody for anything."""
    confirm(f"Delete the review rule {name}? What it covers needs nobody's agreement any more", yes)
    with client() as api:
        api.collection(*_PATH).delete(name)
    told({"deleted": name}, as_json, f"Deleted {name}.")
