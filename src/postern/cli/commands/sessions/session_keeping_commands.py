"""`postern sessions legal-hold`, `purge` and `purges`."""

from __future__ import annotations

from urllib.parse import quote

import click

from postern.cli.api import client
from postern.cli.printing import json_option
from postern.cli.row_commands import (
    confirm,
    long_paging_options,
    page_of,
    print_result,
    show_page,
    show_row,
    yes_option,
)
from postern.cli.session_ids import session_argument

_HELD = [("session", "session_id"), ("name", "name"), ("reason", "reason"), ("by", "by_email"), ("since", "at")]
_BEGUN = [
    *(("session", "session_id"), ("what", "what"), ("entry", "entry"), ("started", "begun_at")),
    *(("attempts", "attempts"), ("next attempt", "next_at"), ("error", "error")),
]


@click.group("legal-hold")
def legal_hold() -> None:
    """Add, remove and list legal holds, which keep sessions from being purged.

    \b
    postern sessions legal-hold add ID --name "case A" --reason "court order"
    postern sessions legal-hold list
    postern sessions legal-hold remove ID --name "case A"
    """


@legal_hold.command()
@session_argument(several=True)
@click.option("--name", required=True, help="Name of the hold, such as that of a case; `remove` takes it.")
@click.option("--reason", required=True, help="Reason for the hold.")
@json_option
def add(session_ids: tuple[str, ...], name: str, reason: str, as_json: bool) -> None:
    """Add a legal hold: no retention and no user can purge the sessions until it is removed."""
    with client() as api:
        holds = [
            api.http.call("POST", _path(session_id, "holds"), body={"name": name, "reason": reason})
            for session_id in session_ids
        ]
    print_result(holds, as_json, f"Added the legal hold {name!r} to {', '.join(session_ids)}.")


@legal_hold.command()
@session_argument(several=True)
@click.option("--name", required=True, help="Name of the hold.")
@yes_option
@json_option
def remove(session_ids: tuple[str, ...], name: str, yes: bool, as_json: bool) -> None:
    """Remove a legal hold. Sessions without another hold can be purged at once."""
    confirm(f"Remove the legal hold {name!r} from {', '.join(session_ids)}?", yes)
    with client() as api:
        for session_id in session_ids:
            api.http.call("DELETE", _path(session_id, "holds", name))
    print_result(
        {"released": list(session_ids)}, as_json, f"Removed the legal hold {name!r} from {', '.join(session_ids)}."
    )


@legal_hold.command("list")
@long_paging_options
def list_(limit: int, offset: int, cursor: str | None, every: bool, as_json: bool) -> None:
    """List legal holds on all sessions, newest first."""
    with client() as api:
        page = page_of(api.collection("holds"), limit=limit, offset=offset, every=every, cursor=cursor)
    show_page(page, _HELD, as_json, "There are no legal holds.")


@click.command()
@session_argument()
@click.option(
    "--what",
    type=click.Choice(["recording", "session"]),
    default="recording",
    show_default=True,
    help="Purge only the recording, or the whole session.",
)
@click.option("--reason", required=True, help="Reason. The ledger keeps it permanently, so leave out names of people.")
@click.option("--dry-run", is_flag=True, help="Only show the session that this would purge.")
@yes_option
@json_option
def purge(session_id: str, what: str, reason: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Purge a session now, regardless of the retention. This cannot be undone."""
    with client() as api:
        if dry_run:
            show_row(dict(api.sessions.get(session_id)), as_json)
            return
        if not yes:
            shape = api.sessions.get(session_id)
            confirm(f"Purge the {what} of {shape['user']} on {shape['connection']}, from {shape['start_date']}?", yes)
        purge = api.http.call("POST", _path(session_id, "purge"), body={"what": what, "reason": reason})
    print_result(purge, as_json, f"The purge has started. The ledger records it in entry {purge['entry']}.")


@click.command()
@long_paging_options
def purges(limit: int, offset: int, cursor: str | None, every: bool, as_json: bool) -> None:
    """List purges that have started and are not finished, with their errors."""
    with client() as api:
        page = page_of(api.collection("retention", "purges"), limit=limit, offset=offset, every=every, cursor=cursor)
    show_page(page, _BEGUN, as_json, "No purge is pending.")


def _path(session_id: str, *parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in ("sessions", session_id, *parts))
