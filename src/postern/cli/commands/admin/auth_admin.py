from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import click

from postern.cli.api import client
from postern.cli.printing import emit, fields, json_option
from postern.cli.row_commands import confirm, drop_missing, stdin_line, yes_option
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.identity.auth_config import ACTIVE_DIRECTORY

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
    postern admin auth set-ldap ldaps://ldap.example.com --base-dn dc=example,dc=com \\
      --bind-dn cn=postern,dc=example,dc=com --bind-password-stdin < secret
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
    oidc, saml, ldap = (settings[f"{name}_config"] or {} for name in ("oidc", "saml", "ldap"))
    fields(
        [
            ("method", settings["auth_method"]),
            ("provider", settings["provider_name"]),
            ("admin group", settings["admin_role_name"]),
            ("auditor group", settings["auditor_role_name"]),
            ("second factor required", settings["require_second_factor"]),
            *((f"oidc {name.replace('_', ' ')}", value) for name, value in oidc.items()),
            *((f"saml {name.replace('_', ' ')}", value) for name, value in saml.items()),
            *((f"ldap {name.replace('_', ' ')}", value) for name, value in ldap.items()),
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


@auth.command("set-ldap")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--base-dn", help="Entry below which users are.")
@click.option("--bind-dn", help="Account that searches for users.")
@click.option("--bind-password-stdin", is_flag=True, help="Read the password of that account from standard input.")
@click.option("--bind-template", help="How users log in without a search, such as {user}@corp.example.")
@click.option("--start-tls/--no-start-tls", default=None, help="Begin TLS on ldap:// connections.")
@click.option("--ldap-ca", type=click.File(), help="File with the CA certificates of the servers (PEM).")
@click.option("--active-directory", is_flag=True, help="Use the attributes of Active Directory.")
@click.option("--user-filter", help="Filter that finds a user; {user} is the name.  [default: (uid={user})]")
@click.option("--email-attribute", help="Attribute with the e-mail address.  [default: mail]")
@click.option("--name-attribute", help="Attribute with the display name.  [default: cn]")
@click.option("--id-attribute", help="Attribute with the permanent identifier.  [default: entryUUID]")
@click.option("--login-attribute", help="Attribute with the name for {user} in --group-filter.  [default: uid]")
@click.option("--group-base-dn", help="Entry below which groups count.  [default: the base DN]")
@click.option("--group-filter", help="Filter that finds the groups of {dn} or {user}.  [default: memberOf]")
@click.option("--nested-groups/--no-nested-groups", default=None, help="Also groups of groups, in Active Directory.")
@click.option(
    "--require-second-factor/--no-require-second-factor",
    default=None,
    help="Require a second factor from every user, or from none.",
)
@_common
def set_ldap(
    urls: tuple[str, ...],
    bind_password_stdin: bool,
    ldap_ca: IO[str] | None,
    active_directory: bool,
    base_dn: str | None,
    bind_dn: str | None,
    bind_template: str | None,
    start_tls: bool | None,
    user_filter: str | None,
    email_attribute: str | None,
    name_attribute: str | None,
    id_attribute: str | None,
    login_attribute: str | None,
    group_base_dn: str | None,
    group_filter: str | None,
    nested_groups: bool | None,
    **typed: Any,
) -> None:
    """Let users log in with the passwords of an LDAP directory or Active Directory. Options that you leave out stay as
    they are; URLs are tried in their order."""
    given = drop_missing(
        urls=urls,
        base_dn=base_dn,
        bind_dn=bind_dn,
        bind_template=bind_template,
        start_tls=start_tls,
        ca=ldap_ca.read() if ldap_ca else None,
        user_filter=user_filter,
        email_attribute=email_attribute,
        name_attribute=name_attribute,
        id_attribute=id_attribute,
        login_attribute=login_attribute,
        group_base_dn=group_base_dn,
        group_filter=group_filter,
        nested_groups=nested_groups,
    )
    if bind_password_stdin:
        given["bind_password"] = stdin_line().reveal()
    _set("ldap", {**(ACTIVE_DIRECTORY if active_directory else {}), **given}, **typed)


def _set(method: str, changes: Row, *, force: bool, yes: bool, as_json: bool, **common: Any) -> None:
    confirm(f"Change the login method of all users of your organisation to {method}?", yes)
    with client() as api:
        now = _now(api)
        body = {name: now[name] for name in _KEPT} | drop_missing(**common) | {"auth_method": method, "confirm": force}
        if method != "local":
            section = f"{method}_config"
            before = {name: value for name, value in (now[section] or {}).items() if not name.startswith("has_")}
            body[section] = before | changes
        changed = api.collection("serverconfig").update("auth", body)
    emit(changed, as_json, _show)
