from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.moments import expiry
from postern.cli.output import emit, json_option, local_time
from postern.cli.rows import (
    confirm,
    given,
    groups_option,
    in_days,
    page_of,
    paging_options,
    show_page,
    show_row,
    told,
    yes_option,
)
from postern.cli.status import report_note
from postern.client.shapes import Row

_COLUMNS = [
    ("name", "name"),
    ("key", "masked_key"),
    ("status", "status"),
    ("role", "role"),
    ("service account", "service_account"),
    ("expires", "expires_at"),
    ("last used", "last_used_at"),
]
_PATH = "api-keys"


@click.group()
def apikeys() -> None:
    """Make and revoke API keys. KEY is a key's name or id.

    \b
    postern admin apikeys create nightly --service-account reports --days 90
    postern admin apikeys create probe --group auditor --network 192.0.2.0/24
    postern admin apikeys revoke nightly --with-credentials
    """


@apikeys.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List keys, by name, revoked ones too."""
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no keys yet: postern admin apikeys create --help")


@apikeys.command()
@click.argument("key", shell_complete=completion.api_keys)
@json_option
def get(key: str, as_json: bool) -> None:
    """Show one key, never its secret."""
    with client() as api:
        show_row(api.collection(_PATH).get(key), as_json)


def expiry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`expires`, and `days` as older versions spelled it."""
    for option in (
        click.option(
            "--expires", type=expiry, metavar="TIME", help="When it expires: 30d, 12h, 2026-12-31.  [default: never]"
        ),
        click.option("--days", type=click.FloatRange(min=0, min_open=True), hidden=True),
    ):
        command = option(command)
    return command


@apikeys.command()
@click.argument("name")
@click.option(
    "--group", "groups", multiple=True, help="A group of the key itself; repeatable.", shell_complete=completion.groups
)
@click.option(
    "--service-account",
    metavar="SUBJECT",
    help="The service account that it acts for.",
    shell_complete=completion.service_accounts,
)
@click.option("--network", "networks", multiple=True, metavar="CIDR", help="Good from here only; repeatable.")
@expiry_options
@json_option
def create(
    name: str, days: float | None, expires: str | None, networks: tuple[str, ...], as_json: bool, **more: Any
) -> None:
    """Make a key; it is printed this once."""
    body = given(name=name, allowed_networks=networks, expires_at=expires or in_days(days), **more)
    with client() as api:
        made = api.collection(_PATH).create(body)
    emit(made, as_json, _show_made)


def _show_made(made: Row) -> None:
    click.echo(made["key"])
    until = f"until {local_time(made['expires_at'])}" if made["expires_at"] else "until it is revoked"
    report_note(f"{made['name']} is good {until}; the key is shown this once")


@apikeys.command()
@click.argument("key", shell_complete=completion.api_keys)
@click.option("--name", help="The new name.")
@groups_option
@click.option("--network", "networks", multiple=True, metavar="CIDR", help="Good from here only; replaces all.")
@click.option("--any-network", is_flag=True, help="Good from everywhere.")
@expiry_options
@json_option
def update(
    key: str,
    days: float | None,
    expires: str | None,
    networks: tuple[str, ...],
    any_network: bool,
    as_json: bool,
    **more: Any,
) -> None:
    """Change a key; what is left out stays as it is."""
    body = given(allowed_networks=networks, expires_at=expires or in_days(days), **more)
    if any_network:
        body["allowed_networks"] = []
    with client() as api:
        changed = api.collection(_PATH).update(key, body)
    told(changed, as_json, f"Changed {changed['name']}.")


@apikeys.command()
@click.argument("key", shell_complete=completion.api_keys)
@click.option("--with-credentials", is_flag=True, help="Also revoke the credentials that it issued to machines.")
@yes_option
@json_option
def revoke(key: str, with_credentials: bool, yes: bool, as_json: bool) -> None:
    """Refuse a key from now on.

    Credentials that the key issued to machine identities stay valid: they are listed, unless --with-credentials
    revokes them.
    """
    confirm(f"Revoke {key}? Programs that use it stop working", yes)
    with client() as api:
        keys = api.collection(_PATH)
        found = str(keys.get(key)["id"])
        keys.act(found, method="DELETE", revoke_credentials="true" if with_credentials else "false")
        left = keys.below(found, "credentials").everything()["data"]
    emit({"revoked": key, "credentials": left}, as_json, lambda _: _show_revoked(key, left))


def _show_revoked(key: str, credentials: list[Row]) -> None:
    click.echo(f"Revoked {key}.")
    if not credentials:
        return
    click.echo("Credentials that it issued to machine identities are still valid:", err=True)
    for one in credentials:
        name, connection = one["machine_identity"], one["connection_name"]
        click.echo(f"  {name} on {connection}: postern admin machines rotate {name} {connection}", err=True)
    click.echo("`postern admin machines delete NAME` removes a machine identity with all of its credentials.", err=True)


@apikeys.command()
@click.argument("key", shell_complete=completion.api_keys)
@json_option
def reactivate(key: str, as_json: bool) -> None:
    """Take a revoked key again."""
    with client() as api:
        changed = api.collection(_PATH).act(key, "reactivate")
    told(changed, as_json, f"{changed['name']} is good again.")
