from __future__ import annotations

import time
from typing import Any, NoReturn

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.lazy import AliasGroup
from postern.cli.printing import as_text, json_option, local_time
from postern.cli.row_commands import long_paging_options, page_of, show_page, show_row
from postern.cli.timestamps import parse_timestamp
from postern.client.client import Client
from postern.client.client_resources import PAGE
from postern.client.client_shapes import Row
from postern.domain.text import one_line

_COLUMNS = [
    ("time", "created_at"),
    ("user", "actor_email"),
    ("action", "action"),
    ("type", "resource_type"),
    ("resource", "resource"),
    ("outcome", "outcome"),
    ("address", "client_ip"),
    ("id", "id"),
]
_EVERY = 2.0  # seconds between two requests for new entries


@click.group(cls=AliasGroup, aliases={"get": "show"})
def audit() -> None:
    """Show who changed what, when, and from where.

    \b
    postern admin audit list --user ann@example.com --action delete
    postern admin audit list --outcome failure --since 7d
    postern admin audit list --follow
    postern admin audit show ID
    """


@audit.command("list")
@click.option("--user", "actor_email", help="Show only actions of this user (e-mail).", shell_complete=completion.users)
@click.option("--subject", "actor_subject", help="Show only actions of this subject, such as a service account.")
@click.option("--action", help="Show only this action: create, update, delete, revoke, login and so on.")
@click.option(
    "--type",
    "resource_type",
    help="Show only actions on this type of resource, such as users or connections/credentials.",
)
@click.option("--resource", help="Show only actions on this resource (name or id, as it was in the request).")
@click.option(
    "--status", "http_status", type=click.IntRange(100, 599), help="Show only requests with this HTTP status."
)
@click.option("--outcome", type=click.Choice(["success", "failure"]), help="Show only successes, or only failures.")
@click.option("--address", "client_ip", help="Show only requests from this address.")
@click.option(
    "--since", "created_after", type=parse_timestamp, metavar="TIME", help="Start of the period: 2h, 7d, 2026-01-31."
)
@click.option("--until", "created_before", type=parse_timestamp, metavar="TIME", help="End of the period.")
@click.option("--follow", is_flag=True, help="Print new entries as they are written, oldest first, until Ctrl-C.")
@long_paging_options
def list_(as_json: bool, follow: bool, limit: int, offset: int, every: bool, **filters: Any) -> None:
    """List audit entries, newest first. With --follow and --json, each entry is one line of JSON."""
    if follow:
        if offset or every or filters.pop("cursor"):
            raise click.UsageError("--follow shows new entries only; leave out --offset, --cursor and --all")
        with client() as api:
            _follow(api, filters, as_json)
    with client() as api:
        page = page_of(api.collection("audit", "logs"), limit=limit, offset=offset, every=every, **filters)
    show_page(page, _COLUMNS, as_json, "No audit entry matches.")


def _follow(api: Client, filters: dict[str, Any], as_json: bool) -> NoReturn:
    logs = api.collection("audit", "logs")
    seen = {entry["id"] for entry in logs.page(PAGE, **filters)["data"]}
    while True:
        time.sleep(_EVERY)
        entries = logs.page(PAGE, **filters)["data"]
        for entry in reversed([entry for entry in entries if entry["id"] not in seen]):
            _say(entry, as_json)
        seen = {entry["id"] for entry in entries}


def _say(entry: Row, as_json: bool) -> None:
    if as_json:
        click.echo(as_text(entry))
        return
    what = f"{entry['action']} {entry['resource_type']} {entry['resource']}"
    line = f"{local_time(entry['created_at'])}  {entry['actor_email'] or '-'}  {what}  {entry['outcome']}"
    click.echo(one_line(line))


@audit.command()
@click.argument("entry_id", metavar="ID")
@json_option
def show(entry_id: str, as_json: bool) -> None:
    """Show an audit entry, with the resource before and after the change."""
    with client() as api:
        show_row(api.collection("audit", "logs").get(entry_id), as_json)
