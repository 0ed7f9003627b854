from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from postern.cli.options import load, organisation_option
from postern.cli.printing import table
from postern.cli.progress import ProgressLine
from postern.cli.row_commands import told
from postern.cli.status import report_note
from postern.wiring.host import key_commands as wiring

_home = click.option("--home", default=None, help="The gateway's data folder; POSTERN_HOME when missing.")
_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group()
def keys() -> None:
    """The keys that secrets are encrypted with, on the gateway's own host; no login is needed.

    Every organisation has a data key that seals its values and encrypts its recordings in the blob store; a master key
    wraps the data keys. The gateway may run.

    \b
    postern keys status
    postern keys rotate --to file:/etc/postern/master.key     another master key, no value is touched
    postern keys renew --organisation default                 another data key, all values are sealed anew
    """


@keys.command()
@_home
@_json
def status(home: str | None, as_json: bool) -> None:
    """Show the data keys, who wraps them, how many values each sealed and how many segments of recordings."""
    found = wiring.status(load("keys", home=home))
    if as_json:
        shown = {
            "master": found.master,
            "rotated": found.is_rotated,
            "data_keys": [dataclasses.asdict(key) for key in found.keys],
        }
        click.echo(json.dumps(shown, indent=2, default=_text))
        return
    click.echo(f"master key  {found.master}")
    rows = [
        [
            *(key.id, key.organisation or "(server)", _master(key), f"{key.created_at:%Y-%m-%d}", _state(key)),
            *(key.values, key.segments),
        ]
        for key in found.keys
    ]
    heads = ["data key", "organisation", "wrapped by", "made", "state", "values", "segments"]
    table(heads, rows, "There are no data keys yet.")


@keys.command()
@click.option("--to", required=True, metavar="PLACE", help="file:PATH (made when missing), env:NAME or aws-kms:KEY_ARN")
@_home
@_json
def rotate(to: str, home: str | None, as_json: bool) -> None:
    """Wrap the data keys by another master key.

    Afterwards start the gateway with POSTERN_MASTER_KEY set to the new place. When it is cut off in the middle, run it
    again; a gateway that starts meanwhile needs POSTERN_MASTER_KEY_OLD, too.
    """
    with ProgressLine("data keys are wrapped anew", quiet=as_json, unit="keys") as progress:
        master, done = wiring.rotate(load("keys", home=home), to, progress.count)
    told(
        {"master": master, "wrapped": done}, as_json, f"{done} data keys are wrapped anew, all are under {master} now."
    )
    report_note(f"Set POSTERN_MASTER_KEY={to} before the next start of the gateway.")


@keys.command()
@organisation_option("Renew only the key of this organisation.  [default: all, and the server's own]")
@_home
@_json
def renew(organisation: str | None, home: str | None, as_json: bool) -> None:
    """Make new data keys, and seal all values anew by them.

    Recordings that are stored stay under the data key that encrypted them, which is kept; new ones get the new one.
    """
    with ProgressLine("values are sealed anew", quiet=as_json, unit="values") as progress:
        renewed = wiring.renew(load("keys", home=home), organisation, progress.count)
    lines = (f"{one.organisation or '(server)'}: a new data key, {one.values} values sealed anew" for one in renewed)
    told([dataclasses.asdict(one) for one in renewed], as_json, "\n".join(lines))


def _master(key: wiring.KeyStatus) -> str:
    return key.master if key.is_readable else f"{key.master} (cannot be read)"


def _state(key: wiring.KeyStatus) -> str:
    return "retired" if key.retired_at else "in use"


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
