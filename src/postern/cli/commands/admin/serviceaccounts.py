from __future__ import annotations

from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import json_option
from postern.cli.rows import (
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

_COLUMNS = [("subject", "subject"), ("name", "name"), ("role", "role"), ("status", "status"), ("groups", "groups")]
_PATH = "serviceaccounts"


@click.group()
def serviceaccounts() -> None:
    """List and manage service accounts: programs that act by themselves, with API keys.

    \b
    postern admin serviceaccounts create reports --group analysts
    postern admin apikeys create nightly --service-account reports
    """


@serviceaccounts.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List service accounts, by subject."""
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no service accounts yet: postern admin serviceaccounts create NAME")


@serviceaccounts.command()
@click.argument("subject", shell_complete=completion.service_accounts)
@json_option
def get(subject: str, as_json: bool) -> None:
    """Show one service account."""
    with client() as api:
        show_row(api.collection(_PATH).get(subject), as_json)


@serviceaccounts.command()
@click.argument("subject")
@click.option("--name", help="What it is called; the subject when missing.")
@click.option(
    "--group", "groups", multiple=True, help="A group it is in; repeatable.", shell_complete=completion.groups
)
@json_option
def create(subject: str, name: str | None, groups: tuple[str, ...], as_json: bool) -> None:
    """Create a service account."""
    with client() as api:
        made = api.collection(_PATH).create(given(subject=subject, name=name or subject, groups=groups))
    told(made, as_json, f"Created {subject}. Its key: postern admin apikeys create NAME --service-account {subject}")


@serviceaccounts.command()
@click.argument("subject", shell_complete=completion.service_accounts)
@click.option("--name", help="The new name.")
@groups_option
@click.option("--no-groups", is_flag=True, help="In no group from now on.")
@json_option
def update(subject: str, no_groups: bool, as_json: bool, **changes: Any) -> None:
    """Change a service account; what is left out stays as it is."""
    _update(subject, given(**changes) | ({"groups": []} if no_groups else {}), as_json, "Changed")


@serviceaccounts.command()
@click.argument("subject", shell_complete=completion.service_accounts)
@json_option
def activate(subject: str, as_json: bool) -> None:
    """Let it in again."""
    _update(subject, {"status": "active"}, as_json, "Activated")


@serviceaccounts.command()
@click.argument("subject", shell_complete=completion.service_accounts)
@yes_option
@json_option
def deactivate(subject: str, yes: bool, as_json: bool) -> None:
    """Keep it out: its keys are refused, and its live sessions end at once."""
    confirm(f"Deactivate {subject}? Its live sessions end", yes)
    _update(subject, {"status": "inactive"}, as_json, "Deactivated")


def _update(subject: str, body: Row, as_json: bool, done: str) -> None:
    with client() as api:
        changed = api.collection(_PATH).update(subject, body)
    told(changed, as_json, f"{done} {changed['subject']}.")


@serviceaccounts.command()
@click.argument("subject", shell_complete=completion.service_accounts)
@yes_option
@json_option
def delete(subject: str, yes: bool, as_json: bool) -> None:
    """Delete a service account, with its API keys."""
    confirm(f"Delete {subject}? Its keys stop working", yes)
    with client() as api:
        api.collection(_PATH).delete(subject)
    told({"deleted": subject}, as_json, f"Deleted {subject}.")
