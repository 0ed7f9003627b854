from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO

import click

from postern.cli.api import client
from postern.cli.nouns import RUNBOOK_REPOSITORY
from postern.cli.printing import json_option, local_time
from postern.cli.resource_group import Argument, Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import drop_missing, print_result
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.text import one_line

_MAX_CHARACTERS = 100_000  # characters of a file with a secret


def _reader(prompt: str = "") -> Callable[[IO[str]], str]:
    """Return a reader of a secret from a file; with a `prompt`, `-` at a terminal asks for the secret."""

    def read(file: IO[str]) -> str:
        if prompt and file.name == "<stdin>" and sys.stdin.isatty():
            answer: str = click.prompt(prompt, hide_input=True, err=True)
            return answer
        try:
            text = file.read(_MAX_CHARACTERS + 1)
        except UnicodeDecodeError:
            raise click.UsageError(f"{file.name} is not UTF-8 text") from None
        if len(text) > _MAX_CHARACTERS:
            raise click.UsageError(f"{file.name} is longer than {_MAX_CHARACTERS} characters")
        line = text.rstrip("\r\n")
        return line if prompt and "\n" not in line else text  # an editor ends the line of a password

    return read


def _file(name: str, api_field: str, says: str, prompt: str = "", clear: str = "") -> Field:
    return Field(
        f"--{name}-file",
        api_field,
        f"{says} '-' reads standard input{', or prompts at a terminal' if prompt else ''}.",
        type=click.File(),
        metavar="FILE",
        read=_reader(prompt),
        clear=(f"--no-{name}", clear, "") if clear else None,
    )


def _refresh(api: Client, row: Row) -> Row:
    read: Row = api.collection(*RUNBOOK_REPOSITORY.path).act(row["id"], "refresh")
    return read


def _print_created(read: Row) -> None:
    _print_reading(read, False, f"Added {read['repository']}. ")


def _print_changed(read: Row) -> None:
    _print_reading(read, False, f"Changed {read['repository']}. ")


def _print_reading(read: Row, as_json: bool, done: str = "") -> None:
    """Print what was read, and to standard error why it could not be read."""
    name, commit = read["repository"], read["commit"]
    if not read["error"]:
        print_result(read, as_json, f"{done or f'Read {name}. '}It is at commit {commit}.")
        return
    stay = f"runbooks of the last successful read stay, at {commit}"
    in_use = stay if commit else "none of its runbooks are shown yet"
    print_result(read, as_json, f"{done}{'It' if done else name} could not be read: {in_use}.")


def _report_error(read: Row) -> None:
    if read["error"]:
        report(Status.ERROR, f"{read['repository']} could not be read: {one_line(read['error'])}")


runbook_repositories = resource_group(
    ResourceCommands(
        noun=RUNBOOK_REPOSITORY,
        help="""Choose which git repositories runbooks are read from. Secrets are never shown.

        \b
        postern admin runbook-repositories create https://git.example.com/ops/runbooks --password-file token
        postern admin runbook-repositories create git@git.example.com:ops/more --key-file id_ed25519 \\
            --known-hosts-file hosts
        postern admin runbook-repositories refresh git.example.com/ops/runbooks
        """,
        columns=[
            ("repository", "repository"),
            ("address", "git_url"),
            ("branch", lambda row: row["git_branch"] or "(default)"),
            ("secrets", "secrets_set"),
            ("hooks", "git_hook_ttl"),
            ("commit", lambda row: (row["commit"] or "-")[:12]),
            ("read at", lambda row: local_time(row["fetched_at"])),
            ("error", "error"),
        ],
        arguments=[Argument("git_url", "ADDRESS")],
        options=[
            Field("--user", "git_user", "User name for https. Most hosts need only a token."),
            _file(
                *("password", "git_password", "Password or token for https."),
                prompt="Password or token",
                clear="Remove the password.",
            ),
            Field("--ssh-user", "ssh_user", "User name for ssh.  [default: that of the address, or git]"),
            _file("key", "ssh_key", "Private key for ssh.", clear="Remove the private key."),
            _file(
                *("passphrase", "ssh_keypass", "Passphrase of the private key."),
                prompt="Passphrase of the key",
                clear="Remove the passphrase.",
            ),
            _file("known-hosts", "ssh_known_hosts", "The server's host keys for ssh, as lines of a known_hosts file."),
            Field("--branch", "git_branch", "Branch to read.  [default: the repository's own]"),
            Field(
                "--hooks",
                "git_hook_ttl",
                "How long session hooks stay in force after a read; 0 disables them. Hooks run on the "
                "machines of agents.",
                type=int,
                metavar="SECONDS",
            ),
        ],
        on_saved=_refresh,
        created=_print_created,
        changed=_print_changed,
        advise=_report_error,
        prints_array=True,
        empty="There are no runbook repositories yet: postern admin runbook-repositories create --help",
        says={
            "list": "List repositories, by name, with the time of the last read and its error.",
            "show": "Show a repository, by name, address or id.",
            "create": "Add a repository of runbooks, and read it now. It is added even if it cannot be read yet.",
            "update": "Change a repository, and read it now. Fields that you leave out stay as they are. A "
            "different address makes it a different repository.",
            "delete": "Delete a repository. Its runbooks can no longer be run.",
        },
        question="Delete {key}? Its runbooks can then no longer be run",
    )
)


@runbook_repositories.command()
@item_argument(RUNBOOK_REPOSITORY)
@json_option
def refresh(key: str, as_json: bool) -> None:
    """Read a repository now. Exits with 1 if it cannot be read; the runbooks of the last successful read stay."""
    with client() as api, looking_up(api, RUNBOOK_REPOSITORY, key) as items:
        read = items.act(key, "refresh")
    _print_reading(read, as_json)
    _report_error(read)
    if read["error"]:
        sys.exit(1)


@runbook_repositories.command()
@item_argument(RUNBOOK_REPOSITORY)
@click.argument("path")
@click.argument("file", type=click.File())
@click.option("--message", help="Message of the commit.")
@click.option("--overwrite", is_flag=True, help="Overwrite an existing file.")
@json_option
def write(key: str, path: str, file: IO[str], message: str | None, overwrite: bool, as_json: bool) -> None:
    """Commit FILE ('-' for standard input) as the runbook at PATH, with you as the author, and push it."""
    body = drop_missing(path=path, content=file.read(), commit_message=message, overwrite=overwrite)
    with client() as api, looking_up(api, RUNBOOK_REPOSITORY, key) as items:
        commit = items.act(key, "files", body=body)
    print_result(commit, as_json, f"Committed {commit['path']} as {commit['commit_sha']}.")
