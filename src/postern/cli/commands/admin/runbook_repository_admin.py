from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO

import click

from postern.cli.api import client
from postern.cli.nouns import RUNBOOK_REPOSITORY
from postern.cli.printing import json_option, local_time
from postern.cli.resource_group import Argument, Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import given, told
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.text import one_line

_MAX_CHARACTERS = 100_000  # of a file with a secret


def _reader(prompt: str = "") -> Callable[[IO[str]], str]:
    """Return what reads a secret from a file; with a `prompt`, `-` at a terminal asks for it."""

    def read(file: IO[str]) -> str:
        if prompt and file.name == "<stdin>" and sys.stdin.isatty():
            answer: str = click.prompt(prompt, hide_input=True, err=True)
            return answer
        try:
            text = file.read(_MAX_CHARACTERS + 1)
        except UnicodeDecodeError:
            raise click.UsageError(f"{file.name} is no text") from None
        if len(text) > _MAX_CHARACTERS:
            raise click.UsageError(f"{file.name} is longer than {_MAX_CHARACTERS} characters")
        line = text.rstrip("\r\n")
        return line if prompt and "\n" not in line else text  # an editor ends a line that holds a password

    return read


def _file(name: str, api_field: str, says: str, prompt: str = "", clear: str = "") -> Field:
    return Field(
        f"--{name}-file",
        api_field,
        f"{says}; - reads standard input.",
        type=click.File(),
        metavar="FILE",
        read=_reader(prompt),
        clear=(f"--no-{name}", clear, "") if clear else None,
    )


def _refreshed(api: Client, row: Row) -> Row:
    read: Row = api.collection(*RUNBOOK_REPOSITORY.path).act(row["id"], "refresh")
    return read


def _print_created(read: Row) -> None:
    _print_reading(read, False, f"Added {read['repository']}. ")


def _print_changed(read: Row) -> None:
    _print_reading(read, False, f"Changed {read['repository']}. ")


def _print_reading(read: Row, as_json: bool, done: str = "") -> None:
    """Print what was read; on standard error also why it could not be read."""
    name, commit = read["repository"], read["commit"]
    if not read["error"]:
        told(read, as_json, f"{done or f'Read {name}. '}It is at {commit}.")
        return
    shown = f"it is shown as it was read before, at {commit}" if commit else "none of its runbooks are shown yet"
    told(read, as_json, f"{done}{'It' if done else name} could not be read: {shown}.")


def _report_error(read: Row) -> None:
    if read["error"]:
        report(Status.ERROR, f"{read['repository']} could not be read: {one_line(read['error'])}")


runbook_repositories = resource_group(
    ResourceCommands(
        noun=RUNBOOK_REPOSITORY,
        help="""Choose which git repositories runbooks are read from. Secrets go in and never out.

        \b
        postern admin runbook-repositories create https://git.example.com/ops/runbooks --password-file token
        postern admin runbook-repositories create git@git.example.com:ops/more --key-file id_ed25519 \\
            --known-hosts-file hosts
        postern admin runbook-repositories refresh git.example.com/ops/runbooks
        """,
        columns=[
            ("repository", "repository"),
            ("address", "git_url"),
            ("branch", lambda row: row["git_branch"] or "(its own)"),
            ("secrets", "secrets_set"),
            ("hooks", "git_hook_ttl"),
            ("commit", lambda row: (row["commit"] or "-")[:12]),
            ("read at", lambda row: local_time(row["fetched_at"])),
            ("error", "error"),
        ],
        arguments=[Argument("git_url", "ADDRESS")],
        options=[
            Field("--user", "git_user", "User name for https; with a password alone a common one is used."),
            _file(
                *("password", "git_password", "A password or token for https; at a terminal - asks for it"),
                prompt="Password or token",
                clear="Without a password from now on.",
            ),
            Field("--ssh-user", "ssh_user", "User name for ssh.  [default: that of the address, or git]"),
            _file("key", "ssh_key", "The private key for ssh", clear="Without a private key from now on."),
            _file(
                *("passphrase", "ssh_keypass", "The passphrase of the key; at a terminal - asks for it"),
                prompt="Passphrase of the key",
                clear="Without a passphrase from now on.",
            ),
            _file("known-hosts", "ssh_known_hosts", "The server's keys for ssh, as lines of a known_hosts file"),
            Field("--branch", "git_branch", "The branch to read.  [default: the repository's own]"),
            Field(
                "--hooks",
                "git_hook_ttl",
                "How long session hooks are valid; 0 switches them off. Hooks run on the machines of agents.",
                type=int,
                metavar="SECONDS",
            ),
        ],
        saved=_refreshed,
        created=_print_created,
        changed=_print_changed,
        advise=_report_error,
        prints_array=True,
        empty="Runbooks are read from nowhere yet: postern admin runbook-repositories create --help",
        says={
            "list": "List repositories, by name, how old what was read of them is, and what is wrong with them.",
            "show": "Show one repository, by its name, address or id.",
            "create": "Read runbooks from one more repository, and read it now. It is added also when it cannot be "
            "read yet.",
            "update": "Change a repository, and read it now. Only what you give changes. Another address is another "
            "repository.",
            "delete": "Read no runbooks from there any more.",
        },
        question="Delete {key}? Nobody can run its runbooks then",
    )
)


@runbook_repositories.command()
@item_argument(RUNBOOK_REPOSITORY)
@json_option
def refresh(key: str, as_json: bool) -> None:
    """Read a repository now. Fails when it cannot be read; what was read before is shown on."""
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
@click.option("--message", help="Of the commit.")
@click.option("--overwrite", is_flag=True, help="Also when there is a file already.")
@json_option
def write(key: str, path: str, file: IO[str], message: str | None, overwrite: bool, as_json: bool) -> None:
    """Commit FILE ('-' for standard input) as the runbook at PATH, with you as its author, and push it."""
    body = given(path=path, content=file.read(), commit_message=message, overwrite=overwrite)
    with client() as api, looking_up(api, RUNBOOK_REPOSITORY, key) as items:
        made = items.act(key, "files", body=body)
    told(made, as_json, f"Committed {made['path']} as {made['commit_sha']}.")
