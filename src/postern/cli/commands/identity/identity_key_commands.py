from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from postern.cli.options import config_option, load, organisation_option
from postern.cli.printing import table
from postern.cli.progress import ProgressLine
from postern.cli.row_commands import print_result
from postern.cli.status import report_note
from postern.wiring.host import backup
from postern.wiring.host import key_commands as wiring

_home = click.option("--home", default=None, help="Data folder of the gateway.  [default: POSTERN_HOME]")
_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group()
def keys() -> None:
    """Manage the keys that encrypt secrets and recordings, on the gateway's own machine. No login is needed.

    Each organisation has a data key that encrypts its secrets, and its recordings in the blob store. The master key
    encrypts the data keys. The gateway can run meanwhile.

    \b
    postern keys status
    postern keys export /mnt/safe/master.key                  for backups
    postern keys rotate --to file:/etc/postern/master.key     replace the master key
    postern keys renew --organisation default                 replace a data key
    """


@keys.command()
@_home
@config_option
@_json
def status(home: str | None, config: str | None, as_json: bool) -> None:
    """Show the data keys, the master key of each, and how many values and segments of recordings each encrypts."""
    key_status = wiring.status(load("keys", config=config, home=home))
    if as_json:
        answer = {
            "master": key_status.master,
            "rotated": key_status.is_rotated,
            "data_keys": [dataclasses.asdict(key) for key in key_status.keys],
        }
        click.echo(json.dumps(answer, indent=2, default=_text))
        return
    click.echo(f"master key  {key_status.master}")
    rows = [
        [
            *(key.id, key.organisation or "(server)", _master(key), f"{key.created_at:%Y-%m-%d}", _state(key)),
            *(key.values, key.segments),
        ]
        for key in key_status.keys
    ]
    heads = ["data key", "organisation", "encrypted by", "created", "state", "values", "segments"]
    table(heads, rows, "There are no data keys yet.")


@keys.command()
@click.argument("file", type=click.Path(path_type=Path))
@_home
@config_option
@_json
def export(file: Path, home: str | None, config: str | None, as_json: bool) -> None:
    """Write the master key into a new file, for a backup. Together with a backup it makes everything readable."""
    master = backup.export_keys(load("keys", config=config, home=home), file)
    print_result({"master": master, "file": str(file)}, as_json, f"The master key {master} is in {file}.")
    report_note("Keep it apart from backups, in at least two places.")


@keys.command()
@click.option(
    "--to",
    required=True,
    metavar="PLACE",
    help="New master key: file:PATH (created if missing), env:NAME or aws-kms:KEY_ARN.",
)
@_home
@config_option
@_json
def rotate(to: str, home: str | None, config: str | None, as_json: bool) -> None:
    """Encrypt the data keys with a different master key.

    Then start the gateway with POSTERN_MASTER_KEY set to the new key. If the command is interrupted, run it again; a
    gateway that starts meanwhile needs POSTERN_MASTER_KEY_OLD, too.
    """
    with ProgressLine("encrypting the data keys", quiet=as_json, unit="keys") as progress:
        master, done = wiring.rotate(load("keys", config=config, home=home), to, progress.count)
    print_result(
        {"master": master, "wrapped": done}, as_json, f"Encrypted {done} data keys; all are now encrypted by {master}."
    )
    report_note(f"Set POSTERN_MASTER_KEY={to} before the next start of the gateway.")


@keys.command()
@organisation_option("Renew only the key of this organisation.  [default: all, and the server's own]")
@_home
@config_option
@_json
def renew(organisation: str | None, home: str | None, config: str | None, as_json: bool) -> None:
    """Create new data keys, and encrypt all values with them.

    Stored recordings stay encrypted by the old data key, which is kept. New recordings use the new one.
    """
    with ProgressLine("encrypting values", quiet=as_json, unit="values") as progress:
        renewed = wiring.renew(load("keys", config=config, home=home), organisation, progress.count)
    lines = (
        f"{result.organisation or '(server)'}: a new data key, {result.values} values encrypted" for result in renewed
    )
    print_result([dataclasses.asdict(result) for result in renewed], as_json, "\n".join(lines))


def _master(key: wiring.KeyStatus) -> str:
    return key.master if key.is_readable else f"{key.master} (cannot be read)"


def _state(key: wiring.KeyStatus) -> str:
    return "retired" if key.retired_at else "in use"


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
