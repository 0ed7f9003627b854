from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import click

from postern.cli.api import client
from postern.cli.printing import emit, fields, json_option
from postern.cli.row_commands import confirm, drop_missing, stdin_line, yes_option
from postern.client.client import Client
from postern.client.client_shapes import Row

_KEPT = ("provider_name", "require_second_factor")  # what the API reads as empty when it is left out


@click.group()
def auth() -> None:
    """Show and set how users of your organisation log in.

    The identity provider is contacted before anything is changed. The change is rejected if no administrator is known
    to be able to log in afterwards; --force skips this check. If users can no longer log in, run `postern auth reset`
    on the gateway's machine.

    \b
    postern admin auth show
    postern admin auth set-oidc https://id.example.com --client-id postern --client-secret-stdin < secret
    postern admin auth set-saml --metadata-url https://id.example.com/metadata
    postern admin auth set-local --require-second-factor
    """


@auth.command()
@json_option
def show(as_json: bool) -> None:
    """Show how users log in. Secrets are never shown."""
    with client() as api:
        settings = _now(api)
    emit(settings, as_json, _show)


def _now(api: Client) -> Row:
    return api.collection("serverconfig").get("auth")


def _show(settings: Row) -> None:
    oidc, saml = settings["oidc_config"] or {}, settings["saml_config"] or {}
    fields(
        [
            ("method", settings["auth_method"]),
            ("provider", settings["provider_name"]),
            ("admin group", settings["admin_role_name"]),
            ("auditor group", settings["auditor_role_name"]),
            ("second factor required", settings["require_second_factor"]),
            *((f"oidc {name.replace('_', ' ')}", value) for name, value in oidc.items()),
            *((f"saml {name.replace('_', ' ')}", value) for name, value in saml.items()),
        ]
    )


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        json_option,
        yes_option,
        click.option(
            "--force", is_flag=True, help="Set it even if no administrator is known to be able to log in afterwards."
        ),
        click.option("--auditor-group", "auditor_role_name", help="Group whose members are auditors."),
        click.option("--admin-group", "admin_role_name", help="Group whose members are administrators."),
        click.option("--provider-name", help="Name of the provider on the login page."),
    ):
        command = option(command)
    return command


@auth.command("set-local")
@click.option(
    "--require-second-factor/--no-require-second-factor",
    default=None,
    help="Require a second factor from every user, or from none.",
)
@_common
def set_local(**typed: Any) -> None:
    """Let users log in with e-mail and password."""
    _set("local", {}, **typed)


@auth.command("set-oidc")
@click.argument("issuer_url", metavar="ISSUER", required=False)
@click.option("--client-id", help="Client ID of this gateway at the provider.")
@click.option("--client-secret-stdin", is_flag=True, help="Read the client secret from standard input.")
@click.option("--scope", "scopes", multiple=True, help="A scope to request. Repeatable; replaces the current ones.")
@click.option("--audience", help="Also accept the provider's access tokens for this audience as bearer tokens.")
@click.option("--groups-claim", help="Claim that contains the user's groups.")
@_common
def set_oidc(
    issuer_url: str | None,
    client_id: str | None,
    client_secret_stdin: bool,
    scopes: tuple[str, ...],
    audience: str | None,
    groups_claim: str | None,
    **typed: Any,
) -> None:
    """Let users log in at an OpenID Connect provider. Options that you leave out stay as they are."""
    changes = drop_missing(
        issuer_url=issuer_url, client_id=client_id, scopes=scopes, audience=audience, groups_claim=groups_claim
    )
    if client_secret_stdin:
        changes["client_secret"] = stdin_line().reveal()
    _set("oidc", changes, **typed)


@auth.command("set-saml")
@click.option("--metadata-url", "idp_metadata_url", help="URL of the provider's metadata.")
@click.option(
    "--metadata-file", type=click.File(), help="File with the provider's metadata; it takes precedence over the URL."
)
@click.option("--groups-claim", help="Attribute that contains the user's groups.")
@_common
def set_saml(
    idp_metadata_url: str | None, metadata_file: IO[str] | None, groups_claim: str | None, **typed: Any
) -> None:
    """Let users log in at a SAML provider. Options that you leave out stay as they are."""
    text = metadata_file.read() if metadata_file else "" if idp_metadata_url else None
    _set("saml", drop_missing(idp_metadata_url=idp_metadata_url, idp_metadata=text, groups_claim=groups_claim), **typed)


def _set(method: str, changes: Row, *, force: bool, yes: bool, as_json: bool, **common: Any) -> None:
    confirm(f"Change the login method of all users of your organisation to {method}?", yes)
    with client() as api:
        now = _now(api)
        body = {name: now[name] for name in _KEPT} | drop_missing(**common) | {"auth_method": method, "confirm": force}
        if method != "local":
            section = f"{method}_config"
            before = {name: value for name, value in (now[section] or {}).items() if name != "has_client_secret"}
            body[section] = before | changes
        changed = api.collection("serverconfig").update("auth", body)
    emit(changed, as_json, _show)
