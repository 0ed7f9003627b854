from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import click

from postern.cli import proofs
from postern.cli.api import client
from postern.cli.options import config_option, load, organisation_option
from postern.cli.printing import emit, json_option, local_time, table
from postern.cli.row_commands import confirm, long_paging_options, page_of, print_result, say_more, yes_option
from postern.cli.timestamps import parse_timestamp
from postern.client.client_shapes import Row, RowPage
from postern.errors import Conflict, Invalid
from postern.wiring.host import proof as wiring

_PATH = ("recordings", "checkpoints")


@click.group()
def recordings() -> None:
    """Prove that the record is unchanged: checkpoints, keys, exports for auditors.

    \b
    postern recordings key > ledger.pem                store it elsewhere
    postern recordings checkpoint
    postern recordings export --since 2026-05-01 -o may.tar
    postern sessions verify may.tar --key ledger.pem   anywhere, without a gateway
    postern recordings verify                          on the gateway's own machine
    """


@recordings.command()
@json_option
def checkpoint(as_json: bool) -> None:
    """Sign the ledger as it is now, and send the checkpoint to the anchors."""
    with client() as api:
        checkpoint = api.http.call("POST", "/recordings/checkpoints")
    print_result(
        checkpoint, as_json, f"Everything up to entry {checkpoint['number']} is signed with key {checkpoint['key']}."
    )


@recordings.command()
@long_paging_options
def checkpoints(limit: int, offset: int, cursor: str | None, every: bool, as_json: bool) -> None:
    """List checkpoints, newest first, with the anchors that stored each."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every, cursor=cursor)
    emit(page, as_json, _show_checkpoints)


def _show_checkpoints(page: RowPage) -> None:
    rows = [[row["number"], local_time(row["at"]), row["key"][:16], _anchors(row)] for row in page["data"]]
    table(["entry", "time", "key", "anchors"], rows, "No checkpoints yet.")
    say_more(page)


def _anchors(row: Row) -> str:
    return ", ".join(_anchor(state) for state in row["anchors"]) or "-"


def _anchor(state: Row) -> str:
    if state["reached_at"]:
        return f"{state['anchor']}: {local_time(state['reached_at'])}"
    return f"{state['anchor']}: not stored yet, {state['error'] or 'not tried'} ({state['attempts']} attempts)"


@recordings.command()
@json_option
def key(as_json: bool) -> None:
    """Print the public keys that verify checkpoints, as PEM.

    Store them where the administrators of the gateway cannot write.
    """
    with client() as api:
        answer = api.http.call("GET", "/recordings/key")
    emit(answer, as_json, _show_keys)


def _show_keys(answer: Row) -> None:
    for key in answer["keys"]:
        click.echo(key["public_key"], nl=False)
        state = "signs now" if key["retired_at"] is None else f"until {local_time(key['retired_at'])}"
        click.echo(f"{key['id']}  {state}", err=True)


@recordings.command("rotate-key")
@yes_option
@json_option
def rotate_key(yes: bool, as_json: bool) -> None:
    """Sign the ledger with a new key. The old key signs the new one, so that stored keys stay valid."""
    confirm("Sign the ledger with a new key from now on?", yes)
    with client() as api:
        new_key = api.http.call("POST", "/recordings/key/rotate")
    print_result(new_key, as_json, f"The ledger is now signed with key {new_key['id']}.")


@recordings.command()
@click.option(
    "--since",
    type=parse_timestamp,
    metavar="TIME",
    help="Start of the period, by the start of the sessions: 7d, 2026-01-31.",
)
@click.option("--until", type=parse_timestamp, metavar="TIME", help="End of the period.")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="FILE.tar, or a folder, which is created."
)
@json_option
def export(since: str | None, until: str | None, output: Path, as_json: bool) -> None:
    """Export ledger, checkpoints, sessions and recordings, for `postern sessions verify`."""
    if output.exists():
        raise Conflict(f"{output} exists already; choose a different name")
    is_file = output.suffix == ".tar"
    partial = output.with_name(f"{output.name}.partial")
    count, query = proofs.counter("MiB"), {"since": since, "until": until}
    try:
        with client() as api, api.http.pieces("/recordings/export", query=query) as pieces, _private(partial) as file:
            for piece in pieces:
                file.write(piece)
                count(len(piece))
        if is_file:
            partial.rename(output)
        else:
            with tarfile.open(partial) as tar:
                tar.extractall(output, filter="data")
    except OSError as error:
        raise Invalid(f"{output} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    next_step = f"`postern sessions verify {output} --key FILE` verifies it."
    print_result({"written": str(output)}, as_json, f"Written to {output}. {next_step}")


def _private(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


@recordings.command()
@organisation_option("Verify only this organisation.  [default: all]")
@click.option(
    "--key", "keys", multiple=True, metavar="FILE", help="Public key that you stored.  [default: the keys in the store]"
)
@click.option(
    "--checkpoint", "anchored", multiple=True, metavar="FILE", help="File with checkpoints that an anchor stored."
)
@click.option("--quick", is_flag=True, help="Verify only the ledger and rows, not the recordings.")
@click.option("--home", default=None, help="Data folder of the gateway.  [default: POSTERN_HOME]")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def verify(
    organisation: str | None,
    keys: tuple[str, ...],
    anchored: tuple[str, ...],
    quick: bool,
    home: str | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Verify the store and the recordings of this machine. No login is needed, and the gateway can run meanwhile.

    The exit code is 1 if anything was changed.
    """
    reports = wiring.verify(
        load("recordings", config=config, home=home),
        organisation,
        keys=proofs.read_keys(keys),
        anchors=proofs.read_anchors(anchored),
        with_segments=not quick,
        progress=proofs.counter("entries and sessions", 10_000, 1),
    )
    # A caller with a key or a checkpoint knows that the ledger was not empty.
    empty = [report for report in reports.values() if not (report.entries or report.count > 1 or keys or anchored)]
    if as_json:
        click.echo(json.dumps({name: report.as_json() for name, report in reports.items()}, indent=2))
    else:
        for name, report in reports.items():
            click.echo(f"{name}:")
            if report in empty:
                click.echo("The ledger is empty.")
            else:
                proofs.show(report)
    if not all(report.is_good for report in reports.values() if report not in empty):
        raise SystemExit(1)
