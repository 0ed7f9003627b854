from __future__ import annotations

import os
import sys

import click

from postern.cli.api import http_of, in_force
from postern.cli.commands.identity.login_commands import keep_login
from postern.cli.login import profile
from postern.cli.login.profile import TokenKind
from postern.cli.login.sign_in_methods import Gateway, print_progress
from postern.cli.printing import emit, json_option
from postern.cli.status import report_done
from postern.client.client_authentication import ClientAuthentication
from postern.domain.secret import Secret
from postern.errors import Denied


@click.command()
@click.option(
    "--stdin",
    "from_stdin",
    is_flag=True,
    help="Read the current and the new password from standard input, one line each.",
)
@json_option
def password(from_stdin: bool, as_json: bool) -> None:
    """Change your password.

    Ends all your other logins; this one continues.
    """
    used = in_force()
    if used.kind is not TokenKind.LOGIN:
        raise Denied("an API key has no password; log in as yourself with `postern login`")
    current, new = (_line(), _line()) if from_stdin else (_ask("Current password"), _ask("New password", twice=True))
    with http_of(used) as http:
        token = ClientAuthentication(http).change_password(current, new)
    if os.environ.get("POSTERN_TOKEN"):
        print_progress("The token in POSTERN_TOKEN expired with the old password; log in again.")
    else:
        keep_login(profile.environ(), Gateway(used.api_url, used.authority), token)
    emit({"changed": True}, as_json, lambda _: report_done("Your password is changed; your other logins were ended."))


def _line() -> Secret:
    return Secret(sys.stdin.readline().rstrip("\r\n"))


def _ask(what: str, *, twice: bool = False) -> Secret:
    answer: str = click.prompt(what, hide_input=True, confirmation_prompt=twice, err=True)
    return Secret(answer)
