from __future__ import annotations

from pathlib import Path

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.nouns import SSH_KEY
from postern.cli.printing import json_option
from postern.cli.public_keys import read
from postern.cli.resource_group import ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import drop_missing, page_of, paging_options, print_result, show_page
from postern.client.client import Client
from postern.client.client_resources import Collection
from postern.domain.identity.ssh_key import MAX_NAME, public_key
from postern.domain.text import one_line

_RESOURCE = ResourceCommands(
    noun=SSH_KEY,
    help="""List and manage the public keys with which you log in by SSH.

    \b
    postern ssh-keys create
    postern ssh-keys create ~/.ssh/id_ed25519.pub --name laptop
    postern ssh-keys delete laptop
    """,
    columns=[
        ("name", "name"),
        ("algorithm", "algorithm"),
        ("fingerprint", "fingerprint"),
        ("last used", "last_used_at"),
        ("id", "id"),
    ],
    verbs=("show",),
    aliases={"add": "create", "remove": "delete"},
    says={"show": "Show one of your SSH keys, by name, fingerprint or id."},
)
ssh_keys = resource_group(_RESOURCE)
_user = click.option(
    "--user", metavar="EMAIL", help="Show keys of this user; for administrators.", shell_complete=completion.users
)


@ssh_keys.command("list")
@_user
@paging_options
def list_(user: str | None, as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List your SSH keys, by name."""
    with client() as api:
        page = page_of(_of(api, user), limit=limit, offset=offset, every=every)
    show_page(page, _RESOURCE.columns, as_json, "There are no SSH keys yet: postern ssh-keys create")


@ssh_keys.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--name", help="Name of the key.  [default: the comment in the file, or the file's name]")
@json_option
def create(file: str | None, name: str | None, as_json: bool) -> None:
    """Add a public key from FILE ('-' for standard input).  [default: the only ~/.ssh/id_*.pub]

    A private key is rejected on this machine and not sent.
    """
    path = file or str(_only_one())
    text = read(path)
    key = public_key(text, "FILE")
    comment = one_line(text.strip().split(None, 2)[2]) if len(text.split()) > 2 else ""
    chosen = name or comment[:MAX_NAME] or ("stdin" if path == "-" else Path(path).stem)
    with client() as api:
        ssh_key = api.collection("sshkeys").create({"name": chosen, "public_key": key.text})
    print_result(ssh_key, as_json, f"Added {one_line(ssh_key['name'])} ({ssh_key['fingerprint']}).")


@ssh_keys.command()
@item_argument(SSH_KEY)
@_user
@json_option
def delete(key: str, user: str | None, as_json: bool) -> None:
    """Delete an SSH key. Sessions that use it end."""
    with client() as api, looking_up(api, SSH_KEY, key) as items:
        items.delete(key, **drop_missing(user=user))
    print_result({"deleted": key}, as_json, f"Deleted {one_line(key)}.")


def _of(api: Client, user: str | None) -> Collection:
    return api.collection("sshkeys") if user is None else api.collection("users", user, "sshkeys")


def _only_one() -> Path:
    """Raises UsageError."""
    paths = sorted((Path.home() / ".ssh").glob("id_*.pub"))
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise click.UsageError("there is no ~/.ssh/id_*.pub; name a FILE, or create a key with: ssh-keygen -t ed25519")
    raise click.UsageError(f"there are several keys; name the FILE: {', '.join(one_line(str(path)) for path in paths)}")
