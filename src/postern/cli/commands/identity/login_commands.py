from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from postern.cli.login import login_renewal, profile
from postern.cli.login.profile import Profile, TokenKind
from postern.cli.login.sign_in_methods import (
    Gateway,
    address_of,
    by_browser,
    by_device,
    by_password,
    has_browser,
    is_in_clear,
    print_progress,
)
from postern.cli.options import organisation_option
from postern.cli.printing import emit, json_option
from postern.cli.status import Status, report, report_done, report_note
from postern.client.client_authentication import ClientAuthentication
from postern.domain.secret import Secret
from postern.domain.text import printable
from postern.errors import Denied, Invalid, PosternError, Unauthenticated, Unavailable

DEFAULT_URL = "http://localhost:7480"
_METHODS = ("local", "oidc", "saml", "ldap")
_BY_PASSWORD = ("local", "ldap")


@dataclass(frozen=True, slots=True)
class LoginInput:
    """The options of `login`."""

    email: str | None
    password_stdin: bool
    no_browser: bool
    api_key: str | None
    federated: bool
    token_file: Path | None
    token_env: str | None
    audience: str | None
    rule: str | None

    @property
    def is_federated(self) -> bool:
        return self.federated or self.token_file is not None or self.token_env is not None


@click.command()
@click.argument("url", required=False)
@click.option(
    "--email",
    help="E-mail address, or user name of the LDAP directory, for a login by password.  [default: asks for it]",
)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--no-browser", is_flag=True, help="Show a code to confirm in a browser on any machine.")
@click.option("--api-key", metavar="KEY", help="Log in with this API key; '-' reads it from standard input.")
@click.option("--federated", is_flag=True, help="Log in with the token of this CI job or pod.")
@click.option("--token-file", type=click.Path(path_type=Path), help="The same, with the token in this file.")
@click.option("--token-env", metavar="NAME", help="The same, with the token in this environment variable.")
@click.option("--audience", help="Audience that GitHub puts into the token.  [default: the gateway's address]")
@click.option("--rule", help="Federation rule, if several accept the token.")
@organisation_option("Organisation of your account.  [default: the default organisation]")
@click.option("--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="CA certificate to trust.")
@json_option
def login(url: str | None, organisation: str | None, ca: Path | None, as_json: bool, **typed: Any) -> None:
    """Log in to a gateway.

    URL is the gateway's address; the default is the last one used, else http://localhost:7480. The gateway decides how
    users log in: by password, or at an identity provider in the browser. Each gateway has its own profile unless
    --profile names one.

    \b
    postern login
    postern login https://gateway.example.com:7480 --ca ca.crt
    postern login --email me@example.com --password-stdin < password-file
    postern login --no-browser
    postern login --profile robot --api-key - < key-file
    postern login --federated https://gateway.example.com:7480
    """
    login_input = LoginInput(**typed)
    environ = profile.environ()
    stored_profile = profile.find({**environ, "POSTERN_TOKEN": ""})
    address = address_of(url or (stored_profile.api_url if stored_profile else DEFAULT_URL))
    same = stored_profile if stored_profile and stored_profile.api_url == address else None
    authority = ca.read_text() if ca else same.authority if same else ""
    gateway = Gateway(address, authority, organisation)
    if is_in_clear(address):
        report(
            Status.WARNING,
            f"{address} is not encrypted; others on the network can read your password and all data. Use an "
            "https:// address.",
        )
    if login_input.api_key is not None:
        show(keep_api_key(environ, gateway, _typed_key(login_input.api_key)), as_json)
        return
    if login_input.is_federated:
        show(keep_login(environ, gateway, _exchange(gateway, login_input)), as_json)
        return
    token = _token(gateway, login_input, same.email if same else "")
    show(keep_login(environ, gateway, token), as_json)


def _token(gateway: Gateway, login_input: LoginInput, last_email: str) -> Secret:
    method = _method(gateway)
    if login_input.no_browser:
        return by_device(gateway)
    if method not in _BY_PASSWORD:
        if login_input.password_stdin or login_input.email:
            raise click.UsageError(f"users log in to {gateway.api_url} in the browser, not by password")
        return by_browser(gateway, method) if has_browser(os.environ) else by_device(gateway)
    email = login_input.email or click.prompt(
        "E-mail" if method == "local" else "User name", default=last_email or None, err=True
    )
    password = _line() if login_input.password_stdin else _ask("Password")
    return by_password(gateway, email, password, _ask, can_retry=sys.stdin.isatty())


def _exchange(gateway: Gateway, login_input: LoginInput) -> Secret:
    """Return the token of a login for the program that runs this command. Raises Denied, not
    Unauthenticated: the hint to log in is of no use to a program."""
    from postern.cli.login.federated_tokens import TokenSource, find_token  # only programs need it

    source = TokenSource(login_input.token_file, login_input.token_env)
    try:
        token = find_token(os.environ, source, login_input.audience or gateway.api_url)
        with gateway.http() as http:
            return ClientAuthentication(http).exchange_token(token, gateway.organisation, login_input.rule)
    except Unauthenticated as error:
        hint = "" if "`" in error.message else "; `postern admin federation-rules list` shows the rules"
        raise Denied(error.message + hint) from None


def _method(gateway: Gateway) -> str:
    """Return how users log in there. Raises Unavailable."""
    with gateway.http() as http:
        info = ClientAuthentication(http).public_info(gateway.organisation)
    method = info.get("auth_method") if isinstance(info, dict) else None
    if method not in _METHODS:
        raise Unavailable(f"{gateway.api_url} does not say how to log in; check the address, or update this program")
    if info["setup_required"]:
        print_progress(
            "No administrator exists yet: create a set-up link with `postern setup-link` on the gateway's machine."
        )
    return method


def keep_login(environ: Mapping[str, str], gateway: Gateway, token: Secret) -> dict[str, Any]:
    """Ask whose login it is, and save it. Return what `show` prints."""
    with gateway.http(token) as http:
        state = ClientAuthentication(http).session()
    stored_profile = Profile(
        gateway.api_url, token, state.email, gateway.authority, TokenKind.LOGIN, login_renewal.refresh_at(state)
    )
    return _save_login(environ, stored_profile, must_enrol=state.must_enrol)


def keep_api_key(environ: Mapping[str, str], gateway: Gateway, key: Secret) -> dict[str, Any]:
    """Save the key once the gateway has accepted it. Raises Unauthenticated."""
    with gateway.http(key) as http:
        user = http.call("GET", "/userinfo")
    return _save_login(environ, Profile(gateway.api_url, key, str(user["email"]), gateway.authority, TokenKind.API_KEY))


def _save_login(environ: Mapping[str, str], login: Profile, *, must_enrol: bool = False) -> dict[str, Any]:
    name = profile.save_login(environ, login)
    return {
        "api_url": login.api_url,
        "email": login.email,
        "profile": name,
        "config": str(profile.path(environ)),
        "must_enrol_second_factor": must_enrol,
    }


def show(login_state: dict[str, Any], as_json: bool) -> None:
    emit(login_state, as_json, _show)


def _show(login_state: dict[str, Any]) -> None:
    report_done(f"Logged in to {login_state['api_url']} as {login_state['email']}.")
    config = profile.config(profile.environ())
    if config.current != login_state["profile"]:
        name = login_state["profile"]
        report_note(f"Use it with `--profile {name}`, or `postern profiles use {name}`.")
    if login_state["must_enrol_second_factor"]:
        report_note("Your organisation requires a second factor: add one with `postern second-factor add`.")


def _typed_key(text: str) -> Secret:
    key = _line() if text == "-" else Secret(text)
    if not key.reveal() or not key.reveal().isascii() or any(character.isspace() for character in key.reveal()):
        raise Invalid(
            "this is not an API key; a key is shown only once, when `postern admin api-keys create` creates it",
            field="api_key",
        )
    return key


def _line() -> Secret:
    return Secret(sys.stdin.readline().rstrip("\r\n"))


def _ask(what: str) -> Secret:
    answer: str = click.prompt(what, hide_input=True, err=True)
    return Secret(answer)


@click.command()
@click.option("--all", "every", is_flag=True, help="Log out of all profiles.")
@click.option(
    "--everywhere", is_flag=True, help="End all logins of the same user, on every machine and in every browser."
)
@json_option
def logout(every: bool, everywhere: bool, as_json: bool) -> None:
    """Log out of the gateway.

    Ends the login at the gateway, and removes the token from this machine; the profile stays. An API key is only
    removed here. Connection credentials stay valid: `postern credentials revoke` revokes them.
    """
    environ = profile.environ()
    config = profile.config(environ)
    names = sorted(config.profiles) if every else [profile.name_in_force(environ, config)]
    ended = [
        {"profile": name, "ended_at_gateway": _log_out(environ, name, config.profiles[name], everywhere)}
        for name in names
        if name in config.profiles and config.profiles[name].token is not None
    ]
    emit({"logged_out": bool(ended), "logins": ended}, as_json, lambda _: _show_ended(ended))


def _log_out(environ: Mapping[str, str], name: str, used: Profile, everywhere: bool) -> bool:
    """Return whether the gateway ended the login. The token is removed here in any case."""
    ended = used.kind is TokenKind.LOGIN and _end(name, used, everywhere)
    stored_profile = profile.config(environ).profiles.get(name)
    if stored_profile is not None:  # another command can have refreshed its token meanwhile
        profile.forget_token(environ, name, stored_profile)
    return ended


def _end(name: str, used: Profile, everywhere: bool) -> bool:
    try:
        with Gateway(used.api_url, used.authority).http(used.token) as http:
            authentication = ClientAuthentication(http)
            if everywhere:
                authentication.end_all()
            else:
                authentication.logout()
    except Unauthenticated:
        return True  # it had expired already
    except PosternError as error:
        warning = (
            f"the login of profile {name} was removed from this machine, but is still valid at the gateway: "
            f"{error.message}"
        )
        report(Status.WARNING, printable(warning))
        return False
    return True


def _show_ended(ended: list[dict[str, Any]]) -> None:
    if not ended:
        report_done("You were not logged in.")
    elif len(ended) == 1:
        report_done("Logged out.")
    else:
        report_done(f"Logged out of {len(ended)} profiles.")
