from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import click
import segno

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import emit, json_option, local_time, table
from postern.cli.status import report_done, report_note
from postern.client.client_resources import SecondFactorsClient
from postern.domain.secret import Secret
from postern.domain.text import printable
from postern.errors import Invalid

_TRIES = 3
_Command = Callable[..., Any]


def proof_options(command: _Command) -> _Command:
    by_code = click.option("--by-code", is_flag=True, help="Prove your identity with a code instead of the password.")
    stdin = click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
    return stdin(by_code(command))


@click.group("second-factor", invoke_without_command=True)
@json_option
@click.pass_context
def second_factor(ctx: click.Context, as_json: bool) -> None:
    """List and manage your second factors.

    \b
    postern second-factor
    postern second-factor add
    postern second-factor remove ID
    postern second-factor recovery-codes
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=as_json)


@second_factor.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List your second factors, and the number of unused recovery codes."""
    with client() as api:
        factors = api.second_factors.list()
    emit(factors, as_json, _show_list)


def _show_list(factors: dict[str, Any]) -> None:
    rows = [
        [
            factor["id"],
            factor["kind"],
            factor["name"],
            local_time(factor["created_at"]),
            local_time(factor.get("last_used_at")),
        ]
        for factor in factors["data"]
    ]
    table(["id", "kind", "name", "since", "last used"], rows, "No second factor yet: postern second-factor add")
    if rows:
        report_note(f"{factors['recovery_codes_left']} recovery codes are left")


@second_factor.command()
@click.option("--name", default="authenticator app", show_default=True, help="Name for it.")
@proof_options
@json_option
def add(name: str, as_json: bool, **proof: bool) -> None:
    """Add an authenticator app (TOTP).

    Shows a QR code to scan with the app, asks for a code to check it, and shows recovery codes with the first factor.
    Security keys are added in a browser.
    """
    with client() as api:
        needs_proof = not api.authentication.session().must_enrol
        begun = api.second_factors.begin(name, _proof(**proof) if needs_proof else {})
        _show_begun(begun)
        codes = _confirm(api.second_factors, begun["id"])
    emit({"id": begun["id"], "name": name, "recovery_codes": codes}, as_json, _show_added)


def _show_begun(begun: dict[str, Any]) -> None:
    """Print the QR code on standard error, so that --json stays JSON."""
    drawn = io.StringIO()
    segno.make(begun["uri"], error="l").terminal(drawn, compact=True)
    click.echo(f"Scan this with your authenticator app:\n\n{drawn.getvalue()}", err=True)
    click.echo(f"or type this key there:  {begun['secret']}\n\n{begun['uri']}\n", err=True)


def _confirm(factors: SecondFactorsClient, factor_id: str) -> list[str]:
    for left in range(_TRIES - 1, -1, -1):
        try:
            return factors.confirm(factor_id, _ask("Code of the app"))
        except Invalid as wrong:
            if not left:
                raise
            click.echo(printable(wrong.message), err=True)
    raise AssertionError("the last attempt returns or raises")


def _show_added(added: dict[str, Any]) -> None:
    report_done(f"Added {added['name']}.")
    _show_codes(added["recovery_codes"])


def _show_codes(codes: list[str]) -> None:
    if codes:
        click.echo("Recovery codes, in case you lose the app. Each works once. They are shown only once:\n", err=True)
        click.echo("\n".join(codes))


@second_factor.command()
@click.argument("factor_id", metavar="ID", shell_complete=completion.second_factors)
@proof_options
@json_option
def remove(factor_id: str, as_json: bool, **proof: bool) -> None:
    """Remove a second factor. With the last one, the recovery codes are removed, too."""
    with client() as api:
        api.second_factors.remove(factor_id, _proof(**proof))
    emit({"removed": factor_id}, as_json, lambda _: report_done(f"Removed {factor_id}."))


@second_factor.command("recovery-codes")
@proof_options
@json_option
def recovery_codes(as_json: bool, **proof: bool) -> None:
    """Create ten new recovery codes. The old ones stop working."""
    with client() as api:
        codes = api.second_factors.renew_codes(_proof(**proof))
    emit({"recovery_codes": codes}, as_json, lambda answer: _show_codes(answer["recovery_codes"]))


def _proof(password_stdin: bool, by_code: bool) -> dict[str, str]:
    """Return a proof that it is still the same user."""
    if by_code:
        code = "".join(_ask("Code of your authenticator app, or a recovery code").reveal().split())
        return {"code": code, "code_kind": "totp" if code.isdigit() else "recovery"}
    password = Secret(sys.stdin.readline().rstrip("\r\n")) if password_stdin else _ask("Password")
    return {"current_password": password.reveal()}


def _ask(what: str) -> Secret:
    answer: str = click.prompt(what, hide_input=True, err=True)
    return Secret(answer)
