from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.printing import emit, fields, json_option
from postern.cli.row_commands import confirm, drop_missing, print_result, yes_option
from postern.client.client_shapes import Row
from postern.domain.server import NATIVE
from postern.protocols.registry import DEFAULT_PROTOCOL

_PATH = ("serverconfig",)


@click.group()
def server() -> None:
    """Show and change the server's configuration while it runs.

    \b
    postern admin server config
    postern admin server set-listener --listen 0.0.0.0:5432
    postern admin server set-addresses --public-host gateway.example.com
    postern admin server rotate-token-keys
    """


@server.command()
@json_option
def config(as_json: bool) -> None:
    """Show the configuration."""
    with client() as api:
        misc_config = api.collection(*_PATH).get("misc")
    emit(misc_config, as_json, _show)


def _show(misc_config: Row) -> None:
    listeners = {what: misc_config.get(f"{name}_server_config") for name, what in NATIVE.items()}
    fields(
        [
            *((f"{what} listener", _where(listener)) for what, listener in listeners.items() if listener is not None),
            ("public host", misc_config["public_host"] or "the machine's host name"),
            ("API address", misc_config["api_url"]),
            ("SSH host key", misc_config.get("ssh_host_key_fingerprint", "")),
        ]
    )


def _where(listener: Row) -> str:
    return str(listener["listen_address"]) if listener["enabled"] else "off"


@server.command("set-listener")
@click.option("--protocol", type=click.Choice(list(NATIVE)), default=DEFAULT_PROTOCOL, show_default=True)
@click.option(
    "--listen",
    "listen_address",
    metavar="HOST:PORT",
    help="Address and port to listen on; empty: as the environment sets it.",
)
@click.option("--on/--off", "enabled", default=None, help="Enable or disable the listener for native clients.")
@json_option
def set_listener(protocol: str, listen_address: str | None, enabled: bool | None, as_json: bool) -> None:
    """Change where one protocol's native clients connect. Running sessions continue."""
    listener = drop_missing(listen_address=listen_address, enabled=enabled)
    if not listener:
        raise click.UsageError("give --listen, --on or --off")
    _put({f"{protocol}_server_config": listener}, as_json)


@server.command("set-addresses")
@click.option("--public-host", help="Host name for native clients; empty: as the environment sets it.")
@click.option("--api-url", help="URL of the API for clients, without /api; empty: as the environment sets it.")
@json_option
def set_addresses(public_host: str | None, api_url: str | None, as_json: bool) -> None:
    """Change the addresses of this gateway that it gives to clients."""
    body = drop_missing(public_host=public_host, api_url=api_url)
    if not body:
        raise click.UsageError("give --public-host or --api-url")
    _put(body, as_json)


def _put(body: Row, as_json: bool) -> None:
    with client() as api:
        changed = api.collection(*_PATH).update("misc", body)
    emit(changed, as_json, _show)


@server.command("rotate-token-keys")
@click.option("--revoke", is_flag=True, help="Also invalidate every token that older keys signed, including yours.")
@yes_option
@json_option
def rotate_token_keys(revoke: bool, yes: bool, as_json: bool) -> None:
    """Sign tokens with a new key from now on."""
    if revoke:
        confirm("Invalidate every token? All users must log in again, including you", yes)
    with client() as api:
        api.collection(*_PATH).act("token-keys", "rotate", body={"revoke": revoke})
    print_result({"rotated": True, "revoked": revoke}, as_json, "Tokens are now signed with a new key.")
