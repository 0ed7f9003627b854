from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import json_option
from postern.cli.public_keys import read
from postern.cli.rows import confirm, page_of, paging_options, show_page, told, yes_option
from postern.domain.ssh_key import public_key
from postern.domain.text import one_line

_COLUMNS = [("name", "name"), ("algorithm", "algorithm"), ("fingerprint", "fingerprint"), ("created", "created_at")]
_PATH = "sshauthorities"


@click.group("ssh-authorities")
def ssh_authorities() -> None:
    """Choose whose SSH certificates let users in: the e-mail address or subject is one of their principals.

    \b
    postern admin ssh-authorities add people ~/ca/users_ca.pub
    ssh-keygen -s ~/ca/users_ca -I ann -n ann@example.com -V +8h ~/.ssh/id_ed25519.pub
    """


@ssh_authorities.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List authorities, by name."""
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "There are none yet: postern admin ssh-authorities add NAME FILE")


@ssh_authorities.command()
@click.argument("name")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@json_option
def add(name: str, file: str, as_json: bool) -> None:
    """Trust the authority whose public key is in FILE, '-' for standard input.

    A private key is noticed here, and not sent.
    """
    key = public_key(read(file), "FILE")
    with client() as api:
        made = api.collection(_PATH).create({"name": name, "public_key": key.text})
    told(made, as_json, f"Users with certificates of {one_line(made['name'])} ({made['fingerprint']}) are let in.")


@ssh_authorities.command()
@click.argument("name", shell_complete=completion.ssh_authorities)
@yes_option
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Trust an authority no longer; sessions by its certificates end."""
    confirm(f"Trust {name} no longer, and end what runs by its certificates", yes)
    with client() as api:
        api.collection(_PATH).delete(name)
    told({"removed": name}, as_json, f"Removed {name}.")
