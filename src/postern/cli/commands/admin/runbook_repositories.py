from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, Any

import click

from postern.cli.api import client
from postern.cli.output import emit, json_option, local_time, table
from postern.cli.rows import Decorator, confirm, given, show_row, told, yes_option
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.shapes import Row
from postern.domain.text import one_line
from postern.errors import NotFound

_PATH = ("runbooks", "configurations")
_EMPTY = "Runbooks are read from nowhere yet: postern admin runbookrepos add --help"
# Option → the field, and what is asked for at a terminal.
_SECRETS = {
    "password": ("git_password", "Password or token"),
    "key": ("ssh_key", ""),  # of many lines: nobody types it
    "passphrase": ("ssh_keypass", "Passphrase of the key"),
}
_HELD = 100_000  # characters of a file with a secret

Command = Callable[..., Any]


def _file(option: str, says: str) -> Decorator:
    return click.option(
        f"--{option}-file",
        f"{option.replace('-', '_')}_file",
        type=click.File(),
        metavar="FILE",
        help=f"{says}; - reads standard input.",
    )


def _fields(command: Command) -> Command:
    options: list[Decorator] = [
        click.option("--user", "git_user", help="Who asks over https; with a password alone a common one is used."),
        _file("password", "A password or token for https; at a terminal - asks for it"),
        click.option("--ssh-user", "ssh_user", help="Who asks over ssh; `git` unless you say, or the address does."),
        _file("key", "The private key for ssh"),
        _file("passphrase", "What the key is encrypted by; at a terminal - asks for it"),
        _file("known-hosts", "The server's keys for ssh, as lines of a known_hosts file"),
        click.option("--branch", "git_branch", help="The repository's own unless you say."),
        click.option(
            "--hooks",
            "git_hook_ttl",
            type=int,
            metavar="SECONDS",
            help="For which session hooks are good; 0 switches them off. Hooks run on the machines of agents.",
        ),
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group("runbookrepos")
def runbook_repositories() -> None:
    """Choose which git repositories runbooks are read from. Secrets go in and never out.

    \b
    postern admin runbookrepos add https://git.example.com/ops/runbooks --password-file token
    postern admin runbookrepos add git@git.example.com:ops/more --key-file id_ed25519 --known-hosts-file hosts
    postern admin runbookrepos refresh git.example.com/ops/runbooks
    """


@runbook_repositories.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List repositories, by name, how old what was read of them is, and what is wrong with them."""
    with client() as api:
        found = _all(api)
    emit(found, as_json, _show_list)


def _show_list(found: list[Row]) -> None:
    rows = [
        [
            *(one["repository"], one["git_url"], one["git_branch"] or "(its own)", one["secrets_set"]),
            *(one["git_hook_ttl"], (one["commit"] or "-")[:12], local_time(one["fetched_at"]), one["error"]),
        ]
        for one in found
    ]
    table(["repository", "address", "branch", "secrets", "hooks", "commit", "read at", "error"], rows, _EMPTY)


@runbook_repositories.command()
@click.argument("repository")
@json_option
def get(repository: str, as_json: bool) -> None:
    """Show one repository, by its name, address or identifier."""
    with client() as api:
        show_row(_known(api, repository), as_json)


@runbook_repositories.command()
@click.argument("address")
@_fields
def add(address: str, as_json: bool, **more: Any) -> None:
    """Read runbooks from one more repository, and read it now. It is added also when it cannot be read yet."""
    body = {"git_url": address, **_body(more)}
    with client() as api:
        made = api.collection(*_PATH).create(body)
        read = api.collection(*_PATH).act(made["id"], "refresh")
    _told_reading(read, as_json, f"Added {made['repository']}. ")


@runbook_repositories.command()
@click.argument("repository")
@click.option("--no-password", is_flag=True, help="Without a password from now on.")
@click.option("--no-key", is_flag=True, help="Without a private key from now on.")
@click.option("--no-passphrase", is_flag=True, help="Without a passphrase from now on.")
@_fields
def update(repository: str, as_json: bool, **more: Any) -> None:
    """Change a repository, and read it now; what is left out stays as it is. Another address is another repository."""
    cleared = {_SECRETS[name][0]: "" for name in _SECRETS if more.pop(f"no_{name}")}
    changes = _body(more) | cleared
    if not changes:
        raise click.UsageError("nothing to change; see --help")
    with client() as api:
        known = _known(api, repository)
        changed = api.collection(*_PATH).update(known["id"], known | changes)
        read = api.collection(*_PATH).act(changed["id"], "refresh")
    _told_reading(read, as_json, f"Changed {changed['repository']}. ")


@runbook_repositories.command()
@click.argument("repository")
@json_option
def refresh(repository: str, as_json: bool) -> None:
    """Read a repository now. Fails when it cannot be read; what was read before is shown on."""
    with client() as api:
        read = api.collection(*_PATH).act(_known(api, repository)["id"], "refresh")
    _told_reading(read, as_json)
    if read["error"]:
        sys.exit(1)


@runbook_repositories.command()
@click.argument("repository")
@yes_option
@json_option
def remove(repository: str, yes: bool, as_json: bool) -> None:
    """Read no runbooks from there any more."""
    confirm(f"Remove {repository}? Nobody can run its runbooks then", yes)
    with client() as api:
        api.collection(*_PATH).delete(_known(api, repository)["id"])
    told({"removed": repository}, as_json, f"Removed {repository}.")


@runbook_repositories.command()
@click.argument("repository")
@click.argument("path")
@click.argument("file", type=click.File())
@click.option("--message", help="Of the commit.")
@click.option("--overwrite", is_flag=True, help="Also when there is a file already.")
@json_option
def write(repository: str, path: str, file: IO[str], message: str | None, overwrite: bool, as_json: bool) -> None:
    """Commit FILE ('-' for standard input) as the runbook at PATH, with you as its author, and push it."""
    body = given(path=path, content=file.read(), commit_message=message, overwrite=overwrite)
    with client() as api:
        made = api.collection(*_PATH).act(_known(api, repository)["id"], "files", body=body)
    told(made, as_json, f"Committed {made['path']} as {made['commit_sha']}.")


def _told_reading(read: Row, as_json: bool, done: str = "") -> None:
    """On standard error also why it could not be read."""
    name, commit = read["repository"], read["commit"]
    if not read["error"]:
        told(read, as_json, f"{done or f'Read {name}. '}It is at {commit}.")
        return
    shown = f"it is shown as it was read before, at {commit}" if commit else "none of its runbooks are shown yet"
    told(read, as_json, f"{done}{'It' if done else name} could not be read: {shown}.")
    report(Status.ERROR, f"{name} could not be read: {one_line(read['error'])}")


def _all(api: Client) -> list[Row]:
    try:
        found: list[Row] = api.collection("runbooks").get("configurations")["repositories"]
    except NotFound:
        return []
    return found


def _known(api: Client, repository: str) -> Row:
    for one in _all(api):
        if repository in (one["repository"], one["git_url"], one["id"]):
            return one
    raise NotFound(f"there is no repository {repository!r}; `postern admin runbookrepos list` shows which there are")


def _body(more: Row) -> Row:
    files: dict[str, IO[str] | None] = {name: more.pop(f"{name}_file") for name in (*_SECRETS, "known_hosts")}
    if sum(file is not None and file.name == "<stdin>" for file in files.values()) > 1:
        raise click.UsageError("only one of the --…-file options can read standard input")
    body = given(**more)
    for name, file in files.items():
        if file is not None:
            field, asked = _SECRETS.get(name, ("ssh_known_hosts", ""))
            body[field] = _read(file, asked)
    return body


def _read(file: IO[str], asked: str) -> str:
    if asked and file.name == "<stdin>" and sys.stdin.isatty():
        answer: str = click.prompt(asked, hide_input=True, err=True)
        return answer
    try:
        text = file.read(_HELD + 1)
    except UnicodeDecodeError:
        raise click.UsageError(f"{file.name} is no text") from None
    if len(text) > _HELD:
        raise click.UsageError(f"{file.name} is longer than {_HELD} characters")
    return text.rstrip("\r\n") if asked and "\n" not in text.rstrip("\r\n") else text  # an editor put that end there
