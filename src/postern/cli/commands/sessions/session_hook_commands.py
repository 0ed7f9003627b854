"""`postern sessions hooks`."""

from __future__ import annotations

from urllib.parse import quote

import click

from postern.cli.api import client
from postern.cli.printing import emit, json_option, local_time, span
from postern.cli.session_ids import session_argument
from postern.cli.status import report_note
from postern.client.client_shapes import Row
from postern.domain.text import one_line, printable


@click.command()
@session_argument()
@json_option
def hooks(session_id: str, as_json: bool) -> None:
    """Show the runs of a session's hooks with their output; for administrators and auditors."""
    with client() as api:
        runs = api.http.call("GET", f"/sessions/{quote(session_id, safe='')}/hooks")["data"]
    emit(runs, as_json, _show)


def _show(runs: list[Row]) -> None:
    if not runs:
        report_note("No hook has run for this session.")
    for run in runs:
        ended = "it did not finish" if run["exit_code"] is None else f"exit code {run['exit_code']}"
        ended += f": {run['reason']}" if run["reason"] else ""
        what = f"{run['kind']} of {run['repository']} at {run['commit'][:12]}"
        click.echo(one_line(f"{what}, {local_time(run['started_at'])}, {span(run['seconds'])}, {ended}"))
        if run["output"]:
            click.echo("\n".join(f"  {line}" for line in printable(run["output"]).rstrip("\n").split("\n")))
