from __future__ import annotations

from pathlib import Path

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import json_option
from postern.cli.public_keys import read
from postern.cli.rows import page_of, paging_options, show_page, told
from postern.client.client import Client
from postern.client.resources import Collection
from postern.domain.connection import is_identifier
from postern.domain.ssh_key import MAX_NAME, public_key
from postern.domain.text import one_line
from postern.errors import NotFound

_COLUMNS = [
    *(("name", "name"), ("algorithm", "algorithm"), ("fingerprint", "fingerprint")),
    *(("last used", "last_used_at"), ("id", "id")),
]
_user = click.option(
    "--user", metavar="EMAIL", help="Of this user; for administrators.", shell_complete=completion.users
)


@click.group("ssh-keys")
def ssh_keys() -> None:
    """List, add and remove the public keys by which you log in by SSH.

    \b
    postern ssh-keys add
    postern ssh-keys add ~/.ssh/id_ed25519.pub --name laptop
    postern ssh-keys remove laptop
    """


@ssh_keys.command("list")
@_user
@paging_options
def list_(user: str | None, as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List your keys, by name."""
    with client() as api:
        page = page_of(_of(api, user), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are no keys yet: postern ssh-keys add")


@ssh_keys.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--name", help="What you call it; the comment in the file, or the file's name, when missing.")
@json_option
def add(file: str | None, name: str | None, as_json: bool) -> None:
    """Add a public key: the FILE that holds it, '-' for standard input, or the only ~/.ssh/id_*.pub.

    A private key is noticed here, and not sent.
    """
    path = file or str(_only_one())
    text = read(path)
    key = public_key(text, "FILE")
    comment = one_line(text.strip().split(None, 2)[2]) if len(text.split()) > 2 else ""
    chosen = name or comment[:MAX_NAME] or ("stdin" if path == "-" else Path(path).stem)
    with client() as api:
        made = api.collection("sshkeys").create({"name": chosen, "public_key": key.text})
    told(made, as_json, f"Added {one_line(made['name'])} ({made['fingerprint']}).")


@ssh_keys.command()
@click.argument("key", metavar="NAME|FINGERPRINT|ID", shell_complete=completion.ssh_keys)
@_user
@json_option
def remove(key: str, user: str | None, as_json: bool) -> None:
    """Remove a key; sessions that run by it end."""
    with client() as api:
        api.collection("sshkeys").delete(key if is_identifier(key) else _id_of(api, key, user))
    told({"removed": key}, as_json, f"Removed {one_line(key)}.")


def _of(api: Client, user: str | None) -> Collection:
    return api.collection("sshkeys") if user is None else api.collection("users", user, "sshkeys")


def _id_of(api: Client, key: str, user: str | None) -> str:
    """Raises NotFound."""
    for one in _of(api, user).everything()["data"]:
        if key in (one["name"], one["fingerprint"]):
            return str(one["id"])
    raise NotFound(f"there is no SSH key {key!r}; look at the list: postern ssh-keys list")


def _only_one() -> Path:
    """Raises UsageError."""
    found = sorted((Path.home() / ".ssh").glob("id_*.pub"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise click.UsageError("there is no ~/.ssh/id_*.pub; name a FILE, or make a key: ssh-keygen -t ed25519")
    raise click.UsageError(f"there are several, so name the FILE: {', '.join(one_line(str(one)) for one in found)}")
