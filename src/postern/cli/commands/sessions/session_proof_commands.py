"""`postern sessions proof`."""

from __future__ import annotations

from urllib.parse import quote

import click

from postern.cli.api import client
from postern.cli.printing import emit, fields, json_option, local_time
from postern.cli.session_ids import session_argument
from postern.client.client_shapes import Row
from postern.domain.text import one_line


@click.command()
@session_argument()
@click.option("--verify", "verifies", is_flag=True, help="Verify now that nothing was changed.")
@json_option
def proof(session_id: str, verifies: bool, as_json: bool) -> None:
    """Show whether a session is proven: its entries in the ledger, its checkpoint, and the last verification.

    With --verify the exit code is 1 if anything was changed.
    """
    path = f"/sessions/{quote(session_id, safe='')}/proof"
    with client() as api:
        answer = api.http.call("POST" if verifies else "GET", path)
    emit(answer, as_json, _show)
    if answer["findings"]:
        raise SystemExit(1)


def _show(answer: Row) -> None:
    fields(
        [
            ("state", f"{answer['state']}: {answer['reason']}"),
            ("opened", _entry(answer["opened"])),
            ("closed", _entry(answer["closed"])),
            ("purged", _entry(answer["purged"])),
            ("recording", _recording(answer)),
            ("checkpoint", _checkpoint(answer["checkpoint"])),
            ("verification", _verification(answer["verification"])),
        ]
    )
    for finding in answer["findings"]:
        click.echo(f"FOUND {finding['what']}: {one_line(finding['message'])}")


def _entry(entry: Row | None) -> str:
    return "" if entry is None else f"entry {entry['number']}, {local_time(entry['at'])}, {entry['hash'][:16]}"


def _recording(answer: Row) -> str:
    count = answer["segment_count"]
    text = f"{count} segment{'' if count == 1 else 's'}, {answer['size']} bytes"
    return f"{text}; not all segments had arrived when it was sealed" if answer["is_complete"] is False else text


def _checkpoint(checkpoint: Row | None) -> str:
    if checkpoint is None:
        return "none covers the end of the session yet"
    reached = [state["anchor"] for state in checkpoint["anchors"] if state["reached_at"]]
    where = f"stored in {', '.join(reached)}" if reached else "not stored in an anchor"
    text = f"entry {checkpoint['number']}, signed {local_time(checkpoint['at'])} with key {checkpoint['key'][:16]}"
    return f"{text}; {where}"


def _verification(verification: Row | None) -> str:
    if verification is None:
        return "never; --verify does it"
    found = "unchanged" if verification["is_good"] else f"{verification['findings']} findings"
    return f"{local_time(verification['at'])} by {verification['by']}: {found}"
